"""Aggregates of a stream that give their initial value as the old one of a key that is not there, as in Kafka.

Kafka's aggregate of a stream without a record cache forwards the initializer's value as the old value of a new key,
unless it emits on window close: then it forwards no old value. Here the old value is None. These aggregates read the
initial value as if it were stored; all others that read the store (joins, processors, the dump at the end) still find
nothing there.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, cast

from assignor.topology.definition import ProcessorNode
from streams_runtime import Headers, Topology
from streams_runtime.dsl.session_aggregate import KStreamSessionWindowAggregate
from streams_runtime.dsl.sliding_aggregate import KStreamSlidingWindowAggregate
from streams_runtime.dsl.windows import EmitStrategy
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.state_stores.value_and_timestamp import EntryAccess

_OLDER_THAN_ALL_MS = -1
"""An aggregate takes the newer of two timestamps: the record's, as for a key that is not there."""


class _WithInitialValue(Operator):
    def __init__(self, aggregate: Operator, initial: Any) -> None:
        self._aggregate = aggregate
        self._initial = initial

    def connect(self, child: Receiver, task: NodeContext) -> Receiver:
        return self._aggregate.connect(child, cast("NodeContext", _Task(task, self._initial)))


class _WithOldValuesOfNewWindows(Operator):
    """A sliding window that is new gets the old value from which its aggregate begins: the last argument of the
    aggregator. The right window of a record, which is copied, has none.
    """

    def __init__(self, aggregate: KStreamSlidingWindowAggregate) -> None:
        self._aggregate = aggregate

    def connect(self, child: Receiver, task: NodeContext) -> Receiver:
        begins_from: list[Any] = []
        aggregate, aggregation = copy(self._aggregate), self._aggregate.aggregation

        def aggregator(key: Any, value: Any, so_far: Any) -> Any:
            begins_from.append(so_far)
            return aggregation.aggregator(key, value, so_far)

        def with_old_value(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new, old = change
            first = begins_from.pop() if begins_from else None
            child(key, (new, first if old is None and aggregate.sends_old_values else old), timestamp_ms, headers)

        aggregate.aggregation = replace(aggregation, aggregator=aggregator)
        return aggregate.connect(with_old_value, task)


class _Task:
    """The task as the aggregate sees it. All but the store is the task's own."""

    def __init__(self, task: NodeContext, initial: Any) -> None:
        self._task = task
        self._initial = initial

    def state_store(self, name: str) -> Any:
        return _Store(self._task.state_store(name), self._initial)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)


class _Store:
    """The store as the aggregate sees it. All but the entries is the store's own."""

    def __init__(self, store: Any, initial: Any) -> None:
        self._store = store
        self._initial = initial

    def entry_access(self) -> EntryAccess:
        entries: EntryAccess = self._store.entry_access()
        initial = entries.write(_OLDER_THAN_ALL_MS, self._initial)

        def get(*place: Any) -> bytes:
            found = entries.get(*place)
            return initial if found is None else found

        return entries._replace(get=get)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def give_initial_values(topology: Topology, aggregates: Mapping[str, Any], *, caches: bool) -> None:
    """Change the aggregates whose store has no record cache.

    `aggregates`: initial values by name of the node. `caches`: False if the size of the cache is 0, so that no store
    has one.
    """
    definition = topology.definition()
    initial_values: dict[int, Any] = {}
    for name, initial in aggregates.items():
        node = definition.nodes[name]
        assert isinstance(node, ProcessorNode)
        (store,) = node.stores
        builder: Any = definition.stores[store].supplier
        if not (caches and builder.caching) and not isinstance(node.supplier, KStreamSessionWindowAggregate):
            initial_values[id(node.supplier)] = initial

    def changed(supplier: object) -> object:
        if id(supplier) not in initial_values:
            return supplier
        if isinstance(supplier, KStreamSlidingWindowAggregate):
            if supplier.emit is EmitStrategy.ON_WINDOW_CLOSE:
                return supplier
            return _WithOldValuesOfNewWindows(supplier)
        initial = initial_values[id(supplier)]
        return supplier if initial is None else _WithInitialValue(cast("Operator", supplier), initial)

    topology.builder = topology.builder.with_suppliers(changed)
