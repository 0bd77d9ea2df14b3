"""A stream aggregated by key and window. A window takes records until stream time has passed its end by the grace
period.

Stream time is what this processor has seen. A record without key is left out; a value of None is not, as in Kafka.
Source: `KStreamWindowAggregate` with `EmitStrategy.onWindowUpdate`. Differs from Kafka: the old value of a new window
is None, as in `stream_aggregates`. In Kafka it may be the initializer's value.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from streams_runtime.dsl.change import Change
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.materialized import WindowStoreMaker
from streams_runtime.dsl.stream_aggregates import Aggregator, Initializer
from streams_runtime.dsl.table_supplier import Getter, StoredTableSupplier
from streams_runtime.dsl.time_windows import TimeWindows
from streams_runtime.losses import DropReason
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.records import Record
from streams_runtime.state_stores.base import ValueAndTimestamp, Windowed


class KStreamWindowAggregate(StoredTableSupplier):
    def __init__(self, store: WindowStoreMaker, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store)
        self.windows = store.windows
        self.initializer = initializer
        self.aggregator = aggregator

    def __call__(self) -> Processor[Any, Any]:
        return WindowAggregateProcessor(
            self.store.name, self.windows, self.initializer, self.aggregator, self.sends_old_values
        )

    def getter(self, context: ProcessorContext) -> Getter:
        fetch = context.state_store(self.store.name).fetch

        def get(key: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
            found: ValueAndTimestamp[Any] | None = fetch(key.key, key.start_ms)
            return found

        return get


class WindowAggregateProcessor(ForwardingProcessor[Any, Any]):
    def __init__(
        self,
        store: str,
        windows: TimeWindows,
        initializer: Initializer,
        aggregator: Aggregator,
        sends_old_values: bool,
    ) -> None:
        super().__init__()
        self._store_name = store
        self._windows = windows
        self._initializer = initializer
        self._aggregator = aggregator
        self._sends_old_values = sends_old_values
        self._stream_time_ms = -1
        self._latest_ms = -1

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        store = context.state_store(self._store_name)
        self._fetch, self._put = store.fetch, store.put

    def process(self, record: Record[Any, Any]) -> None:
        if record[0] is None:
            self.drop(DropReason.NULL_KEY, "null key")
            return
        timestamp_ms = record[2]
        if timestamp_ms > self._stream_time_ms:
            self._stream_time_ms = timestamp_ms
        close_ms = self._stream_time_ms - self._windows.grace_ms
        size_ms = self._windows.size_ms
        for start_ms in self._windows.starts_for(timestamp_ms):
            if start_ms + size_ms > close_ms:
                self._update(record, start_ms)
            else:
                self._drop_late(start_ms, start_ms + size_ms, timestamp_ms, close_ms)

    def _drop_late(self, start_ms: int, end_ms: int, timestamp_ms: int, close_ms: int) -> None:
        """Counted once for each closed window, as in Kafka."""
        detail = ""
        if close_ms - end_ms > self._latest_ms:
            self._latest_ms = close_ms - end_ms
            late, grace = timedelta(seconds=self._latest_ms // 1000), timedelta(milliseconds=self._windows.grace_ms)
            detail = f"(up to {late} after the window and its grace of {grace})"
        self.drop(
            DropReason.LATE,
            "expired window [%d,%d): its timestamp is %d and windows that end by %d are closed",
            start_ms,
            end_ms,
            timestamp_ms,
            close_ms,
            detail=detail,
        )

    def _update(self, record: Record[Any, Any], start_ms: int) -> None:
        key, value, timestamp_ms, headers = record
        before = self._fetch(key, start_ms)
        old = None
        if before is None:
            new = self._aggregator(key, value, self._initializer())
        else:
            so_far, old_ms = before
            if old_ms > timestamp_ms:
                timestamp_ms = old_ms
            new = self._aggregator(key, value, so_far)
            if self._sends_old_values:
                old = self._fetch(key, start_ms).value if new is so_far else so_far
        self._put(key, None if new is None else ValueAndTimestamp(new, timestamp_ms), start_ms)
        windowed = Windowed(key, start_ms, start_ms + self._windows.size_ms)
        self.forward(Record(windowed, Change(new, old), timestamp_ms, headers))
