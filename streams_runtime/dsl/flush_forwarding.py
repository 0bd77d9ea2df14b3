"""How the node of a table forwards when its store has a record cache: not for each change, but when that is flushed.

Source: `TimestampedTupleForwarder`, `TimestampedCacheFlushListener`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from streams_runtime.dsl.change import Change
from streams_runtime.dsl.fused_table_store import write_reading
from streams_runtime.processors.api import ProcessorContext
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.records import Record, RecordContext
from streams_runtime.serdes import BytesSerde
from streams_runtime.state_stores.base import ValueAndTimestamp
from streams_runtime.state_stores.named_cache import as_context
from streams_runtime.state_stores.timestamped import SerdesTimestampedKeyValueStore


def forwards_when_flushed(context: ProcessorContext, store: Any, *, sends_old_values: bool) -> bool:
    """Whether the store forwards its changes as this node from now on; then the node itself must not.

    A store without a cache does not, and neither does one of somebody's own kind.
    """
    set_flush_listener = getattr(store, "set_flush_listener", None)
    if set_flush_listener is None:
        return False
    forward = cast("NodeContext", context).forward_flushed

    def flushed(
        key: Any, new: ValueAndTimestamp[Any] | None, old: ValueAndTimestamp[Any] | None, made_by: RecordContext
    ) -> None:
        timestamp_ms, headers, _ = made_by
        value = None
        if new is not None:
            value, timestamp_ms = new
        forward(Record(key, Change(value, None if old is None else old.value), timestamp_ms, headers))

    if not set_flush_listener(flushed, sends_old_values=sends_old_values):
        return False
    if isinstance(store, SerdesTimestampedKeyValueStore) and not sends_old_values:
        cast("NodeContext", context).flush = FusableTableFlush(store)
    return True


class FusableTableFlush:
    """Implements `FusableFlush` for the store of a table that nobody asks for old values.

    A deletion, and a change made by a record with headers, take the way of a store without a loop.
    """

    def __init__(self, store: SerdesTimestampedKeyValueStore[Any, Any]) -> None:
        self._store = store

    def use(self, run: Callable[[list[bytes]], None]) -> None:
        cache = self._store.parts().cache
        if cache is not None:
            cache.held.flush_keys = run

    def fuse(self, loop: LoopWriter) -> bool:
        parts = self._store.parts()
        if parts.cache is None:
            return False
        held = parts.cache.held
        loop.names.update(dirty=held.dirty, entries=held.entries, write=held.write_one)
        write_reading(loop, self._store, "stored", "value", "timestamp_ms")
        if isinstance(self._store.key_serde, BytesSerde):
            loop.line("key = key_bytes")
        else:
            loop.line(f"key = {loop.bind('deserialize_key', self._store.key_serde.deserialize)}(key_bytes)")
        with loop.block("try:"):
            loop.forward(Given("key", "value", "timestamp_ms", old="None", change=loop.bind("change", Change)))
        with loop.block("except Exception as error:"):
            loop.line(f"state.flush_failed(error, {loop.bind('as_context', as_context)}(context))")
        loop.line(f"{loop.bind('put', parts.store.put)}(key_bytes, stored)")
        if parts.is_logged:
            loop.line("value_bytes = stored[8:]")
            loop.outputs.write_change(loop, self._store.name, "key_bytes", "value_bytes", "timestamp_ms")
        with loop.block("if entries.get(key_bytes) is entry:"):
            loop.line("dirty.pop(key_bytes, None)")
        return True
