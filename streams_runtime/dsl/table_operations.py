"""What the operations of a table leave in the graph.

A table is only kept in a store where something has to read it: an aggregate, a join, or an operation whose `store` the
user has named. Source: `KTableImpl`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from streams_runtime.dsl.change import value_of_change
from streams_runtime.dsl.graph_nodes import ProcessorGraphNode
from streams_runtime.dsl.joins import JoinSide, KTableKTableJoin
from streams_runtime.dsl.materialized import KeyValueStoreMaker, Store, materialized
from streams_runtime.dsl.repartition_node import GroupedTableSelectNode
from streams_runtime.dsl.stage import Stage, TableStage
from streams_runtime.dsl.stream_processors import KStreamMapValues
from streams_runtime.dsl.table_nodes import TableJoinNode, TableNode
from streams_runtime.dsl.table_processors import KTableFilter, KTableMapValues, Mapper, Predicate
from streams_runtime.dsl.table_supplier import TableSupplier
from streams_runtime.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")


@dataclass(frozen=True)  # no slots: Python 3.11 cannot make a slotted frozen dataclass with its type named
class ResultingTable(Generic[K, V]):
    """What a call says about the table that it makes. A serde is None where the call gives none.

    `is_given`: whether it says anything, as Kafka's overloads with `Materialized` do. The store then takes a number.
    """

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    store: Store

    @property
    def is_given(self) -> bool:
        return not (self.key_serde is None and self.value_serde is None and self.store is None)

    def inheriting(self, table: Stage[K, Any]) -> ResultingTable[K, V]:
        """With the key serde of this table where the call gives none."""
        return replace(self, key_serde=self.key_serde or table.key_serde)


def filtered(
    table: TableStage[K, V], predicate: Predicate, wanted: bool, result: ResultingTable[K, V], name: str | None
) -> TableStage[K, V]:
    """Entries for which the predicate answers `wanted`."""
    inherited = replace(result.inheriting(table), value_serde=result.value_serde or table.value_serde)
    maker = _own_store(table, "KTABLE-FILTER-", inherited) if result.is_given else None
    node_name = table.graph.naming.given_or(name, "KTABLE-FILTER-")
    supplier = KTableFilter(table.supplier, predicate, wanted, maker)
    return _derived(table, node_name, supplier, inherited)


def with_new_values(
    table: TableStage[K, Any], mapper: Mapper, result: ResultingTable[K, V2], name: str | None
) -> TableStage[K, V2]:
    inherited = result.inheriting(table)
    maker = _own_store(table, "KTABLE-MAPVALUES-", inherited) if result.is_given else None
    node_name = table.graph.naming.given_or(name, "KTABLE-MAPVALUES-")
    return _derived(table, node_name, KTableMapValues(table.supplier, mapper, maker), inherited)


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
    node = GroupedTableSelectNode(node_name, selector)
    table.graph.add(node, [table.node])
    table.supplier.send_old_values(keep_store=True)
    return Stage(table.graph, node, table.sources, None, None)


def joined(
    table: TableStage[K, Any],
    other: TableStage[K, Any],
    join: tuple[JoinSide, JoinSide],
    result: ResultingTable[K, V2],
    name: str | None,
) -> TableStage[K, V2]:
    """`join`: both sides (`inner_join`, `left_join`)."""
    naming, settings, inherited = table.graph.naming, materialized(result.store), result.inheriting(table)
    maker = None
    if result.is_given:
        store_name = naming.store("KTABLE-MERGE-") if settings.name is None else settings.name
        maker = KeyValueStoreMaker(store_name, inherited.key_serde, inherited.value_serde, settings)
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
    return TableStage(table.graph, node, sources, inherited.key_serde, inherited.value_serde, supplier=supplier)


def _own_store(table: TableStage[K, Any], prefix: str, result: ResultingTable[K, Any]) -> KeyValueStoreMaker | None:
    """Only a named store is kept. A store that was asked for without a name still takes a number."""
    settings = materialized(result.store)
    if settings.name is None:
        table.graph.naming.store(prefix)
        return None
    return KeyValueStoreMaker(settings.name, result.key_serde, result.value_serde, settings)


def _derived(
    table: TableStage[K, Any], node_name: str, supplier: TableSupplier, result: ResultingTable[K, V2]
) -> TableStage[K, V2]:
    node = TableNode(node_name, supplier)
    table.graph.add(node, [table.node])
    return replace(table, node=node, key_serde=result.key_serde, value_serde=result.value_serde, supplier=supplier)
