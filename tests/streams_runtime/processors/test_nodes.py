"""Sinks: bytes, partition, timestamp and headers of what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from streams_runtime.common.errors import SerdeMismatch, StreamsRuntimeError
from streams_runtime.common.records import Record
from streams_runtime.processors.api import StreamPartitioner
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING
from tests.streams_runtime.processors.recording_runtime import RecordingRuntime, Sent


def sent(
    record: Record[Any, Any], partitioner: StreamPartitioner | None = None, partitions: int | None = 3
) -> list[Sent]:
    """What a sink to `b` sends for one record."""
    topology = Topology().add_source("in", "a")
    topology.add_sink("out", "b", "in", key_serde=STRING, value_serde=LONG, partitioner=partitioner)
    graph = ProcessorGraph.build(topology, 0, "app")
    runtime = RecordingRuntime(partitions={} if partitions is None else {"b": partitions})
    graph.init(runtime)
    graph.sources["a"].receiver(*record)
    return runtime.sent


def test_should_send_bytes_with_timestamp_and_headers_and_leave_the_partition_to_the_hash() -> None:
    record = Record("k", 1, 9, (("h", b"x"),))

    assert sent(record) == [Sent("b", None, b"k", b"\0\0\0\0\0\0\0\1", 9, (("h", b"x"),))]


def test_should_not_ask_a_serde_about_none() -> None:
    assert sent(Record(None, None, 9)) == [Sent("b", None, None, None, 9, ())]


def test_should_ask_the_partitioner_with_objects_and_the_number_of_partitions() -> None:
    asked: list[tuple[Any, ...]] = []

    def second(key: Any, value: Any, partitions: int) -> int:
        asked.append((key, value, partitions))
        return 2

    assert sent(Record("k", 1, 9), second) == [Sent("b", 2, b"k", b"\0\0\0\0\0\0\0\1", 9, ())]
    assert asked == [("k", 1, 3)]


@pytest.mark.parametrize("chosen", [3, -1, "0", 0.0, True, None])
def test_should_refuse_a_partition_that_the_topic_does_not_have(chosen: Any) -> None:
    with pytest.raises(StreamsRuntimeError) as caught:
        sent(Record("k", 1, 9), lambda *_: chosen)

    assert str(caught.value) == f"the partitioner of sink out chose partition {chosen!r} of topic b, which has 0 to 2"


@pytest.mark.parametrize(
    ("partitions", "message"), [(0, "sink out cannot write: topic b has no partitions"), (None, "there is no topic b")]
)
def test_should_say_so_when_the_topic_of_a_sink_has_no_partitions(partitions: int | None, message: str) -> None:
    with pytest.raises(StreamsRuntimeError, match=message):
        sent(Record("k", 1, 9), lambda *_: 0, partitions)


def test_should_write_a_repartition_topic_under_its_full_name() -> None:
    topology = Topology().add_source("in", "a").add_repartition_topic("r").add_sink("out", "r", "in")
    topology.add_source("again", "r")
    runtime = RecordingRuntime()
    graph = ProcessorGraph.build(topology, 0, "app")
    graph.init(runtime)

    graph.sources["a"].receiver(b"k", b"v", 1, ())

    assert runtime.sent == [Sent("app-r", None, b"k", b"v", 1, ())]


@pytest.mark.parametrize("partitioner", [None, lambda _key, _value, _count: 0])
def test_should_name_sink_topic_serdes_and_types_when_a_serde_does_not_fit(
    partitioner: StreamPartitioner | None,
) -> None:
    with pytest.raises(SerdeMismatch) as refused:
        sent(Record(7, "many", 0), partitioner)

    assert str(refused.value) == (
        "sink out cannot write to topic b: the serdes do not fit the record: "
        "key serde StringSerde was given a int, value serde LongSerde a str "
        "(AttributeError: 'int' object has no attribute 'encode')"
    )
    assert isinstance(refused.value.__cause__, AttributeError)
