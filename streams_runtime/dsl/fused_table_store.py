"""The store of a table in a fused loop: bytes from it and to it, a row for its changelog, and few calls in between.

It does what the store for processors does with the layers below it: the record cache if there is one, else the
changelog and the bytes themselves. Source: `SerdesTimestampedKeyValueStore`, `SerdesTimestampedWindowStore`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import Any

from streams_runtime.common.records import RecordContext
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.processors.fused_loop import CheckChange, Given, LoopWriter
from streams_runtime.serdes import LONG, BytesSerde, serializer_of
from streams_runtime.state_stores.caching import CachingStore
from streams_runtime.state_stores.named_cache import NamedCache, change_overhead, raw_bytes
from streams_runtime.state_stores.timestamped import SerdesTimestampedKeyValueStore, SerdesTimestampedWindowStore
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES, window_key

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
        self._held: NamedCache | None = None
        self._held_key = ""
        self.key = loop.new("key_bytes")
        serialized = f"{loop.bind('serialize_key', serializer_of(store.key_serde))}({given.key})"
        if isinstance(store.key_serde, BytesSerde):  # bytes that stay bytes need no call
            serialized = f"{given.key} if {given.key}.__class__ is bytes else {serialized}"
        loop.line(f"{self.key} = {serialized}")

    def read(self, value: str, timestamp_ms: str) -> None:
        """Into these variables; there is an entry."""
        write_reading(self._loop, self._store, self.stored, value, timestamp_ms)

    def value_of_stored(self) -> str:
        """An expression for the value alone; there is an entry."""
        if isinstance(self._store.value_serde, BytesSerde):
            return f"{self.stored}[8:]"
        return f"{self._loop.bind('deserialize', self._store.value_serde.deserialize)}({self.stored}[8:])"

    def serialize(self, value: str, timestamp_ms: str, *, deletes: bool = True) -> str:
        """The variable with the bytes of the new entry. None deletes. `deletes`: whether the value can be None.

        The lines raise for an entry that the changelog does not take.
        """
        loop = self._loop
        stored = loop.new("stored")
        if self._store.value_serde == LONG:
            packed = f"{loop.bind('pack', _LONG_WITH_TIMESTAMP.pack)}({timestamp_ms}, {value})"
        else:
            serialized = f"{loop.bind('serialize', self._store.value_serde.serialize)}({value})"
            packed = f"{loop.bind('pack', _TIMESTAMP.pack)}({timestamp_ms}) + {serialized}"
        loop.line(f"{stored} = None if {value} is None else {packed}" if deletes else f"{stored} = {packed}")
        check = loop.outputs.change_check(self._store.name) if self._is_logged else None
        if check is not None:
            self._write_check(*check, stored, timestamp_ms, deletes=deletes)
        return stored

    def _write_check(
        self, check: CheckChange, limits: RecordLimits, stored: str, timestamp_ms: str, *, deletes: bool
    ) -> None:
        """The lines that raise for an entry that the changelog does not take. They come before the store is changed."""
        loop, empty = self._loop, _TIMESTAMP.size
        size = f"({empty} if {stored} is None else len({stored}))" if deletes else f"len({stored})"
        asks = f"len({self.key}) + {size} > {limits.max_bytes + empty - self._suffix_bytes}"
        if limits.checks is not None:
            asks = f"{timestamp_ms} > {loop.bind('checks', limits.checks)}.rows_pass_to_ms or {asks}"
        with loop.block(f"if {asks}:"):
            value = f"None if {stored} is None else {stored}[{empty}:]"
            loop.line(f"{loop.bind('check', check)}({self._changelog_key()}, {value}, {timestamp_ms})")

    @property
    @abstractmethod
    def _is_logged(self) -> bool:
        """Whether changes go to a changelog, now or when the record cache is flushed."""

    _suffix_bytes = 0
    """What the key in the changelog has more than `key`."""

    def _changelog_key(self) -> str:
        """An expression for it."""
        return self.key

    @abstractmethod
    def look_up(self, *, is_put: bool = False) -> None:
        """`is_put`: whether the key is put next, or `unused` is written for what fails before."""

    @abstractmethod
    def put_bytes(self, stored: str, value: str, timestamp_ms: str, *, deletes: bool = True) -> None:
        """Put the entry that `serialize` gave for the others."""

    def unused(self) -> None:
        """Write the lines for a record that fails between `look_up` and `put_bytes`: the entry was read."""
        if self._held is not None:
            with self._loop.block(f"if {self._entry} is not None:"):
                self._use(self._held, self._held_key)
        self._loop.line("raise")

    def _look_into(self, held: NamedCache, key: str, fetch: str, *, is_put: bool, keeps_clean: bool) -> None:
        """`fetch`: the line for what the cache does not have. `keeps_clean`: whether it comes into the cache."""
        loop, entry = self._loop, self._entry
        self._held, self._held_key = held, key
        look = f"{entry} = {loop.bind('cached', held.entries.get)}({key})"
        loop.line(look)
        with loop.block(f"if {entry} is None:"):
            loop.line(fetch)
            if keeps_clean and is_put:
                loop.line(look)
        with loop.block("else:"):
            loop.line(f"{self.stored} = {entry}[0]")
            if not is_put:
                self._use(held, key)

    def _use(self, held: NamedCache, key: str) -> None:
        """What `NamedCache.used` does, without its call."""
        uses = self._loop.bind("uses", held.uses)
        self._loop.line(f"{self._loop.bind('reads', held.reads)}[{key}] = next({uses})")

    def _log(self, key: str, stored: str, value: str, timestamp_ms: str, *, deletes: bool) -> None:
        """A deletion has the time of the record that makes it."""
        loop = self._loop
        value_bytes, changed_ms = loop.new("value_bytes"), loop.new("changed_ms")
        if deletes:
            with loop.block(f"if {value} is None:"):
                loop.line(f"{value_bytes} = None")
                loop.line(f"{changed_ms} = {self._given.timestamp_ms}")
            with loop.block("else:"):
                loop.line(f"{value_bytes} = {stored}[8:]")
                loop.line(f"{changed_ms} = {timestamp_ms}")
        else:
            loop.line(f"{value_bytes} = {stored}[8:]")
            loop.line(f"{changed_ms} = {timestamp_ms}")
        loop.outputs.write_change(loop, self._store.name, key, value_bytes, changed_ms)

    def _hold_back(self, store: CachingStore[Any], key: str, stored: str, *, deletes: bool) -> None:
        """What `NamedCache.put` does, without its call."""
        loop, entry, held = self._loop, self._entry, store.held
        size, source, least = loop.new("size"), loop.new("source"), loop.new("least")
        entries, dirty = loop.bind("entries", held.entries), loop.bind("dirty", held.dirty)
        cache, memory = loop.bind("held", held), loop.bind("memory", held.memory)
        overhead = held.key_overhead + change_overhead(_NO_CONTEXT)
        value_size = f"len({stored})"
        if deletes:
            value_size = f"(0 if {stored} is None else len({stored}))"
        elif self._store.value_serde == LONG:
            overhead, value_size = overhead + _LONG_WITH_TIMESTAMP.size, "0"
        loop.once(f"{source} = (topic, (), partition)")
        loop.once(f"{least} = {overhead} + len(topic)")
        loop.line(f"{size} = {least} + len({key})" + ("" if value_size == "0" else f" + {value_size}"))
        raw = "None"
        if store.keeps_raw:
            raw = loop.new("raw")
            loop.line(f"{raw} = queue.raw_at(at)")
            loop.line(f"{size} += {loop.bind('raw_bytes', raw_bytes)}({raw})")
        of_record = f"{self._given.timestamp_ms}, offsets[at], {raw}"
        use = f"next({loop.bind('uses', held.uses)})"
        loop.line(f"{entries}[{key}] = ({stored}, {source}, {size}, {use}, {of_record})")
        with loop.block(f"if {key} in {dirty}:"):
            loop.line(f"del {dirty}[{key}]")
        loop.line(f"{dirty}[{key}] = None")
        with loop.block(f"if {entry} is None or {size} != {entry}[2]:"):
            with loop.block(f"if {entry} is not None:"):
                loop.line(f"{size} -= {entry}[2]")
            loop.line(f"{cache}.size_bytes += {size}")
            loop.line(f"{memory}.size_bytes += {size}")
        with loop.block(f"if {memory}.size_bytes > {memory}.max_bytes:"):
            loop.line(f"{loop.bind('make_room', held.make_room)}()")


class FusedKeyValueStore(FusedTableStore):
    def __init__(self, loop: LoopWriter, store: SerdesTimestampedKeyValueStore[Any, Any], given: Given) -> None:
        super().__init__(loop, store, given)
        self._parts = store.parts()

    @property
    def _is_logged(self) -> bool:
        return self._parts.is_logged

    def look_up(self, *, is_put: bool = False) -> None:
        loop, cache = self._loop, self._parts.cache
        get = cache.load if cache is not None else self._parts.store.get
        fetch = f"{self.stored} = {loop.bind('get', get)}({self.key})"
        if cache is None:
            loop.line(fetch)
        else:
            self._look_into(cache.held, self.key, fetch, is_put=is_put, keeps_clean=True)

    def put_bytes(self, stored: str, value: str, timestamp_ms: str, *, deletes: bool = True) -> None:
        loop, parts = self._loop, self._parts
        if parts.cache is not None:
            self._hold_back(parts.cache, self.key, stored, deletes=deletes)
            return
        loop.line(f"{loop.bind('put', parts.store.put)}({self.key}, {stored})")
        if parts.is_logged:
            self._log(self.key, stored, value, timestamp_ms, deletes=deletes)


class FusedWindowStore(FusedTableStore):
    """`start_ms`: the variable with the start of the window."""

    def __init__(
        self, loop: LoopWriter, store: SerdesTimestampedWindowStore[Any, Any], given: Given, start_ms: str
    ) -> None:
        super().__init__(loop, store, given)
        self._start_ms = start_ms
        self._parts = store.parts()
        self._window_key = loop.new("window_key")

    _suffix_bytes = SUFFIX_BYTES

    @property
    def _is_logged(self) -> bool:
        return self._parts.is_logged

    def _changelog_key(self) -> str:
        return f"{self._loop.bind('window_key', window_key)}({self.key}, {self._start_ms}, 0)"

    def look_up(self, *, is_put: bool = False) -> None:
        loop, cache = self._loop, self._parts.cache
        fetch = f"{self.stored} = {loop.bind('fetch', self._parts.store.fetch)}({self.key}, {self._start_ms})"
        if cache is None:
            loop.line(fetch)
            return
        latest_ms, suffix = loop.new("latest_ms"), loop.new("suffix")
        loop.once(f"{latest_ms} = {suffix} = None")
        with loop.block(f"if {self._start_ms} != {latest_ms}:"):
            loop.line(f"{latest_ms} = {self._start_ms}")
            loop.line(f"{suffix} = {loop.bind('window_key', window_key)}(b'', {latest_ms}, 0)")
        loop.line(f"{self._window_key} = {self.key} + {suffix}")
        self._look_into(cache.held, self._window_key, fetch, is_put=is_put, keeps_clean=False)

    def put_bytes(self, stored: str, value: str, timestamp_ms: str, *, deletes: bool = True) -> None:
        loop, parts = self._loop, self._parts
        if parts.cache is not None:
            self._hold_back(parts.cache, self._window_key, stored, deletes=deletes)
            return
        sequence = loop.new("sequence")
        loop.line(f"{sequence} = {loop.bind('put', parts.store.put)}({self.key}, {stored}, {self._start_ms})")
        if not parts.is_logged:
            return
        with loop.block(f"if {sequence} is not None:"):
            logged = self._window_key
            loop.line(f"{logged} = {loop.bind('window_key', window_key)}({self.key}, {self._start_ms}, {sequence})")
            self._log(logged, stored, value, timestamp_ms, deletes=deletes)


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
