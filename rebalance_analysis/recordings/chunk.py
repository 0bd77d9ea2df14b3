"""A chunk of recordings: consecutive lines of one input, and where they begin. It holds no line itself.

Lines of an input that can be read only once or only here (a pipe, a database) are spooled: a file has the place of each
recorded line as JSON text, a tab, and the line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from assignor.errors import InputError
from rebalance_analysis.reading.sources import RawLine


class ChunkKind(StrEnum):
    """The format of the file. `SPOOLED`: as `write_spool` writes it, each line with its place in front."""

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


_TAB = b"\t"  # JSON text never contains a raw tab


def write_spool(lines: Iterable[RawLine], path: Path) -> None:
    """Raises InputError when the file cannot be written, and any error of `lines`; earlier lines are kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as target:
            for where, content in lines:
                # in valid JSON a line break is white space between tokens
                target.write(
                    json.dumps(where).encode() + _TAB + content.removesuffix(b"\n").replace(b"\n", b" ") + b"\n"
                )
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None


def spooled_line(content: bytes) -> RawLine:
    """One line of the file."""
    where, _, line = content.partition(_TAB)
    return RawLine(json.loads(where), line)


def digest(path: Path) -> str:
    """The sha256 of the file, which identifies its lines."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
