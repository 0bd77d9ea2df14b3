"""Gives the entries of a table new values, by a transformer of the user that may have state.

Each task has its own transformer. If the table has no store, each node that reads the table has one more transformer,
and calls it for each value that the node reads. As in Kafka, this transformer is also called with None if the key is
not in the table, and it can use only the stores of the node that reads. Source: `KTableTransformValues`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from streams_runtime.common.records import V2, Headers, K
from streams_runtime.dsl.materialized import StoreFactory, checked_settings
from streams_runtime.dsl.streams_graph import TableStage
from streams_runtime.dsl.table_operations import ResultingTable
from streams_runtime.dsl.table_operators import DerivedTableOperator, EntryDeriver, Mapper, TableOperator
from streams_runtime.processors.api import ValueTransformer
from streams_runtime.processors.context import NodeContext, Receiver

Supplier = Callable[[], ValueTransformer[Any, Any, Any]]


class KTableTransformValues(DerivedTableOperator):
    """The operator of a table with the keys of the parent and the values of a transformer."""

    def __init__(
        self, parent: TableOperator, supplier: Supplier, store: StoreFactory | None, *, inherits_versions: bool = False
    ) -> None:
        super().__init__(parent, store, inherits_versions=inherits_versions)
        self.supplier = supplier

    def derived(self, key: Any, value: Any) -> Any:
        raise AssertionError("the transformer belongs to a task: `deriver` makes it")

    def deriver(self, context: NodeContext) -> Mapper:
        return self._transformer(context, reads_table=False)

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        derived_table, current = super().connect(child, context), context.current

        def transform_values(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            current.timestamp_ms, current.headers = timestamp_ms, headers  # the transformer may change its store
            derived_table(key, change, timestamp_ms, headers)

        return transform_values

    def entry_deriver(self, context: NodeContext) -> EntryDeriver:
        transform, current = self._transformer(context, reads_table=True), context.current

        def transformed_entry(key: Any, found: tuple[int, Any] | None) -> tuple[int, Any] | None:
            timestamp_ms, parent_value = found or (-1, None)
            before = current.timestamp_ms, current.headers
            current.timestamp_ms, current.headers = timestamp_ms, ()
            try:
                value = transform(key, parent_value)
            finally:
                current.timestamp_ms, current.headers = before
            return None if value is None else (timestamp_ms, value)

        return transformed_entry

    def _transformer(self, context: NodeContext, *, reads_table: bool) -> Mapper:
        """Makes a transformer for the node of the context. Returns its method `transform`."""
        transformer = self.supplier()
        transformer.init(context.for_transformer(reads_table=reads_table))
        context.call_on_close(transformer.close)
        return transformer.transform


def transformed(
    table: TableStage[K, Any],
    supplier: Supplier,
    stores: Sequence[str],
    result: ResultingTable[K, V2],
) -> TableStage[K, V2]:
    """Adds a table with the values of a transformer. As in Kafka, the table has a store only if the user has named the
    store, and an unnamed store does not use up a number of the counter of generated names. A versioned store is an
    exception.
    """
    settings, inherited = checked_settings(result.store), result.inheriting(table)
    keys, values = inherited.key_serde, inherited.value_serde
    prefix, naming, store_name = "KTABLE-TRANSFORMVALUES-", table.graph.naming, settings.name
    if store_name is None and settings.is_versioned:
        store_name = naming.store(prefix)
    store = None if store_name is None else StoreFactory(store_name, keys, values, settings)
    node_name = naming.name_or_generated(result.name, prefix)
    operator = KTableTransformValues(table.operator, supplier, store, inherits_versions=not result.is_given)
    return table.make_table(node_name, operator, keys, values, stores)
