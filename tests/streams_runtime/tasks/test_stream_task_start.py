"""How an active task starts: lock, claim, stores, offsets, time, processors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assignor.types import LATEST_OFFSET
from streams_runtime.common.errors import LockError, StreamsRuntimeError
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import Processor, ProcessorContext, PunctuationType
from streams_runtime.processors.runtime import TaskRuntime
from streams_runtime.processors.topology import Topology
from streams_runtime.tasks.task import Task
from tests.streams_runtime.tasks.running_task import (
    COUNTS,
    EXACTLY_ONCE,
    IN,
    OTHER,
    TASK,
    RunningTask,
    counting,
    uppercase,
)


def state(one: RunningTask) -> TaskState:
    return one.task.state


def test_should_be_what_the_thread_takes_it_for(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    task: Task = one.task
    assert (task.id, task.type, task.state) == (TASK, TaskType.ACTIVE, TaskState.CREATED)
    assert (task.input_partitions, task.changelog_partitions) == (frozenset({IN}), frozenset({COUNTS}))
    assert repr(task) == "StreamTask(0_0, created)"
    runtime: TaskRuntime = one.task.runtime
    assert (runtime.task_id, runtime.application_id) == (TASK, "app")
    assert one.task.state_manager is one.state


def test_should_claim_its_input_before_it_reads_any_offset(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting(), EXACTLY_ONCE)
    one.task.initialize_if_needed()
    assert one.log.calls == ["producer", "claim"]
    assert one.task.claim.epochs.keys() == {IN}
    one.consumer.assign([IN])
    one.task.complete_restoration()
    assert one.log.calls[:3] == ["producer", "claim", "committed_offsets"]


def test_should_open_stores_when_initialised_and_processors_when_restored(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    assert one.task.stores == {}
    one.task.initialize_if_needed()
    one.task.initialize_if_needed()
    assert state(one) is TaskState.RESTORING
    assert {name: store.is_open for name, store in one.task.stores.items()} == {"counts": True}
    one.consumer.assign([IN])
    one.task.complete_restoration()
    one.task.complete_restoration()
    assert state(one) is TaskState.RUNNING
    one.write(IN, "a")
    assert one.run() == 1


def test_should_report_the_end_of_changelogs_only_while_it_runs(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    assert one.task.changelog_offsets() == {COUNTS: 0}
    one.start()
    assert one.task.changelog_offsets() == {COUNTS: LATEST_OFFSET}
    one.write(IN, "a", "b")
    one.run()
    one.commit()
    one.task.suspend()
    assert one.task.changelog_offsets() == {COUNTS: 2}


def test_should_try_again_when_another_thread_has_the_directory(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    with ThreadPoolExecutor(1) as other:
        assert other.submit(one.directory.lock, TASK).result()
        with pytest.raises(LockError):
            one.task.initialize_if_needed()
        assert (one.task.state, one.log.calls) == (TaskState.CREATED, [])
        other.submit(one.directory.unlock, TASK).result()
    one.start()
    assert state(one) is TaskState.RUNNING


@pytest.mark.parametrize("call", ["producer", "claim", "committed_offsets", "begin_offsets"])
def test_should_start_in_a_later_pass_when_the_log_is_away(tmp_path: Path, call: str) -> None:
    one = RunningTask(tmp_path, counting())
    one.log.fail[call] = LogTimeout("away")
    with pytest.raises(LogTimeout):
        one.start()
    del one.log.fail[call]
    one.start()
    assert state(one) is TaskState.RUNNING


def test_should_read_on_from_the_committed_offset_with_its_partition_time(tmp_path: Path) -> None:
    first = RunningTask(tmp_path).start()
    first.write(IN, "a", "b", first_ms=70)
    first.run()
    first.stop()
    first.write(IN, "c", first_ms=5)
    second = RunningTask(tmp_path, after=first).start()
    assert second.task.runtime.stream_time_ms == 71
    assert second.run() == 1
    assert second.task.runtime.stream_time_ms == 71
    assert second.output() == ["A", "B", "C"]


@pytest.mark.parametrize("metadata", ["", "someone else's", "AQ=="])
def test_should_start_without_a_time_when_committed_metadata_is_foreign(tmp_path: Path, metadata: str) -> None:
    one = RunningTask(tmp_path)
    one.write(IN, "a", "b")
    one.producer.commit([(one.log.log.claim("app", [IN]), {IN: OffsetAndMetadata(1, metadata)})])
    one.start()
    assert one.task.runtime.stream_time_ms == -1
    one.run()
    assert one.output() == ["B"]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", ["A", "B", "C"]), ("latest", ["C"])])
def test_should_begin_by_auto_offset_reset_when_nothing_is_committed(
    tmp_path: Path, reset: str, expected: list[str]
) -> None:
    one = RunningTask(tmp_path, configs={"auto.offset.reset": reset})
    one.write(IN, "a", "b")
    one.start()
    one.write(IN, "c")
    one.run()
    assert one.output() == expected


def test_should_prefer_the_sources_own_offset_reset(tmp_path: Path) -> None:
    topology = Topology().add_source("source", "in", auto_offset_reset="latest").add_sink("sink", "out", "source")
    one = RunningTask(tmp_path, topology)
    one.write(IN, "a")
    one.start()
    assert one.run() == 0


def test_should_refuse_to_start_when_nothing_is_committed_and_auto_offset_reset_is_none(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, configs={"auto.offset.reset": "none"})
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_0\] in-0 has no committed offset, and auto.offset.reset"):
        one.start()


def test_should_go_on_by_auto_offset_reset_when_its_position_is_gone(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a", "b", "c")
    one.log.delete_records({IN: 2})
    one.task.reset_offsets({IN: 0, OTHER: 0})
    one.run()
    assert one.output() == ["C"]
    assert one.commit() == {IN: 3}


def test_should_initialise_processors_again_when_the_log_was_away_in_init(tmp_path: Path) -> None:
    tries: list[int] = []

    class Asking(Processor[Any, Any]):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, tries.append)
            tries.append(one.log.partitions_of("out"))

        def process(self, record: object) -> None:
            raise AssertionError

    one = RunningTask(tmp_path, Topology().add_source("source", "in").add_processor("asking", Asking, "source"))
    one.log.fail["partitions_of"] = LogTimeout("away")
    with pytest.raises(LogTimeout):
        one.start()
    assert (state(one), tries) == (TaskState.RESTORING, [])
    del one.log.fail["partitions_of"]
    one.task.complete_restoration()
    one.clock.advance(10)
    one.task.maybe_punctuate_system_time(one.clock.now_ms())
    assert (state(one), tries) == (TaskState.RUNNING, [1, one.clock.now_ms()])


def test_should_have_a_source_for_every_input(tmp_path: Path) -> None:
    one = RunningTask(tmp_path)
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_0\] has no source for topic other"):
        one.task.update_input_partitions(frozenset({IN, OTHER}))


def test_should_read_other_partitions_when_they_change_and_claim_them(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, uppercase(["in", "other"]))
    one.task.update_input_partitions(frozenset({IN}))
    one.inputs = frozenset({IN})
    one.start()
    with pytest.raises(StreamsRuntimeError, match="is running and cannot get other input partitions"):
        one.task.update_input_partitions(frozenset({IN, OTHER}))
    one.task.update_input_partitions(frozenset({IN}))
    one.task.suspend()
    one.task.update_input_partitions(frozenset({IN, OTHER}))
    one.task.resume()
    one.consumer.assign([IN, OTHER])
    one.task.complete_restoration()
    one.write(OTHER, "a")
    one.run()
    assert one.commit() == {IN: 0, OTHER: 1}
    assert one.task.input_partitions == one.task.claim.epochs.keys() == {IN, OTHER}
