"""Users define the stores of a topology with builders. Builders can be compared, pickled and sent to executors.

The public names of the classes are `key_value_store`, `timestamped_key_value_store`, `versioned_key_value_store`,
`window_store`, `timestamped_window_store` and `session_store`. Source: `Stores`, `KeyValueStoreBuilder`,
`TimestampedKeyValueStoreBuilder`, `VersionedKeyValueStoreBuilder`, `WindowStoreBuilder`,
`TimestampedWindowStoreBuilder`, `SessionStoreBuilder`.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from assignor.errors import IllegalArgumentError, InputError
from assignor.names.legal_names import NAME_RULE, is_legal_name, shown_name
from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from streams_runtime.common.records import K, V, check_milliseconds
from streams_runtime.serdes import Serde, serde_fault, serde_for_topic
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.caching import CachingKeyValueStore, CachingSessionStore, CachingWindowStore
from streams_runtime.state_stores.change_logging import (
    ChangeLoggingKeyValueBytesStore,
    ChangeLoggingSessionBytesStore,
    ChangeLoggingWindowBytesStore,
)
from streams_runtime.state_stores.in_memory_session import InMemorySessionStore
from streams_runtime.state_stores.in_memory_stores import (
    InMemoryDuplicatesWindowStore,
    InMemoryKeyValueStore,
    InMemoryWindowStore,
)
from streams_runtime.state_stores.key_value import KeyValueStore, TimestampedKeyValueStore
from streams_runtime.state_stores.rocksdb import KEY_VALUE_FORMAT, RocksDBStore
from streams_runtime.state_stores.rocksdb_session import RocksDBSessionStore
from streams_runtime.state_stores.rocksdb_versioned import RocksDBVersionedStore
from streams_runtime.state_stores.rocksdb_window import RocksDBWindowStore
from streams_runtime.state_stores.session import SessionStore
from streams_runtime.state_stores.state_store import (
    KeyValueBytesStore,
    SessionBytesStore,
    StoreBuilder,
    WindowBytesStore,
)
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind
from streams_runtime.state_stores.transaction_buffer import TransactionBuffer
from streams_runtime.state_stores.versioned import ChangeLoggingVersionedBytesStore, VersionedKeyValueStore
from streams_runtime.state_stores.window import TimestampedWindowStore, WindowStore
from streams_runtime.state_stores.window_keys import segment_interval_ms

_TIMESTAMPED_FORMAT = StoreFormat(StoreKind.TIMESTAMPED_KEY_VALUE)

Builder = TypeVar("Builder")

# the builders have no slots, because `Builder[str, int](...)` fails in Python 3.11 for a frozen generic class with
# slots


@dataclass(frozen=True)
class SerdesStoreBuilder(Generic[K, V]):
    """The builder of a store. `persistent`: True for a store in RocksDB, False for a store in memory.

    `changelog`: None for a store without a changelog. The content of a store without a changelog is lost when its
    instance is lost. `caching`: True to keep changes in the thread's record cache until a commit. With a record cache,
    a commit writes and logs each changed key once. `caching` has no effect if `statestore.cache.max.bytes` is 0.

    Raises InputError for an invalid serde. Raises InputError for a store name that cannot be part of a topic name or
    directory name.
    """

    queryable: ClassVar[bool] = True
    """False if queries cannot read the store."""
    is_buffer: ClassVar[bool] = False
    """True for the buffer of one operator. As in Kafka, the operator finds a missing serde of its buffer."""
    timestamped: ClassVar[bool] = False
    """True if the values of the store have timestamps. If `timestamped` is True, `value_serde` is the serde of a value
    without its timestamp.
    """

    name: str
    key_serde: Serde[K]
    value_serde: Serde[V]
    _: KW_ONLY
    persistent: bool = True
    changelog: ChangelogConfig | None = LOGGED
    caching: bool = False

    def __post_init__(self) -> None:
        if not is_legal_name(self.name):
            raise InputError(f"{shown_name(str(self.name))} cannot be the name of a store: use {NAME_RULE}")
        for name, serde in (("key_serde", self.key_serde), ("value_serde", self.value_serde)):
            if (fault := serde_fault(serde, "serialize", "deserialize")) is not None:
                raise InputError(f"store {self.name}: its {name} {fault}")


@dataclass(frozen=True)
class _KeyValueBuilder(SerdesStoreBuilder[K, V]):
    def _bytes_store(self) -> KeyValueBytesStore:
        bytes_store: KeyValueBytesStore = InMemoryKeyValueStore(self.name)
        if self.persistent:
            file_format = _TIMESTAMPED_FORMAT if self.timestamped else KEY_VALUE_FORMAT
            bytes_store = TransactionBuffer(RocksDBStore(self.name, file_format))
        logging_store = ChangeLoggingKeyValueBytesStore(bytes_store, timestamped=self.timestamped)
        return CachingKeyValueStore(logging_store) if self.caching else logging_store


@dataclass(frozen=True)
class KeyValueStoreBuilder(_KeyValueBuilder[K, V]):
    """The builder of a key-value store. `SerdesStoreBuilder` describes the arguments."""

    def build(self) -> KeyValueStore[K, V]:
        return KeyValueStore(self._bytes_store(), self.key_serde, self.value_serde)


@dataclass(frozen=True)
class TimestampedKeyValueStoreBuilder(_KeyValueBuilder[K, V]):
    """The builder of a key-value store of `ValueAndTimestamp`s. `SerdesStoreBuilder` describes the arguments."""

    timestamped = True

    def build(self) -> TimestampedKeyValueStore[K, V]:
        return TimestampedKeyValueStore(self._bytes_store(), self.key_serde, self.value_serde)


@dataclass(frozen=True)
class VersionedKeyValueStoreBuilder(SerdesStoreBuilder[K, V]):
    """The builder of a versioned store. `SerdesStoreBuilder` describes the other arguments.

    `history_retention_ms`: the time for which older versions of a key are kept. The builder sets the type of the
    changelog to VERSIONED. If `changelog` has no `min_compaction_lag_ms`, the builder uses the history retention. As in
    Kafka, a versioned store is always persistent, and has no record cache. Raises the errors of `SerdesStoreBuilder`.
    Raises IllegalArgumentError for a negative history retention, for a store in memory, and for a record cache.
    """

    timestamped = True
    _: KW_ONLY
    history_retention_ms: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_milliseconds(history_retention_ms=self.history_retention_ms)
        if self.history_retention_ms < 0:
            raise IllegalArgumentError("historyRetention cannot be negative")
        if not self.persistent or self.caching:
            what = "a record cache" if self.caching else "a form in memory"
            raise IllegalArgumentError(f"store {self.name}: a versioned store does not have {what}")
        if (given := self.changelog) is not None:
            lag_ms = self.history_retention_ms if given.min_compaction_lag_ms is None else given.min_compaction_lag_ms
            versioned = replace(given, type=ChangelogType.VERSIONED, min_compaction_lag_ms=lag_ms)
            # `self.changelog = ...` would fail, because the dataclass is frozen
            object.__setattr__(self, "changelog", versioned)

    def build(self) -> VersionedKeyValueStore[K, V]:
        bytes_store = RocksDBVersionedStore(self.name, self.history_retention_ms)
        logging_store = ChangeLoggingVersionedBytesStore(bytes_store)
        return VersionedKeyValueStore(logging_store, self.key_serde, self.value_serde)


@dataclass(frozen=True)
class ExpiringBuilder(SerdesStoreBuilder[K, V]):
    """The base of the builders of stores whose entries expire. Times are in milliseconds.

    The builder sets the type of the changelog to WINDOWED. If `changelog` has no retention, the builder uses the
    store's retention. `time_ordered`: True to make reads of all keys between two times fast; the entries are then in
    the order of time. Raises the errors of `SerdesStoreBuilder`. Raises InputError for a negative time, and
    IllegalArgumentError for a time that is no whole number.
    """

    _: KW_ONLY
    retention_ms: int
    time_ordered: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_time("retention", self.retention_ms)
        if (given := self.changelog) is not None:
            kept_ms = self.retention_ms if given.retention_ms is None else given.retention_ms
            windowed = replace(given, type=ChangelogType.WINDOWED, retention_ms=kept_ms)
            # `self.changelog = ...` would fail, because the dataclass is frozen
            object.__setattr__(self, "changelog", windowed)

    def _order_interval_ms(self) -> int:
        """Returns the segment interval by which the bytes store sorts its entries. If a store returns its entries in
        the order of time, the order is as with segments of one millisecond.
        """
        by_segments = self.persistent and not self.time_ordered
        return segment_interval_ms(self.retention_ms) if by_segments else 1

    def _check_time(self, what: str, value_ms: int) -> None:
        check_milliseconds(**{f"store {self.name}: {what}": value_ms})
        if value_ms < 0:
            raise InputError(f"store {self.name}: {what} cannot be negative, it is {value_ms} ms")


@dataclass(frozen=True)
class WindowBuilder(ExpiringBuilder[K, V]):
    """The base of the builders of window stores. Raises the errors of `ExpiringBuilder`. Raises InputError for a
    retention below the window size.
    """

    _: KW_ONLY
    window_size_ms: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_time("window size", self.window_size_ms)
        if self.window_size_ms > self.retention_ms:
            raise InputError(
                f"store {self.name}: retention ({self.retention_ms} ms) must not be smaller than "
                f"the window size ({self.window_size_ms} ms)"
            )

    def _bytes_store(self, *, retain_duplicates: bool = False) -> WindowBytesStore:
        """Makes all layers of the store except the layer with the serdes. As in Kafka, a store with duplicates has no
        record cache.
        """
        bytes_store: WindowBytesStore
        if self.persistent:
            bytes_store = RocksDBWindowStore(
                self.name,
                self.retention_ms,
                retain_duplicates=retain_duplicates,
                timestamped=self.timestamped,
                time_ordered=self.time_ordered,
            )
        elif retain_duplicates:
            bytes_store = InMemoryDuplicatesWindowStore(self.name, self.retention_ms)
        else:
            bytes_store = InMemoryWindowStore(self.name, self.retention_ms)
        logging_store = ChangeLoggingWindowBytesStore(bytes_store, timestamped=self.timestamped)
        if not self.caching or retain_duplicates:
            return logging_store
        return CachingWindowStore(logging_store, self._order_interval_ms())


@dataclass(frozen=True)
class WindowStoreBuilder(WindowBuilder[K, V]):
    """The builder of a window store. `SerdesStoreBuilder` and `WindowBuilder` describe the arguments."""

    _: KW_ONLY
    retain_duplicates: bool = False

    def build(self) -> WindowStore[K, V]:
        inner = self._bytes_store(retain_duplicates=self.retain_duplicates)
        return WindowStore(inner, self.key_serde, self.value_serde, window_size_ms=self.window_size_ms)


@dataclass(frozen=True)
class TimestampedWindowStoreBuilder(WindowBuilder[K, V]):
    """The builder of a window store of `ValueAndTimestamp`s. `SerdesStoreBuilder` and `WindowBuilder` describe the
    arguments.
    """

    timestamped = True

    def build(self) -> TimestampedWindowStore[K, V]:
        return TimestampedWindowStore(
            self._bytes_store(), self.key_serde, self.value_serde, window_size_ms=self.window_size_ms
        )


@dataclass(frozen=True)
class SessionStoreBuilder(ExpiringBuilder[K, V]):
    """The builder of a session store. `SerdesStoreBuilder` and `ExpiringBuilder` describe the arguments."""

    def build(self) -> SessionStore[K, V]:
        bytes_store: SessionBytesStore = InMemorySessionStore(self.name, self.retention_ms)
        if self.persistent:
            bytes_store = RocksDBSessionStore(self.name, self.retention_ms, time_ordered=self.time_ordered)
        logging_store = ChangeLoggingSessionBytesStore(bytes_store)
        inner = CachingSessionStore(logging_store, self._order_interval_ms()) if self.caching else logging_store
        return SessionStore(inner, self.key_serde, self.value_serde)


key_value_store = KeyValueStoreBuilder
timestamped_key_value_store = TimestampedKeyValueStoreBuilder
versioned_key_value_store = VersionedKeyValueStoreBuilder
window_store = WindowStoreBuilder
timestamped_window_store = TimestampedWindowStoreBuilder
session_store = SessionStoreBuilder


def builder_for_topic(builder: StoreBuilder, topic: str) -> StoreBuilder:
    """Returns a copy of the builder with the serdes for a topic. A builder of a user's own class is returned unchanged.

    `topic`: the full name of the topic from which the store is restored. For a store without a changelog, `topic` is
    the name that the changelog would have.
    Raises TopologyError if a serde is missing, except for a buffer.
    Source: `ProcessorContextUtils.topicNamePrefix`, `MeteredKeyValueStore.prepareSerdes`.
    """

    def for_topic(serde: Serde[Any], is_key: bool) -> Serde[Any]:
        is_for_operator = isinstance(builder, SerdesStoreBuilder) and builder.is_buffer
        if is_for_operator and isinstance(serde, DefaultSerde):
            return serde
        return serde_for_topic(serde, topic, is_key=is_key)

    return builder_with_serdes(builder, for_topic)


def builder_without_caching(builder: StoreBuilder) -> StoreBuilder:
    """Returns a copy of the builder without a record cache. Source: `InternalTopologyBuilder.rewriteTopology`."""
    if isinstance(builder, SerdesStoreBuilder) and builder.caching:
        return replace(builder, caching=False)
    return builder


def builder_with_serdes(builder: Builder, change: Callable[[Serde[Any], bool], Serde[Any]]) -> Builder:
    """Returns a copy of the builder with new serdes. If the object is not a builder of this file, returns it unchanged.

    `change`: a function (serde, is_key) that returns the new serde. The argument `is_key` is True for the key serde,
    and False for the value serde.
    """
    if isinstance(builder, SerdesStoreBuilder):
        keys, values = change(builder.key_serde, True), change(builder.value_serde, False)
        if keys is not builder.key_serde or values is not builder.value_serde:
            return replace(builder, key_serde=keys, value_serde=values)
    return builder
