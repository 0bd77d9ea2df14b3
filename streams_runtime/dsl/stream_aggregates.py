"""Aggregates a stream into a table, by key, or by key and window.

The table contains the newest aggregate of each key. The timestamp of an aggregate is the highest timestamp of its
records. Records without key are left out. As in Kafka, an aggregation by key also leaves out records without value. An
aggregation by key and window includes records without value.
A window accepts records until stream time reaches the window's end plus the grace period. Stream time is the highest
timestamp that this processor has seen.
If the store has a record cache, changes are forwarded when the cache is flushed. With a record cache, the old value of
a change is the value that the previous flush forwarded for the key.
With `EmitStrategy.ON_WINDOW_CLOSE`, no update is forwarded; `emit_on_window_close` forwards the closed windows.
Source: `KStreamAggregate`, `KStreamReduce`, `KStreamWindowAggregate`.
Differs from Kafka: the old value of a new key or window is always None. In Kafka without a record cache, the old value
of a new key or window is the initializer's value. If the table is grouped and aggregated again, Kafka subtracts the
initializer's value, which was never added. So counts and sums of a table of aggregates are wrong in Kafka. In Kafka
without a record cache, a filter of the table can also forward the removal of a key that the filter never forwarded.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from streams_runtime.common.clock import duration_text
from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.emit_on_window_close import NO_CLOSE_TIME, WindowedTableOperator
from streams_runtime.dsl.materialized import StoreFactory, WindowStoreFactory
from streams_runtime.dsl.table_operators import Getter, StoredTableOperator
from streams_runtime.dsl.windows import EmitStrategy, SteppingWindows
from streams_runtime.processors.context import NodeContext, Receiver
from streams_runtime.serdes import LONG, Serde
from streams_runtime.state_stores.state_store import Windowed
from streams_runtime.state_stores.value_and_timestamp import EntryAccess
from streams_runtime.state_stores.window import TimestampedWindowStore
from streams_runtime.state_stores.window_keys import window_end_ms

_new_tuple = tuple.__new__
"""Makes a `Windowed` in half the time of the call `Windowed(...)`."""

A = TypeVar("A")

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""The type of a function (key, value, old aggregate) that returns the new aggregate."""
Reducer = Callable[[Any, Any], Any]
"""The type of a function (old result, next value) that returns the new result."""
Merger = Callable[[Any, Any, Any], Any]
"""The type of a function (key, aggregate, aggregate) that returns the aggregate of two merged sessions."""


def zero() -> int:
    return 0


def one_more(key: Any, value: Any, aggregate: int) -> int:
    return aggregate + 1


def nothing() -> None:
    return None


def added_by(reducer: Reducer, key: Any, value: Any, aggregate: Any) -> Any:
    """Returns the new aggregate of a reduce. The first aggregate of a key is its first value."""
    return value if aggregate is None else reducer(aggregate, value)


def total(key: Any, one: int, other: int) -> int:
    return one + other


def merged_by(reducer: Reducer, key: Any, one: Any, other: Any) -> Any:
    """Returns the result of a reduce for two merged sessions."""
    return other if one is None else reducer(one, other)


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class StreamAggregation(Generic[A]):
    """The functions and the serde of an aggregation. `prefix`: the beginning of generated names for the aggregation's
    node and store. `merger`: only needed for sessions.
    """

    prefix: str
    initializer: Initializer
    aggregator: Aggregator
    value_serde: Serde[A] | None
    merger: Merger | None = None

    @classmethod
    def by(
        cls, initializer: Initializer, aggregator: Aggregator, value_serde: Serde[A], merger: Merger | None = None
    ) -> StreamAggregation[A]:
        return cls("KSTREAM-AGGREGATE-", initializer, aggregator, value_serde, merger)

    @classmethod
    def by_reducer(cls, reducer: Reducer, value_serde: Serde[A] | None) -> StreamAggregation[A]:
        merger = partial(merged_by, reducer)
        return cls("KSTREAM-REDUCE-", nothing, partial(added_by, reducer), value_serde, merger)


COUNT = StreamAggregation.by(zero, one_more, LONG, total)


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
        stored_key_of, get, put, read, write, _, _ = entries
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


