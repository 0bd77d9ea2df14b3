"""An error of any kind of node reaches the handler with its node, its task and its input record.

The message names the line of the user. The records before and after it are processed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streams_runtime.common.errors import ProcessingFailed
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Record, RecordMetadata
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.dsl.windows import TimeWindows
from streams_runtime.local_run.topology_test_driver import TopologyTestDriver
from streams_runtime.logs.base import NewTopic
from streams_runtime.processors.api import ExceptionHandler, Processor, ProcessorContext, PunctuationType
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING, Serdes
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.tasks.exception_handling import NO_RECORD, described, fail
from tests.streams_runtime.asked import AskedHandler
from tests.streams_runtime.processors.recording_runtime import PassOn
from tests.streams_runtime.tasks.running_task import IN, OTHER, START_MS, TASK, RunningTask, Trouble


def checked(value: Any) -> Any:
    """Everything of the user in these topologies calls it with a value of the input."""
    if value == "bad":
        raise Trouble("bad is refused")
    return value


USERS_LINE = f"({__file__}, line {checked.__code__.co_firstlineno + 3}, in checked)"
CHECKING: Serdes[Any] = Serdes(lambda value: str(checked(value)).encode(), bytes.decode)
"""It can read `bad`, and does not write it."""


def is_good(_key: Any, value: Any) -> bool:
    return bool(checked(value))


def of_values(_key: Any, value: Any, _aggregate: Any = None) -> Any:
    return checked(value)


def of_both(_one: Any, other: Any) -> Any:
    return checked(other)


class OwnProcessor(PassOn):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record._replace(value=checked(record.value)))


class OwnBatches(OwnProcessor):
    retries_one_by_one = True

    def process_batch(self, batch: RecordColumns[Any, Any]) -> None:
        self.context.forward_batch(batch.with_values([checked(value) for value in batch.values]))


class HandsOnOnce(OwnProcessor):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


class HandsOn(OwnProcessor):
    """It goes on when a node below has failed."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)
        self.context.forward(record._replace(key="again", value="x"))


def branched(stream: Any) -> None:
    stream.split(name="node").branch(is_good, name="-good").default_branch(name="-rest")["node-good"].to(
        "out", key_serde=STRING, value_serde=STRING
    )


def as_table(builder: StreamsBuilder, **options: Any) -> Any:
    return builder.table("in", STRING, STRING, **options)


def joined_stream(builder: StreamsBuilder, how: str) -> None:
    stream, other = builder.stream("in", STRING, STRING), builder.table("other", STRING, STRING, store="other")
    getattr(stream, how)(other, lambda value, _other: checked(value), name="node").to(
        "out", key_serde=STRING, value_serde=STRING
    )


def joined_tables(builder: StreamsBuilder, how: str) -> None:
    table, other = as_table(builder, store="in"), builder.table("other", STRING, STRING, store="other")
    joined = getattr(table, how)(other, lambda value, _other: checked(value))
    joined.to_stream().to("out", key_serde=STRING, value_serde=STRING)


class Kind(NamedTuple):
    """`build`: makes the topology. `node`: which node fails, or a prefix of its name. `told`: the end of the message.
    `failures`: how many there are when the handler goes on.
    """

    name: str
    build: Callable[[StreamsBuilder], object]
    node: str = "node"
    told: str = USERS_LINE
    failures: int = 1


def on_stream(name: str, build: Callable[[Any], Any], told: str = USERS_LINE) -> Kind:
    """An operation of a stream, whose result is sent."""

    def with_sink(builder: StreamsBuilder) -> None:
        result = build(builder.stream("in", STRING, STRING))
        if result is not None:
            result.to("out", key_serde=STRING, value_serde=STRING)

    return Kind(name, with_sink, told=told)


def on_table(name: str, build: Callable[[Any], Any], node: str = "node", **options: Any) -> Kind:
    """An operation of a table, whose result is sent as a stream."""
    return Kind(
        name,
        lambda builder: build(as_table(builder, **options)).to_stream().to("out", key_serde=STRING, value_serde=STRING),
        node,
    )


def grouped(stream: Any) -> Any:
    return stream.group_by_key(key_serde=STRING, value_serde=STRING)


