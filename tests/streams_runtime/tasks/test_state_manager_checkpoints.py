"""What of a task's offsets is on disk when: the rules of both guarantees."""

import itertools
import logging
import multiprocessing
import shutil
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import ProcessorStateError, TaskCorrupted, TaskMigrated
from streams_runtime.common.states import TaskType
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.tasks.checkpoint_file import OFFSET_UNKNOWN
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.streams_runtime.tasks.file_store import batch_of, store_context
from tests.streams_runtime.tasks.state_task import (
    COUNTS,
    STRANGER,
    TASK,
    TOTALS,
    Task,
    both_guarantees,
    both_types,
    kill,
    with_state,
)

# --- loading


@both_types
def test_should_delete_a_loaded_checkpoint_under_exactly_once(directory: StateDirectory, task_type: TaskType) -> None:
    with_state(directory, exactly_once=True)
    task = Task(directory, True, task_type)
    task.state.lock()
    task.state.open_stores(store_context(TASK, task.path))
    assert task.disk() == {COUNTS: 4}  # the offsets are not taken yet
    task.state.load_checkpoint()

    assert task.state.changelog_offsets() == {COUNTS: 5}
    assert task.disk() is None


@both_guarantees
def test_should_start_over_when_only_the_checkpoint_of_a_store_is_left(
    directory: StateDirectory, exactly_once: bool
) -> None:
    """The offset answers for a store that is not there; what lies before it would be missing without a word."""
    changelogs = {"counts": COUNTS, "totals": TOTALS}
    first = Task(directory, exactly_once, changelogs=changelogs)
    first.initialize()
    for partition in (COUNTS, TOTALS):
        first.state.restore(partition, batch_of(partition, 4, (b"key", b"old")))
    first.close_clean()
    shutil.rmtree(first.path / "rocksdb" / "totals")

    task = Task(directory, exactly_once, changelogs=changelogs)
    if exactly_once:
        with pytest.raises(TaskCorrupted):
            task.initialize()
    else:
        assert task.initialize().changelog_offsets() == {COUNTS: 5, TOTALS: 0}
    task.close_dirty()