class StoredWindowsOperator(WindowedTableOperator, KStreamAggregate):
    """The base of the operators whose windows are stored under their key and their start."""

    store: WindowStoreFactory

    def __init__(self, store: WindowStoreFactory, aggregation: StreamAggregation[Any], emit: EmitStrategy) -> None:
        super().__init__(store, aggregation)
        self.emit = emit
        self.window_grace_ms = store.windows.grace_ms

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        store: TimestampedWindowStore[Any, Any] = context.state_store(self.store.name)
        entries = store.entry_access()
        stored_key_of, fetch, read = entries.stored_key_of, entries.get, entries.read

        def get(key: Windowed[Any]) -> tuple[int, Any] | None:
            stored = fetch(stored_key_of(key.key, key.start_ms))
            return None if stored is None else read(stored)

        return get

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        store: TimestampedWindowStore[Any, Any] = context.state_store(self.store.name)
        if self.emit is EmitStrategy.ON_WINDOW_UPDATE:
            entries, forwards_on_flush = self.opened(child, context)
            # If a node below fails for one window, the guard of `child` catches the error, so that the record's other
            # windows are updated.
            updates = None if forwards_on_flush else context.guarded(child)
            return self.aggregate_windows(entries, updates, context)  # type: ignore[return-value]  # the caller ignores the result

        def read(from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[Any], int, Any]]:
            return ((key, newest_ms, value) for key, (value, newest_ms) in store.fetch_all(from_ms, to_ms))

        update = self.aggregate_windows(store.entry_access(), None, context)
        return self.emitting_on_close(update, read, child, context)

    @abstractmethod
    def aggregate_windows(
        self, entries: EntryAccess, child: Receiver | None, context: NodeContext
    ) -> Callable[[Any, Any, int, Headers], bool]:
        """Returns a receiver that updates the windows of a record, and returns True if the record may close windows.
        `child`: the receiver that gets each update at once; None if the updates are forwarded when the record cache is
        flushed, or if only closed windows are forwarded.
        """


class KStreamWindowAggregate(StoredWindowsOperator):
    """The operator for time windows and unlimited windows."""

    def __init__(
        self,
        store: WindowStoreFactory,
        windows: SteppingWindows,
        aggregation: StreamAggregation[Any],
        emit: EmitStrategy,
    ) -> None:
        super().__init__(store, aggregation, emit)
        self.windows = windows

    def range_to_emit(self, last_ms: int, close_ms: int) -> tuple[int, int] | None:
        """The bounds are starts of windows."""
        upper_ms = close_ms - self.windows.size_ms
        if last_ms == NO_CLOSE_TIME:
            return 0, upper_ms
        lower_ms = max(0, last_ms - self.windows.size_ms)
        has_new_windows = self.windows.starts_for(upper_ms) != self.windows.starts_for(lower_ms)
        return (lower_ms + 1, upper_ms) if has_new_windows else None

    def aggregate_windows(
        self, entries: EntryAccess, child: Receiver | None, context: NodeContext
    ) -> Callable[[Any, Any, int, Headers], bool]:
        """The receiver returns False if it has dropped the record because of its key."""
        aggregate = self._aggregate(entries, child, context)
        stored_key_of = entries.stored_key_of
        drop_late = late_record_dropper(context, self.windows.grace_ms, "[%d,%d)")
        windows, size_ms, grace_ms = self.windows, self.windows.size_ms, self.windows.grace_ms
        bounds: list[tuple[int, int]] = []
        # Records with timestamps from `from_ms` to `to_ms - 1` belong to the windows with these starts and ends.
        # Records with other timestamps belong to other windows.
        from_ms = to_ms = 0

        def window_aggregate(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> bool:
            nonlocal bounds, from_ms, to_ms
            if key is None:
                context.drop(DropReason.NULL_KEY, "null key")
                return False
            if timestamp_ms > context.stream_time_ms:
                context.stream_time_ms = timestamp_ms
            close_ms = context.stream_time_ms - grace_ms
            # fast path: a record is usually in the same windows as the previous record
            if not from_ms <= timestamp_ms < to_ms:
                bounds = [(start_ms, window_end_ms(start_ms, size_ms)) for start_ms in windows.starts_for(timestamp_ms)]
                from_ms, to_ms = windows.timestamp_range_of(timestamp_ms)
            for start_ms, end_ms in bounds:
                if start_ms + size_ms <= close_ms:
                    drop_late(start_ms, start_ms + size_ms, timestamp_ms, close_ms)
                    continue
                windowed = None if child is None else _new_tuple(Windowed, (key, start_ms, end_ms))
                aggregate(key, value, timestamp_ms, headers, stored_key_of(key, start_ms), windowed)
            return True

        return window_aggregate


def late_record_dropper(
    context: NodeContext, grace_ms: int, window_format: str
) -> Callable[[int, int, int, int], None]:
    """Returns a function (start of the window, its end, timestamp, close time) that drops a record for a closed window.
    As in Kafka, a record that is late for several windows is counted several times.

    `grace_ms`: the time after which a window closes. `window_format`: shows the start and the end.
    """
    grace = duration_text(grace_ms)
    longest_lateness_ms = -1

    def drop(start_ms: int, end_ms: int, timestamp_ms: int, close_ms: int) -> None:
        nonlocal longest_lateness_ms
        detail = ""
        if close_ms - end_ms > longest_lateness_ms:
            longest_lateness_ms = close_ms - end_ms
            late = duration_text(longest_lateness_ms // 1_000 * 1_000)
            detail = f"(up to {late} after the window and its grace of {grace})"
        context.drop(
            DropReason.LATE,
            f"expired window {window_format}: its timestamp is %d and windows that end by %d are closed",
            start_ms,
            end_ms,
            timestamp_ms,
            close_ms,
            detail=detail,
        )

    return drop
