"""Adds the nodes of a table's operations to the graph.

A table has a store only if the user names the store, or if a join or an aggregation has to read the table.
Source: `KTableImpl`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypedDict

from streams_runtime.common.records import V2, K, V
from streams_runtime.dsl.change import value_of_change
from streams_runtime.dsl.graph_nodes import ProcessorGraphNode, TableJoinNode
from streams_runtime.dsl.joins import Joiner, KTableKTableJoin, join_sides
from streams_runtime.dsl.materialized import StoreArgument, StoreFactory, checked_settings
from streams_runtime.dsl.repartitioning import GroupedTableSelectNode
from streams_runtime.dsl.stream_processors import StreamOperator, mapping_values
from streams_runtime.dsl.streams_graph import Stage, TableStage
from streams_runtime.dsl.table_operators import KTableFilter, KTableMapValues, Mapper, Predicate
from streams_runtime.serdes import Serde


class TableOptions(TypedDict, Generic[K, V], total=False):
    """The options of a DSL call that makes a table of another table. `KTable` describes the serdes. `store`: the name
    of the table's store, or a `Materialized` with more settings. `name`: the name of the operation's node.
    """

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    store: StoreArgument
    name: str | None


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class ResultingTable(Generic[K, V]):
    """The given `TableOptions`. Source: the overloads of `KTable` with `Materialized`."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    store: StoreArgument = None
    name: str | None = None

    @property
    def is_given(self) -> bool:
        """True if the DSL call has a serde or a store. As in Kafka, such a call uses up a number of the counter of
        generated names.
        """
        return not (self.key_serde is None and self.value_serde is None and self.store is None)

    def inheriting(self, table: Stage[K, Any]) -> ResultingTable[K, V]:
        """Returns a copy of the arguments. If the DSL call has no key serde, the copy has the key serde of `table`."""
        return replace(self, key_serde=self.key_serde or table.key_serde)


def filtered(
    table: TableStage[K, V], predicate: Predicate, wanted: bool, result: ResultingTable[K, V]
) -> TableStage[K, V]:
    """Adds a table of the entries for which the predicate returns `wanted` (True or False)."""
    inherited = replace(result.inheriting(table), value_serde=result.value_serde or table.value_serde)
    store = _own_store(table, "KTABLE-FILTER-", inherited) if result.is_given else None
    node_name = table.graph.naming.name_or_generated(result.name, "KTABLE-FILTER-")
    operator = KTableFilter(table.operator, predicate, wanted, store, inherits_versions=not result.is_given)
    return table.make_table(node_name, operator, inherited.key_serde, inherited.value_serde)


def with_new_values(table: TableStage[K, Any], mapper: Mapper, result: ResultingTable[K, V2]) -> TableStage[K, V2]:
    inherited = result.inheriting(table)
    store = _own_store(table, "KTABLE-MAPVALUES-", inherited) if result.is_given else None
    node_name = table.graph.naming.name_or_generated(result.name, "KTABLE-MAPVALUES-")
    operator = KTableMapValues(table.operator, mapper, store, inherits_versions=not result.is_given)
    return table.make_table(node_name, operator, inherited.key_serde, inherited.value_serde)


def as_stream(table: TableStage[K, V], name: str | None) -> Stage[K, V]:
    """Adds a stream with a record for every change of the table. The value of this record is the new value."""
    node_name = table.graph.naming.name_or_generated(name, "KTABLE-TOSTREAM-")
    node = ProcessorGraphNode(node_name, StreamOperator(mapping_values, value_of_change))
    table.graph.add(node, [table.node])
    return Stage(table.graph, node, table.sources, table.key_serde, table.value_serde)


def under_new_keys(
    table: TableStage[Any, Any], selector: Callable[[Any, Any], tuple[Any, Any]], name: str | None
) -> Stage[Any, Any]:
    """Adds a node that forwards each change under the key of its group. Tells the table to forward old values, because
    aggregations of a grouped table subtract old values.
    """
    node_name = table.graph.naming.name_or_generated(name, "KTABLE-SELECT-")
    node = GroupedTableSelectNode(node_name, selector, table.operator.is_versioned)
    table.graph.add(node, [table.node])
    table.operator.send_old_values(keep_store=True)
    return Stage(table.graph, node, table.sources, None, None)


def joined(
    table: TableStage[K, Any],
    other: TableStage[K, Any],
    joiner: Joiner,
    needs: tuple[bool, bool],
    result: ResultingTable[K, V2],
) -> TableStage[K, V2]:
    """Adds a join of two tables. `needs`: for the left and the right table, True if a result needs a value of it."""
    naming, settings, inherited = table.graph.naming, checked_settings(result.store), result.inheriting(table)
    name = result.name
    store = None
    if result.is_given:
        store_name = settings.name or naming.store("KTABLE-MERGE-")
        store = StoreFactory(store_name, inherited.key_serde, inherited.value_serde, settings)
    merge_name = naming.name_or_generated(name, "KTABLE-MERGE-")
    sources = table.copartition_with(other)
    sides = (
        naming.name_or_generated(name, "KTABLE-JOINTHIS-", "-join-this"),
        naming.name_or_generated(name, "KTABLE-JOINOTHER-", "-join-other"),
    )
    operator = KTableKTableJoin(*join_sides(table.operator, other.operator, joiner, needs), store)
    stores_to_read = (other.operator.view(), table.operator.view())
    node = TableJoinNode(merge_name, sides, operator, (table.name, other.name), stores_to_read)
    table.graph.add(node, [table.node, other.node])
    return TableStage(table.graph, node, sources, inherited.key_serde, inherited.value_serde, operator=operator)


def _own_store(table: TableStage[K, Any], prefix: str, result: ResultingTable[K, Any]) -> StoreFactory | None:
    """Returns the factory of the store, or None if the user has not named the store, and it is not versioned. As in
    Kafka, an unnamed store uses up a number of the counter of generated names.
    """
    settings = checked_settings(result.store)
    if settings.name is None and not settings.is_versioned:
        table.graph.naming.processor(prefix)
        return None
    name = settings.name or table.graph.naming.store(prefix)
    return StoreFactory(name, result.key_serde, result.value_serde, settings)