def test_should_ignore_entries_that_are_no_changelogs_of_the_task_with_a_warning(
    directory: StateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    with_state(directory)
    task = Task(directory, False)
    task.file.write({COUNTS: 4, STRANGER: 9})
    with caplog.at_level(logging.WARNING):
        assert task.initialize().changelog_offsets() == {COUNTS: 5}
    assert "not its changelogs: app-gone-changelog-1" in caplog.text


@both_guarantees
@pytest.mark.parametrize("content", ["", "0\n1\nbroken\n", "9\n0\n"])
def test_should_set_a_broken_checkpoint_aside_and_restore_from_the_beginning_of_an_empty_store(
    directory: StateDirectory, exactly_once: bool, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    with_state(directory, exactly_once=exactly_once)
    task = Task(directory, exactly_once)
    task.file.path.write_text(content)
    with caplog.at_level(logging.WARNING):
        state = task.initialize()

    assert (task.path / ".checkpoint.corrupt-1").read_text() == content
    assert str(task.file.path) in caplog.text
    assert state.changelog_offsets() == {COUNTS: 0}
    assert task.stores["counts"].content == {}
    assert task.disk() is None


@both_guarantees
def test_should_empty_a_store_of_which_the_checkpoint_says_that_its_offset_is_not_known(
    directory: StateDirectory, exactly_once: bool
) -> None:
    """It is restored from the beginning, where a compacted changelog may not mention a key that is on disk."""
    standby = Task(directory, exactly_once, TaskType.STANDBY)
    state = standby.initialize()
    state.maybe_checkpoint(enforce=False)
    state.restore(COUNTS, batch_of(COUNTS, 0, (b"gone", b"by now")))
    state.flush()
    kill(standby)
    assert standby.disk() == {COUNTS: OFFSET_UNKNOWN}

    task = Task(directory, exactly_once)
    assert task.initialize().changelog_offsets() == {COUNTS: 0}
    assert task.stores["counts"].content == {}


def test_should_empty_only_stores_that_the_checkpoint_does_not_name(directory: StateDirectory) -> None:
    changelogs = {"counts": COUNTS, "totals": TOTALS, "scratch": None}
    before = Task(directory, False, changelogs=changelogs)
    before.initialize().commit({COUNTS: 5, TOTALS: 7})
    for store in before.stores.values():
        store.content[b"key"] = b"old"
    before.close_clean()
    before.file.write({COUNTS: 4})

    task = Task(directory, False, changelogs=changelogs)
    assert task.initialize().changelog_offsets() == {COUNTS: 5, TOTALS: 0}
    assert {name: store.content for name, store in task.stores.items()} == {
        "counts": {b"key": b"old"},
        "totals": {},
        "scratch": {b"key": b"old"},
    }


def test_should_call_state_without_a_checkpoint_corrupt_under_exactly_once(directory: StateDirectory) -> None:
    with_state(directory, exactly_once=True)
    killed = Task(directory, True)
    killed.initialize()
    kill(killed)

    task = Task(directory, True)
    with pytest.raises(TaskCorrupted, match="without a checkpoint of store 'counts'") as raised:
        task.initialize()
    assert raised.value.tasks == {TASK}

    task.close_dirty()  # revived: wiped, and then it is fine
    assert task.initialize().changelog_offsets() == {COUNTS: 0}
    assert task.stores["counts"].content == {}


# --- commits


@pytest.mark.parametrize("moved, written", [(10_000, False), (10_001, True)])
def test_should_checkpoint_an_active_when_offsets_moved_by_more_than_10_000_in_sum_under_at_least_once(
    directory: StateDirectory, moved: int, written: bool
) -> None:
    task = Task(directory, False, changelogs={"counts": COUNTS, "totals": TOTALS})
    state = task.initialize()
    state.commit({COUNTS: 100, TOTALS: 200})
    state.maybe_checkpoint(enforce=True)
    on_disk = task.disk()

    state.commit({COUNTS: 100 + 6_000, TOTALS: 200 + moved - 6_000})
    assert state.checkpoint_due() is written
    assert state.maybe_checkpoint(enforce=False) is written
    assert task.disk() == ({COUNTS: 6_099, TOTALS: 199 + moved - 6_000} if written else on_disk)
    assert not state.checkpoint_due()  # counted anew from here


def test_should_write_no_checkpoint_for_an_active_that_runs_under_exactly_once(directory: StateDirectory) -> None:
    task = Task(directory, True)
    state = task.initialize()
    state.commit({COUNTS: 1_000_000})
    assert not state.checkpoint_due()
    assert not state.maybe_checkpoint(enforce=False)
    assert task.disk() is None


def test_should_flush_every_store_before_each_write(directory: StateDirectory) -> None:
    task = Task(directory, False, TaskType.STANDBY, changelogs={"counts": COUNTS, "totals": TOTALS})
    state = task.initialize()
    state.restore(COUNTS, batch_of(COUNTS, 0, (b"a", b"1")))
    task.done.clear()
    state.maybe_checkpoint(enforce=True)
    assert task.done == ["flush counts", "flush totals"]
    assert task.disk() == {COUNTS: 0, TOTALS: OFFSET_UNKNOWN}
    kill(task)  # what the checkpoint promises is on disk

    after = Task(directory, False)
    after.initialize()
    assert after.stores["counts"].content == {b"a": b"1"}


def test_should_not_write_what_is_on_disk_already(directory: StateDirectory) -> None:
    task = Task(directory, False, TaskType.STANDBY)
    state = task.initialize()
    state.restore(COUNTS, batch_of(COUNTS, 0, (b"a", b"1")))
    state.maybe_checkpoint(enforce=True)
    written = task.file.path.stat().st_ino
    task.done.clear()
    state.maybe_checkpoint(enforce=True)
    assert task.done == []
    assert task.file.path.stat().st_ino == written

    task.file.path.unlink()  # unless somebody has deleted it
    state.maybe_checkpoint(enforce=True)
    assert task.disk() == {COUNTS: 0}


def test_should_write_no_checkpoint_when_a_store_cannot_be_flushed(directory: StateDirectory) -> None:
    with_state(directory)
    task = Task(directory, False, changelogs={"counts": COUNTS, "totals": TOTALS})
    state = task.initialize()
    state.commit({COUNTS: 51})
    task.done.clear()
    task.stores["counts"].fail_at["flush"] = OSError(28, "No space left on device")
    with pytest.raises(ProcessorStateError, match=r"could not flush store 'counts': .*No space left") as raised:
        state.maybe_checkpoint(enforce=True)
    assert raised.value.task_id == TASK
    assert task.done == ["flush counts", "flush totals"]  # the others all the same
    assert task.disk() == {COUNTS: 4}


def test_should_hand_on_errors_of_the_runtime_as_they_are(directory: StateDirectory) -> None:
    task = Task(directory, False)
    state = task.initialize()
    migrated = TaskMigrated("fenced")
    task.stores["counts"].fail_at["flush"] = migrated
    with pytest.raises(TaskMigrated) as raised:
        state.flush()
    assert raised.value is migrated


def test_should_not_write_before_the_checkpoint_was_loaded(directory: StateDirectory) -> None:
    with_state(directory)
    task = Task(directory, False)
    task.state.lock()
    task.state.open_stores(store_context(TASK, task.path))
    assert not task.state.maybe_checkpoint(enforce=True)
    assert task.disk() == {COUNTS: 4}


# --- through a kill, with real stores


def apply_for_ever(state_dir: Path, pipe: Connection) -> None:
    """A standby that applies record n as key n, and checkpoints after each batch, until it is killed."""
    directory = StateDirectory(state_dir, "app", SystemClock())
    state = rocksdb_state(directory)
    for first in itertools.count(step=50):
        state.restore(COUNTS, batch_of(COUNTS, first, *((b"%d" % n, b"%d" % n) for n in range(first, first + 50))))
        state.maybe_checkpoint(enforce=True)
        if first == 500:
            pipe.send("running")


def rocksdb_state(directory: StateDirectory) -> StateManager:
    state = StateManager(
        TASK,
        TaskType.STANDBY,
        options=StoreOptions(exactly_once=False),
        directory=directory,
        stores=[RocksDBStore("counts")],
        changelogs={"counts": COUNTS},
    )
    state.lock()
    state.open_stores(store_context(TASK, state.task_directory))
    state.load_checkpoint()
    return state


def test_should_find_all_that_the_checkpoint_promises_in_rocksdb_when_killed_at_any_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=apply_for_ever, args=(tmp_path, there), daemon=True)
    process.start()
    assert here.recv() == "running"
    process.kill()
    process.join()

    directory = StateDirectory(tmp_path, "app", SystemClock())
    state = rocksdb_state(directory)
    promised = state.changelog_offsets()[COUNTS]
    store = state.stores["counts"]
    assert isinstance(store, RocksDBStore)
    assert promised > 500
    assert [n for n in range(promised) if store.get(b"%d" % n) != b"%d" % n] == []
    state.close()
    directory.close()
