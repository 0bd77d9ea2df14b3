"""The graph of one task: its nodes, the order in which they run, and which node an error is attributed to."""

from collections.abc import Callable
from typing import Any

import pytest

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Record
from streams_runtime.logs.base import OffsetReset
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.topology import SourceSettings, Topology
from streams_runtime.serdes import LONG, STRING
from tests.streams_runtime.processors.recording_runtime import EmptyStoreBuilder, PassOn, RecordingRuntime

History = list[tuple[str, ...]]


class Telling(PassOn):
    """Writes every call into a list."""

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self.history = history

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.history.append((self.name, "init"))

    def process(self, record: Record[Any, Any]) -> None:
        self.history.append((self.name, record.value))
        self.context.forward(record)
        self.history.append((self.name, "done"))

    def close(self) -> None:
        self.history.append((self.name, "close"))


class Failing(PassOn):
    def process(self, record: Record[Any, Any]) -> None:
        raise ValueError("no")


class Catching(PassOn):
    """Continues when a node below it fails, then fails itself if it is asked to."""

    def process(self, record: Record[Any, Any]) -> None:
        try:
            self.context.forward(record)
        except ValueError:
            if record.value == "fail too":
                raise KeyError("mine") from None


def telling(name: str, history: History) -> Callable[[], Telling]:
    return lambda: Telling(name, history)


def started(topology: Topology, runtime: RecordingRuntime | None = None) -> ProcessorGraph:
    graph = ProcessorGraph.build(topology, 0, "app")
    graph.init(runtime or RecordingRuntime())
    return graph


def two_subtopologies() -> Topology:
    topology = Topology()
    topology.add_source("in", ["a", "b"], key_serde=STRING, value_serde=LONG, auto_offset_reset="latest")
    topology.add_processor("one", PassOn, "in")
    topology.add_state_store(EmptyStoreBuilder("logged"), "one")
    topology.add_state_store(EmptyStoreBuilder("unlogged", None), "one")
    topology.add_repartition_topic("by-word")
    topology.add_sink("out", "by-word", "one")
    topology.add_source("in-2", "by-word")
    topology.add_processor("table", PassOn, "in-2")
    topology.add_state_store(EmptyStoreBuilder("table-store"), "table")
    return topology.use_source_topic_as_changelog("table-store", "by-word")


def test_should_name_topics_in_full_and_know_each_stores_changelog() -> None:
    first = ProcessorGraph.build(two_subtopologies(), 0, "app")
    second = ProcessorGraph.build(two_subtopologies(), 1, "app")

    assert {topic: source.name for topic, source in first.sources.items()} == {"a": "in", "b": "in"}
    assert first.sources["a"] is first.sources["b"]
    assert [store.name for store in first.stores] == ["logged", "unlogged"]
    assert first.store_changelogs == {"logged": "app-logged-changelog", "unlogged": None}
    assert first.source_changelogs == {}
    assert first.repartition_sources == frozenset()
    assert first.sink_topics == {"app-by-word"}
    assert list(second.sources) == ["app-by-word"]
    assert second.repartition_sources == {"app-by-word"}


def test_should_restore_a_store_from_its_source_topic_when_that_serves_as_changelog() -> None:
    topology = Topology().add_source("in", "table").add_processor("p", PassOn, "in")
    topology.add_state_store(EmptyStoreBuilder("s"), "p").use_source_topic_as_changelog("s", "table")

    graph = ProcessorGraph.build(topology, 0, "app")

    assert graph.store_changelogs == {"s": "table"}
    assert graph.source_changelogs == {"s": "table"}


def test_should_tell_how_a_source_reads() -> None:
    settings = ProcessorGraph.build(two_subtopologies(), 0, "app").sources["a"].settings
    assert settings == SourceSettings(STRING, LONG, None, OffsetReset.LATEST)


def test_should_make_new_processors_and_stores_for_each_task() -> None:
    made: list[PassOn] = []

    class Counted(PassOn):
        def __init__(self) -> None:
            made.append(self)

    topology = Topology().add_source("in", "a").add_processor("p", Counted, "in")
    topology.add_state_store(EmptyStoreBuilder("s"), "p")
    made.clear()

    one = ProcessorGraph.build(topology, 0, "app")
    other = ProcessorGraph.build(topology, 0, "app")

    assert len({id(each) for each in made}) == 2
    assert one.stores[0] is not other.stores[0]


def test_should_refuse_a_subtopology_that_is_not_there() -> None:
    with pytest.raises(StreamsRuntimeError, match="no subtopology 5; the topology has 0, 1"):
        ProcessorGraph.build(two_subtopologies(), 5, "app")


def test_should_run_a_record_depth_first_in_the_order_nodes_were_added() -> None:
    history: History = []
    topology = Topology().add_source("in", "a")
    topology.add_processor("left", telling("left", history), "in").add_processor(
        "right", telling("right", history), "in"
    )
    topology.add_processor("below", telling("below", history), ["left", "right"])
    graph = started(topology)
    history.clear()

    graph.sources["a"].receiver("k", "v", 5, ())

    assert history == [
        ("left", "v"), ("below", "v"), ("below", "done"), ("left", "done"),
        ("right", "v"), ("below", "v"), ("below", "done"), ("right", "done"),
    ]  # fmt: skip


