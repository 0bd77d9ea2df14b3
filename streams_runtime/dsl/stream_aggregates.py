"""Aggregates a stream into a table, by key, or by key and window.

The table contains the newest aggregate of each key. The timestamp of an aggregate is the highest timestamp of its
records. Records without key are left out. As in Kafka, an aggregation by key also leaves out records without value. An
aggregation by key and window includes records without value.
A window accepts records until stream time reaches the window's end plus the grace period. Stream time is the highest
timestamp that this processor has seen.
If the store has a record cache, changes are forwarded when the cache is flushed. With a record cache, the old value of
a change is the value that the previous flush forwarded for the key.
Source: `KStreamAggregate`, `KStreamReduce`, and `KStreamWindowAggregate` with `EmitStrategy.onWindowUpdate`.
Differs from Kafka: the old value of a new key or window is always None. In Kafka without a record cache, the old value
of a new key or window is the initializer's value. If the table is grouped and aggregated again, Kafka subtracts the
initializer's value, which was never added. So counts and sums of a table of aggregates are wrong in Kafka. In Kafka
without a record cache, a filter of the table can also forward the removal of a key that the filter never forwarded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from streams_runtime.common.clock import duration_text
from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.materialized import StoreFactory, WindowStoreFactory
from streams_runtime.dsl.table_operators import Getter, StoredTableOperator
from streams_runtime.processors.context import NodeContext, Receiver
from streams_runtime.serdes import LONG, Serde
from streams_runtime.state_stores.state_store import Windowed
from streams_runtime.state_stores.value_and_timestamp import EntryAccess
from streams_runtime.state_stores.window import SerdesTimestampedWindowStore
from streams_runtime.state_stores.window_keys import window_end_ms

_new_tuple = tuple.__new__
"""Makes a `Windowed` in half the time of the call `Windowed(...)`."""

A = TypeVar("A")

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""The type of a function (key, value, old aggregate) that returns the new aggregate."""
Reducer = Callable[[Any, Any], Any]
"""The type of a function (old result, next value) that returns the new result."""


def zero() -> int:
    return 0


def one_more(key: Any, value: Any, aggregate: int) -> int:
    return aggregate + 1


def nothing() -> None:
    return None


def added_by(reducer: Reducer, key: Any, value: Any, aggregate: Any) -> Any:
    """Returns the new aggregate of a reduce. The first aggregate of a key is its first value."""
    return value if aggregate is None else reducer(aggregate, value)


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class StreamAggregation(Generic[A]):
    """The functions and the serde of an aggregation. `prefix`: the beginning of generated names for the aggregation's
    node and store.
    """

    prefix: str
    initializer: Initializer
    aggregator: Aggregator
    value_serde: Serde[A] | None

    @classmethod
    def by(cls, initializer: Initializer, aggregator: Aggregator, value_serde: Serde[A]) -> StreamAggregation[A]:
        return cls("KSTREAM-AGGREGATE-", initializer, aggregator, value_serde)

    @classmethod
    def by_reducer(cls, reducer: Reducer, value_serde: Serde[A] | None) -> StreamAggregation[A]:
        return cls("KSTREAM-REDUCE-", nothing, partial(added_by, reducer), value_serde)


COUNT = StreamAggregation.by(zero, one_more, LONG)


class KStreamAggregate(StoredTableOperator):
    """The operator for `count`, `aggregate` and `reduce` of a stream."""

    def __init__(self, store: StoreFactory, aggregation: StreamAggregation[Any]) -> None:
        super().__init__(store)
        self.aggregation = aggregation

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        entries, forwards_on_flush = self.opened(child, context)
        return self._aggregate(entries, None if forwards_on_flush else self.after_put(child, context), context)

    def _aggregate(self, entries: EntryAccess, child: Receiver | None, context: NodeContext) -> Callable[..., None]:
        """Returns a function that updates the aggregate of a record's key. In an aggregation by window, the caller of
        the function passes the windowed key in two forms. The argument `stored_key` is the result of
        `EntryAccess.stored_key_of`, and the argument `table_key` is the key for `child`.

        `child`: the receiver that gets each change at once; None if changes are forwarded when the store's record cache
        is flushed.
        """
        stored_key_of, get, put, read, write = (
            entries.stored_key_of,
            entries.get,
            entries.put,
            entries.read,
            entries.write,
        )
        initializer, aggregator = self.aggregation.initializer, self.aggregation.aggregator
        reads_old = self.sends_old_values and child is not None
        current = context.current

        def aggregate(
            key: Any, value: Any, timestamp_ms: int, headers: Headers, stored_key: Any = None, table_key: Any = None
        ) -> None:
            if stored_key is None:
                if key is None or value is None:
                    context.drop(DropReason.NULL_KEY_OR_VALUE, "null key or value")
                    return
                stored_key, table_key = stored_key_of(key), key
            current.timestamp_ms, current.headers = timestamp_ms, headers
            stored, old = get(stored_key), None
            if stored is None:
                new = aggregator(key, value, initializer())
            else:
                so_far_ms, so_far = read(stored)
                if so_far_ms > timestamp_ms:
                    timestamp_ms = so_far_ms
                if reads_old:
                    # decode the stored value a second time, because the user's aggregator may change the object
                    # `so_far` in place
                    old = read(stored)[1]
                new = aggregator(key, value, so_far)
            put(stored_key, None if new is None else write(timestamp_ms, new), timestamp_ms)
            if child is not None:
                child(table_key, (new, old), timestamp_ms, headers)

        return aggregate


