"""How the node of a table forwards when its store has a record cache: not for each change, but when that is flushed.

Source: `TimestampedTupleForwarder`, `TimestampedCacheFlushListener`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, cast

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.records import Record, RecordContext
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.fused_table_store import AnyTimestampedStore, write_reading, write_reading_time
from streams_runtime.dsl.windowed_serde import TimeWindowedSerde, WindowedStreamPartitioner
from streams_runtime.processors.api import ProcessorContext
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.fused_loop import Given, LoopWriter, WriteChanges
from streams_runtime.serdes import BYTES, INTEGER, LONG, STRING, BytesSerde, Serde
from streams_runtime.state_stores.base import ValueAndTimestamp, Windowed
from streams_runtime.state_stores.named_cache import context_of
from streams_runtime.state_stores.rocksdb_window import RocksDBWindowStore
from streams_runtime.state_stores.timestamped import SerdesTimestampedKeyValueStore, SerdesTimestampedWindowStore
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES
from streams_runtime.state_stores.window_keys import SEQUENCE_BYTES, SUFFIX_BYTES, suffix_of


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
        timestamp_ms, headers = made_by[:2]
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


_KNOWN_BY_BYTES: tuple[Serde[Any], ...] = (BYTES, STRING, INTEGER, LONG)
"""What they have written, they read and write again as the same bytes."""

_value_bytes = itemgetter(slice(TIMESTAMP_BYTES, None))


class _ForwardedChanges:
    """Changes that a loop has forwarded and not written yet: columns of keys in the cache, of entries as bytes and of
    their timestamps. They are written together, before anything else is done with the cache.

    `put`: into the store. `log`: into its changelog; None: it has none.
    """

    __slots__ = ("_dirty", "_log", "_put", "entries", "keys", "timestamps_ms")

    def __init__(
        self, dirty: dict[bytes, None], put: Callable[[list[bytes], list[bytes]], None], log: WriteChanges | None
    ) -> None:
        self._dirty = dirty
        self._put = put
        self._log = log
        self.keys: list[bytes] = []
        self.entries: list[bytes] = []
        self.timestamps_ms: list[int] = []

    def write(self) -> None:
        """What cannot be written stays dirty, and counts as not forwarded."""
        if not self.keys:
            return
        keys, entries, timestamps_ms = self.keys[:], self.entries[:], self.timestamps_ms[:]
        self.keys.clear()
        self.entries.clear()
        self.timestamps_ms.clear()
        self._put(keys, entries)
        if self._log is not None:
            self._log(keys, list(map(_value_bytes, entries)), timestamps_ms)
        deque(map(self._dirty.pop, keys), maxlen=0)


class _FusableStoreFlush(ABC):
    """Implements `FusableFlush` for a store that nobody asks for old values.

    A deletion, and a change made by a record with headers, take the way of a store without a loop. No line of the loop
    changes a store or reads one, so what was forwarded can wait to be written until the loop ends.
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
        log = loop.outputs.changes_writer(self._store.name) if parts.is_logged else None
        forwarded = _ForwardedChanges(held.dirty, self._put_many(), log)
        loop.names.update(
            dirty=held.dirty,
            entries=held.entries,
            write=held.write_one,
            write_forwarded=forwarded.write,
            context_of=context_of,
        )
        write_reading_time(loop, "stored", "timestamp_ms")
        with loop.if_used("value"):
            write_reading(loop, self._store, "stored", "value", "timestamp_ms")
        with loop.if_used("value_bytes"):
            loop.line(f"value_bytes = stored[{TIMESTAMP_BYTES}:]")
        if self._store.value_serde in _KNOWN_BY_BYTES:
            loop.know("value", self._store.value_serde, "value_bytes")
        key = self._write_key(loop)
        with loop.going_on():
            loop.forward(Given(key, "value", "timestamp_ms", old="None", change=loop.bind("change", Change)))
        loop.line(f"{loop.bind('forwarded', forwarded.keys.append)}(key_bytes)")
        loop.line(f"{loop.bind('forwarded', forwarded.entries.append)}(stored)")
        loop.line(f"{loop.bind('forwarded', forwarded.timestamps_ms.append)}(timestamp_ms)")
        return True

    @abstractmethod
    def _put_many(self) -> Callable[[list[bytes], list[bytes]], None]:
        """What puts keys of the cache and entries into the store below."""

    @abstractmethod
    def _write_key(self, loop: LoopWriter) -> str:
        """Write how a variable with the key is made of `key_bytes`, the key in the cache."""


class FusableTableFlush(_FusableStoreFlush):
    def __init__(self, store: SerdesTimestampedKeyValueStore[Any, Any]) -> None:
        super().__init__(store)
        self._below = store.parts().store

    def _put_many(self) -> Callable[[list[bytes], list[bytes]], None]:
        return self._below.put_many

    def _write_key(self, loop: LoopWriter) -> str:
        key_serde = self._store.key_serde
        if isinstance(key_serde, BytesSerde):
            return "key_bytes"
        if key_serde in _KNOWN_BY_BYTES:
            loop.know("key", key_serde, "key_bytes")
        with loop.if_used("key"):
            loop.line(f"key = {loop.bind('deserialize_key', key_serde.deserialize)}(key_bytes)")
        return "key"


class FusableWindowFlush(_FusableStoreFlush):
    def __init__(self, store: SerdesTimestampedWindowStore[Any, Any]) -> None:
        super().__init__(store)
        self._window_size_ms = store.window_size_ms
        self._below = store.parts().store

    def _put_many(self) -> Callable[[list[bytes], list[bytes]], None]:
        below = self._below
        if isinstance(below, RocksDBWindowStore):
            return below.put_many
        return partial(_put_one_by_one, below.put)

    def _write_key(self, loop: LoopWriter) -> str:
        key_serde: Serde[Any] = self._store.key_serde
        if key_serde in _KNOWN_BY_BYTES:
            loop.know("key", TimeWindowedSerde(key_serde, self._window_size_ms), "windowed_bytes")
            with loop.if_used("windowed_bytes"):
                loop.line(f"windowed_bytes = key_bytes[:-{SEQUENCE_BYTES}]")
            loop.know("key", WindowedStreamPartitioner(key_serde), "plain_bytes")
            with loop.if_used("plain_bytes"):
                loop.line(f"plain_bytes = key_bytes[:-{SUFFIX_BYTES}]")
        with loop.if_used("key"):
            loop.line(f"key = key_bytes[:-{SUFFIX_BYTES}]")
            if not isinstance(key_serde, BytesSerde):
                loop.line(f"key = {loop.bind('deserialize_key', key_serde.deserialize)}(key)")
            loop.line(f"start_ms = {loop.bind('suffix_of', suffix_of)}(key_bytes)[0]")
            end_ms = f"min(start_ms + {self._window_size_ms}, {JAVA_LONG_MAX})"
            loop.line(f"key = new_record({loop.bind('Windowed', Windowed)}, (key, start_ms, {end_ms}))")
        return "key"


def _put_one_by_one(
    put: Callable[[bytes, bytes | None, int], int | None], window_keys: list[bytes], values: list[bytes]
) -> None:
    for key, value in zip(window_keys, values, strict=True):
        put(key[:-SUFFIX_BYTES], value, suffix_of(key)[0])
