"""Divides inputs into chunks. Each input is read once to find its chunks. In a plain file, the position of a chunk is a
byte offset. In a gzip file, the position of a chunk is a line number. In a Parquet file, the position of a chunk is a
row number. `spark_engine/batch/work.py` defines the number of lines of a chunk. A chunk has fewer lines if the lines
are very long, or if it is the last chunk of an input. Some inputs can be read only once or only by the driver, such as
stdin, pipes and databases. These inputs are first spooled to a file.
"""

import functools
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress, TaskID

from assignor.errors import InputError
from operating_system.whole_files import input_errors
from rebalance_analysis.reading.sources import (
    DamagedSource,
    Source,
    SourceKind,
    find_sources,
    lines_of,
    opened,
    raw_lines,
    shown,
)
from rebalance_analysis.recordings.chunk import ChunkKind, RecordingChunk, as_text, digest, write_spool
from rebalance_analysis.recordings.parquet import count_rows
from spark_engine.batch.work import BYTES_A_CHUNK, LINES_A_CHUNK

Advance = Callable[[int], None]
"""A function that is called with the number of bytes that were read from the input."""


def plan_recordings(
    inputs: Sequence[str], spool: Path, console: Console, lines_a_chunk: int = LINES_A_CHUNK
) -> list[RecordingChunk]:
    """Divides all lines of all inputs into chunks, and returns the chunks in order. `spool`: the directory for copies
    of inputs that are pipes or databases. All workers must have access to this directory. Raises InputError for an
    input that cannot be read.
    """
    sources = find_sources(inputs)
    planned: list[RecordingChunk] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for place, source in enumerate(sources):
            bar = progress.add_task(f"scanning {shown(source.name)}", total=_size(source))
            advance = functools.partial(_advance, progress, bar)
            for chunk in _chunks(source, spool / f"{place:04d}.lines", lines_a_chunk, advance):
                planned.append(replace(chunk, number=len(planned)))
            progress.remove_task(bar)
    return planned


def identity_of_inputs(chunks: Sequence[RecordingChunk]) -> list[dict[str, object]]:
    """Returns the identity of each input. A later run compares these identities with the identities of its own inputs.
    The identity of a file is its name, its size and its modification time. The identity of a spooled input is its
    SHA-256.

    Raises InputError if an input no longer exists.
    """
    return [_identity(list(of_input)) for _, of_input in itertools.groupby(chunks, key=lambda chunk: chunk.path)]


def check_of_inputs(chunks: Sequence[RecordingChunk]) -> Callable[[], None]:
    """Returns a function that checks whether input files have changed since this call. The returned function raises
    InputError for a file that was rewritten. The returned function accepts a file that was removed. The function also
    accepts appended lines, because the run does not read them.
    """
    files = {chunk.path: chunk.source for chunk in chunks if chunk.kind is not ChunkKind.SPOOLED}
    before = {path: found for path in files if (found := _stat(path)) is not None}

    def check() -> None:
        for path, then in before.items():
            now = _stat(path)
            if now is not None and not _goes_on(then, now):
                raise InputError("was changed while it was read; run again with --restart", files[path])

    return check


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _goes_on(then: os.stat_result, now: os.stat_result) -> bool:
    """True if both states belong to one file, and the file is unchanged or longer."""
    same_file = (then.st_dev, then.st_ino) == (now.st_dev, now.st_ino)
    return same_file and (
        now.st_size > then.st_size or (now.st_size, now.st_mtime_ns) == (then.st_size, then.st_mtime_ns)
    )


def _identity(of_input: Sequence[RecordingChunk]) -> dict[str, object]:
    chunk, lines = of_input[0], sum(each.lines for each in of_input)
    identity: dict[str, object] = {"name": as_text(chunk.source), "lines": lines}
    with input_errors("cannot be read", chunk.path):
        if chunk.kind is ChunkKind.SPOOLED:
            return {**identity, "sha256": digest(Path(chunk.path))}
        seen = os.stat(chunk.path)
    return {**identity, "path": as_text(chunk.path), "size": seen.st_size, "mtime_ns": seen.st_mtime_ns}


