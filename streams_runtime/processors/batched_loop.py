"""The loop over the records of a source with the sections that it collects for. See `batch_sections`.

Where all records go to one section as they are, there is no loop: columns are read as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.processors.batch_sections import BatchRuntime, BatchSection, SectionBatch
from streams_runtime.processors.current_node import CurrentNode
from streams_runtime.processors.fused_loop import FusedLoop
from streams_runtime.serdes import ColumnDeserializer

Bytes = Sequence[bytes | None]


class BatchedLoop:
    """It takes the place of the loop's `run`. `readers`: of keys and values, if there need be no loop."""

    __slots__ = ("_current", "_head", "_over_records", "_readers", "_runtime", "_sections")

    def __init__(
        self,
        head: FusedLoop,
        sections: Sequence[BatchSection],
        current: CurrentNode,
        runtime: BatchRuntime,
        readers: tuple[ColumnDeserializer, ColumnDeserializer] | None,
    ) -> None:
        self._head = head
        self._over_records = head.run
        self._sections = tuple(sections)
        self._current = current
        self._runtime = runtime
        self._readers = readers

    def run(
        self,
        queue: Any,
        keys: Bytes,
        values: Bytes,
        timestamps_ms: Sequence[int],
        offsets: Sequence[int],
        start: int,
        stop: int,
    ) -> None:
        """As `FusedLoop.run`. After an error that is not about a record, `at` is the first one that was not dropped."""
        before_ms = self._runtime.stream_time_ms
        failed: Exception | None = None
        try:
            times_ms = list(timestamps_ms[start:stop])
            columns = self._columns(keys[start:stop], values[start:stop], times_ms)
            if columns is not None:
                stream_times_ms = _highest_so_far(times_ms, before_ms)
                self._runtime.stream_time_ms = stream_times_ms[-1]
                places = range(start, stop)
                self._sections[0].run_batch(
                    SectionBatch(columns, places, stream_times_ms, queue, offsets, timestamps_ms)
                )
                self._runtime.stream_time_ms = stream_times_ms[-1]
                return
            try:
                self._over_records(queue, keys, values, timestamps_ms, offsets, start, stop)
            except Exception as error:
                failed, node = error, self._current.failed_at
            stream_time_ms = self._runtime.stream_time_ms
            for section in self._sections:
                section.run(queue, offsets, timestamps_ms)
            self._runtime.stream_time_ms = stream_time_ms
        except BaseException:
            first = next((at for at in range(start, stop) if timestamps_ms[at] >= 0), start)
            self._begin_again(first, first - start, max(before_ms, timestamps_ms[first]))
            raise
        if failed is not None:
            self._current.name = node
            self._current.failed(failed, None)
            raise failed

    def _columns(self, keys: Bytes, values: Bytes, times_ms: list[int]) -> RecordColumns[Any, Any] | None:
        """None: the loop has to look at each record."""
        if self._readers is None or min(times_ms) < 0:
            return None
        read_keys, read_values = self._readers
        try:
            return RecordColumns.trusted(list(read_keys(keys)), list(read_values(values)), times_ms)
        except Exception:  # the loop reads them again, and finds out which record it is
            return None

    def _begin_again(self, at: int, left_out: int, stream_time_ms: int) -> None:
        for section in self._sections:
            section.clear()
        self._head.at = at
        self._head.left_out = left_out
        self._head.was_reading = False
        self._runtime.stream_time_ms = stream_time_ms


def _highest_so_far(times_ms: list[int], before_ms: int) -> list[int]:
    """For each record the stream time once it has come."""
    if times_ms[0] >= before_ms and times_ms == sorted(times_ms):  # they mostly are
        return times_ms
    return list(accumulate(times_ms, max, initial=before_ms))[1:]
