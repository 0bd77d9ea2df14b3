"""Aggregates of a stream that give their initial value as the old one of a key that is not there, as in Kafka.

Kafka's aggregate of a stream without a record cache forwards the initializer's value as the old value of a new key.
Here the old value is None. These aggregates read the initial value as if it were stored; all others that read the store
(joins, processors, the dump at the end) still find nothing there.
"""

from collections.abc import Mapping
from typing import Any, cast

from assignor.topology.definition import ProcessorNode
from streams_runtime import Topology
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
        if initial is not None and not (caches and builder.caching):
            initial_values[id(node.supplier)] = initial

    def changed(supplier: object) -> object:
        if id(supplier) not in initial_values:
            return supplier
        return _WithInitialValue(cast("Operator", supplier), initial_values[id(supplier)])

    topology.builder = topology.builder.with_suppliers(changed)
