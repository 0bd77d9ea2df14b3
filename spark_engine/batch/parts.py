"""Reads and writes the parts directory, in which worker processes write the results of chunks. The driver computes the
progress from the names of these files, and does not open them:

- `00000012-256-0.parquet`: the part of chunk 12, with 256 rows and 0 rejects. A part appears only when it is complete.
- `00000012.rejects.jsonl`: the rejects of chunk 12, if the chunk has rejects. The rejects of a chunk are written before
  its part.
- `00000012.failed`: the error of the failed chunk 12, as JSON. `00000012.died-1`: an empty file; it exists if a process
  died while it ran chunk 12.
- `started`: an empty file; it exists if the first chunk of this run has begun.
- `.00000012-….tmp`: an incomplete file that a killed process left behind.

Files of a parts directory are not synced to disk. So a power cut may damage a part. A damaged part is detected and
removed when it is read. The next run writes the part again.

At the end of a run, `merge` makes the result files from the parts, in the order of the chunks. If two runs have the
same rows, their result files have the same bytes. Row groups and compression do not depend on the chunks. The files
contain no times and no names of writers. Compute times are in a separate file, because they differ from run to run.
During a merge, only one row group and one part are in memory at a time.
"""

import json
import os
import re
import traceback
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from assignor.errors import AssignorFault
from spark_engine.batch.output_directory import COMPUTE_MS, Finished, OutputDirectory, replacing
from spark_engine.batch.work import Chunk, ChunkOutput, ChunkT, PartDamaged, Plan, Reject

ROWS_A_GROUP = 16_384
STARTED = "started"
_PART = re.compile(r"(\d{8,})-(\d+)-(\d+)\.parquet")
_FAILED = re.compile(r"(\d{8,})\.failed")
_DIED = re.compile(r"(\d{8,})\.died-(\d+)")


@dataclass(frozen=True, slots=True)
class Part:
    """The result of one chunk."""

    number: int
    rows: int
    rejects: int

    @property
    def name(self) -> str:
        return f"{self.number:08d}-{self.rows}-{self.rejects}.parquet"


class PartsSeen:
    """The content of a parts directory. Callers refresh this object repeatedly. A refresh is fast, because it ignores
    the names of known files.
    """

    def __init__(self, directory: Path, chunks: Sequence[Chunk]) -> None:
        self.directory = directory
        self.parts: dict[int, Part] = {}
        self.failed: set[int] = set()
        self.started = False
        self.rows = 0
        self.rejects = 0
        self.planned = sum(chunk.lines for chunk in chunks)
        """The largest number of rows and rejects that all chunks together can have. This limit falls when a chunk has
        fewer rows and rejects than planned.
        """
        self._lines = {chunk.number: chunk.lines for chunk in chunks}
        self._known: set[str] = set()

    def refresh(self) -> None:
        for name in sorted(set(os.listdir(self.directory)) - self._known):
            self._known.add(name)
            self.started = self.started or name == STARTED
            if failed := _FAILED.fullmatch(name):
                self.failed.add(int(failed[1]))
            elif found := _PART.fullmatch(name):
                self._add(Part(int(found[1]), int(found[2]), int(found[3])))

    def missing(self) -> list[int]:
        return sorted(self._lines.keys() - self.parts.keys())

    def _add(self, part: Part) -> None:
        if part.number in self.parts or part.number not in self._lines:
            return
        self.parts[part.number] = part
        self.rows += part.rows
        self.rejects += part.rejects
        self.planned -= self._lines[part.number] - part.rows - part.rejects


def forget_last_run(directory: Path) -> None:
    """Removes the files of the last run except its parts and rejects. So failed chunks are tried again."""
    for name in os.listdir(directory):
        if _FAILED.fullmatch(name) or _DIED.fullmatch(name) or name == STARTED or name.endswith(".tmp"):
            (directory / name).unlink(missing_ok=True)


def mark_started(directory: Path) -> None:
    (directory / STARTED).touch()


def deaths(directory: Path, number: int) -> int:
    """Writes a file for the process that died while it ran this chunk. Returns the number of processes that have died
    while they ran this chunk.
    """
    before = len([found for found in map(_DIED.fullmatch, os.listdir(directory)) if found and int(found[1]) == number])
    (directory / f"{number:08d}.died-{before + 1}").touch()
    return before + 1


def write_part(directory: Path, number: int, output: ChunkOutput) -> None:
    """Writes the part of a chunk. The part appears only when it is complete. Raises OSError if the part cannot be
    written.
    """
    part = Part(number, output.rows.num_rows, len(output.rejects))
    if output.rejects:
        lines = "".join(_reject_line(reject) for reject in output.rejects)
        _write(directory, number, _rejects_name(number), lines.encode())
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([output.rows]), buffer, compression="zstd")
    _write(directory, number, part.name, buffer.getvalue())


