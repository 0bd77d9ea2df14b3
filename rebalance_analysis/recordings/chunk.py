"""A chunk of recordings stands for consecutive lines of one input. The chunk contains the position and the number of
these lines, but not the lines. A worker reads the lines when it processes the chunk.

Some inputs, such as pipes and databases, can be read only once or only by the driver. The driver spools such an input
to a file. Each line of a spool file has three parts: the position of the recorded line as JSON text, a tab, and the
recorded line.

A worker keeps the reader of a gzip file open for later chunks of the file. So nothing is decompressed twice. A worker
also keeps the reader of a Parquet file open for the next chunk of the file. For a chunk of a plain file, a worker opens
a new reader at the byte offset of the chunk.
"""

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from assignor.errors import AssignorFault, InputError, NotBuiltYet
from operating_system.whole_files import input_errors
from rebalance_analysis.reading.sources import DamagedSource, RawLine, Source, SourceKind, lines_of, opened
from rebalance_analysis.recordings.parquet import rows_from
from spark_engine.batch.work import REFUSED, UNUSABLE, Reject


class ChunkKind(StrEnum):
    """The format of the file of a chunk. `SPOOLED`: the format that `write_spool` writes."""

    PLAIN = "plain"
    GZIP = "gzip"
    PARQUET = "parquet"
    SPOOLED = "spooled"


def as_text(name: str) -> str:
    """Returns a file name as text that can be encoded in UTF-8. The bytes of the file name may be invalid UTF-8."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class RecordingChunk:
    """Consecutive lines of one input. `number`: the number of the chunk; the first chunk has number 0. `source`: the
    name of the input, for messages about a line. `path`: the file that the worker reads.

    `start`: the position of the first line; the file begins at position 0. A position is a byte in a plain or spooled
    file. A position is a line in a gzip file, and a row in a Parquet file. `first_line`: the line number of the first
    line in the input. The input begins with line 1, and blank lines count. `readable`: the number of lines that are not
    blank, or the number of Parquet rows. `damage`: the error that ends the input; set only in the last chunk of a
    damaged input. This error counts as one more line of the chunk, at the position `damaged_at`.
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


_TAB = b"\t"  # separates position and line: JSON text never contains a raw tab


def write_spool(lines: Iterable[RawLine], path: Path) -> None:
    """Writes lines to a spool file. Raises InputError if the file cannot be written. If the iterator `lines` raises an
    error, raises the same error. The lines before the error stay in the spool file.
    """
    with input_errors("cannot be written", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as target:
            for where, content in lines:
                # in valid JSON, a line break only stands between tokens, so a blank can replace it
                line = content.removesuffix(b"\n").replace(b"\n", b" ")
                target.write(json.dumps(where).encode() + _TAB + line + b"\n")


def rejected(where: str, content: bytes | None, error: AssignorFault, reason: str | None = None) -> Reject:
    """Returns the reject for a line without a result row. `reason`: a text that replaces the text of the error."""
    kind = REFUSED if isinstance(error, NotBuiltYet) else UNUSABLE
    line = None if content is None else content.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    return Reject(as_text(where), kind, as_text(reason or str(error)), line)


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file, which identifies its lines."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


class ChunkLines(NamedTuple):
    """A chunk with its lines. Blank lines are left out. `damage`: the error at which the input ended; None if there was
    no error.
    """

    chunk: RecordingChunk
    lines: list[RawLine]
    damage: DamagedSource | None = None


def read_chunks(chunks: Iterable[RecordingChunk]) -> Iterator[ChunkLines]:
    """Yields each chunk with its lines. Reads the lines of a chunk only when the caller asks for the chunk. Raises
    InputError if an input has become shorter since the chunks were planned.
    """
    reader: _RecordingReader | None = None
    try:
        for chunk in chunks:
            if chunk.readable == 0:
                yield ChunkLines(chunk, [], _known_damage(chunk))
                continue
            if reader is None or not reader.goes_on_with(chunk):
                if reader is not None:
                    reader.close()
                reader = _RecordingReader(chunk)
            lines, damage = reader.take(chunk)
            yield ChunkLines(chunk, lines, damage or _known_damage(chunk))
    finally:
        if reader is not None:
            reader.close()


def _known_damage(chunk: RecordingChunk) -> DamagedSource | None:
    return None if chunk.damage is None else DamagedSource(chunk.damage, chunk.damaged_at or chunk.source)


class _RecordingReader:
    """Reads the lines of one input for a chunk. If possible, also reads the lines of later chunks of the input."""

    def __init__(self, chunk: RecordingChunk) -> None:
        self._path, self._kind = chunk.path, chunk.kind
        self._lines = _LINES[chunk.kind](chunk)
        self._next_line = 1 if chunk.kind is ChunkKind.GZIP else chunk.first_line

    def close(self) -> None:
        self._lines.close()

    def goes_on_with(self, chunk: RecordingChunk) -> bool:
        if (chunk.path, chunk.kind) != (self._path, self._kind):
            return False
        if chunk.kind is ChunkKind.GZIP:
            return self._next_line <= chunk.first_line
        return chunk.kind is ChunkKind.PARQUET and self._next_line == chunk.first_line

    def take(self, chunk: RecordingChunk) -> tuple[list[RawLine], DamagedSource | None]:
        """Returns the lines of the chunk before any error, and the error at which the input ended. The error is None if
        the chunk could be read completely. Raises InputError if the input has become shorter since the chunk was
        planned.
        """
        lines: list[RawLine] = []
        taken = 0
        try:
            for number, line in self._lines:
                self._next_line = number + 1
                if number < chunk.first_line:
                    continue
                taken += 1
                if line.content.strip():
                    lines.append(line)
                if taken == chunk.readable:
                    return lines, None
        except DamagedSource as damage:
            return lines, damage
        raise InputError(
            "has fewer lines than when it was scanned; leave it unchanged until the run is over", chunk.source
        )


_Numbered = Generator[tuple[int, RawLine], None, None]
"""Yields lines, each with its line number in the input."""


def _plain(chunk: RecordingChunk) -> _Numbered:
    """Reads a plain file or a spooled file. In a spooled file, each line begins with its position."""
    with opened(Source(chunk.path, SourceKind.JSONL)) as raw:
        raw.seek(chunk.start)
        for number, content in enumerate(raw, chunk.first_line):
            if chunk.kind is ChunkKind.SPOOLED:
                where, _, line = content.partition(_TAB)
                yield number, RawLine(json.loads(where), line)
            elif content.strip():
                yield number, RawLine(f"{chunk.source}:{number}", content)


def _gzip(chunk: RecordingChunk) -> _Numbered:
    source = Source(chunk.path, SourceKind.GZIP)
    with opened(source) as raw:
        for where, content in lines_of(source, raw):
            number = int(where.rpartition(":")[2])
            yield number, RawLine(f"{chunk.source}:{number}", content)


def _parquet(chunk: RecordingChunk) -> _Numbered:
    yield from enumerate(rows_from(chunk.path, chunk.start, chunk.source), chunk.first_line)


_LINES = {ChunkKind.PLAIN: _plain, ChunkKind.SPOOLED: _plain, ChunkKind.GZIP: _gzip, ChunkKind.PARQUET: _parquet}
