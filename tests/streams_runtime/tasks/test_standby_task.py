"""A standby's life: its states, its checkpoints, how it is recycled and how it ends."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import ProcessorStateError, StreamsRuntimeError, TaskTimeout
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.configs import ProcessingGuarantee, StreamsConfig
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from streams_runtime.tasks.standby_task import CHECKPOINT_INTERVAL_MS, StandbyTask
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.known import known
from tests.streams_runtime.manual_clock import ManualClock
from tests.streams_runtime.tasks.file_store import FileStore, batch_of, store_context

TASK = TaskId(0, 1)
COUNTS = TopicPartition("app-counts-changelog", 1)
INPUT = frozenset({TopicPartition("words", 1)})

both_guarantees = pytest.mark.parametrize("exactly_once", [False, True], ids=["at_least_once", "exactly_once"])


class Standby:
    """A standby on a state directory, with one store that writes down what is done with it."""

    def __init__(self, directory: StateDirectory, *, exactly_once: bool) -> None:
        self.directory = directory
        self.configs = StreamsConfig("app", "memory:standby", task_timeout_ms=1_000)
        self.clock = ManualClock()
        if exactly_once:
            self.configs = replace(self.configs, processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE_V2)
        self.store = FileStore("counts")
        self.state = self._state(TaskType.STANDBY)
        self.task = self.standby(self.state)

    def standby(self, state: StateManager) -> StandbyTask:
        return StandbyTask(state, INPUT, configs=self.configs, clock=self.clock)

    def _state(self, task_type: TaskType) -> StateManager:
        return StateManager(
            TASK,
            task_type,
            options=StoreOptions(exactly_once=self.configs.exactly_once),
            directory=self.directory,
            stores=[self.store],
            changelogs={"counts": COUNTS},
        )

    def active_state(self) -> StateManager:
        """That of an active task which runs, and has applied a record."""
        state = self._state(TaskType.ACTIVE)
        state.lock()
        state.open_stores(store_context(TASK, state.task_directory))
        state.load_checkpoint()
        state.restore(COUNTS, batch_of(COUNTS, 0, (b"a", b"1")))
        return state

    def update(self, offset: int, *entries: tuple[bytes, bytes | None]) -> None:
        """As the changelog reader does."""
        self.state.restore(COUNTS, batch_of(COUNTS, offset, *entries))

    def commit(self, *, enforce_checkpoint: bool = False) -> None:
        assert self.task.prepare_commit() == {}
        self.task.post_commit(enforce_checkpoint=enforce_checkpoint)

    def on_disk(self) -> dict[TopicPartition, int]:
        return CheckpointFile(self.directory.application_directory / str(TASK)).read()


def state_of(task: StandbyTask) -> TaskState:
    """Asked anew each time, which mypy does not expect of a property."""
    return task.state


StartStandby = Callable[..., Standby]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartStandby]:
    directory = StateDirectory(tmp_path, "app", SystemClock())
    yield lambda *, exactly_once=False: Standby(directory, exactly_once=exactly_once)
    directory.close()


@pytest.fixture
def running(start: StartStandby) -> Standby:
    standby = start()
    standby.task.initialize_if_needed()
    return standby


def test_should_run_as_soon_as_its_stores_are_open(start: StartStandby) -> None:
    standby = start()
    standby.task.initialize_if_needed()
    assert standby.task.state is TaskState.RUNNING
    assert standby.task.stores["counts"].is_open
    assert known(standby.store.context).changes is None, "a standby writes no changelog"
    standby.task.initialize_if_needed()
    assert standby.store.done == ["open counts"]


@both_guarantees
def test_should_commit_by_a_checkpoint_first_and_then_when_one_is_due(start: StartStandby, exactly_once: bool) -> None:
    standby = start(exactly_once=exactly_once)
    assert not standby.task.commit_needed(), "it has no state yet"
    standby.task.initialize_if_needed()
    for offset, due in ((5, True), (6, False), (10_005, False), (10_006, True), (10_007, False)):
        standby.clock.advance(CHECKPOINT_INTERVAL_MS)
        standby.update(offset, (b"a", b"%d" % offset))
        assert standby.task.commit_needed() is due
        if due:
            standby.commit()
            assert standby.on_disk() == {COUNTS: offset}
    assert standby.store.done.count("flush counts") == 2, "the disk has what the checkpoint promises, and no more often"


def test_should_flush_its_stores_once_in_five_seconds_however_much_it_reads(start: StartStandby) -> None:
    standby = start()
    standby.task.initialize_if_needed()
    for offset, later_ms, written in ((5, 0, 5), (20_000, 4_999, 5), (40_000, 1, 40_000), (60_000, 1, 40_000)):
        standby.clock.advance(later_ms)
        standby.update(offset, (b"a", b"%d" % offset))
        standby.commit()
        assert standby.on_disk() == {COUNTS: written}
    standby.task.suspend()
    standby.task.close_clean()
    assert standby.on_disk() == {COUNTS: 60_000}


def test_should_leave_the_checkpoint_alone_when_it_was_never_initialized(start: StartStandby) -> None:
    first = start()
    first.task.initialize_if_needed()
    first.update(0, (b"a", b"1"))
    first.task.suspend()
    first.task.close_clean()

    second = start()
    second.commit(enforce_checkpoint=True)
    second.task.suspend()
    second.task.close_clean()
    assert second.on_disk() == {COUNTS: 0}
    assert second.store.done == []


def test_should_suspend_twice_and_resume(running: Standby) -> None:
    running.task.suspend()
    running.task.suspend()
    assert state_of(running.task) is TaskState.SUSPENDED
    running.commit()
    running.task.resume()
    assert state_of(running.task) is TaskState.RUNNING
    running.task.resume()
    assert state_of(running.task) is TaskState.RUNNING


def test_should_be_initialized_after_resume_when_it_was_suspended_before(start: StartStandby) -> None:
    standby = start()
    standby.task.suspend()
    standby.task.resume()
    assert state_of(standby.task) is TaskState.CREATED
    standby.task.initialize_if_needed()
    assert state_of(standby.task) is TaskState.RUNNING


@pytest.mark.parametrize(
    "call",
    [
        lambda task: task.suspend(),
        lambda task: task.resume(),
        lambda task: task.prepare_commit(),
        lambda task: task.post_commit(enforce_checkpoint=True),
        lambda task: task.recycle_state(),
    ],
)
def test_should_do_nothing_any_more_when_closed(running: Standby, call: Callable[[StandbyTask], None]) -> None:
    running.task.suspend()
    running.task.close_clean()
    with pytest.raises(StreamsRuntimeError, match="closed"):
        call(running.task)


def test_should_close_dirty_after_a_clean_close_failed(running: Standby) -> None:
    running.update(0, (b"a", b"1"))
    running.task.suspend()
    running.store.fail_at["flush"] = OSError("disk full")
    with pytest.raises(ProcessorStateError, match="disk full"):
        running.task.close_clean()
    assert state_of(running.task) is TaskState.SUSPENDED
    running.task.close_dirty()
    assert state_of(running.task) is TaskState.CLOSED
    assert running.on_disk() == {}
    assert running.directory.lock_owner(TASK) is None


def test_should_never_raise_from_a_dirty_close(running: Standby) -> None:
    running.store.fail_at["close"] = OSError("disk gone")
    running.task.close_dirty()
    assert running.task.state is TaskState.CLOSED
    assert running.directory.lock_owner(TASK) is None


def test_should_leave_state_on_disk_alone_when_closed_dirty_before_it_had_the_lock(start: StartStandby) -> None:
    first = start(exactly_once=True)
    first.task.initialize_if_needed()
    first.update(0, (b"a", b"1"))
    first.task.suspend()
    first.task.close_clean()
    second = start(exactly_once=True)
    second.task.close_dirty()
    assert (second.task.state, second.on_disk()) == (TaskState.CLOSED, {COUNTS: 0})


@pytest.mark.parametrize("clean", [True, False])
def test_should_close_an_active_tasks_stores_when_it_ends_before_initialization(
    start: StartStandby, clean: bool
) -> None:
    standby = start(exactly_once=True)
    task = standby.standby(standby.active_state())
    task.suspend()
    if clean:
        task.close_clean()
    else:
        task.close_dirty()
    assert not standby.store.is_open
    assert standby.on_disk() == ({COUNTS: 0} if clean else {})
    assert standby.directory.lock_owner(TASK) is None


def test_should_time_out_when_it_makes_no_progress_for_task_timeout_ms(start: StartStandby) -> None:
    task = start().task
    task.maybe_init_task_timeout_or_throw(10_000, OSError("slow"))
    task.maybe_init_task_timeout_or_throw(11_000, OSError("slow"))
    with pytest.raises(TaskTimeout, match=r"0_1.*within 1001 ms.*slow"):
        task.maybe_init_task_timeout_or_throw(11_001, OSError("slow"))
    task.clear_task_timeout()
    task.maybe_init_task_timeout_or_throw(20_000, OSError("slow"))
