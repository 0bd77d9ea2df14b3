"""The result of a run, and the errors that it can end with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from assignor.errors import AssignorFault


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
    rows: int
    rejects: int
    chunks: int
    chunks_found_done: int
    rows_found_done: int
    seconds: float
    start_up_seconds: float
    merge_seconds: float
    finished_before: bool

    @property
    def resumed(self) -> bool:
        """Whether an earlier run had finished some chunks."""
        return self.chunks_found_done > 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order, some thousands at a time."""
        with pq.ParquetFile(self.rows_file) as source:
            yield from source.iter_batches()
