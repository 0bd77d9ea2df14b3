"""What a processor may do with its context, and the errors of what it must not do."""

from __future__ import annotations

from typing import Any

import pytest

from streams_runtime import ProcessorContext, PunctuationType, Record, RecordMetadata, StreamsRuntimeError, Topology
from streams_runtime.processors.graph import ProcessorGraph
from tests.streams_runtime.processors.recording_runtime import (
    TASK,
    EmptyStore,
    EmptyStoreBuilder,
    PassOn,
    RecordingRuntime,
    Sent,
)


class Holding(PassOn):
    """Lets a test use its context. `last`: the last one made."""

    last: Holding

    def __init__(self) -> None:
        Holding.last = self

    def process(self, record: Record[Any, Any]) -> None:
        if callable(record.value):
            record.value(self.context)
        else:
            self.context.forward(record)


def holding(runtime: RecordingRuntime, *stores: str) -> ProcessorGraph:
    """in -> holding -> (out-1 to b, out-2 to c); another processor uses the store `other`."""
    topology = Topology().add_source("in", "a").add_processor("another", PassOn, "in")
    topology.add_processor("holding", Holding, "in").add_sink("out-1", "b", "holding").add_sink("out-2", "c", "holding")
    topology.add_state_store(EmptyStoreBuilder("other"), "another")
    for store in stores:
        topology.add_state_store(EmptyStoreBuilder(store), "holding")
    graph = ProcessorGraph.build(topology, 0, "app")
    graph.init(runtime)
    return graph


def inside(graph: ProcessorGraph, call: Any) -> None:
    """Run `call(context)` while the processor works on a record."""
    graph.sources["a"].receiver(b"k", call, 5, ())


def test_should_forward_to_all_children_in_the_order_they_were_added() -> None:
    runtime = RecordingRuntime()
    graph = holding(runtime)
    inside(graph, lambda context: context.forward(Record(b"x", b"y", 9, (("h", None),))))

    assert runtime.sent == [Sent("b", b"x", b"y", 9, (("h", None),)), Sent("c", b"x", b"y", 9, (("h", None),))]


def test_should_forward_to_the_one_child_that_is_named() -> None:
    runtime = RecordingRuntime()
    graph = holding(runtime)
    inside(graph, lambda context: context.forward(Record(None, None, 0), "out-2"))

    assert runtime.sent == [Sent("c", None, None, 0, ())]


def test_should_name_the_children_when_forwarding_to_an_unknown_one() -> None:
    runtime = RecordingRuntime()
    graph = holding(runtime)
    with pytest.raises(StreamsRuntimeError) as caught:
        inside(graph, lambda context: context.forward(Record(None, None, 0), "out-3"))

    assert str(caught.value) == (
        "task [0_0] processor holding cannot forward to out-3, which is not its child (children: out-1, out-2)"
    )
    assert graph.failed_node(caught.value) == "holding"
    assert runtime.sent == []


def test_should_refuse_to_forward_outside_of_processing() -> None:
    holding(RecordingRuntime())

    with pytest.raises(StreamsRuntimeError, match="processor holding forwards outside of `process`"):
        Holding.last.context.forward(Record(None, None, 0))


def test_should_forward_from_close_as_kafka_does() -> None:
    class Flushing(PassOn):
        def close(self) -> None:
            self.context.forward(Record(b"last", None, 0))

    topology = Topology().add_source("in", "a").add_processor("flushing", Flushing, "in")
    topology.add_processor("below", PassOn, "flushing").add_sink("out", "b", "below")
    runtime = RecordingRuntime()
    graph = ProcessorGraph.build(topology, 0, "app")
    graph.init(runtime)

    graph.close()

    assert runtime.sent == [Sent("b", b"last", None, 0, ())]


def test_should_give_the_open_store_of_the_task_when_connected() -> None:
    mine = EmptyStore("mine")
    graph = holding(RecordingRuntime(stores={"mine": mine, "other": EmptyStore("other")}), "mine")
    found: list[object] = []
    inside(graph, lambda context: found.append(context.state_store("mine")))

    assert found == [mine]