KINDS = [
    on_stream("map", lambda stream: stream.map(lambda key, value: (key, checked(value)), name="node")),
    on_stream("flat_map", lambda stream: stream.flat_map(lambda key, value: [(key, checked(value))], name="node")),
    on_stream("select_key", lambda stream: stream.select_key(of_values, name="node")),
    on_stream("map_values", lambda stream: stream.map_values(checked, name="node")),
    on_stream("map_values_with_key", lambda stream: stream.map_values_with_key(of_values, name="node")),
    on_stream("flat_map_values", lambda stream: stream.flat_map_values(lambda value: [checked(value)], name="node")),
    on_stream("generator", lambda stream: stream.flat_map_values(lambda value: map(checked, [value]), name="node")),
    on_stream("filter", lambda stream: stream.filter(is_good, name="node")),
    on_stream("filter_not", lambda stream: stream.filter_not(lambda _, value: not checked(value), name="node")),
    on_stream("branch", branched),
    on_stream("peek", lambda stream: stream.peek(of_values, name="node")),
    on_stream("for_each", lambda stream: stream.for_each(of_values, name="node")),
    on_stream("below_merged", lambda stream: stream.merge(stream.filter(lambda *_: False)).map_values(
        checked, name="node")),
    on_stream("map_values_batches", lambda stream: stream.map_values_batches(
        lambda batch: [checked(value) for value in batch.values], name="node")),
    on_stream("process", lambda stream: stream.process(OwnProcessor, name="node")),
    on_stream("process_batch", lambda stream: stream.process(OwnBatches, name="node")),
    on_stream("forward", lambda stream: stream.process(HandsOn, name="above").map_values(checked, name="node")),
    on_stream("sink_serde", lambda stream: stream.to("out", key_serde=STRING, value_serde=CHECKING, name="node"),
        "value serde Serdes a str (Trouble: bad is refused)"),
    on_stream("aggregate", lambda stream: grouped(stream).aggregate(
        str, of_values, value_serde=STRING, name="node").to_stream()),
    on_stream("reduce", lambda stream: grouped(stream).reduce(of_both, name="node").to_stream()),
    on_stream("window_aggregate", lambda stream: grouped(stream).windowed_by(TimeWindows(10)).aggregate(
        str, of_values, value_serde=STRING, name="node").to_stream().select_key(lambda key, _: key.key)),
    on_stream("store_of_aggregate", lambda stream: grouped(stream).aggregate(
        str, lambda _key, value, _aggregate: value, value_serde=CHECKING, name="node").to_stream()),
    Kind("table_source", lambda builder: builder.table("in", STRING, CHECKING, store="in"), "KTABLE-SOURCE-"),
    on_table("table_filter", lambda table: table.filter(is_good, name="node")),
    on_table("table_filter_with_store", lambda table: table.filter(is_good, name="node", store="kept")),
    on_table("table_map_values", lambda table: table.map_values(checked, name="node")),
    on_table("table_below_to_stream", lambda table: table.to_stream().map_values(checked, name="node").to_table()),
    Kind("group_by", lambda builder: as_table(builder).group_by(
        lambda key, value: (checked(value), key), key_serde=STRING, value_serde=STRING).count(),
        "KTABLE-SELECT-", failures=2),  # it fails again when the value goes
    Kind("join", lambda builder: joined_stream(builder, "join")),
    Kind("left_join", lambda builder: joined_stream(builder, "left_join")),
    Kind("join_of_tables", lambda builder: joined_tables(builder, "join"), "KTABLE-JOINTHIS-"),
    Kind("left_join_of_tables", lambda builder: joined_tables(builder, "left_join"), "KTABLE-JOINTHIS-"),
]  # fmt: skip
KINDS_OF_NODES = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def running(
    directory: Path, topology: Topology, handler: ExceptionHandler = fail, cache: ThreadCache | None = None
) -> RunningTask:
    one = RunningTask(directory, topology, {"max.task.idle.ms": -1}, processing_handler=handler, cache=cache)
    known = {"in", "other", "out"}
    one.log.create_topics([NewTopic(topic, 1) for topic in {*one.graph.sink_topics, *one.graph.sources} - known])
    changelogs = {changelog for changelog in one.graph.store_changelogs.values() if changelog is not None} - known
    one.log.create_topics([NewTopic(topic, 1) for topic in changelogs])
    one.start()
    if OTHER in one.inputs:
        one.write(OTHER, "table")
        one.run()
    return one


