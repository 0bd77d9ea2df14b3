"""What a chunk of a replay does: every line run again, one row or one reject each. The same for every engine.

A line is a reject for the reasons, and with the words, that `assignor assign` has: "refused" when it asks for what a
later release brings, "unusable" when it is wrong. Changes that a rebalance cannot be given make it unusable, too.
"""

from __future__ import annotations

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
    """`changes` are made to every rebalance; the row compares with what was recorded all the same."""

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
        """The row of one line, or why it has none."""
        try:
            return self._row(line)
        except AssignorFault as error:
            return rejected(line.where, line.content, error)
        except Exception as error:  # one line that finds a fault of this program must not cost all the others
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
        """Run without the changes, to know what was measured then; None when nothing was, or it cannot be run."""
        if recorded.output is None:
            return None
        try:
            return run_recorded(recorded, self.own_assignors)
        except AssignorFault:
            return None


def place(where: str) -> tuple[str, int | None]:
    """`input:line` as the two."""
    name, colon, number = where.rpartition(":")
    if colon and number.isascii() and number.isdigit() and len(number) <= 18:
        return name, int(number)
    return where, None
