"""The values of a run: the work, its chunks and the output of a chunk, which are sent to executors; and the outcome and
the errors of a run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from assignor.errors import AssignorFault

LINES_A_CHUNK = 256
"""The number of lines in a chunk. A rebalance takes 1 to 3 ms, so a chunk takes about half a second. This is short
enough for a progress bar, little work is lost if an executor dies, and a chunk needs some hundred kilobytes of memory.
The Parquet part and the scheduling of a chunk cost a few milliseconds, under 1 %.
"""
BYTES_A_CHUNK = 8 * 1024 * 1024
"""Largest size of a chunk, because a whole chunk is in memory at once: long lines end a chunk earlier. A line of a
group with 1,000 members has a megabyte.
"""


REFUSED = "refused"
UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that gave no row. `where`: input:line. `kind`: UNUSABLE (invalid) or REFUSED (needs a later release).
    `line`: the line itself, to be corrected and run again; None if it could not be read at all.
    """

    where: str
    kind: str
    reason: str
    line: str | None


@dataclass(frozen=True, slots=True)
class ChunkOutput:
    """The output of a chunk. `rows`: a batch with the schema of the work, in the order of the input."""

    rows: pa.RecordBatch
    rejects: tuple[Reject, ...] = ()


class Chunk(Protocol):
    """A chunk of work. `number`: from 0; the rows of the result have the order of the chunks' numbers. `lines`: the
    largest number of rows and rejects that the chunk gives.
    """

    @property
    def number(self) -> int: ...

    @property
    def lines(self) -> int: ...


ChunkT_contra = TypeVar("ChunkT_contra", bound=Chunk, contravariant=True)
ChunkT = TypeVar("ChunkT", bound=Chunk)


class Work(Protocol[ChunkT_contra]):
    """The work of a run, which must be picklable. A worker process calls `run` with several chunks in the order of
    their numbers, so `run` may keep a reader open between chunks. `run` yields one output for each chunk, in order.
    """

    @property
    def schema(self) -> pa.Schema: ...

    def run(self, chunks: Iterator[ChunkT_contra]) -> Iterator[ChunkOutput]: ...


@dataclass(frozen=True, slots=True)
class Plan(Generic[ChunkT]):
    """A plan of a run. `identity`: the identity of the run, as JSON (inputs with size and time, options, version). A
    run does not continue in an output directory with another identity. `chunks`: numbered 0, 1, 2, ... `rows_name`: the
    merged file is `<rows_name>.parquet`. `timing_columns`: columns of timings.parquet that identify the row of each
    compute time (the column `compute_ms`). `beside`: files that the command itself adds at the end; they are removed
    with the rows of a discarded run. `check`: the driver calls it before it merges the parts; it raises InputError if
    the parts no longer fit the plan.
    """

    work: Work[ChunkT]
    chunks: Sequence[ChunkT]
    identity: dict[str, object]
    rows_name: str = "rows"
    timing_columns: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    check: Callable[[], None] | None = None


Wait = Callable[[float], bool]
"""Waits for a running engine, for at most the given seconds. Returns True if it still runs. Raises EngineFailed."""


class ChunksFailed(AssignorFault):
    """Some chunks failed: their work raised, or repeatedly killed its process. The rows of the other chunks are kept.
    The message names chunks and reasons; the same command retries the missing chunks.
    """


class PartsNotSeen(AssignorFault):
    """All chunks ran, but the driver finds no part of some: the executors do not share the output directory."""


class EngineFailed(AssignorFault):
    """The engine failed for a reason outside the work: Spark's job ended, the disk is full, or a worker process cannot
    start. Finished chunks are kept.
    """


class PartDamaged(AssignorFault):
    """A part could not be read and was removed; the same command writes it again."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run. `rows_file`: all rows in input order, without compute times; `rejects_file`: JSON Lines;
    `timings_file`: None if the work measures no compute times. `seconds`: the time from the start of the first chunk to
    the last part; `start_up_seconds`: the time before, in which processes or Spark start; `merge_seconds`: the time to
    merge the parts. All three are 0.0 if an earlier run had finished the directory (`finished_before`).
    `rows_found_done`, `chunks_found_done`: the rows and chunks of earlier runs.
    """

    rows_file: Path
    rejects_file: Path
    timings_file: Path | None
    rows: int
    rejects: int
    chunks_found_done: int
    rows_found_done: int
    seconds: float = 0.0
    start_up_seconds: float = 0.0
    merge_seconds: float = 0.0
    finished_before: bool = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in order, in batches of some thousands."""
        with pq.ParquetFile(self.rows_file) as source:
            yield from source.iter_batches()
