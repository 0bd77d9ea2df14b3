"""The store of a table in a fused loop: bytes from it and to it, a row for its changelog, and few calls in between.

It does what the store for processors does with the layers below it: the record cache if there is one, else the
changelog and the bytes themselves. Source: `SerdesTimestampedKeyValueStore`, `SerdesTimestampedWindowStore`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import Any

from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.records import RecordContext
from streams_runtime.serdes import LONG, BytesSerde
from streams_runtime.state_stores.named_cache import NamedCache, change_overhead
from streams_runtime.state_stores.timestamped import SerdesTimestampedKeyValueStore, SerdesTimestampedWindowStore
from streams_runtime.state_stores.window_keys import window_key

_LONG_WITH_TIMESTAMP = Struct(">qq")
_TIMESTAMP = Struct(">q")
_NO_CONTEXT = RecordContext(0, (), None)

AnyTimestampedStore = SerdesTimestampedKeyValueStore[Any, Any] | SerdesTimestampedWindowStore[Any, Any]


class FusedTableStore(ABC):
    """For one record. `key`: the variable with the bytes of its key. `stored`: the variable with the bytes of its
    entry, None for no entry, once `look_up` is written.
    """

    def __init__(self, loop: LoopWriter, store: AnyTimestampedStore, given: Given) -> None:
        self._loop = loop
        self._store = store
        self._given = given
        self.stored = loop.new("stored")
        self._entry = loop.new("entry")
        self.key = given.key
        if not isinstance(store.key_serde, BytesSerde):
            self.key = loop.new("key_bytes")
            loop.line(f"{self.key} = {loop.bind('serialize_key', store.key_serde.serialize)}({given.key})")

    def read(self, value: str, timestamp_ms: str) -> None:
        """Into these variables; there is an entry."""
        write_reading(self._loop, self._store, self.stored, value, timestamp_ms)

    def value_of_stored(self) -> str:
        """An expression for the value alone; there is an entry."""
        if isinstance(self._store.value_serde, BytesSerde):
            return f"{self.stored}[8:]"
        return f"{self._loop.bind('deserialize', self._store.value_serde.deserialize)}({self.stored}[8:])"

    def put(self, value: str, timestamp_ms: str) -> None:
        """From these variables. None deletes."""
        loop = self._loop
        serialized, stored = loop.new("value_bytes"), loop.new("stored")
        with loop.block(f"if {value} is None:"):
            loop.line(f"{serialized} = {stored} = None")
        with loop.block("else:"):
            loop.line(f"{serialized} = {loop.bind('serialize', self._store.value_serde.serialize)}({value})")
            loop.line(f"{stored} = {loop.bind('pack', _TIMESTAMP.pack)}({timestamp_ms}) + {serialized}")
        # a deletion has the time of the record that makes it
        changed_ms = loop.new("changed_ms")
        loop.line(f"{changed_ms} = {self._given.timestamp_ms} if {value} is None else {timestamp_ms}")
        self.put_bytes(stored, serialized, changed_ms)

    @abstractmethod
    def look_up(self) -> None: ...

    @abstractmethod
    def put_bytes(self, stored: str, serialized: str, changed_ms: str) -> None: ...

    def _hold_back(self, held: NamedCache, key: str, stored: str) -> None:
        """What `NamedCache.put` does, without its call. After `look_up` the key is the one that was used last."""
        loop, entry = self._loop, self._entry
        size, grown = loop.new("size"), loop.new("grown")
        entries, dirty = loop.bind("entries", held.entries), loop.bind("dirty", held.dirty)
        cache, memory = loop.bind("held", held), loop.bind("memory", held.memory)
        least = loop.bind("least", held.key_overhead + change_overhead(_NO_CONTEXT))
        loop.line(f"{size} = len({key}) + {least} + len(topic) + (0 if {stored} is None else len({stored}))")
        loop.line(f"{grown} = {size} if {entry} is None else {size} - {entry}[2]")
        context = f"({self._given.timestamp_ms}, (), {loop.input_metadata()})"
        loop.line(f"{entries}[{key}] = ({stored}, {context}, {size})")
        with loop.block(f"if {key} in {dirty}:"):
            loop.line(f"del {dirty}[{key}]")
        loop.line(f"{dirty}[{key}] = None")
        with loop.block(f"if {grown}:"):
            loop.line(f"{cache}.size_bytes += {grown}")
            loop.line(f"{memory}.size_bytes += {grown}")
        with loop.block(f"if {memory}.size_bytes > {memory}.max_bytes:"):
            loop.line(f"{loop.bind('make_room', held.make_room)}()")


class FusedKeyValueStore(FusedTableStore):
    def __init__(self, loop: LoopWriter, store: SerdesTimestampedKeyValueStore[Any, Any], given: Given) -> None:
        super().__init__(loop, store, given)
        self._parts = store.parts()

    def look_up(self) -> None:
        loop, cache = self._loop, self._parts.cache
        if cache is None:
            loop.line(f"{self.stored} = {loop.bind('get', self._parts.store.get)}({self.key})")
            return
        loop.line(f"{self._entry} = {loop.bind('cached', cache.held.entries.get)}({self.key})")
        with loop.block(f"if {self._entry} is None:"):
            loop.line(f"{self.stored} = {loop.bind('get', cache.get)}({self.key})")
            loop.line(f"{self._entry} = {loop.bind('cached', cache.held.entries.get)}({self.key})")
        with loop.block("else:"):
            loop.line(f"{self.stored} = {self._entry}[0]")
            loop.line(f"{loop.bind('use', cache.held.entries.move_to_end)}({self.key})")

    def put_bytes(self, stored: str, serialized: str, changed_ms: str) -> None:
        loop, parts = self._loop, self._parts
        if parts.cache is not None:
            self._hold_back(parts.cache.held, self.key, stored)
            return
        loop.line(f"{loop.bind('put', parts.store.put)}({self.key}, {stored})")
        if parts.is_logged:
            loop.outputs.write_change(loop, self._store.name, self.key, serialized, changed_ms)


class FusedWindowStore(FusedTableStore):
    """`start_ms`: the variable with the start of the window."""

    def __init__(
        self, loop: LoopWriter, store: SerdesTimestampedWindowStore[Any, Any], given: Given, start_ms: str
    ) -> None:
        super().__init__(loop, store, given)
        self._start_ms = start_ms
        self._parts = store.parts()
        self._window_key = loop.new("window_key")

    def look_up(self) -> None:
        loop, cache = self._loop, self._parts.cache
        fetch = f"{self.stored} = {loop.bind('fetch', self._parts.store.fetch)}({self.key}, {self._start_ms})"
        if cache is None:
            loop.line(fetch)
            return
        loop.line(f"{self._window_key} = {loop.bind('window_key', window_key)}({self.key}, {self._start_ms}, 0)")
        loop.line(f"{self._entry} = {loop.bind('cached', cache.held.entries.get)}({self._window_key})")
        with loop.block(f"if {self._entry} is None:"):
            loop.line(fetch)
        with loop.block("else:"):
            loop.line(f"{self.stored} = {self._entry}[0]")
            loop.line(f"{loop.bind('use', cache.held.entries.move_to_end)}({self._window_key})")

    def put_bytes(self, stored: str, serialized: str, changed_ms: str) -> None:
        loop, parts = self._loop, self._parts
        if parts.cache is not None:
            self._hold_back(parts.cache.held, self._window_key, stored)
            return
        sequence = loop.new("sequence")
        loop.line(f"{sequence} = {loop.bind('put', parts.store.put)}({self.key}, {stored}, {self._start_ms})")
        if not parts.is_logged:
            return
        with loop.block(f"if {sequence} is not None:"):
            logged = self._window_key
            loop.line(f"{logged} = {loop.bind('window_key', window_key)}({self.key}, {self._start_ms}, {sequence})")
            loop.outputs.write_change(loop, self._store.name, logged, serialized, changed_ms)


def write_reading(loop: LoopWriter, store: AnyTimestampedStore, stored: str, value: str, timestamp_ms: str) -> None:
    """Write the lines that take bytes of the store apart. All are names of variables."""
    if store.value_serde == LONG:
        loop.line(f"{timestamp_ms}, {value} = {loop.bind('unpack', _LONG_WITH_TIMESTAMP.unpack)}({stored})")
        return
    write_reading_time(loop, stored, timestamp_ms)
    loop.line(f"{value} = {loop.bind('deserialize', store.value_serde.deserialize)}({stored}[8:])")


def write_reading_time(loop: LoopWriter, stored: str, timestamp_ms: str) -> None:
    """As `write_reading`, of the timestamp alone."""
    loop.line(f"({timestamp_ms},) = {loop.bind('unpack', _TIMESTAMP.unpack_from)}({stored})")
