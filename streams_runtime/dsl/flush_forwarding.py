"""How the node of a table forwards when its store has a record cache: not for each change, but when that is flushed.

Source: `TimestampedTupleForwarder`, `TimestampedCacheFlushListener`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

from assignor.types import JAVA_LONG_MAX
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.fused_table_store import AnyTimestampedStore, write_reading
from streams_runtime.processors.api import ProcessorContext
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.records import Record, RecordContext
from streams_runtime.serdes import BytesSerde
from streams_runtime.state_stores.base import ValueAndTimestamp, Windowed
from streams_runtime.state_stores.named_cache import context_of
from streams_runtime.state_stores.timestamped import SerdesTimestampedKeyValueStore, SerdesTimestampedWindowStore
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES, suffix_of


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
    if not sends_old_values:
        if isinstance(store, SerdesTimestampedKeyValueStore):
            cast("NodeContext", context).flush = FusableTableFlush(store)
        elif isinstance(store, SerdesTimestampedWindowStore):
            cast("NodeContext", context).flush = FusableWindowFlush(store)
    return True


class _FusableStoreFlush(ABC):
    """Implements `FusableFlush` for a store that nobody asks for old values.

    A deletion, and a change made by a record with headers, take the way of a store without a loop.
    """

    def __init__(self, store: AnyTimestampedStore) -> None:
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
        self._write_key(loop)
        with loop.block("try:"):
            loop.forward(Given("key", "value", "timestamp_ms", old="None", change=loop.bind("change", Change)))
        with loop.block("except Exception as error:"):
            loop.line(f"state.flush_failed(error, {loop.bind('context_of', context_of)}(entry))")
        self._write_put(loop)
        if parts.is_logged:
            loop.line("value_bytes = stored[8:]")
            loop.outputs.write_change(loop, self._store.name, "key_bytes", "value_bytes", "timestamp_ms")
        with loop.block("if entries.get(key_bytes) is entry:"):
            loop.line("dirty.pop(key_bytes, None)")
        return True

    @abstractmethod
    def _write_key(self, loop: LoopWriter) -> None:
        """Write how `key` is made of `key_bytes`, the key in the cache."""

    @abstractmethod
    def _write_put(self, loop: LoopWriter) -> None:
        """Write how `stored` gets into the store."""


class FusableTableFlush(_FusableStoreFlush):
    def __init__(self, store: SerdesTimestampedKeyValueStore[Any, Any]) -> None:
        super().__init__(store)
        self._put = store.parts().store.put

    def _write_key(self, loop: LoopWriter) -> None:
        if isinstance(self._store.key_serde, BytesSerde):
            loop.line("key = key_bytes")
        else:
            loop.line(f"key = {loop.bind('deserialize_key', self._store.key_serde.deserialize)}(key_bytes)")

    def _write_put(self, loop: LoopWriter) -> None:
        loop.line(f"{loop.bind('put', self._put)}(key_bytes, stored)")


class FusableWindowFlush(_FusableStoreFlush):
    def __init__(self, store: SerdesTimestampedWindowStore[Any, Any]) -> None:
        super().__init__(store)
        self._window_size_ms = store.window_size_ms
        self._put = store.parts().store.put

    def _write_key(self, loop: LoopWriter) -> None:
        loop.line(f"key = key_bytes[:-{SUFFIX_BYTES}]")
        if not isinstance(self._store.key_serde, BytesSerde):
            loop.line(f"key = {loop.bind('deserialize_key', self._store.key_serde.deserialize)}(key)")
        loop.line(f"start_ms = {loop.bind('suffix_of', suffix_of)}(key_bytes)[0]")
        end_ms = f"min(start_ms + {self._window_size_ms}, {JAVA_LONG_MAX})"
        loop.line(f"key = new_record({loop.bind('Windowed', Windowed)}, (key, start_ms, {end_ms}))")

    def _write_put(self, loop: LoopWriter) -> None:
        loop.line(f"{loop.bind('put', self._put)}(key_bytes[:-{SUFFIX_BYTES}], stored, start_ms)")
