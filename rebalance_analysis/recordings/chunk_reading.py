"""The lines of chunks, read where the chunks run.

Rule: a later chunk of the same gzip file continues with the open reader, so that nothing is decompressed twice. So does
the next chunk of a Parquet file. In plain files a chunk is found by its byte offset.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from assignor.errors import InputError
from rebalance_analysis.reading.sources import DamagedSource, RawLine, Source, SourceKind, lines_of, opened
from rebalance_analysis.recordings.chunk import ChunkKind, RecordingChunk, spooled_line
from rebalance_analysis.recordings.parquet import rows_from


class ChunkLines(NamedTuple):
    """`lines`: without blank ones. `damage`: what is wrong with the rest of the input, if anything."""

    chunk: RecordingChunk
    lines: list[RawLine]
    damage: DamagedSource | None = None


def read_chunks(chunks: Iterable[RecordingChunk]) -> Iterator[ChunkLines]:
    """Each chunk with its lines, read on demand. Raises InputError when an input has changed."""
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
    """The lines of one input, starting with those of a chunk."""

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
        """The chunk's lines; fewer when the input is damaged. Raises InputError."""
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
"""The number of each line in its input, and the line."""


def _plain(chunk: RecordingChunk) -> _Numbered:
    with opened(Source(chunk.path, SourceKind.JSONL)) as raw:
        raw.seek(chunk.start)
        for number, content in enumerate(raw, chunk.first_line):
            if content.strip():
                yield number, RawLine(f"{chunk.source}:{number}", content)


def _spooled(chunk: RecordingChunk) -> _Numbered:
    with opened(Source(chunk.path, SourceKind.JSONL)) as raw:
        raw.seek(chunk.start)
        for number, content in enumerate(raw, chunk.first_line):
            yield number, spooled_line(content)


def _gzip(chunk: RecordingChunk) -> _Numbered:
    source = Source(chunk.path, SourceKind.GZIP)
    with opened(source) as raw:
        for where, content in lines_of(source, raw):
            number = int(where.rpartition(":")[2])
            yield number, RawLine(f"{chunk.source}:{number}", content)


def _parquet(chunk: RecordingChunk) -> _Numbered:
    yield from enumerate(rows_from(chunk.path, chunk.start, chunk.source), chunk.first_line)


_LINES = {
    ChunkKind.PLAIN: _plain,
    ChunkKind.SPOOLED: _spooled,
    ChunkKind.GZIP: _gzip,
    ChunkKind.PARQUET: _parquet,
}
