"""The topology that a user writes: what it refuses, and that it can be pickled."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark import cloudpickle

from assignor import GroupTopology
from assignor.errors import TopologyError
from assignor.topology.group_topology import RepartitionTopic, Subtopology, SubtopologyStore
from streams_runtime import STRING, Processor, Record, Topology
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.runtime import SinkSettings
from tests.known import known
from tests.streams_runtime.processors.recording_runtime import EmptyStoreBuilder, PassOn, RecordingRuntime, Sent


def word_count() -> Topology:
    topology = Topology().add_source("lines", "text", value_serde=STRING)
    topology.add_processor("split", PassOn, "lines").add_repartition_topic("words", 4)
    topology.add_sink("to-words", "words", "split").add_source("words", "words")
    topology.add_state_store(EmptyStoreBuilder("counts"))
    topology.add_processor("count", PassOn, "words", stores=["counts"])
    return topology.add_sink("to-counts", "word-counts", "count")


def test_should_parse_to_what_the_assignor_reads() -> None:
    counts = EmptyStoreBuilder("counts")

    assert word_count().group_topology("app") == GroupTopology(
        (
            Subtopology(0, ("text",), (), ("app-words",), ("app-words",), ()),
            Subtopology(
                1,
                ("app-words",),
                (RepartitionTopic("app-words", 4),),
                ("word-counts",),
                (),
                (SubtopologyStore("counts", "app-counts-changelog", None, counts.changelog),),
            ),
        ),
        (),
    )


def shouting(mark: str) -> Callable[[], Processor[Any, Any]]:
    """A supplier that closes over a value and a class that is in no module: only cloudpickle can pickle it."""

    class Shout(PassOn):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record._replace(value=record.value.upper() + mark))

    return lambda: Shout()


def test_should_travel_with_closures_and_run_the_same_there() -> None:
    topology = Topology().add_source("in", "a", key_serde=STRING, value_serde=STRING)
    topology.add_processor("shout", shouting("!"), "in")
    topology.add_sink("out", "b", "shout", key_serde=STRING, value_serde=STRING, partitioner=lambda key, *_: len(key))
    travelled: Topology = cloudpickle.loads(cloudpickle.dumps(topology))  # type: ignore[no-untyped-call]

    runtime = RecordingRuntime()
    graph = ProcessorGraph.build(travelled, 0, "app")
    graph.init(runtime)
    graph.sources["a"].receiver("k", "hey", 1, ())

    assert travelled.describe() == topology.describe()
    assert runtime.sent == [Sent("b", "k", "HEY!", 1, ())]
    sink = travelled.definition().nodes["out"].supplier
    assert isinstance(sink, SinkSettings)
    assert (sink.key_serde, sink.value_serde) == (STRING, STRING)
    assert known(sink.partitioner)("k", "HEY!", 3) == 1


ONE = PassOn()


@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (ONE, "must be a class or a function without arguments that makes a processor"),
        (lambda: ONE, "supplier of Processor p gives the same object twice"),
        (dict, "gives a dict, which is no Processor: it needs `init`, `process` or `process_batch`, and `close`"),
    ],
)
def test_should_refuse_a_supplier_that_makes_no_processor(supplier: Any, message: str) -> None:
    topology = Topology().add_source("in", "a")
    before = topology.describe()

    with pytest.raises(TopologyError, match=message):
        topology.add_processor("p", supplier, "in")

    assert topology.describe() == before


def test_should_refuse_an_offset_reset_that_kafka_does_not_know() -> None:
    with pytest.raises(TopologyError, match="of Source in must be one of earliest, latest, none, not 'first'"):
        Topology().add_source("in", "a", auto_offset_reset="first")


def test_should_refuse_a_store_without_a_processor() -> None:
    topology = Topology().add_source("in", "a").add_state_store(EmptyStoreBuilder("lonely"))

    with pytest.raises(TopologyError, match="StateStore lonely is connected to no processor: name one in"):
        topology.group_topology("app")


def test_should_refuse_a_repartition_topic_without_a_writer_or_a_reader() -> None:
    topology = Topology().add_source("in", "a").add_repartition_topic("r").add_sink("out", "r", "in")
    with pytest.raises(TopologyError, match="No source reads repartition topic r; it needs both"):
        topology.group_topology("app")

    topology = Topology().add_repartition_topic("r").add_source("in", "r")
    with pytest.raises(TopologyError, match="No sink writes repartition topic r; it needs both"):
        topology.group_topology("app")


def test_should_connect_stores_afterwards_and_make_one_subtopology_of_those_who_share_one() -> None:
    topology = Topology().add_source("in-1", "a").add_source("in-2", "b").add_processor("p", PassOn, "in-1")
    topology.add_processor("q", PassOn, "in-2").add_state_store(EmptyStoreBuilder("s"), "p")
    assert len(topology.group_topology("app").subtopologies) == 2

    topology.connect_processor_and_stores("q", "s").copartition(["in-1", "in-2"])

    (one,) = topology.group_topology("app").subtopologies
    assert set(one.source_topics) == {"a", "b"}
    assert [set(group) for group in topology.group_topology("app").copartition_groups] == [{"a", "b"}]
