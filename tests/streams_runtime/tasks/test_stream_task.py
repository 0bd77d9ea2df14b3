"""The life of an active task: from CREATED to CLOSED, by every way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated
from streams_runtime.common.states import TaskState
from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.topology import Topology
from streams_runtime.tasks.input_offsets import encode_partition_time
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.stream_task import StreamTask
from tests.streams_runtime.tasks.running_task import (
    COUNTS,
    EXACTLY_ONCE,
    IN,
    TASK,
    Configs,
    RunningTask,
    Trouble,
    both_guarantees,
    counting,
)


def state(one: RunningTask) -> TaskState:
    return one.task.state


class Faulty(Processor[Any, Any]):
    """Fails where it is told to."""

    at: set[str]
    done: list[str]

    def init(self, context: ProcessorContext) -> None:
        self._do("init")

    def process(self, record: object) -> None:
        self._do("process")

    def close(self) -> None:
        self._do("close")

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what in self.at:
            raise Trouble(what)


def faulty(*at: str) -> tuple[Topology, list[str]]:
    done: list[str] = []

    def supplier() -> Faulty:
        made = Faulty()
        made.at, made.done = set(at), done
        return made

    return Topology().add_source("source", "in").add_processor("faulty", supplier, "source"), done


def test_should_name_task_and_processor_when_init_fails(tmp_path: Path) -> None:
    topology, _ = faulty("init")
    one = RunningTask(tmp_path, topology)
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_0\] failed to initialize processor faulty") as error:
        one.start()
    assert isinstance(error.value.__cause__, Trouble)
    assert state(one) is TaskState.RESTORING


def test_should_close_processors_once_and_be_suspended_even_if_one_fails(tmp_path: Path) -> None:
    topology, done = faulty("close")
    one = RunningTask(tmp_path, topology).start()
    with pytest.raises(StreamsRuntimeError, match="failed to close processor faulty"):
        one.task.suspend()
    assert state(one) is TaskState.SUSPENDED
    one.task.suspend()
    assert done == ["init", "close"]


def test_should_drop_what_is_buffered_when_suspended_and_read_it_again_when_resumed(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a", "b", "c")
    one.poll()
    one.process(1)
    one.commit()
    one.task.suspend()
    assert (one.task.buffered_records, one.task.commit_needed()) == (0, False)
    one.task.resume()
    assert state(one) is TaskState.RESTORING
    one.task.complete_restoration()
    one.run()
    one.commit()
    assert (one.output(), one.committed()) == (["A", "B", "C"], OffsetAndMetadata(3, encode_partition_time(3)))


def test_should_drop_records_that_come_while_it_does_not_run(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a")
    one.task.suspend()
    one.poll()
    assert (one.task.buffered_records, one.process()) == (0, 0)


def test_should_begin_anew_when_resumed_before_it_was_initialised(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    one.task.suspend()
    one.task.resume()
    assert state(one) is TaskState.CREATED
    one.start()
    one.task.resume()
    assert state(one) is TaskState.RUNNING


def test_should_not_go_on_with_work_nobody_committed_under_exactly_once(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting(), EXACTLY_ONCE).start()
    one.write(IN, "a")
    one.run()
    one.task.suspend()
    with pytest.raises(TaskCorrupted):
        one.task.resume()


@both_guarantees
def test_should_close_clean_with_a_checkpoint_and_unlocked(tmp_path: Path, configs: Configs) -> None:
    one = RunningTask(tmp_path, counting(), configs).start()
    one.write(IN, "a", "b", "c")
    one.run()
    one.stop()
    assert state(one) is TaskState.CLOSED
    assert one.checkpoint == {COUNTS: 2}
    assert one.directory.lock_owner(TASK) is None
    assert one.task.stores == {}
    one.task.close_clean()
    again = RunningTask(tmp_path, counting(), configs, after=one)
    again.task.initialize_if_needed()
    assert again.task.changelog_offsets() == {COUNTS: 3}


def test_should_refuse_to_close_clean_what_is_not_committed(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a")
    one.run()
    one.task.suspend()
    with pytest.raises(TaskMigrated, match="not committed"):
        one.task.close_clean()
    with pytest.raises(TaskMigrated, match="not committed"):
        one.task.recycle_state()
    one.task.close_dirty()
    assert state(one) is TaskState.CLOSED


def test_should_leave_nothing_behind_when_closed_dirty_under_exactly_once(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting(), EXACTLY_ONCE).start()
    one.write(IN, "a")
    one.run()
    one.task.close_dirty()
    assert state(one) is TaskState.CLOSED
    assert (one.checkpoint, one.directory.non_empty_task_directories()) == (None, [])
    assert not one.producer.transaction_in_flight
    assert one.directory.lock_owner(TASK) is None
    again = RunningTask(tmp_path, counting(), EXACTLY_ONCE, after=one).start()
    again.run()
    again.stop()
    assert again.output() == ["1"]


def test_should_leave_the_last_checkpoint_when_closed_dirty_at_least_once(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting()).start()
    one.write(IN, "a", "b")
    one.run()
    one.commit(enforce_checkpoint=True)
    one.write(IN, "c")
    one.run()
    one.task.close_dirty()
    assert one.checkpoint == {COUNTS: 1}


@pytest.mark.parametrize("until", list(TaskState))
def test_should_close_dirty_from_every_state_without_an_error(tmp_path: Path, until: TaskState) -> None:
    topology, _ = faulty("close")
    one = RunningTask(tmp_path, topology)
    steps: dict[TaskState, Callable[[], object]] = {
        TaskState.CREATED: lambda: None,
        TaskState.RESTORING: one.task.initialize_if_needed,
        TaskState.RUNNING: one.start,
        TaskState.SUSPENDED: one.task.suspend,
        TaskState.CLOSED: one.task.close_dirty,
    }
    steps[until]()
    assert state(one) is until
    one.task.close_dirty()
    assert state(one) is TaskState.CLOSED


@both_guarantees
def test_should_start_over_when_revived_after_corruption(tmp_path: Path, configs: Configs) -> None:
    one = RunningTask(tmp_path, counting(), configs).start()
    one.write(IN, "a", "b")
    one.run()
    one.commit()
    one.task.state_manager.mark_corrupted()
    one.task.close_dirty()
    one.task.revive()
    assert (one.task.state, one.checkpoint) == (TaskState.CREATED, None)
    first_claim = one.log.count("claim")
    one.start()
    assert one.log.count("claim") == first_claim + 1
    one.write(IN, "c")
    one.run()
    one.stop()
    assert (one.output(), one.log.read(COUNTS)[-1][1]) == (["1", "2", "3"], (3).to_bytes(8, "big"))


@both_guarantees
def test_should_become_a_standby_and_active_again_with_its_stores_open(tmp_path: Path, configs: Configs) -> None:
    one = RunningTask(tmp_path, counting(), configs).start()
    one.write(IN, "a", "b")
    one.run()
    one.commit()
    store = one.task.stores["counts"]
    one.task.suspend()
    given_up = one.task.recycle_state()
    assert (one.task.state, store.is_open, one.directory.lock_owner(TASK) is not None) == (TaskState.CLOSED, True, True)
    standby = StandbyTask(given_up, one.inputs, configs=one.configs, clock=one.clock)
    standby.initialize_if_needed()
    assert (standby.stores["counts"], standby.changelog_offsets(), store.is_open) == (store, {COUNTS: 2}, True)
    standby.suspend()
    again = RunningTask(tmp_path, counting(), configs, after=one, state=standby.recycle_state()).start()
    assert again.task.stores["counts"] is store
    again.write(IN, "c")
    again.run()
    assert again.checkpoint == (None if configs else {COUNTS: 1})
    again.stop()
    assert (again.output(), again.checkpoint) == (["1", "2", "3"], {COUNTS: 2})


ILLEGAL: list[tuple[str, Callable[[StreamTask], object]]] = [
    ("complete its restoration", StreamTask.complete_restoration),
    ("be closed", StreamTask.close_clean),
    ("be recycled", StreamTask.recycle_state),
    ("be revived", StreamTask.revive),
    ("have a claim", lambda task: task.claim),
]
ILLEGAL_WHEN_CLOSED: list[tuple[str, Callable[[StreamTask], object]]] = [
    ("be suspended", StreamTask.suspend),
    ("be resumed", StreamTask.resume),
    ("prepare a commit", StreamTask.prepare_commit),
    ("be committed", lambda task: task.post_commit(enforce_checkpoint=True)),
]


@pytest.mark.parametrize(("what", "call"), ILLEGAL)
def test_should_tell_its_history_when_asked_for_what_cannot_be_yet(
    tmp_path: Path, what: str, call: Callable[[StreamTask], object]
) -> None:
    expected = rf"\[0_0\] \(active\) is created and cannot {what}.*states were created"
    with pytest.raises(StreamsRuntimeError, match=expected):
        call(RunningTask(tmp_path).task)


@pytest.mark.parametrize(("what", "call"), ILLEGAL_WHEN_CLOSED)
def test_should_tell_its_history_when_asked_for_what_cannot_be_any_more(
    tmp_path: Path, what: str, call: Callable[[StreamTask], object]
) -> None:
    one = RunningTask(tmp_path).start()
    one.stop()
    with pytest.raises(
        StreamsRuntimeError,
        match=rf"cannot {what}; its states were created -> restoring -> running -> suspended -> closed",
    ):
        call(one.task)