def built(kind: Kind) -> Topology:
    builder = StreamsBuilder()
    kind.build(builder)
    return builder.build()


@KINDS_OF_NODES
def test_should_ask_the_handler_about_the_record_and_the_node_that_failed(tmp_path: Path, kind: Kind) -> None:
    asked = AskedHandler()
    one = running(tmp_path, built(kind), asked)
    one.write(IN, "a", "bad", "c")
    one.run()
    failed = asked.about[0]
    assert failed.node.startswith(kind.node)
    assert (failed.task_id, failed.metadata) == (TASK, RecordMetadata("in", 0, 1))
    assert (failed.key, failed.value, failed.timestamp_ms) == (b"k", b"bad", 2)
    assert described(failed).endswith(kind.told)
    assert (len(asked.about), one.task.runtime.losses.dropped_records, one.commit()[IN]) == (
        kind.failures,
        kind.failures,
        3,
    )


@KINDS_OF_NODES
def test_should_end_with_everything_named_and_process_the_record_again(tmp_path: Path, kind: Kind) -> None:
    one = running(tmp_path, built(kind))
    one.write(IN, "a", "bad", "c")
    one.poll()
    named = rf"task=0_0, node={kind.node}\S*, record topic=in, partition=0, offset=1: .*bad is refused"
    for _ in range(2):
        with pytest.raises(ProcessingFailed, match=named) as caught:
            one.process()
        assert str(caught.value).endswith(kind.told)
    assert one.task.prepare_commit().get(IN, 1) == (0 if "batch" in kind.name else 1)


class Punctuated(OwnProcessor):
    """`forwards`: the node below fails, else the punctuator itself."""

    forwards = True

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.punctuate)

    def punctuate(self, time_ms: int) -> None:
        self.context.forward(Record("k", "bad" if self.forwards else checked("bad"), time_ms))
        self.context.forward(Record("k", "after", time_ms))


class FailsItself(Punctuated):
    forwards = False


@pytest.mark.parametrize(("processor", "node", "sent"), [(Punctuated, "below", ["after"]), (FailsItself, "own", [])])
def test_should_ask_the_handler_about_a_punctuation(
    tmp_path: Path, processor: type[Processor[Any, Any]], node: str, sent: list[str]
) -> None:
    asked = AskedHandler()

    def build(builder: StreamsBuilder) -> None:
        own = builder.stream("in", STRING, STRING).process(processor, name="own")
        own.map_values(checked, name="below").to("out", key_serde=STRING, value_serde=STRING)

    one = running(tmp_path, built(Kind("", build)), asked)
    one.clock.advance(10)
    assert one.task.maybe_punctuate_system_time(one.clock.now_ms())
    (failed,) = asked.about
    assert (failed.node, failed.task_id, failed.metadata) == (node, TASK, NO_RECORD)
    assert (failed.key, failed.value, failed.timestamp_ms) == (None, None, START_MS + 10)
    assert USERS_LINE in described(failed)
    assert one.output() == sent


NAMED_AS_ITS_FUNCTION: dict[str, Callable[[Any, str], object]] = {
    "map_": lambda stream, name: stream.map(lambda key, value: (key, checked(value)), name=name),
    "map_values": lambda stream, name: stream.map_values(checked, name=name),
    "filter_": lambda stream, name: stream.filter(is_good, name=name),
    "peek": lambda stream, name: stream.peek(of_values, name=name),
    "processor": lambda stream, name: stream.process(OwnProcessor, name=name),
    "batches": lambda stream, name: stream.process(OwnBatches, name=name),
    "sink": lambda stream, name: stream.to("out", key_serde=STRING, value_serde=CHECKING, name=name),
    "aggregate": lambda stream, name: grouped(stream).reduce(of_both, name=name),
}


