"""Subtopologies and co-partitioned topics are components of a graph: the walks written here find those of networkx.

Except where Kafka does not: a co-partition group that touches two earlier ones joins the first only.
"""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from assignor.topology.assembly import assemble
from assignor.topology.builder import TopologyBuilder
from assignor.topology.definition import ProcessorNode, TopologyDefinition, node_groups

SOURCES = [f"source-{number}" for number in range(6)]


def topology(draw: st.DrawFn) -> TopologyDefinition:
    """Sources, and processors below some of the nodes before them, with stores that several may use."""
    builder = TopologyBuilder()
    names = list(SOURCES)
    for name in SOURCES:
        builder.add_source(name, [f"in-{name}"])
    stores = [f"store-{number}" for number in range(draw(st.integers(0, 3)))]
    for number in range(draw(st.integers(0, 10))):
        parents = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        builder.add_processor(f"processor-{number}", parents)
        names.append(f"processor-{number}")
    processors = names[len(SOURCES) :]
    for store in stores if processors else ():
        users = draw(st.lists(st.sampled_from(processors), min_size=1, max_size=3, unique=True))
        builder.add_state_store(store, users)
    return builder.definition()


@given(st.composite(topology)())
def test_should_put_nodes_into_one_subtopology_when_networkx_finds_them_connected(
    definition: TopologyDefinition,
) -> None:
    graph: nx.Graph[tuple[str, str]] = nx.Graph()
    for name, node in definition.nodes.items():
        graph.add_node(("node", name))
        graph.add_edges_from((("node", name), ("node", parent)) for parent in node.parents)
        stores = node.stores if isinstance(node, ProcessorNode) else ()
        graph.add_edges_from((("node", name), ("store", store)) for store in stores)
    components = [
        frozenset(name for kind, name in component if kind == "node") for component in nx.connected_components(graph)
    ]
    groups = [frozenset(names) for names in node_groups(definition).values()]
    assert sorted(map(sorted, groups)) == sorted(map(sorted, components))


@given(st.lists(st.lists(st.sampled_from(SOURCES), min_size=2, max_size=3, unique=True), max_size=4))
def test_should_join_copartitioned_topics_as_networkx_does_unless_a_group_touches_two(calls: list[list[str]]) -> None:
    builder = TopologyBuilder()
    for name in SOURCES:
        builder.add_source(name, [f"in-{name}"])
        builder.add_processor(f"below-{name}", name)
    graph: nx.Graph[str] = nx.Graph()
    touches_two = False
    for sources in calls:
        builder.copartition(sources)
        topics = [f"in-{name}" for name in sources]
        earlier = {min(nx.node_connected_component(graph, topic)) for topic in topics if topic in graph}
        touches_two = touches_two or len(earlier) > 1
        nx.add_path(graph, topics)
    found = sorted(sorted(group) for group in assemble(builder.definition(), "app").copartition_groups)
    components = sorted(sorted(component) for component in nx.connected_components(graph))
    assert touches_two or found == components
