"""Records of a key in windows of time, ready to be folded into a table of windowed keys.

Every update of a window is handed on. Source: `TimeWindowedKStream`, `TimeWindowedKStreamImpl`.
Differs from Kafka: there is no `EmitStrategy.onWindowClose`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from streams_runtime.dsl.ktable import KTable
from streams_runtime.dsl.materialized import Materialized, Store, WindowStoreMaker, materialized
from streams_runtime.dsl.stream_aggregates import (
    Aggregator,
    Initializer,
    ReducerAsAggregator,
    nothing,
    one_more,
    zero,
)
from streams_runtime.dsl.time_windows import TimeWindows
from streams_runtime.dsl.window_aggregates import KStreamWindowAggregate
from streams_runtime.dsl.windowed_serde import TimeWindowedSerde
from streams_runtime.serdes import LONG, Serde
from streams_runtime.state_stores.base import Windowed

if TYPE_CHECKING:
    from streams_runtime.dsl.grouped_stream import KGroupedStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

AGGREGATE_NAME = "KSTREAM-AGGREGATE-"
REDUCE_NAME = "KSTREAM-REDUCE-"


class TimeWindowedKStream(Generic[K, V]):
    """The store keeps windows for size plus grace, or as long as its `retention_ms` says."""

    def __init__(self, grouped: KGroupedStream[K, V], windows: TimeWindows) -> None:
        self._grouped = grouped
        self._windows = windows

    def count(self, *, store: Store = None, name: str | None = None) -> KTable[Windowed[K], int]:
        """How many records each key had in each window."""
        settings = self._grouped._count_settings(store)
        return self._folded(AGGREGATE_NAME, zero, one_more, LONG, settings, name)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        value_serde: Serde[A],
        store: Store = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """`aggregator`: key, value, aggregate so far to the new one; None removes it."""
        return self._folded(AGGREGATE_NAME, initializer, aggregator, value_serde, materialized(store), name)

    def reduce(
        self, reducer: Callable[[V, V], V], *, store: Store = None, name: str | None = None
    ) -> KTable[Windowed[K], V]:
        """`reducer`: value so far and next value to the new one; a window's first value is taken as it is."""
        value_serde = self._grouped._value_serde
        aggregator = ReducerAsAggregator(reducer)
        return self._folded(REDUCE_NAME, nothing, aggregator, value_serde, materialized(store), name)

    def _folded(
        self,
        prefix: str,
        initializer: Initializer,
        aggregator: Aggregator,
        value_serde: Serde[A] | None,
        settings: Materialized,
        name: str | None,
    ) -> KTable[Windowed[K], A]:
        grouped = self._grouped
        key_serde = grouped._key_serde
        store_name = grouped._store_name(prefix, settings)
        node_name = grouped._graph.naming.given_or(name, prefix)
        maker = WindowStoreMaker(store_name, key_serde, value_serde, settings, self._windows)
        supplier = KStreamWindowAggregate(maker, initializer, aggregator)
        node, sources = grouped._fold_node(node_name, supplier)
        keys = None if key_serde is None else TimeWindowedSerde(key_serde, self._windows.size_ms)
        return KTable(grouped._graph, node, sources, keys, value_serde, supplier)
