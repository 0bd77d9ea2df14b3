"""The classes that describe a run: its work, its chunks, the output of a chunk, the outcome, and the errors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from assignor.errors import AssignorFault

LINES_A_CHUNK = 256
"""The number of lines in a chunk. A rebalance takes 1 to 3 ms, so a chunk takes about half a second. With such short
chunks, a progress bar moves smoothly, and an executor that dies loses little work. A chunk needs some hundred kilobytes
of memory. Scheduling a chunk and writing its part take a few milliseconds. These milliseconds are less than 1 % of the
time of the chunk.
"""
BYTES_A_CHUNK = 8 * 1024 * 1024
"""The largest size of a chunk in bytes. The size is limited because a whole chunk is in memory at once. If the lines
are long, a chunk has fewer lines. For example, the line of a rebalance with 1,000 members has about a megabyte.
"""


REFUSED = "refused"
UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Reject:
    """An input line without a result row. `where`: the position of the line in the form input:line. `kind`: UNUSABLE
    for an invalid line, or REFUSED for a line that needs a later release of this project. `line`: the text of the line,
    which a user can correct and run again; None if the line could not be read.
    """

    where: str
    kind: str
    reason: str
    line: str | None


@dataclass(frozen=True, slots=True)
class ChunkOutput:
    """The output of a chunk. `rows`: the result rows with the schema of the work, in the order of the input."""

    rows: pa.RecordBatch
    rejects: tuple[Reject, ...] = ()


class Chunk(Protocol):
    """A chunk of work. `number`: the number of the chunk in the run; the first chunk has number 0. The result has the
    rows in the order of the chunk numbers. `lines`: the largest number of rows and rejects that the chunk can have.
    """

    @property
    def number(self) -> int: ...

    @property
    def lines(self) -> int: ...


ChunkT_contra = TypeVar("ChunkT_contra", bound=Chunk, contravariant=True)
ChunkT = TypeVar("ChunkT", bound=Chunk)


class Work(Protocol[ChunkT_contra]):
    """The work of a run. Objects of this class must be picklable. A worker process calls `run` with several chunks in
    the order of their numbers. So `run` may keep a reader open between chunks. `run` yields one output for each chunk,
    in order.
    """

    @property
    def schema(self) -> pa.Schema: ...

    def run(self, chunks: Iterator[ChunkT_contra]) -> Iterator[ChunkOutput]: ...


@dataclass(frozen=True, slots=True)
class Plan(Generic[ChunkT]):
    """A plan of a run. `identity`: a JSON object that identifies the run (inputs with size and time, options, version).
    A run does not continue in the output directory of a run with another identity. `chunks`: the chunks of the run,
    with the numbers 0, 1, 2, ... `rows_name`: the name of the merged file, without `.parquet`. `timing_columns`: the
    columns that timings.parquet contains besides the compute time (`compute_ms`). They identify the row to which the
    compute time belongs. `beside`: the names of files that the command itself adds at the end of a run. If the run is
    discarded, the files in `beside` are removed too. `check`: a function that the driver calls before the merge of the
    parts. `check` raises InputError if the inputs have changed since the plan was made.
    """

    work: Work[ChunkT]
    chunks: Sequence[ChunkT]
    identity: dict[str, object]
    rows_name: str = "rows"
    timing_columns: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    check: Callable[[], None] | None = None


Wait = Callable[[float], bool]
"""A function that waits until the engine has ended, for at most the given number of seconds. The function returns True
if the engine still runs, and raises EngineFailed if the engine failed.
"""


class ChunksFailed(AssignorFault):
    """Raised if chunks failed. The work of a failed chunk raised an exception, or repeatedly killed its process. The
    rows of all other chunks are kept. The message names the failed chunks and the reasons. If the user runs the command
    again, the failed chunks are retried.
    """


class PartsNotSeen(AssignorFault):
    """Raised if all chunks ran, but the driver does not find the parts of some chunks. The cause is an output directory
    that the driver and the executors do not share.
    """


class EngineFailed(AssignorFault):
    """Raised if the engine failed although the work itself raised no error. For example, Spark's job ended, the disk is
    full, or a worker process cannot start. The parts of finished chunks are kept.
    """


class PartDamaged(AssignorFault):
    """Raised if a part could not be read and was removed. If the user runs the command again, the part is written
    again.
    """


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run. `rows_file`: the file of all rows in input order, without compute times. `rejects_file`:
    the JSON Lines file of rejects. `timings_file`: the file of compute times; None if the work measures no compute
    times. `seconds`: the time from the start of the first chunk to the last part. `start_up_seconds`: the time before
    the first chunk, in which processes or Spark start. `merge_seconds`: the time to merge the parts. `finished_before`:
    True if an earlier run had already finished. If an earlier run had already finished, all three durations are 0.0.
    `rows_found_done`, `chunks_found_done`: the numbers of rows and chunks that earlier runs had finished.
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
        """Yields the result rows in order, in batches of some thousand rows."""
        with pq.ParquetFile(self.rows_file) as source:
            yield from source.iter_batches()