def _advance(progress: Progress, bar: TaskID, done: int) -> None:
    progress.update(bar, completed=done)


class _PlannedLine(NamedTuple):
    """The position of a line in an input. `place`: the byte offset of the line, or the line number in a gzip file.
    `number`: the line number. `length`: the length of the line in bytes.
    """

    place: int
    number: int
    length: int


_KINDS = {SourceKind.JSONL: ChunkKind.PLAIN, SourceKind.GZIP: ChunkKind.GZIP, SourceKind.PARQUET: ChunkKind.PARQUET}


def _chunks(source: Source, spool: Path, size: int, advance: Advance) -> Iterator[RecordingChunk]:
    """Yields the chunks of one input. The numbers of the chunks are not set yet."""
    if source.kind in (SourceKind.STDIN, SourceKind.DATABASE) or not _is_file(source):
        yield from _spooled(source, spool, size, advance)
        return
    empty = RecordingChunk(0, source.name, os.path.abspath(source.name), _KINDS[source.kind], 0, 1, 0)
    if source.kind is SourceKind.PARQUET:
        rows = count_rows(source.name)
        for start in range(0, rows, size):
            yield replace(empty, start=start, first_line=start + 1, readable=min(size, rows - start))
    elif source.kind is SourceKind.GZIP:
        with opened(source) as raw:
            numbered = ((int(where.rpartition(":")[2]), len(content)) for where, content in lines_of(source, raw))
            lines = (_PlannedLine(number - 1, number, length) for number, length in numbered)
            yield from _cut(empty, lines, size, lambda _: advance(raw.tell()))
    else:
        with input_errors("cannot be read", source.name), opened(source) as raw:
            yield from _cut(empty, _numbered(raw), size, advance)


def _spooled(source: Source, spool: Path, size: int, advance: Advance) -> Iterator[RecordingChunk]:
    name = "stdin" if source.kind is SourceKind.STDIN else shown(source.name)
    empty = RecordingChunk(0, name, os.path.abspath(spool), ChunkKind.SPOOLED, 0, 1, 0)
    damage: DamagedSource | None = None
    try:
        write_spool(raw_lines(source), spool)
    except DamagedSource as error:
        damage = error
    with input_errors("cannot be read", spool), spool.open("rb") as raw:
        yield from _cut(empty, _numbered(raw, damage), size, advance)


def _numbered(raw: Iterable[bytes], damage: DamagedSource | None = None) -> Iterator[_PlannedLine]:
    """Yields the byte offset, the number and the length of each line. Leaves out blank lines. `damage`: an error that
    is raised after the last line; None for no error.
    """
    offset = 0
    for number, content in enumerate(raw, 1):
        if content.strip():
            yield _PlannedLine(offset, number, len(content))
        offset += len(content)
    if damage is not None:
        raise damage


def _cut(empty: RecordingChunk, lines: Iterator[_PlannedLine], size: int, advance: Advance) -> Iterator[RecordingChunk]:
    """Yields chunks of `size` lines. A chunk has fewer lines if the lines are long. If the input ends with an error,
    the last chunk has this error.
    """
    chunk, readable, length = empty, 0, 0
    damage: DamagedSource | None = None
    try:
        for line in lines:
            if readable == size or (readable and length + line.length > BYTES_A_CHUNK):
                yield replace(chunk, readable=readable)
                advance(line.place)
                readable = length = 0
            if readable == 0:
                chunk = replace(empty, start=line.place, first_line=line.number)
            readable += 1
            length += line.length
    except DamagedSource as error:
        damage = error
    chunk = replace(chunk, readable=readable)
    if damage is not None:
        yield replace(chunk, damage=damage.reason, damaged_at=damage.where or empty.source)
    elif readable:
        yield chunk


def _is_file(source: Source) -> bool:
    return source.kind is not SourceKind.JSONL or stat.S_ISREG(os.stat(source.name).st_mode)


def _size(source: Source) -> int | None:
    if source.kind in (SourceKind.STDIN, SourceKind.DATABASE):
        return None
    try:
        return os.stat(source.name).st_size or None
    except OSError:
        return None
