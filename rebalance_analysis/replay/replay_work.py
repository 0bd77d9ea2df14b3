"""Does the work of a replay on one chunk. Runs every line again, and makes a result row or a reject for the line. This
code runs in local processes and on Spark executors.

A line is "refused" if it needs a feature of a later release, and "unusable" if it is invalid. The texts of the reasons
are the same as in `assignor assign`. A line is also "unusable" if the changes cannot be applied to it.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from assignor.errors import AssignorFault, InputError
from assignor.recording import document_of_line
from rebalance_analysis.reading.own_assignors import OwnAssignors
from rebalance_analysis.reading.sources import RawLine
from rebalance_analysis.recordings.chunk import ChunkLines, RecordingChunk, as_text, read_chunks, rejected
from rebalance_analysis.replay.rebalance_rows import SCHEMA, Recorded, Replayed, batch_of, row_of
from rebalance_analysis.rerun import Rerun, parse_recorded, run_recorded
from rebalance_analysis.what_if import changed
from rebalance_analysis.what_if.changes import Changes
from spark_engine.batch.work import UNUSABLE, ChunkOutput, Reject

NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True)
class ReplayWork:
    """Runs the lines of chunks again. `changes`: changes that are applied to every rebalance. The result row compares
    the result with the recorded output, even if there are changes.
    """

    own_assignors: OwnAssignors
    changes: Changes = NO_CHANGES

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def run(self, chunks: Iterator[RecordingChunk]) -> Iterator[ChunkOutput]:
        for chunk in read_chunks(chunks):
            yield self._output(chunk)

    def _output(self, chunk: ChunkLines) -> ChunkOutput:
        rows: list[dict[str, object]] = []
        rejects: list[Reject] = []
        for line in chunk.lines:
            ran = self.line(line)
            if isinstance(ran, Reject):
                rejects.append(ran)
            else:
                rows.append(ran)
        if chunk.damage is not None:
            where = as_text(chunk.damage.where or chunk.chunk.source)
            rejects.append(Reject(where, UNUSABLE, chunk.damage.reason, None))
        return ChunkOutput(batch_of(rows), tuple(rejects))

    def line(self, line: RawLine) -> dict[str, object] | Reject:
        """Returns the result row of one line. If the line cannot be run, returns a reject with the reason."""
        try:
            return self._row(line)
        except AssignorFault as error:
            return rejected(line.where, line.content, error)
        except Exception as error:  # if one line triggers a bug, the run of the other lines must continue
            fault = InputError(f"a fault of this program: {type(error).__name__}: {error}")
            return rejected(line.where, line.content, fault)

    def _row(self, line: RawLine) -> dict[str, object]:
        recorded = parse_recorded(document_of_line(line.content))
        changes_any = self.changes != NO_CHANGES
        conditions = changed(recorded, self.changes) if changes_any else recorded
        began_s = time.perf_counter()
        ran = run_recorded(conditions, self.own_assignors)
        compute_ms = (time.perf_counter() - began_s) * 1000
        as_recorded = self._as_recorded(recorded) if changes_any else ran
        input_name, number = place(line.where)
        return row_of(input_name, number, Replayed(recorded, ran, as_recorded, compute_ms))

    def _as_recorded(self, recorded: Recorded) -> Rerun | None:
        """Runs the rebalance without the changes, for the `recorded_...` measures. Returns None if the recording has no
        output, or if the rebalance cannot be run.
        """
        if recorded.output is None:
            return None
        try:
            return run_recorded(recorded, self.own_assignors)
        except AssignorFault:
            return None


def place(where: str) -> tuple[str, int | None]:
    """Splits a position of the form `input:line` into the input and the line number. If the position has no line
    number, the line number is None.
    """
    name, colon, number = where.rpartition(":")
    if colon and number.isascii() and number.isdigit() and len(number) <= 18:
        return name, int(number)
    return where, None
