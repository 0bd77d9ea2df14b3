"""How far each store of a task is, from opening to closing, corruption and recycling."""

import threading

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.errors import ProcessorStateError
from streams_runtime.common.states import TaskType
from streams_runtime.tasks.checkpoint_file import OFFSET_UNKNOWN
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.streams_runtime.tasks.file_store import ChangesSeen, FileStore, batch_of, store_context
from tests.streams_runtime.tasks.state_task import COUNTS, TABLE, TASK, TOTALS, Task, both_guarantees, with_state

# --- offsets


def test_should_take_offsets_of_its_changelogs_and_ignore_others(directory: StateDirectory) -> None:
    state = Task(directory, False).initialize()
    state.commit({COUNTS: 42, TopicPartition("app-x-repartition", 0): 9})
    assert state.changelog_offsets() == {COUNTS: 42}


def test_should_name_store_and_changelog_and_keep_the_offset_when_restoring_fails(directory: StateDirectory) -> None:
    task = Task(directory, False)
    state = task.initialize()
    state.restore(COUNTS, batch_of(COUNTS, 0, (b"a", b"1")))
    task.stores["counts"].fail_at["restore"] = ValueError("bad bytes")
    with pytest.raises(ProcessorStateError, match=r"task \[0_1\] store 'counts' .* app-counts-changelog-1: bad bytes"):
        state.restore(COUNTS, batch_of(COUNTS, 1, (b"b", b"2")))
    assert state.metadata(COUNTS).offset == 0


def test_should_refuse_two_stores_of_one_name_or_one_changelog(directory: StateDirectory) -> None:
    with pytest.raises(ProcessorStateError, match="two stores have the same changelog"):
        Task(directory, False, changelogs={"counts": COUNTS, "totals": COUNTS})
    with pytest.raises(ProcessorStateError, match="two stores have the same name"):
        StateManager(
            TASK,
            TaskType.ACTIVE,
            options=StoreOptions(exactly_once=False),
            directory=directory,
            stores=[FileStore("counts"), FileStore("counts")],
            changelogs={},
        )


# --- which stores


def test_should_let_only_stores_with_a_changelog_of_their_own_log_changes(directory: StateDirectory) -> None:
    changelogs = {"counts": COUNTS, "table": TABLE, "scratch": None}
    task = Task(directory, False, changelogs=changelogs, source_changelogs=frozenset({TABLE}))
    assert task.state.changelog_partitions == {COUNTS, TABLE}
    assert (task.state.changelog_as_source(COUNTS), task.state.changelog_as_source(TABLE)) == (False, True)
    assert list(task.state.stores) == ["counts", "table", "scratch"]
    task.initialize()
    loggers = {name: store.context.changes if store.context else "closed" for name, store in task.stores.items()}
    assert loggers == {"counts": task.changes, "table": None, "scratch": None}


@both_guarantees
def test_should_checkpoint_a_source_topic_used_as_changelog(directory: StateDirectory, exactly_once: bool) -> None:
    task = Task(directory, exactly_once, changelogs={"table": TABLE}, source_changelogs=frozenset({TABLE}))
    task.initialize().commit({TABLE: 18})  # consumed, not written
    task.close_clean()
    assert task.disk() == {TABLE: 17}
    assert task.initialize().changelog_offsets() == {TABLE: 18}


def test_should_need_neither_lock_nor_directory_without_stores(directory: StateDirectory) -> None:
    task = Task(directory, True, changelogs={})
    task.state.lock()
    task.state.load_checkpoint()
    assert task.state.maybe_checkpoint(enforce=True)
    task.state.wipe()
    assert directory.lock_owner(TASK) is None
    assert not task.path.exists()


# --- closing


def test_should_close_all_stores_and_raise_the_first_error(directory: StateDirectory) -> None:
    task = Task(directory, False, changelogs={"counts": COUNTS, "totals": TOTALS})
    state = task.initialize()
    task.stores["counts"].fail_at["close"] = OSError("broken disk")
    with pytest.raises(ProcessorStateError, match=r"task \[0_1\] could not close store 'counts': broken disk"):
        state.close()
    assert not task.stores["totals"].is_open
    state.close()


