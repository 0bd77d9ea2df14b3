"""The input record that a task processes, and its context. `ProcessorRuntime` is based on the class `CurrentRecord`.

The processors and stores of a task use this class for each record and for each cached change, so the file is compiled.
Source: `AbstractProcessorContext`, `ProcessorRecordContext`.
"""

from __future__ import annotations

from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.processors.context import CurrentNode
from streams_runtime.state_stores.thread_cache import ContextTuple, extra_bytes
from streams_runtime.tasks.record_queue import UNKNOWN_TIME, RecordQueue

_SavedContext = tuple[ContextTuple | None, str | None, int, Headers]


class CurrentRecord:
    """Implements the interfaces `RecordContexts` and `RecordClock`.

    `queue`: the queue of the current input record; None between runs. `flush_context`: the context of the change that a
    flush is writing, or of the record that leaves a buffer; otherwise None. `init_time_ms`: the wall-clock time while
    processors are initialised; otherwise -1. `keeps_raw`: True if an error handler may need the bytes of the input
    record. If `keeps_raw` is True, record contexts include the bytes of the input record.
    """

    def __init__(self, current: CurrentNode, *, keeps_raw: bool) -> None:
        self.queue: RecordQueue | None = None
        self.flush_context: ContextTuple | None = None
        self.init_time_ms = UNKNOWN_TIME
        self.keeps_raw = keeps_raw
        self._current = current

    @property
    def record_metadata(self) -> RecordMetadata | None:
        if self.flush_context is not None:
            _, _, partition, offset, _, _ = self.flush_context
            return None if partition is None else RecordMetadata(*partition, offset)
        return None if self.queue is None else self.queue.polled_metadata()

    @property
    def headers(self) -> Headers:
        if self.flush_context is not None:
            return self.flush_context[1]
        return () if self.queue is None else self.queue.polled_headers()

    def record_context(self) -> ContextTuple:
        current, queue = self._current, self.queue
        timestamp_ms, headers, raw = current.timestamp_ms, current.headers, None
        if timestamp_ms < 0:
            timestamp_ms = self.init_time_ms
        if self.flush_context is not None:
            _, _, partition, offset, raw, _ = self.flush_context
            size = 0 if partition is None else len(partition[0])
        elif queue is None:
            partition, offset, size = None, -1, 0
        else:
            offsets = queue.offsets
            # Nearly every cached change needs an offset, and a list returns its items faster than a range.
            if type(offsets) is range:
                offsets = queue.list_offsets()
            partition, offset, size = queue.partition, offsets[queue.place - 1], queue.topic_bytes
            if self.keeps_raw:
                raw = queue.polled_raw()
        if headers or raw is not None:
            size += extra_bytes(headers, raw)
        return timestamp_ms, headers, partition, offset, raw, size

    def begin_flush(self) -> _SavedContext:
        current = self._current
        return self.flush_context, current.name, current.timestamp_ms, current.headers

    def set_context(self, made_by: ContextTuple) -> None:
        self.flush_context = made_by
        self._current.timestamp_ms, self._current.headers, _, _, _, _ = made_by

    def end_flush(self, before: _SavedContext) -> None:
        current = self._current
        self.flush_context, current.name, current.timestamp_ms, current.headers = before

    @property
    def record_timestamp_ms(self) -> int:
        """The timestamp of the current processor's record. While `init` of a processor runs, the value is the
        wall-clock time, as in Kafka.
        """
        timestamp_ms = self._current.timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self.init_time_ms
