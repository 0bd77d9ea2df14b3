"""Computes the positions of the nodes in the picture of a subtopology. The nodes are in columns from left to right,
without overlaps.

The layout follows the layered method of Sugiyama, Tagawa and Toda (1981). The number of a node's column is the length
of the longest path to the node. An edge that crosses several columns has a bend in each of these columns. To reduce
crossings of edges, the nodes of each column are sorted by the mean height of their neighbours. Then each node is moved
near the mean height of its neighbours, and the order of the nodes in a column does not change (isotonic regression).
Input topics are in the first column, output topics in the last column, and sinks in the column before the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import networkx as nx

from assignor.topology.definition import ProcessorNode, SinkNode, SourceNode, TopologyDefinition

_SWEEPS = 12


class Kind(StrEnum):
    """The kind of an item in the picture."""

    INPUT_TOPIC = "input topic"
    SOURCE = "source"
    PROCESSOR = "processor"
    STORE = "state store"
    SINK = "sink"
    OUTPUT_TOPIC = "output topic"
    BEND = "bend"


class Item(NamedTuple):
    """A topic, node or store of the picture, or a bend of an edge. If the subtopology reads and writes the same topic,
    this topic has two items. The name of a bend is a number.
    """

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a subtopology. `places`: maps each item to its centre (x, y). x is the number of the column. y
    grows downwards from 0, and its unit is the height of one shape.

    `edges`: each edge is a list of items: a shape, the bends, and another shape. `store_links`: pairs of a processor
    and a store that it uses.
    """

    places: Mapping[Item, tuple[float, float]]
    edges: tuple[tuple[Item, ...], ...]
    store_links: tuple[tuple[Item, Item], ...]
    columns: int
    height: float


def lay_out(definition: TopologyDefinition, names: Sequence[str]) -> Layout:
    """Computes the layout of one subtopology. `names`: the names of its nodes, parents first."""
    graph = _graph(definition, names)
    column_of = _columns(graph)
    stores_under, store_links = _stores(definition, names)
    edges = _with_bends(graph, column_of)
    neighbours: nx.Graph[Item] = nx.Graph()
    neighbours.add_nodes_from(column_of)
    for chain in edges:
        nx.add_path(neighbours, chain)
    columns: list[list[Item]] = [[] for _ in range(max(column_of.values()) + 1)]
    for item, column in column_of.items():
        columns[column].append(item)
    _lessen_crossings(columns, neighbours)
    cell = {item: 0.5 if item.kind is Kind.BEND else 1.0 + len(stores_under.get(item, ())) for item in column_of}
    tops = _heights(columns, neighbours, cell)
    places: dict[Item, tuple[float, float]] = {}
    for item, column in column_of.items():
        middle = tops[item] + (0.25 if item.kind is Kind.BEND else 0.5)
        places[item] = (float(column), middle)
        for row, store in enumerate(stores_under.get(item, ()), start=1):
            places[store] = (float(column), middle + row)
    height = max(tops[item] + cell[item] for item in tops)
    return Layout(places, tuple(map(tuple, edges)), tuple(store_links), len(columns), height)


def _graph(definition: TopologyDefinition, names: Sequence[str]) -> nx.DiGraph[Item]:
    graph: nx.DiGraph[Item] = nx.DiGraph()
    item_of: dict[str, Item] = {}
    for name in names:
        node = definition.nodes[name]
        kind = {SourceNode: Kind.SOURCE, ProcessorNode: Kind.PROCESSOR, SinkNode: Kind.SINK}[type(node)]
        item_of[name] = Item(kind, name)
        graph.add_node(item_of[name])
        for topic in (*definition.source_topics(name), *definition.source_patterns(name)):
            graph.add_edge(Item(Kind.INPUT_TOPIC, topic), item_of[name])
        for parent in node.parents:
            graph.add_edge(item_of[parent], item_of[name])
        if isinstance(node, SinkNode):
            graph.add_edge(item_of[name], Item(Kind.OUTPUT_TOPIC, node.topic or "chosen for each record"))
    return graph


def _columns(graph: nx.DiGraph[Item]) -> dict[Item, int]:
    column_of = {item: column for column, items in enumerate(nx.topological_generations(graph)) for item in items}
    inner = max((column for item, column in column_of.items() if item.kind is not Kind.OUTPUT_TOPIC), default=0)
    for item in column_of:
        if item.kind is Kind.SINK:
            column_of[item] = inner
        elif item.kind is Kind.OUTPUT_TOPIC:
            column_of[item] = inner + 1
    return column_of