def test_should_close_what_was_opened_when_a_store_cannot_be_opened(directory: StateDirectory) -> None:
    task = Task(directory, False, changelogs={"counts": COUNTS, "totals": TOTALS, "more": None})
    task.stores["totals"].fail_at["open"] = OSError("broken disk")
    with pytest.raises(ProcessorStateError, match="could not open store 'totals': broken disk"):
        task.initialize()
    assert [store.is_open for store in task.stores.values()] == [True, False, False]
    task.close_dirty()
    assert [store.is_open for store in task.stores.values()] == [False, False, False]


# --- corruption


@both_guarantees
def test_should_delete_a_corrupted_tasks_checkpoint_and_wipe_at_close(
    directory: StateDirectory, exactly_once: bool
) -> None:
    task = Task(directory, exactly_once, TaskType.STANDBY, changelogs={"counts": COUNTS, "totals": TOTALS})
    state = task.initialize()
    state.commit({COUNTS: 5, TOTALS: 7})
    state.maybe_checkpoint(enforce=True)

    state.mark_corrupted()
    assert task.disk() is None  # at once, so that a process that dies here does not find it again
    state.maybe_checkpoint(enforce=True)
    assert task.disk() is None

    state.close()
    assert task.disk() is None
    assert directory.is_empty(TASK)
    assert task.initialize().changelog_offsets() == {COUNTS: 0, TOTALS: 0}
    state.maybe_checkpoint(enforce=True)
    assert task.disk() == {COUNTS: OFFSET_UNKNOWN, TOTALS: OFFSET_UNKNOWN}, "it is not corrupted any more"


def test_should_wipe_before_it_opens_what_was_marked_corrupted_while_closed(directory: StateDirectory) -> None:
    with_state(directory)
    task = Task(directory, False)
    task.state.mark_corrupted()
    assert task.initialize().changelog_offsets() == {COUNTS: 0}
    assert task.stores["counts"].content == {}
    assert task.disk() is None


# --- recycling


@both_guarantees
def test_should_keep_stores_open_and_offsets_in_memory_when_recycled_there_and_back(
    directory: StateDirectory, exactly_once: bool
) -> None:
    task = Task(directory, exactly_once, changelogs={"counts": COUNTS, "scratch": None})
    state = task.initialize()
    state.restore(COUNTS, batch_of(COUNTS, 0, (b"a", b"1")))
    state.maybe_checkpoint(enforce=True)  # an active commits before it is recycled
    task.done.clear()

    standby = store_context(TASK, task.path)
    state.transition_to(TaskType.STANDBY, standby)
    state.open_stores(standby)
    state.load_checkpoint()
    state.restore(COUNTS, batch_of(COUNTS, 1, (b"b", b"2")))
    assert state.maybe_checkpoint(enforce=True)
    assert task.disk() == {COUNTS: 1}

    changes = ChangesSeen()
    active = store_context(TASK, task.path, changes)
    state.transition_to(TaskType.ACTIVE, active)
    assert task.disk() == (None if exactly_once else {COUNTS: 1})
    state.open_stores(active)
    state.load_checkpoint()

    assert state.task_type is TaskType.ACTIVE
    assert state.changelog_offsets() == {COUNTS: 2}
    assert task.stores["counts"].content == {b"a": b"1", b"b": b"2"}
    assert [step for step in task.done if "open" in step or "close" in step] == []
    assert task.done.count("rebind counts") == 2
    contexts = [store.context for store in task.stores.values()]
    assert [context.changes if context else "closed" for context in contexts] == [changes, None]
    assert directory.lock_owner(TASK) is threading.current_thread()


def test_should_not_call_a_recycled_store_without_offset_corrupt_under_exactly_once(directory: StateDirectory) -> None:
    task = Task(directory, True, TaskType.STANDBY)
    state = task.initialize()  # its changelog is empty still
    state.flush()
    state.transition_to(TaskType.ACTIVE, store_context(TASK, task.path))
    state.open_stores(store_context(TASK, task.path))
    state.load_checkpoint()
    assert state.changelog_offsets() == {COUNTS: 0}


# --- the lock
