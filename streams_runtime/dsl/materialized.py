"""The settings of a table's store, and factories that make the store's builder.

Source: `Materialized`, `MaterializedInternal`, `StoreFactory`, `KeyValueStoreMaterializer`, `WindowStoreMaterializer`,
`SlidingWindowStoreMaterializer`, `SessionStoreMaterializer`.
"""

from dataclasses import dataclass, field
from typing import Any

from assignor.errors import IllegalArgumentError
from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import ChangelogConfig
from streams_runtime.dsl.naming import checked_name
from streams_runtime.dsl.windows import AggregationWindows, EmitStrategy, SessionWindows, SlidingWindows, Windows
from streams_runtime.serdes import Serde
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.builders import (
    session_store,
    timestamped_key_value_store,
    timestamped_window_store,
    versioned_key_value_store,
)
from streams_runtime.state_stores.state_store import StoreBuilder


@dataclass(frozen=True, slots=True)
class Materialized:
    """The settings of a table's store.

    `name`: the name of the store; None for a generated name. A store with a generated name cannot be queried.
    `changelog`: the configs of the store's changelog topic; None for a store without a changelog. `retention_ms`: the
    time for which a window store or session store keeps a window. Other stores ignore this setting. The lowest value of
    `retention_ms` is also its default value: the window size plus the grace period; for sliding windows, two time
    differences plus the grace period; for sessions, the gap plus the grace period. `caching`: True to give the store a
    record cache. The record cache of a table collects the updates of a key. The record cache is flushed at each commit,
    and when it is full. The table then forwards only the last update of each key. If the operation's result is a
    stream, each record is forwarded at once, and the cache delays only the writes to the store. `history_retention_ms`:
    the time for which a versioned store keeps the older values of a key; None for a store without older values. As in
    Kafka, a versioned store is in RocksDB, and has no record cache.
    """

    name: str | None = None
    persistent: bool = True
    changelog: ChangelogConfig | None = field(default=LOGGED)
    retention_ms: int | None = None
    caching: bool = True
    history_retention_ms: int | None = None

    def __post_init__(self) -> None:
        if self.history_retention_ms is not None and not self.persistent:
            raise IllegalArgumentError("A versioned store is always persistent.")

    @property
    def is_versioned(self) -> bool:
        return self.history_retention_ms is not None


StoreArgument = str | Materialized | None
"""The type of the argument `store` of DSL calls: the name of a store, or a `Materialized` with its settings."""


def checked_settings(store: StoreArgument) -> Materialized:
    """Converts the argument `store` of a DSL call to settings. Raises TopologyError for an illegal name."""
    settings = store if isinstance(store, Materialized) else Materialized(store)
    if settings.name is not None:
        checked_name(settings.name)
    return settings


@dataclass(frozen=True, slots=True)
class StoreFactory:
    """Makes the builder of a key-value store with timestamps, or of a versioned store."""

    name: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    settings: Materialized

    def builder(self) -> StoreBuilder:
        if (retention_ms := self.settings.history_retention_ms) is not None:
            return versioned_key_value_store(
                **{**self.arguments(), "caching": False}, history_retention_ms=retention_ms
            )
        return timestamped_key_value_store(**self.arguments())

    def arguments(self) -> dict[str, Any]:
        """Returns the keyword arguments that the builders of all kinds of stores have."""
        return {
            "name": self.name,
            "key_serde": self.key_serde or DefaultSerde("key", f"store {self.name}"),
            "value_serde": self.value_serde or DefaultSerde("value", f"store {self.name}"),
            "persistent": self.settings.persistent,
            "changelog": self.settings.changelog,
            "caching": self.settings.caching,
        }


@dataclass(frozen=True, slots=True)
class WindowedStoreFactory(StoreFactory):
    """The base of the factories of window stores and session stores. Raises IllegalArgumentError if the retention is
    too short.

    If windows or sessions are forwarded when they close, the store returns them in the order of time.
    """

    windows: AggregationWindows
    emit: EmitStrategy

    def __post_init__(self) -> None:
        if self.retention_ms < self.windows.least_retention_ms:
            raise IllegalArgumentError(self.windows.retention_error(self.name, self.retention_ms))

    @property
    def retention_ms(self) -> int:
        given_ms = self.settings.retention_ms
        return self.windows.least_retention_ms if given_ms is None else given_ms


@dataclass(frozen=True, slots=True)
class WindowStoreFactory(WindowedStoreFactory):
    """Makes the builder of a window store with timestamps."""

    windows: Windows

    def builder(self) -> StoreBuilder:
        arguments, emits_on_close = self.arguments(), self.emit is EmitStrategy.ON_WINDOW_CLOSE
        if emits_on_close and isinstance(self.windows, SlidingWindows):
            arguments["caching"] = False  # as in Kafka; the cache of other windows stays
        return timestamped_window_store(
            **arguments,
            retention_ms=self.retention_ms,
            window_size_ms=self.windows.size_ms,
            time_ordered=emits_on_close,
        )


@dataclass(frozen=True, slots=True)
class SessionStoreFactory(WindowedStoreFactory):
    """Makes the builder of a session store. As in Kafka, the store has no record cache if sessions are forwarded when
    they close.
    """

    windows: SessionWindows

    def builder(self) -> StoreBuilder:
        arguments, emits_on_close = self.arguments(), self.emit is EmitStrategy.ON_WINDOW_CLOSE
        arguments["caching"] = arguments["caching"] and not emits_on_close
        return session_store(**arguments, retention_ms=self.retention_ms, time_ordered=emits_on_close)
