"""Aggregates a stream into a table, by key and session.

A record extends or merges the sessions of its key that are within the gap. The table removes the old sessions and adds
the new session, whose timestamp is its end. Records without key are left out. A session accepts records until stream
time exceeds its end by the gap and the grace period. If the store has a record cache, changes are forwarded when the
cache is flushed.
Source: `KStreamSessionWindowAggregate`, `SessionCacheFlushListener`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.emit_on_window_close import WindowedTableOperator
from streams_runtime.dsl.materialized import SessionStoreFactory
from streams_runtime.dsl.stream_aggregates import StreamAggregation, late_record_dropper
from streams_runtime.dsl.table_operators import Getter
from streams_runtime.dsl.windows import EmitStrategy
from streams_runtime.processors.context import NodeContext, Receiver
from streams_runtime.state_stores.session import SessionAccess, SessionStore
from streams_runtime.state_stores.session_keys import SessionRange, session_bounds
from streams_runtime.state_stores.state_store import Windowed


class KStreamSessionWindowAggregate(WindowedTableOperator):
    store: SessionStoreFactory

    def __init__(self, store: SessionStoreFactory, aggregation: StreamAggregation[Any], emit: EmitStrategy) -> None:
        super().__init__(store)
        self.aggregation = aggregation
        self.emit = emit
        self.window_grace_ms = store.windows.open_ms

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        store: SessionStore[Any, Any] = context.state_store(self.store.name)

        def get(session: Windowed[Any]) -> tuple[int, Any] | None:
            value = store.fetch_session(*session)
            return None if value is None else (session.end_ms, value)

        return get

    def range_to_emit(self, last_ms: int, close_ms: int) -> tuple[int, int] | None:
        """The bounds are ends of sessions."""
        lower_ms, upper_ms = max(0, last_ms), close_ms - 1
        return (lower_ms, upper_ms) if lower_ms <= upper_ms else None

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        store: SessionStore[Any, Any] = context.state_store(self.store.name)
        access = store.session_access()
        if self.emit is EmitStrategy.ON_WINDOW_CLOSE:

            def read(from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[Any], int, Any]]:
                found = store.find_sessions_by_end(from_ms, to_ms)
                return ((session, session.end_ms, value) for session, value in found)

            return self.emitting_on_close(self._aggregate_sessions(access, None, context), read, child, context)

        def with_end(session: Windowed[Any], change: Any, _timestamp_ms: int, headers: Headers) -> None:
            child(session, change, session.end_ms, headers)

        forwards_on_flush = context.forwards_when_flushed(
            access.entries, with_end, sends_old_values=self.sends_old_values
        )
        updates = None if forwards_on_flush else context.guarded(child)
        return self._aggregate_sessions(access, updates, context)  # type: ignore[return-value]  # the caller ignores the result

    def _aggregate_sessions(
        self, access: SessionAccess, child: Receiver | None, context: NodeContext
    ) -> Callable[[Any, Any, int, Headers], bool]:
        """Returns a receiver that returns False if it has dropped the record because of its key. `child`: the receiver
        that gets each change at once; None if the changes are forwarded later.
        """
        entries, serialize_key, find, remove = access
        session_key, put, read, write = entries.stored_key_of, entries.put, entries.read, entries.write
        aggregation = self.aggregation
        initializer, aggregator, merger = aggregation.initializer, aggregation.aggregator, aggregation.merger
        assert merger is not None
        gap_ms, open_ms = self.store.windows.gap_ms, self.store.windows.open_ms
        drop_late = late_record_dropper(context, self.store.windows.grace_ms, "[%d,%d]")
        sends_old_values, current = self.sends_old_values, context.current

        def session_aggregate(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> bool:
            if key is None:
                context.drop(DropReason.NULL_KEY, "null key")
                return False
            context.stream_time_ms = max(context.stream_time_ms, timestamp_ms)
            close_ms = context.stream_time_ms - open_ms
            stored_key, so_far = serialize_key(key), initializer()
            start_ms = end_ms = timestamp_ms
            merged = []
            wanted = SessionRange(stored_key, stored_key, timestamp_ms - gap_ms, timestamp_ms + gap_ms)
            for old_key, stored in list(find(wanted)):
                _, old_start_ms, old_end_ms = session_bounds(old_key)
                so_far = merger(key, so_far, read(stored)[1])
                start_ms, end_ms = min(start_ms, old_start_ms), max(end_ms, old_end_ms)
                merged.append((old_key, old_start_ms, old_end_ms, stored))
            if end_ms < close_ms:
                drop_late(start_ms, end_ms, timestamp_ms, close_ms)
                return True
            if start_ms != end_ms:
                for old_key, old_start_ms, old_end_ms, stored in merged:
                    current.timestamp_ms, current.headers = timestamp_ms, headers
                    remove(old_key)
                    if child is not None:
                        old = read(stored)[1] if sends_old_values else None
                        child(Windowed(key, old_start_ms, old_end_ms), (None, old), old_end_ms, ())
            new = aggregator(key, value, so_far)
            current.timestamp_ms, current.headers = timestamp_ms, headers
            stored_new = None if new is None else write(timestamp_ms, new)
            put(session_key(stored_key, start_ms, end_ms), stored_new, timestamp_ms)
            if child is not None:
                child(Windowed(key, start_ms, end_ms), (new, None), end_ms, ())
            return True

        return session_aggregate
