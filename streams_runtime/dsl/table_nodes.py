"""The nodes of tables in the graph. Whether a table keeps a store is decided when the topology is written.

Source: `TableSourceNode`, `StreamToTableNode`, `TableFilterNode`, `KTableKTableJoinNode`.
"""

from __future__ import annotations

from streams_runtime.dsl.graph_nodes import GraphNode, StreamSourceNode, write_processor
from streams_runtime.dsl.joins import KTableKTableJoin
from streams_runtime.dsl.table_supplier import TableSupplier
from streams_runtime.processors.topology import Topology


class TableNode(GraphNode):
    """A processor that makes a table."""

    def __init__(self, name: str, supplier: TableSupplier) -> None:
        super().__init__(name)
        self.supplier = supplier

    def write(self, topology: Topology) -> None:
        write_processor(topology, self.name, self.supplier, self.parent_names(), self.supplier.own_store())


class TableSourceNode(TableNode):
    """A source, and the processor that makes a table of it. `reuses_topic`: the topic is the store's changelog, too."""

    def __init__(self, name: str, source: StreamSourceNode, supplier: TableSupplier) -> None:
        super().__init__(name, supplier)
        self.source = source
        self.reuses_topic = False

    def write(self, topology: Topology) -> None:
        self.source.write(topology)
        store = self.supplier.own_store()
        write_processor(topology, self.name, self.supplier, (self.source.name,), store)
        if store is not None and self.reuses_topic:
            topology.use_source_topic_as_changelog(store.name, self.source.topics[0])


class TableJoinNode(GraphNode):
    """Three processors: one for each side, and `name`, which merges them.

    `parents_of_sides`: the nodes of the tables. `stores_to_read`: for each side, the stores that hold the other table.
    """

    def __init__(
        self,
        name: str,
        sides: tuple[str, str],
        join: KTableKTableJoin,
        parents_of_sides: tuple[str, str],
        stores_to_read: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> None:
        super().__init__(name)
        self.sides = sides
        self.join = join
        self.parents_of_sides = parents_of_sides
        self.stores_to_read = stores_to_read

    def write(self, topology: Topology) -> None:
        suppliers = (self.join.left, self.join.right)
        for side, supplier, parent in zip(self.sides, suppliers, self.parents_of_sides, strict=True):
            topology.add_processor(side, supplier, parent)
        write_processor(topology, self.name, self.join, self.sides, self.join.own_store())
        for side, stores in zip(self.sides, self.stores_to_read, strict=True):
            topology.connect_processor_and_stores(side, stores)
