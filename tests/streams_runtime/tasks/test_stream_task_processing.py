"""Records on their way through a running task: order, pausing, time, and those that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.records import Record, RecordMetadata
from streams_runtime.common.states import TaskState
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.tasks.exception_handling import log_and_continue
from tests.streams_runtime.tasks.running_task import (
    IN,
    OTHER,
    START_MS,
    RunningTask,
    uppercase,
)

UNREADABLE = (b"k", b"\xff", 5)


class Seen(Processor[Any, Any]):
    """Notes down what the context says about each record."""

    context: ProcessorContext
    notes: list[tuple[object, ...]]

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.notes.append(("init", context.record_metadata, context.headers, context.current_stream_time_ms))

    def process(self, record: Record[Any, Any]) -> None:
        context = self.context
        times = (context.current_stream_time_ms, context.current_system_time_ms)
        self.notes.append((record.value, context.record_metadata, context.headers, *times))


def seeing(*topics: str) -> tuple[Topology, list[tuple[object, ...]]]:
    notes: list[tuple[object, ...]] = []

    def supplier() -> Seen:
        made = Seen()
        made.notes = notes
        return made

    return Topology().add_source("source", topics).add_processor("seen", supplier, "source"), notes


def test_should_process_no_more_than_it_is_asked_to(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a", "b", "c", "d")
    one.poll()
    assert one.task.is_process_ready(START_MS)
    assert [one.process(3), one.process(3), one.process(3)] == [3, 1, 0]
    assert not one.task.is_process_ready(START_MS)
    assert one.output() == ["A", "B", "C", "D"]


def test_should_process_nothing_before_it_runs_or_after(tmp_path: Path) -> None:
    one = RunningTask(tmp_path)
    assert (one.task.is_process_ready(0), one.process()) == (False, 0)
    one.start()
    one.write(IN, "a")
    one.poll()
    one.task.suspend()
    assert (one.task.is_process_ready(0), one.process()) == (False, 0)


def test_should_tell_processors_where_a_record_is_from_and_what_time_it_is(tmp_path: Path) -> None:
    topology, notes = seeing("in")
    one = RunningTask(tmp_path, topology).start()
    one.log.write(IN, (b"k", b"a", 50), headers=(("h", b"1"),))
    one.log.write(IN, (b"k", b"b", 40))
    one.clock.advance(5)
    one.run()
    assert notes == [
        ("init", None, (), -1),
        (b"a", RecordMetadata("in", 0, 0), (("h", b"1"),), 50, START_MS + 5),
        (b"b", RecordMetadata("in", 0, 1), (), 50, START_MS + 5),
    ]
    assert (one.task.runtime.record_metadata, one.task.runtime.headers, one.task.runtime.stream_time_ms) == (
        None,
        (),
        50,
    )


def test_should_have_the_highest_timestamp_seen_as_stream_time(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, uppercase(["in", "other"]), {"max.task.idle.ms": -1}).start()
    times = []
    for partition, time_ms in ((IN, 30), (OTHER, 10), (IN, 20), (OTHER, 40)):
        one.write(partition, "x", first_ms=time_ms)
        one.run()
        times.append(one.task.runtime.current_stream_time_ms)
    assert times == [30, 30, 30, 40]


def test_should_pause_a_partition_with_too_many_records_and_resume_it(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, configs={"buffered.records.per.partition": 2}).start()
    one.write(IN, "a", "b")
    one.poll()
    assert one.consumer.paused() == frozenset()
    one.write(IN, "c", "d")
    one.poll()
    assert (one.consumer.paused(), one.task.buffered_records) == (frozenset({IN}), 4)
    assert one.poll() == []
    one.process(1)
    assert one.consumer.paused() == {IN}
    one.process(1)
    assert one.consumer.paused() == frozenset()
    one.write(IN, "e")
    one.run()
    assert one.output() == ["A", "B", "C", "D", "E"]


def test_should_not_stay_paused_when_suspended_and_resumed(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, configs={"buffered.records.per.partition": 1}).start()
    one.write(IN, "a", "b", "c")
    one.poll()
    assert one.consumer.paused() == {IN}
    one.task.suspend()
    one.task.resume()
    one.task.complete_restoration()
    assert one.consumer.paused() == frozenset()


def test_should_drop_negative_timestamps_and_commit_past_them(tmp_path: Path) -> None:
    topology = Topology().add_source("source", "in", timestamp_extractor=lambda record, _: int(record.value))
    one = RunningTask(tmp_path, topology.add_sink("sink", "out", "source")).start()
    one.write(IN, "7", "-1", "9", "-1")
    one.run()
    assert (one.output(), one.task.dropped_records, one.commit()) == (["7", "9"], 2, {IN: 4})


def test_should_resume_a_partition_of_which_all_that_was_buffered_is_dropped(tmp_path: Path) -> None:
    one = RunningTask(
        tmp_path,
        uppercase(["in", "other"]),
        {"max.task.idle.ms": -1, "buffered.records.per.partition": 1},
        deserialization_handler=log_and_continue,
    ).start()
    one.log.write(IN, UNREADABLE, UNREADABLE, UNREADABLE)
    one.poll()
    assert one.consumer.paused() == {IN}
    assert not one.task.is_process_ready(START_MS)
    assert one.consumer.paused() == frozenset()


def test_should_stamp_changes_with_the_records_time_and_those_of_init_with_the_clocks(tmp_path: Path) -> None:
    class Starts(Processor[str, str]):
        def init(self, context: ProcessorContext) -> None:
            self.store = context.state_store("counts")
            self.store.put("init", 0)

        def process(self, record: Record[str, str]) -> None:
            self.store.put(record.key, 1)

    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_state_store(key_value_store("counts", STRING, LONG))
    one = RunningTask(tmp_path, topology.add_processor("starts", Starts, "source", stores=["counts"])).start()
    one.write(IN, "a", first_ms=77)
    one.run()
    one.commit()
    changelog = TopicPartition("app-counts-changelog", 0)
    assert [(key, time_ms) for key, _, time_ms in one.log.read(changelog)] == [(b"init", START_MS), (b"k", 77)]
    assert one.task.runtime.record_timestamp_ms == -1


def test_should_refuse_records_of_a_partition_that_is_not_its_input(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(OTHER, "a")
    with pytest.raises(KeyError):
        one.task.add_records(one.log.batches(OTHER)[0])
    assert one.task.state is TaskState.RUNNING