@pytest.mark.parametrize("name", NAMED_AS_ITS_FUNCTION)
def test_should_tell_nodes_apart_when_one_is_named_as_a_function_of_the_engine(tmp_path: Path, name: str) -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", STRING, STRING)
        for node in ("first", name, "last"):
            NAMED_AS_ITS_FUNCTION[name](stream, node)

    asked = AskedHandler()
    one = running(tmp_path, built(Kind("", build)), asked)
    one.write(IN, "a", "bad")
    one.run()
    assert sorted(failed.node for failed in asked.about) == sorted(["first", name, "last"])


def test_should_process_a_record_in_a_chain_of_two_thousand_operators(tmp_path: Path) -> None:
    def build(builder: StreamsBuilder) -> None:
        stream: Any = builder.stream("in", STRING, LONG)
        for number in range(2_000):
            stream = stream.map_values(lambda value: value + 1, name=f"node-{number}")
        stream.map_values(lambda value: str(1 // (value - 2_007)), name="node").to(
            "out", key_serde=STRING, value_serde=STRING
        )

    asked = AskedHandler()
    one = running(tmp_path, built(Kind("", build)), asked)
    one.log.write(IN, *[(b"k", LONG.serialize(number), number) for number in (8, 7, 8)])
    one.run()
    assert one.output() == ["1", "1"]
    assert asked.nodes == [("node", 1)]


def test_should_process_a_record_in_a_chain_of_three_hundred_processors(tmp_path: Path) -> None:
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    above = "source"
    for number in range(300):
        topology.add_processor(f"node-{number}", HandsOnOnce, above)
        above = f"node-{number}"
    topology.add_processor("node", OwnProcessor, above)
    topology.add_sink("sink", "out", "node", key_serde=STRING, value_serde=STRING)
    asked = AskedHandler()
    one = running(tmp_path, topology, asked)
    one.write(IN, "a", "bad", "c")
    one.run()
    assert one.output() == ["a", "c"]
    assert asked.nodes == [("node", 1)]


@pytest.mark.parametrize(
    "flat",
    [
        lambda stream: stream.flat_map(lambda key, value: [(key, "bad"), (key, value)]),
        lambda stream: stream.flat_map_values(lambda value: ["bad", value]),
        lambda stream: stream.flat_map_values_with_key(lambda _key, value: ["bad", value]),
    ],
    ids=["flat_map", "flat_map_values", "flat_map_values_with_key"],
)
def test_should_hand_on_the_next_row_of_a_record_when_one_row_fails_below(flat: Callable[[Any], Any]) -> None:
    builder = StreamsBuilder()
    flat(builder.stream("in", STRING, STRING)).map_values(checked).to("out", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(builder.build(), processing_exception_handler=AskedHandler()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_key_values([("k", "a")])
        assert [each.value for each in driver.create_output_topic("out", STRING, STRING).read_all()] == ["a"]


def test_should_ask_the_handler_about_both_halves_of_a_change_of_groups() -> None:
    """The value that enters a group is added, and subtracted when it leaves the group. Both fail."""
    builder = StreamsBuilder()
    groups = as_table(builder, store="in").group_by(
        lambda _, value: ("group", value), key_serde=STRING, value_serde=STRING
    )
    groups.aggregate(str, of_values, of_values, value_serde=STRING, name="node")
    asked = AskedHandler()
    with TopologyTestDriver(builder.build(), processing_exception_handler=asked) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_key_values([("k", "a"), ("k", "bad"), ("k", "c")])
    assert asked.nodes == [("node", 1), ("node", 2)]
    for failed in asked.about:
        assert failed.metadata.topic.endswith("-repartition")
        assert described(failed).endswith(USERS_LINE)


def test_should_name_the_node_that_raises_an_error_that_another_node_has_raised_before(tmp_path: Path) -> None:
    shared = Trouble("the model is not loaded")

    def refuses(bad: str) -> Callable[[str], str]:
        def check(value: str) -> str:
            if value == bad:
                raise shared
            return value

        return check

    def build(builder: StreamsBuilder) -> None:
        first = builder.stream("in", STRING, STRING).map_values(refuses("a"), name="first")
        first.map_values(refuses("b"), name="second").to("out", key_serde=STRING, value_serde=STRING)

    asked = AskedHandler()
    one = running(tmp_path, built(Kind("", build)), asked)
    one.write(IN, "b", "a", "a", "b")
    one.run()
    assert [failed.node for failed in asked.about] == ["second", "first", "first", "second"]
