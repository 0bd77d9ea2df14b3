"""A chunk of recordings: consecutive lines of one input, and where they begin. It holds no line itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChunkKind(StrEnum):
    """The format of the file. `SPOOLED`: as `spool.py` writes it, each line with its place in front."""

    PLAIN = "plain"
    GZIP = "gzip"
    PARQUET = "parquet"
    SPOOLED = "spooled"


def as_text(name: str) -> str:
    """Text that can be encoded: the bytes of a file name may be no valid text."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class RecordingChunk:
    """`number`: from 0. `source`: the input as places of lines name it; `path`: the file to read.

    `start`: byte (plain, spooled), line (gzip) or row (Parquet) of the first line, from 0. `first_line`: its number in
    the input, from 1, blank lines counted. `readable`: lines that are not blank, or rows. `damage`: what is wrong with
    the rest of the input, in the last chunk of one that cannot be read to its end; it counts as one line more, at
    `damaged_at`.
    """

    number: int
    source: str
    path: str
    kind: ChunkKind
    start: int
    first_line: int
    readable: int
    damage: str | None = None
    damaged_at: str | None = None

    def __str__(self) -> str:
        return f"{as_text(self.source)}, {self.lines:,} lines from line {self.first_line:,} on"

    @property
    def lines(self) -> int:
        return self.readable + (self.damage is not None)
