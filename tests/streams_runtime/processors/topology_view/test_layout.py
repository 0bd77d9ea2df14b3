"""Where shapes stand in the picture: none on top of another, and records go from left to right."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from assignor.topology.builder import TopologyBuilder
from assignor.topology.definition import node_groups
from streams_runtime.processors.topology_view.layout import Item, Kind, Layout, lay_out
from tests.examples import share


def only_layout(builder: TopologyBuilder) -> Layout:
    definition = builder.definition()
    (names,) = node_groups(definition).values()
    return lay_out(definition, names)


def test_should_put_a_chain_on_one_line_with_the_store_under_its_processor() -> None:
    builder = TopologyBuilder().add_source("in", "a").add_processor("p", "in").add_sink("out", "b", "p")
    builder.add_state_store("s", "p")

    assert only_layout(builder) == Layout(
        places={
            Item(Kind.INPUT_TOPIC, "a"): (0.0, 0.5),
            Item(Kind.SOURCE, "in"): (1.0, 0.5),
            Item(Kind.PROCESSOR, "p"): (2.0, 0.5),
            Item(Kind.STORE, "s"): (2.0, 1.5),
            Item(Kind.SINK, "out"): (3.0, 0.5),
            Item(Kind.OUTPUT_TOPIC, "b"): (4.0, 0.5),
        },
        edges=(
            (Item(Kind.SOURCE, "in"), Item(Kind.PROCESSOR, "p")),
            (Item(Kind.INPUT_TOPIC, "a"), Item(Kind.SOURCE, "in")),
            (Item(Kind.PROCESSOR, "p"), Item(Kind.SINK, "out")),
            (Item(Kind.SINK, "out"), Item(Kind.OUTPUT_TOPIC, "b")),
        ),
        store_links=((Item(Kind.PROCESSOR, "p"), Item(Kind.STORE, "s")),),
        columns=5,
        height=2.0,
    )


def test_should_line_up_all_sinks_before_all_output_topics() -> None:
    builder = TopologyBuilder().add_source("in", "a").add_processor("p", "in").add_processor("q", "p")
    builder.add_sink("early", "b", "in").add_sink("late", "c", "q")
    places = only_layout(builder).places

    columns = {item.name: x for item, (x, _) in places.items() if item.kind in (Kind.SINK, Kind.OUTPUT_TOPIC)}
    assert columns == {"early": 4.0, "late": 4.0, "b": 5.0, "c": 5.0}


def test_should_show_a_shared_store_once_with_a_link_from_each_user() -> None:
    builder = TopologyBuilder().add_source("in", "a").add_processor("p", "in").add_processor("q", "in")
    builder.add_state_store("s", ["p", "q"])
    layout = only_layout(builder)

    store = Item(Kind.STORE, "s")
    assert [item for item in layout.places if item.kind is Kind.STORE] == [store]
    assert layout.store_links == ((Item(Kind.PROCESSOR, "p"), store), (Item(Kind.PROCESSOR, "q"), store))


@st.composite
def connected_topologies(draw: st.DrawFn) -> TopologyBuilder:
    """One subtopology: every node has a parent that was added before it."""
    builder = TopologyBuilder().add_source("n0", ["t0"])
    inner = ["n0"]
    for index in range(1, draw(st.integers(2, 18))):
        parents = draw(st.lists(st.sampled_from(inner), min_size=1, max_size=3, unique=True))
        if draw(st.booleans()):
            builder.add_processor(f"n{index}", parents)
            inner.append(f"n{index}")
            if draw(st.booleans()):
                builder.add_state_store(f"s{index}", f"n{index}")
        else:
            builder.add_sink(f"n{index}", f"t{index}", parents)
    return builder


@share(0.6)
@given(connected_topologies())
def test_should_keep_everything_apart_and_lead_every_edge_to_the_right(builder: TopologyBuilder) -> None:
    layout = only_layout(builder)
    shapes = {item: place for item, place in layout.places.items() if item.kind is not Kind.BEND}

    for (one, (x, y)), (other, (other_x, other_y)) in combinations(shapes.items(), 2):
        assert x != other_x or abs(y - other_y) >= 1 - 1e-9, f"{one} is on top of {other}"
    for bend, (x, y) in layout.places.items():
        for item, (shape_x, shape_y) in shapes.items():
            if bend.kind is Kind.BEND and x == shape_x:
                assert abs(y - shape_y) >= 0.75 - 1e-9, f"an edge runs through {item}"
    for edge in layout.edges:
        columns = [layout.places[item][0] for item in edge]
        assert columns == [columns[0] + step for step in range(len(columns))], f"{edge} does not go to the right"
    assert all(0 <= y <= layout.height for _, y in layout.places.values())
    assert lay_out(builder.definition(), next(iter(node_groups(builder.definition()).values()))) == layout