def write_failure(directory: Path, number: int, reason: str, fault: BaseException | None = None) -> None:
    """Writes a file that marks a chunk as failed. `fault`: the exception that the work raised. The file has the stack
    trace of the exception. For an AssignorFault, the file has no stack trace, because the message is enough for the
    user.
    """
    is_plain = fault is None or isinstance(fault, AssignorFault)
    trace = "" if is_plain else "".join(traceback.format_exception(fault))
    document = json.dumps({"reason": reason, "trace": trace})
    _write(directory, number, f"{number:08d}.failed", document.encode())


def failure_reason(directory: Path, number: int) -> str:
    """Returns the reason of a chunk's failure, as one line."""
    return str(json.loads((directory / f"{number:08d}.failed").read_text())["reason"])


def _read_rows(directory: Path, part: Part) -> pa.Table:
    """Reads the rows of a part. Removes a part that cannot be read, and raises PartDamaged."""
    try:
        with pq.ParquetFile(directory / part.name) as source:
            return source.read(use_threads=False)
    except (OSError, pa.ArrowException) as fault:
        (directory / part.name).unlink(missing_ok=True)
        raise PartDamaged(
            f"{directory / part.name} could not be read ({fault}) and was removed; run the same command again"
        ) from fault


def _read_rejects(directory: Path, part: Part) -> Iterator[bytes]:
    """Reads the lines of a part's rejects. If the rejects are incomplete, removes the part and raises PartDamaged."""
    if not part.rejects:
        return
    file = directory / _rejects_name(part.number)
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    if len(lines) != part.rejects:
        (directory / part.name).unlink(missing_ok=True)
        raise PartDamaged(f"{file} is incomplete, so its part was removed; run the same command again")
    yield from lines


def _rejects_name(number: int) -> str:
    return f"{number:08d}.rejects.jsonl"


def _reject_line(reject: Reject) -> str:
    document = {"where": reject.where, "kind": reject.kind, "reason": reject.reason, "line": reject.line}
    line = json.dumps(document, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:  # the text has half of a surrogate pair: UTF-8 cannot encode it, but JSON can escape it
        line = json.dumps(document)
    return f"{line}\n"


def _write(directory: Path, number: int, name: str, content: bytes | pa.Buffer) -> None:
    temporary = directory / f".{number:08d}-{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("wb") as target:
            target.write(content)
        os.replace(temporary, directory / name)
    finally:
        temporary.unlink(missing_ok=True)


def merge(output: OutputDirectory, plan: Plan[ChunkT], parts: Sequence[Part]) -> Finished:
    """Writes the result files of `output`. `parts`: all parts, in the order of the chunks. Raises PartDamaged if a part
    cannot be read, and OSError if a result file cannot be written.
    """
    schema = plan.work.schema
    rows_schema = pa.schema([field for field in schema if field.name != COMPUTE_MS], schema.metadata)
    with replacing(output.rejects_file) as temporary, temporary.open("wb") as target:
        for part in parts:
            target.writelines(_read_rejects(output.parts, part))
    if output.timings_file is not None:
        timings_schema = pa.schema([schema.field(name) for name in (*plan.timing_columns, COMPUTE_MS)])
        with replacing(output.timings_file) as temporary:
            _write_rows(temporary, timings_schema, _tables(output, parts))
    with replacing(output.rows_file) as temporary:
        _write_rows(temporary, rows_schema, _tables(output, parts))
    return Finished(sum(part.rows for part in parts), sum(part.rejects for part in parts))


def _tables(output: OutputDirectory, parts: Iterable[Part]) -> Iterator[pa.Table]:
    return (_read_rows(output.parts, part) for part in parts if part.rows)


def _write_rows(file: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(table.select(schema.names).cast(schema) for table in tables):
            writer.write_table(group, row_group_size=ROWS_A_GROUP)


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yields the rows of all tables in new tables of `ROWS_A_GROUP` rows, each in contiguous memory. The last table may
    have fewer rows.
    """
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        while rows >= ROWS_A_GROUP:
            together = pa.concat_tables(held)
            yield _in_one_piece(together.slice(0, ROWS_A_GROUP))
            rows -= ROWS_A_GROUP
            held = [together.slice(ROWS_A_GROUP)]
    if rows:
        yield _in_one_piece(pa.concat_tables(held))


def _in_one_piece(table: pa.Table) -> pa.Table:
    return table.unify_dictionaries().combine_chunks()