class KStreamWindowAggregate(KStreamAggregate):
    def __init__(self, store: WindowStoreFactory, aggregation: StreamAggregation[Any]) -> None:
        super().__init__(store, aggregation)
        self.windows = store.windows
        self.window_grace_ms = store.windows.grace_ms

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        store: SerdesTimestampedWindowStore[Any, Any] = context.state_store(self.store.name)
        entries = store.entry_access()
        stored_key_of, fetch, read = entries.stored_key_of, entries.get, entries.read

        def get(key: Windowed[Any]) -> tuple[int, Any] | None:
            stored = fetch(stored_key_of(key.key, key.start_ms))
            return None if stored is None else read(stored)

        return get

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        entries, forwards_on_flush = self.opened(child, context)
        # If a node below fails for one window, the guard of `child` catches the error, so that the record's other
        # windows are updated.
        aggregate = self._aggregate(entries, None if forwards_on_flush else context.guarded(child), context)
        stored_key_of = entries.stored_key_of
        drop_late = self._late_record_dropper(context)
        windows, size_ms, grace_ms = self.windows, self.windows.size_ms, self.windows.grace_ms
        starts = range(0)
        # Records with timestamps from `from_ms` to `to_ms - 1` belong to the windows with these starts. Records with
        # other timestamps belong to other windows.
        from_ms = to_ms = 0

        def window_aggregate(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            nonlocal starts, from_ms, to_ms
            if key is None:
                context.drop(DropReason.NULL_KEY, "null key")
                return
            if timestamp_ms > context.stream_time_ms:
                context.stream_time_ms = timestamp_ms
            close_ms = context.stream_time_ms - grace_ms
            # fast path: a record is usually in the same windows as the previous record
            if not from_ms <= timestamp_ms < to_ms:
                starts = windows.starts_for(timestamp_ms)
                from_ms, to_ms = windows.timestamp_range_of(starts)
            for start_ms in starts:
                if start_ms + size_ms <= close_ms:
                    drop_late(start_ms, timestamp_ms, close_ms)
                    continue
                windowed = None
                if not forwards_on_flush:
                    windowed = _new_tuple(Windowed, (key, start_ms, window_end_ms(start_ms, size_ms)))
                aggregate(key, value, timestamp_ms, headers, stored_key_of(key, start_ms), windowed)

        return window_aggregate

    def _late_record_dropper(self, context: NodeContext) -> Callable[[int, int, int], None]:
        """Returns a function that drops a record for a closed window. As in Kafka, a record that is late for several
        windows is counted several times.
        """
        size_ms, grace = self.windows.size_ms, duration_text(self.windows.grace_ms)
        longest_lateness_ms = -1

        def drop(start_ms: int, timestamp_ms: int, close_ms: int) -> None:
            nonlocal longest_lateness_ms
            end_ms, detail = start_ms + size_ms, ""
            if close_ms - end_ms > longest_lateness_ms:
                longest_lateness_ms = close_ms - end_ms
                late = duration_text(longest_lateness_ms // 1_000 * 1_000)
                detail = f"(up to {late} after the window and its grace of {grace})"
            context.drop(
                DropReason.LATE,
                "expired window [%d,%d): its timestamp is %d and windows that end by %d are closed",
                start_ms,
                end_ms,
                timestamp_ms,
                close_ms,
                detail=detail,
            )

        return drop