def test_should_say_how_to_connect_a_store_when_the_processor_may_not_use_it() -> None:
    graph = holding(RecordingRuntime(stores={"mine": EmptyStore("mine"), "other": EmptyStore("other")}), "mine")
    with pytest.raises(StreamsRuntimeError) as caught:
        inside(graph, lambda context: context.state_store("other"))

    assert str(caught.value) == (
        "task [0_0] processor holding has no access to state store other (connected: mine): name the processor in "
        "add_state_store, or the store in add_processor or connect_processor_and_stores"
    )


def test_should_tell_what_the_task_tells() -> None:
    runtime = RecordingRuntime()
    graph = holding(runtime)
    told: list[object] = []

    def ask(context: ProcessorContext) -> None:
        told.extend([context.application_id, context.task_id, context.record_metadata, context.headers])
        told.extend([context.current_stream_time_ms, context.current_system_time_ms])
        context.commit()

    inside(graph, ask)

    assert told == ["app", TASK, RecordMetadata("in", 0, 7), (("h", b"1"),), 11, 12]
    assert runtime.commits == 1


def test_should_schedule_under_its_own_name_with_the_start_time_that_anchors_it() -> None:
    runtime = RecordingRuntime()
    graph = holding(runtime)
    fired: list[int] = []
    inside(
        graph,
        lambda context: context.schedule(10, PunctuationType.WALL_CLOCK_TIME, fired.append, start_time_ms=3).cancel(),
    )

    (scheduled,) = runtime.scheduled
    scheduled.callback(42)

    assert (scheduled.node, scheduled.interval_ms, scheduled.type, scheduled.start_time_ms, scheduled.cancelled) == (
        "holding",
        10,
        PunctuationType.WALL_CLOCK_TIME,
        3,
        True,
    )
    assert fired == [42]


def test_should_refuse_an_interval_under_one_millisecond_and_a_start_before_the_epoch() -> None:
    graph = holding(RecordingRuntime())
    with pytest.raises(StreamsRuntimeError, match="shortest interval of a punctuation is 1 ms, not 0"):
        inside(graph, lambda context: context.schedule(0, PunctuationType.STREAM_TIME, print))
    with pytest.raises(StreamsRuntimeError, match="cannot start before the epoch, at -1 ms"):
        inside(graph, lambda context: context.schedule(1, PunctuationType.STREAM_TIME, print, start_time_ms=-1))


def test_should_refuse_a_punctuation_without_a_function_to_call() -> None:
    with pytest.raises(StreamsRuntimeError, match=r"processor holding: a punctuation needs an .* not 10 and None"):
        inside(holding(RecordingRuntime()), lambda context: context.schedule(10, PunctuationType.STREAM_TIME, None))


def test_should_forward_from_a_punctuator_and_name_its_node_when_it_fails() -> None:
    runtime = RecordingRuntime()
    graph = holding(runtime)
    stamps: list[int] = []

    def forward(time_ms: int) -> None:
        stamps.append(graph.current.timestamp_ms)
        Holding.last.context.forward(Record(b"p", None, time_ms))
        if time_ms > 20:
            raise ValueError("late")

    inside(graph, lambda context: context.schedule(10, PunctuationType.STREAM_TIME, forward))

    runtime.scheduled[0].callback(20)
    with pytest.raises(ValueError, match="late") as caught:
        runtime.scheduled[0].callback(30)

    assert [(sent.topic, sent.timestamp_ms) for sent in runtime.sent] == [("b", 20), ("c", 20), ("b", 30), ("c", 30)]
    assert graph.failed_node(caught.value) == ""  # no node below: it was the one that has scheduled it
    assert runtime.scheduled[0].node == "holding"
    assert stamps == [20, 30]  # stores log what a punctuator changes under the time it fires at
    assert graph.current.timestamp_ms == -1


@pytest.mark.parametrize("use", ["forward", "schedule", "commit", "state_store", "task_id", "headers"])
def test_should_refuse_any_use_after_close_as_a_standby_does(use: str) -> None:
    graph = holding(RecordingRuntime())
    context = Holding.last.context
    graph.close()
    calls: dict[str, Any] = {
        "forward": lambda: context.forward(Record(None, None, 0)),
        "schedule": lambda: context.schedule(1, PunctuationType.STREAM_TIME, print),
        "commit": context.commit,
        "state_store": lambda: context.state_store("s"),
        "task_id": lambda: context.task_id,
        "headers": lambda: context.headers,
    }

    with pytest.raises(StreamsRuntimeError, match=f"processor holding uses `{use}` of a closed context"):
        calls[use]()
