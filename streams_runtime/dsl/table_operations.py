"""What the operations of a table leave in the graph.

A table is only kept in a store where something has to read it: an aggregate, a join, or an operation whose `store` the
user has named. Source: `KTableImpl`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from streams_runtime.dsl.change import value_of_change
from streams_runtime.dsl.graph_nodes import ProcessorGraphNode
from streams_runtime.dsl.joins import JoinSide, KTableKTableJoin
from streams_runtime.dsl.materialized import KeyValueStoreMaker, Materialized, Store, materialized
from streams_runtime.dsl.stage import Stage, TableStage
from streams_runtime.dsl.stream_processors import KStreamMapValues
from streams_runtime.dsl.table_aggregates import TableRepartitionMap
from streams_runtime.dsl.table_nodes import TableJoinNode, TableNode
from streams_runtime.dsl.table_processors import KTableFilter, KTableMapValues, Mapper, Predicate
from streams_runtime.dsl.table_supplier import TableSupplier
from streams_runtime.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")


def filtered(
    table: TableStage[K, V], predicate: Predicate, wanted: bool, store: Store, name: str | None
) -> TableStage[K, V]:
    """Entries for which the predicate answers `wanted`."""
    settings = None if store is None else materialized(store)
    maker = _own_store(table, "KTABLE-FILTER-", table.value_serde, settings)
    node_name = table.graph.naming.given_or(name, "KTABLE-FILTER-")
    supplier = KTableFilter(table.supplier, predicate, wanted, maker)
    return _derived(table, node_name, supplier, table.value_serde)


def with_new_values(
    table: TableStage[K, Any], mapper: Mapper, value_serde: Serde[V2] | None, store: Store, name: str | None
) -> TableStage[K, V2]:
    settings = None if store is None and value_serde is None else materialized(store)
    maker = _own_store(table, "KTABLE-MAPVALUES-", value_serde, settings)
    node_name = table.graph.naming.given_or(name, "KTABLE-MAPVALUES-")
    return _derived(table, node_name, KTableMapValues(table.supplier, mapper, maker), value_serde)


def as_stream(table: TableStage[K, V], name: str | None) -> Stage[K, V]:
    """Every change as a record with the new value."""
    node_name = table.graph.naming.given_or(name, "KTABLE-TOSTREAM-")
    node = ProcessorGraphNode(node_name, partial(KStreamMapValues, value_of_change))
    table.graph.add(node, [table.node])
    return Stage(table.graph, node, table.sources, table.key_serde, table.value_serde)


def under_new_keys(
    table: TableStage[Any, Any], selector: Callable[[Any, Any], tuple[Any, Any]], name: str | None
) -> Stage[Any, Any]:
    """Changes on their way to their groups. The table sends old values from now on, so that they can be subtracted."""
    node_name = table.graph.naming.given_or(name, "KTABLE-SELECT-")
    node = ProcessorGraphNode(node_name, partial(TableRepartitionMap, selector))
    table.graph.add(node, [table.node])
    table.supplier.send_old_values(keep_store=True)
    return Stage(table.graph, node, table.sources, None, None)


def joined(
    table: TableStage[K, Any],
    other: TableStage[K, Any],
    join: tuple[JoinSide, JoinSide],
    value_serde: Serde[V2] | None,
    store: Store,
    name: str | None,
) -> TableStage[K, V2]:
    """`join`: both sides (`inner_join`, `left_join`)."""
    naming, settings = table.graph.naming, materialized(store)
    maker = None
    if store is not None or value_serde is not None:
        store_name = naming.store("KTABLE-MERGE-") if settings.name is None else settings.name
        maker = KeyValueStoreMaker(store_name, table.key_serde, value_serde, settings)
    merge_name = naming.given_or(name, "KTABLE-MERGE-")
    sources = table.copartitioned_with(other)
    sides = (
        naming.given_or(name, "KTABLE-JOINTHIS-", "-join-this"),
        naming.given_or(name, "KTABLE-JOINOTHER-", "-join-other"),
    )
    supplier = KTableKTableJoin(*join, maker)
    stores_to_read = (other.supplier.view(), table.supplier.view())
    node = TableJoinNode(merge_name, sides, supplier, (table.name, other.name), stores_to_read)
    table.graph.add(node, [table.node, other.node])
    return TableStage(table.graph, node, sources, table.key_serde, value_serde, supplier=supplier)


def _own_store(
    table: TableStage[K, Any], prefix: str, value_serde: Serde[Any] | None, settings: Materialized | None
) -> KeyValueStoreMaker | None:
    """Only a named store is kept. A store that was asked for without a name still takes a number."""
    if settings is None:
        return None
    if settings.name is None:
        table.graph.naming.store(prefix)
        return None
    return KeyValueStoreMaker(settings.name, table.key_serde, value_serde, settings)


def _derived(
    table: TableStage[K, Any], node_name: str, supplier: TableSupplier, value_serde: Serde[V2] | None
) -> TableStage[K, V2]:
    node = TableNode(node_name, supplier)
    table.graph.add(node, [table.node])
    return replace(table, node=node, value_serde=value_serde, supplier=supplier)
