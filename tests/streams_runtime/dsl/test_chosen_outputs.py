"""Branches that a function continues, and sinks that choose the topic of each record."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from streams_runtime import (
    STRING,
    KStream,
    ProcessingFailed,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordColumns,
    RecordMetadata,
    StreamsBuilder,
    TopologyTestDriver,
)
from tests.streams_runtime.dsl.driven import driven


def upper(stream: KStream[str, str]) -> KStream[str, str]:
    return stream.map_values(str.upper)


def written(stream: KStream[str, str]) -> None:
    stream.to("short")


def test_should_return_the_stream_that_the_function_of_a_branch_makes() -> None:
    builder = StreamsBuilder()
    split = builder.stream("in", STRING, STRING).split(name="by-length-")
    split.branch(lambda _key, value: len(value) == 1, function=written, name="short")
    split.branch(lambda _key, value: len(value) == 2, function=upper, name="two")
    branches = split.default_branch(name="long", function=upper)
    assert list(branches) == ["by-length-two", "by-length-long"]
    branches["by-length-two"].to("two", value_serde=STRING)
    branches["by-length-long"].to("long", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 1), ("a", "xy", 2), ("a", "xyz", 3))
        outputs = [run.read("short"), run.read("two"), run.read("long")]
        assert outputs == [[("a", "x", 1)], [("a", "XY", 2)], [("a", "XYZ", 3)]]


def by_value(record: Record[Any, Any], metadata: RecordMetadata | None) -> str:
    return f"{record.value}-of-{'no-record' if metadata is None else metadata.topic}"


def test_should_write_each_record_to_the_topic_that_a_function_chooses(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).to(by_value, name="sink")
    topology = pickle.loads(pickle.dumps(builder.build()))
    assert "Sink: sink (extractor class: by_value)" in topology.describe()
    assert topology.group_topology("app").subtopologies[0].sink_topics == ()
    assert topology.draw(tmp_path / "topology.svg").exists()
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 1), ("b", "y", 2), ("c", "x", 3))
        outputs = [run.read("x-of-in"), run.read("y-of-in"), run.read("never")]
        assert outputs == [[("a", "x", 1), ("c", "x", 3)], [("b", "y", 2)], []]


@pytest.mark.parametrize("chosen", ["", None, 3])
def test_should_refuse_a_chosen_topic_that_is_no_name(chosen: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).to(lambda _record, _metadata: chosen, name="sink")
    with driven(builder) as run, pytest.raises(ProcessingFailed, match="sink sink chose the topic"):
        run.pipe("in", ("a", "x", 1))


class Ticking(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        context.schedule(1, PunctuationType.WALL_CLOCK_TIME, lambda time_ms: context.forward(Record("a", "b", 0)))

    def process(self, record: Record[str, str]) -> None:
        pass


def test_should_choose_the_topic_of_a_punctuation_without_metadata() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).process(Ticking).to(by_value, key_serde=STRING, value_serde=STRING)
    with driven(builder) as run:
        run.driver.advance_wall_clock_time(1)
        assert run.read("b-of-no-record") == [("a", "b", 0)]


def same(batch: RecordColumns[Any, Any]) -> Any:
    return batch.values


def test_should_not_collect_batches_beside_a_sink_that_chooses_topics() -> None:
    """Both sinks may write to one topic, in the order of the records."""
    builder = StreamsBuilder()
    stream = builder.stream("in", STRING, STRING)
    stream.map_values_batches(same, name="batches").to("out", value_serde=STRING)
    stream.to(lambda _record, _metadata: "out")
    with TopologyTestDriver(builder.build()) as driver:
        assert "chooses the topic of each record" in driver.node_runs()["batches"].why