def test_should_init_and_close_processors_parents_first() -> None:
    history: History = []
    topology = Topology().add_source("in", "a").add_processor("one", telling("one", history), "in")
    topology.add_processor("two", telling("two", history), "one")
    graph = started(topology)

    graph.close()
    graph.close()

    assert history == [("one", "init"), ("two", "init"), ("one", "close"), ("two", "close")]


def test_should_refuse_to_initialise_twice() -> None:
    graph = started(two_subtopologies())

    with pytest.raises(StreamsRuntimeError, match="initialised already"):
        graph.init(RecordingRuntime())


def test_should_refuse_a_record_before_init_and_after_close() -> None:
    graph = ProcessorGraph.build(two_subtopologies(), 0, "app")
    with pytest.raises(StreamsRuntimeError, match="source in got a record, but its task is not running"):
        graph.sources["a"].receiver("k", "v", 5, ())

    graph.init(RecordingRuntime())
    graph.close()

    with pytest.raises(StreamsRuntimeError, match="source in got a record, but its task is not running"):
        graph.sources["a"].receiver("k", "v", 5, ())


def test_should_name_the_processor_when_init_fails_and_close_only_those_before_it() -> None:
    history: History = []

    class Broken(PassOn):
        def init(self, context: ProcessorContext) -> None:
            raise ValueError("no model")

        def close(self) -> None:
            history.append(("broken", "close"))

    topology = Topology().add_source("in", "a").add_processor("one", telling("one", history), "in")
    topology.add_processor("broken", Broken, "one")
    graph = ProcessorGraph.build(topology, 0, "app")

    with pytest.raises(StreamsRuntimeError, match=r"task \[0_0\] failed to initialize processor broken") as caught:
        graph.init(RecordingRuntime())
    graph.close()

    assert isinstance(caught.value.__cause__, ValueError)
    assert history == [("one", "init"), ("one", "close")]


class Unconnected(Operator):
    """Its store is not connected to it."""

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        receiver: Receiver = context.state_store("none")
        return receiver


def test_should_name_the_first_of_several_operators_that_fail() -> None:
    topology = Topology().add_source("in", "a").add_processor("first", Unconnected(), "in")
    topology.add_processor("second", Unconnected(), "first")
    with pytest.raises(StreamsRuntimeError, match=r"failed to initialize processor first: .*no access to state store"):
        ProcessorGraph.build(topology, 0, "app").init(RecordingRuntime())


def test_should_close_every_processor_when_one_fails_to_close() -> None:
    history: History = []

    class Broken(PassOn):
        def close(self) -> None:
            raise ValueError("still busy")

    topology = Topology().add_source("in", "a").add_processor("broken", Broken, "in")
    topology.add_processor("two", telling("two", history), "broken")
    graph = started(topology)

    with pytest.raises(StreamsRuntimeError, match="failed to close processor broken"):
        graph.close()

    assert history == [("two", "init"), ("two", "close")]


def test_should_name_the_outer_node_when_it_fails_after_it_caught_an_error_from_below() -> None:
    topology = Topology().add_source("in", "a").add_processor("catching", Catching, "in")
    topology.add_processor("failing", Failing, "catching")
    graph = started(topology)

    graph.sources["a"].receiver("k", "v", 5, ())
    with pytest.raises(KeyError) as caught:
        graph.sources["a"].receiver("k", "fail too", 5, ())

    assert graph.failed_node(caught.value) == "catching"


def test_should_give_stores_the_timestamp_of_the_record_their_processor_was_given() -> None:
    seen: list[tuple[str, int]] = []
    graphs: list[ProcessorGraph] = []

    class Stamped(PassOn):
        def __init__(self, name: str) -> None:
            self.name = name

        def process(self, record: Record[Any, Any]) -> None:
            seen.append((self.name, graphs[0].current.timestamp_ms))
            self.context.forward(record._replace(timestamp_ms=record.timestamp_ms + 100))
            seen.append((self.name, graphs[0].current.timestamp_ms))

    topology = Topology().add_source("in", "a").add_processor("one", lambda: Stamped("one"), "in")
    topology.add_processor("two", lambda: Stamped("two"), "one")
    topology.add_state_store(EmptyStoreBuilder("s"), ["one", "two"])
    graphs.append(started(topology))

    graphs[0].sources["a"].receiver("k", "v", 5, ())

    assert seen == [("one", 5), ("two", 105), ("two", 105), ("one", 5)]


def test_should_take_the_method_that_init_chose() -> None:
    """A processor may pick its `process` by what it finds in `init`."""
    history: list[str] = []

    class Choosing(Processor[Any, Any]):
        def init(self, context: ProcessorContext) -> None:
            self.process = self.chosen  # type: ignore[method-assign]

        def chosen(self, record: Record[Any, Any]) -> None:
            history.append(record.value)

    started(Topology().add_source("in", "a").add_processor("p", Choosing, "in")).sources["a"].receiver(1, "v", 5, ())

    assert history == ["v"]


def test_should_hand_a_record_twice_to_a_node_that_names_its_parent_twice_as_kafka_does() -> None:
    history: History = []
    topology = Topology().add_source("in", "a").add_processor("one", telling("one", history), ["in", "in"])
    topology.add_processor("two", telling("two", history), ["one", "one"])
    graph = started(topology)

    graph.sources["a"].receiver("k", "v", 5, ())

    of_one = [("one", "v"), ("two", "v"), ("two", "done"), ("two", "v"), ("two", "done"), ("one", "done")]
    assert [entry for entry in history if entry[1] != "init"] == of_one * 2
