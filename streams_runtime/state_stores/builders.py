"""Builders, with which a user defines the stores of a topology. They can be compared, pickled and sent to executors.

Source: `Stores`, `KeyValueStoreBuilder`, `TimestampedKeyValueStoreBuilder`, `WindowStoreBuilder`,
`TimestampedWindowStoreBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from assignor.errors import InputError
from assignor.legal_names import NAME_RULE, is_legal_name, shown_name
from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from streams_runtime.serdes import Serde, serde_fault, serde_for_topic
from streams_runtime.state_stores.caching import CachingKeyValueStore, CachingWindowStore
from streams_runtime.state_stores.change_logging import (
    ChangeLoggingKeyValueBytesStore,
    ChangeLoggingWindowBytesStore,
    WriteBehindStore,
)
from streams_runtime.state_stores.in_memory_key_value import InMemoryKeyValueStore
from streams_runtime.state_stores.in_memory_window import InMemoryDuplicatesWindowStore, InMemoryWindowStore
from streams_runtime.state_stores.key_value import SerdesKeyValueStore, SerdesTimestampedKeyValueStore
from streams_runtime.state_stores.rocksdb import KEY_VALUE_FORMAT, RocksDBStore
from streams_runtime.state_stores.rocksdb_window import RocksDBWindowStore
from streams_runtime.state_stores.state_store import (
    KeyValueBytesStore,
    StoreBuilder,
    ValueAndTimestamp,
    WindowBytesStore,
)
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind
from streams_runtime.state_stores.value_and_timestamp import ValueAndTimestampSerde
from streams_runtime.state_stores.window import SerdesTimestampedWindowStore, SerdesWindowStore
from streams_runtime.state_stores.window_keys import segment_interval_ms

_TIMESTAMPED_FORMAT = StoreFormat(StoreKind.TIMESTAMPED_KEY_VALUE)

Builder = TypeVar("Builder")
K = TypeVar("K")
V = TypeVar("V")

# the builders have no slots: Python 3.11 cannot make a slotted frozen dataclass as `Builder[str, int](...)`


@dataclass(frozen=True)
class _KeyValueBuilder(Generic[K, V]):
    """Raises InputError for a name that cannot be part of the names of a topic and a directory."""

    name: str
    key_serde: Serde[K]
    value_serde: Serde[V]
    persistent: bool = True
    changelog: ChangelogConfig | None = LOGGED
    caching: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_serdes(self.name, self.key_serde, self.value_serde)

    def _bytes_store(self, file_format: StoreFormat, *, timestamped: bool) -> KeyValueBytesStore:
        bytes_store: KeyValueBytesStore = InMemoryKeyValueStore(self.name)
        if self.persistent:
            bytes_store = WriteBehindStore(RocksDBStore(self.name, file_format))
        logging_store = ChangeLoggingKeyValueBytesStore(bytes_store, timestamped=timestamped)
        return CachingKeyValueStore(logging_store) if self.caching else logging_store


@dataclass(frozen=True)
class KeyValueStoreBuilder(_KeyValueBuilder[K, V]):
    """Raises InputError for a name that cannot be part of the names of a topic and a directory."""

    def build(self) -> SerdesKeyValueStore[K, V]:
        inner = self._bytes_store(KEY_VALUE_FORMAT, timestamped=False)
        return SerdesKeyValueStore(inner, self.key_serde, self.value_serde)


@dataclass(frozen=True)
class TimestampedKeyValueStoreBuilder(_KeyValueBuilder[K, V]):
    """As `KeyValueStoreBuilder`. `value_serde`: the serde of the value without its timestamp."""

    def build(self) -> SerdesTimestampedKeyValueStore[K, V]:
        inner = self._bytes_store(_TIMESTAMPED_FORMAT, timestamped=True)
        return SerdesTimestampedKeyValueStore(inner, self.key_serde, self.value_serde)


@dataclass(frozen=True)
class WindowStoreBuilder(Generic[K, V]):
    """Times are in milliseconds.

    Raises InputError for a bad name, negative times, or retention below the window size.
    """

    name: str
    key_serde: Serde[K]
    value_serde: Serde[V]
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    persistent: bool = True
    changelog: ChangelogConfig | None = LOGGED
    caching: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_serdes(self.name, self.key_serde, self.value_serde)
        for what, value_ms in (("retention", self.retention_ms), ("window size", self.window_size_ms)):
            if value_ms < 0:
                raise InputError(f"store {self.name}: {what} cannot be negative, it is {value_ms} ms")
        if self.window_size_ms > self.retention_ms:
            raise InputError(
                f"store {self.name}: retention ({self.retention_ms} ms) must not be smaller than "
                f"the window size ({self.window_size_ms} ms)"
            )

    def build(self) -> SerdesWindowStore[K, V]:
        inner = self._bytes_store(timestamped=False)
        return SerdesWindowStore(inner, self.key_serde, self.value_serde, window_size_ms=self.window_size_ms)

    def _bytes_store(self, *, timestamped: bool) -> WindowBytesStore:
        """A store with duplicates has no record cache, as in Kafka."""
        bytes_store: WindowBytesStore
        if self.persistent:
            bytes_store = RocksDBWindowStore(
                self.name, self.retention_ms, retain_duplicates=self.retain_duplicates, timestamped=timestamped
            )
        elif self.retain_duplicates:
            bytes_store = InMemoryDuplicatesWindowStore(self.name, self.retention_ms)
        else:
            bytes_store = InMemoryWindowStore(self.name, self.retention_ms)
        logging_store = ChangeLoggingWindowBytesStore(bytes_store, timestamped=timestamped)
        if not self.caching or self.retain_duplicates:
            return logging_store
        # in memory windows are in order of their starts, as in segments of one millisecond
        return CachingWindowStore(logging_store, segment_interval_ms(self.retention_ms) if self.persistent else 1)


@dataclass(frozen=True)
class TimestampedWindowStoreBuilder(WindowStoreBuilder[K, ValueAndTimestamp[V]]):
    """As `WindowStoreBuilder`. `value_serde`: the serde of the value with its timestamp, a `ValueAndTimestampSerde`."""

    def build(self) -> SerdesTimestampedWindowStore[K, V]:
        assert isinstance(self.value_serde, ValueAndTimestampSerde)
        inner, value_serde = self._bytes_store(timestamped=True), self.value_serde.value_serde
        return SerdesTimestampedWindowStore(inner, self.key_serde, value_serde, window_size_ms=self.window_size_ms)


def builder_for_topic(builder: StoreBuilder, topic: str) -> StoreBuilder:
    """The same builder, with the serdes of `topic`. A builder of the user's own class is returned as it is.

    `topic`: the full name of the topic that restores the store, or of the changelog that it would have if it is not
    logged.
    Source: `ProcessorContextUtils.topicNamePrefix`, `MeteredKeyValueStore.prepareSerdes`.
    """
    return builder_with_serdes(builder, lambda serde, is_key: serde_for_topic(serde, topic, is_key=is_key))


def builder_without_caching(builder: StoreBuilder) -> StoreBuilder:
    """The same builder for stores without a record cache. Source: `InternalTopologyBuilder.rewriteTopology`."""
    if isinstance(builder, _KeyValueBuilder | WindowStoreBuilder):
        return replace(builder, caching=False) if builder.caching else builder
    return builder


def builder_with_serdes(builder: Builder, change: Callable[[Serde[Any], bool], Serde[Any]]) -> Builder:
    """The same builder with other serdes. An object that is no builder of this file is returned as it is.

    `change`: called with a serde and True for the key serde, False for the value serde; returns the serde to use.
    """
    if isinstance(builder, _KeyValueBuilder | WindowStoreBuilder):
        keys, values = change(builder.key_serde, True), change(builder.value_serde, False)
        if keys is not builder.key_serde or values is not builder.value_serde:
            return replace(builder, key_serde=keys, value_serde=values)
    return builder


def key_value_store(
    name: str,
    key_serde: Serde[K],
    value_serde: Serde[V],
    *,
    persistent: bool = True,
    changelog: ChangelogConfig | None = LOGGED,
    caching: bool = False,
) -> KeyValueStoreBuilder[K, V]:
    """A store in RocksDB, or in memory if not `persistent`.

    `changelog`: None for a store that is not logged, so that its content is lost with its instance. `caching`: changes
    stay in the thread's record cache until a commit, and are written and logged once for each key, unless
    `statestore.cache.max.bytes` is 0.
    """
    return KeyValueStoreBuilder(name, key_serde, value_serde, persistent, changelog, caching)


def timestamped_key_value_store(
    name: str,
    key_serde: Serde[K],
    value_serde: Serde[V],
    *,
    persistent: bool = True,
    changelog: ChangelogConfig | None = LOGGED,
    caching: bool = False,
) -> TimestampedKeyValueStoreBuilder[K, V]:
    """Takes and returns `ValueAndTimestamp`s. Otherwise as `key_value_store`."""
    return TimestampedKeyValueStoreBuilder(name, key_serde, value_serde, persistent, changelog, caching)


def window_store(
    name: str,
    key_serde: Serde[K],
    value_serde: Serde[V],
    *,
    retention_ms: int,
    window_size_ms: int,
    retain_duplicates: bool = False,
    persistent: bool = True,
    changelog: ChangelogConfig | None = LOGGED,
    caching: bool = False,
) -> WindowStoreBuilder[K, V]:
    """`changelog` becomes a windowed changelog. Its retention is that of the store, unless `changelog` has one.

    `caching`: as for `key_value_store`; a store that retains duplicates has no cache.
    """
    return WindowStoreBuilder(
        name,
        key_serde,
        value_serde,
        retention_ms,
        window_size_ms,
        retain_duplicates,
        persistent,
        None if changelog is None else _windowed(changelog, retention_ms),
        caching,
    )


def timestamped_window_store(
    name: str,
    key_serde: Serde[K],
    value_serde: Serde[V],
    *,
    retention_ms: int,
    window_size_ms: int,
    persistent: bool = True,
    changelog: ChangelogConfig | None = LOGGED,
    caching: bool = False,
) -> TimestampedWindowStoreBuilder[K, V]:
    """Takes and returns `ValueAndTimestamp`s. `value_serde`: the serde of the value without its timestamp.

    Otherwise as `window_store`.
    """
    return TimestampedWindowStoreBuilder(
        name,
        key_serde,
        ValueAndTimestampSerde(value_serde),
        retention_ms,
        window_size_ms,
        persistent=persistent,
        changelog=None if changelog is None else _windowed(changelog, retention_ms),
        caching=caching,
    )


def _windowed(changelog: ChangelogConfig, retention_ms: int) -> ChangelogConfig:
    kept_ms = retention_ms if changelog.retention_ms is None else changelog.retention_ms
    return replace(changelog, type=ChangelogType.WINDOWED, retention_ms=kept_ms)


def _check_name(name: str) -> None:
    if not is_legal_name(name):
        raise InputError(f"{shown_name(str(name))} cannot be the name of a store: use {NAME_RULE}")


def _check_serdes(store: str, key_serde: object, value_serde: object) -> None:
    for name, serde in (("key_serde", key_serde), ("value_serde", value_serde)):
        if (fault := serde_fault(serde, "serialize", "deserialize")) is not None:
            raise InputError(f"store {store}: its {name} {fault}")
