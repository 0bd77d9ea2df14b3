"""The values of a run: a piece of work, its chunks and the output of a chunk, which are sent to executors; and how it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from assignor.errors import AssignorFault

LINES_A_CHUNK = 256
"""The size of chunks. A rebalance takes 1 to 3 ms, so a chunk takes about half a second. This is short enough for a
progress bar, little work is lost when an executor dies, and a chunk needs some hundred kilobytes of memory; its Parquet
part and its scheduling cost a few milliseconds, under 1 %.
"""
BYTES_A_CHUNK = 8 * 1024 * 1024
"""Long lines end a chunk earlier, because it is in memory at once. A group of 1,000 members has a megabyte a line."""


REFUSED = "refused"
UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that gave no row. `where`: input:line. `kind`: UNUSABLE (invalid) or REFUSED (needs a later release).
    `line`: the line itself, to be corrected and run again; None when it could not be read at all.
    """

    where: str
    kind: str
    reason: str
    line: str | None


@dataclass(frozen=True, slots=True)
class ChunkOutput:
    """`rows`: of the work's schema, in input order."""

    rows: pa.RecordBatch
    rejects: tuple[Reject, ...] = ()


class Chunk(Protocol):
    """`number`: from 0, the place of its rows in the result. `lines`: the most rows and rejects that it gives."""

    @property
    def number(self) -> int: ...

    @property
    def lines(self) -> int: ...


ChunkT_contra = TypeVar("ChunkT_contra", bound=Chunk, contravariant=True)
ChunkT = TypeVar("ChunkT", bound=Chunk)


class Work(Protocol[ChunkT_contra]):
    """Picklable. `run` is called in a worker process for several chunks in the order of their numbers, so it may keep
    a reader open between them; each call yields one output per chunk, in order.
    """

    @property
    def schema(self) -> pa.Schema: ...

    def run(self, chunks: Iterator[ChunkT_contra]) -> Iterator[ChunkOutput]: ...


@dataclass(frozen=True, slots=True)
class Plan(Generic[ChunkT]):
    """`identity`: of the run, as JSON (inputs with size and time, options, version of the format). A run does not
    continue in an output directory of another identity. `chunks`: numbered 0, 1, 2, ... `rows_name`: the merged file is
    `<rows_name>.parquet`. `timing_columns`: columns of timings.parquet that identify the row of each compute time (the
    column `compute_ms`). `beside`: files that the command itself adds in the end; they are removed with the rows of a
    discarded run. `check`: is called by the driver before parts are merged; raises InputError if they do not fit the
    plan.
    """

    work: Work[ChunkT]
    chunks: Sequence[ChunkT]
    identity: dict[str, object]
    rows_name: str = "rows"
    timing_columns: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    check: Callable[[], None] | None = None

    @property
    def lines(self) -> int:
        return sum(chunk.lines for chunk in self.chunks)


Wait = Callable[[float], bool]
"""Waits for an engine at work, for that many seconds at most. Returns whether it still works. Raises EngineFailed."""


class ChunksFailed(AssignorFault):
    """Some chunks failed: their work raised, or repeatedly killed its process. The rows of the others are kept. The
    message names chunks and reasons; the same command retries what is missing.
    """


class PartsNotSeen(AssignorFault):
    """All chunks ran, but the driver sees no part of some: the executors do not share the output directory."""


class EngineFailed(AssignorFault):
    """The engine failed for a reason outside the work: Spark's job ended, the disk is full, or a worker process cannot
    start. Finished chunks are kept.
    """


class PartDamaged(AssignorFault):
    """A part could not be read and was removed; the same command writes it again."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """`rows_file`: all rows in input order, without compute times; `rejects_file`: JSON Lines; `timings_file`: None
    when the work measures no compute times. `seconds`: from the start of the first chunk to the last part;
    `start_up_seconds`: the start of processes or of Spark before that; `merge_seconds`: from parts to the files. All
    three are 0.0 when the directory was finished already (`finished_before`). `rows_found_done`, `chunks_found_done`:
    by earlier runs.
    """

    rows_file: Path
    rejects_file: Path
    timings_file: Path | None
    chunks: int
    rows: int
    rejects: int
    chunks_found_done: int
    rows_found_done: int
    seconds: float = 0.0
    start_up_seconds: float = 0.0
    merge_seconds: float = 0.0
    finished_before: bool = False

    @property
    def resumed(self) -> bool:
        """Whether an earlier run had finished some chunks."""
        return self.chunks_found_done > 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order, some thousands at a time."""
        with pq.ParquetFile(self.rows_file) as source:
            yield from source.iter_batches()