def _stores(
    definition: TopologyDefinition, names: Sequence[str]
) -> tuple[dict[Item, list[Item]], list[tuple[Item, Item]]]:
    """Returns two values: the stores to draw under each processor, and all pairs of a processor and a store that it
    uses. A store is drawn under the first processor that uses it.
    """
    under: dict[Item, list[Item]] = {}
    links: list[tuple[Item, Item]] = []
    seen: set[str] = set()
    for name in names:
        node = definition.nodes[name]
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            user = Item(Kind.PROCESSOR, name)
            links.append((user, Item(Kind.STORE, store)))
            if store not in seen:
                under.setdefault(user, []).append(Item(Kind.STORE, store))
                seen.add(store)
    return under, links


def _with_bends(graph: nx.DiGraph[Item], column_of: dict[Item, int]) -> list[list[Item]]:
    """Returns each edge as a list of items: its start, its bends and its end. Adds the column of each bend to
    `column_of`.
    """
    chains: list[list[Item]] = []
    bends = 0
    for start, end in graph.edges:
        chain = [start]
        for column in range(column_of[start] + 1, column_of[end]):
            bend = Item(Kind.BEND, str(bends))
            bends += 1
            column_of[bend] = column
            chain.append(bend)
        chains.append([*chain, end])
    return chains


def _lessen_crossings(columns: list[list[Item]], neighbours: nx.Graph[Item]) -> None:
    """Sorts the items of each column in place. Visits the columns from left to right, and then from right to left.
    Items with equal mean heights keep their order, so the result is always the same.
    """
    rank = {item: float(index) for column in columns for index, item in enumerate(column)}
    column_of = {item: index for index, column in enumerate(columns) for item in column}
    for sweep in range(_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for index in range(len(columns))[::step]:
            column = columns[index]
            mean = {}
            for item in column:
                before = [rank[each] for each in neighbours[item] if column_of[each] == index - step]
                mean[item] = sum(before) / len(before) if before else rank[item]
            column.sort(key=mean.__getitem__)
            for place, item in enumerate(column):
                # the index of an item is counted from the centre of its column, so that short and long columns can be
                # compared
                rank[item] = place - (len(column) - 1) / 2


def _heights(
    columns: Sequence[Sequence[Item]], neighbours: nx.Graph[Item], cell: Mapping[Item, float]
) -> dict[Item, float]:
    """Returns the top edge (y, at least 0) of each item's cell. Each pass over the columns moves the cells towards the
    mean height of their neighbours, and keeps the order of the cells.
    """
    top: dict[Item, float] = {}
    for column in columns:
        # use the centre of a processor's own shape; the stores under it do not count
        at = -sum(min(cell[item], 1.0) for item in column) / 2
        for item in column:
            top[item] = at
            at += cell[item]
    line = {item: 0.25 if item.kind is Kind.BEND else 0.5 for item in cell}
    for sweep in range(3 * _SWEEPS):
        for column in columns[:: 1 if sweep % 2 == 0 else -1]:
            wanted = []
            for item in column:
                around = [top[each] + line[each] for each in neighbours[item]]
                wanted.append(sum(around) / len(around) - line[item] if around else top[item])
            top.update(zip(column, _spread(wanted, [cell[item] for item in column]), strict=True))
    lowest = min(top.values())
    return {item: place - lowest for item, place in top.items()}


def _spread(wanted: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Returns a place for each item, so that each item begins after the end of the previous item. The places are as
    near as possible to the wanted places (least squares).
    """
    offsets = [0.0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    # The difference of an item is its place minus the total size of all previous items. If no difference is lower than
    # the previous difference, no items overlap. The algorithm is "pool adjacent violators".
    blocks: list[tuple[float, int]] = []  # The mean and the length of each run without gaps.
    for place, offset in zip(wanted, offsets, strict=False):
        blocks.append((place - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (low, count), (high, more) = blocks[-2], blocks[-1]
            blocks[-2:] = [((low * count + high * more) / (count + more), count + more)]
    free = [mean for mean, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(free, offsets, strict=False)]
