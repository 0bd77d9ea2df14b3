"""State that goes: wiped by its owner, or cleaned away because nobody wants it; never half of it."""

import logging
import os
import shutil
import threading
from pathlib import Path

import pytest

from assignor.types import TaskId
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import LockError
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from streams_runtime.tasks.state_directory import StateDirectory
from tests.streams_runtime.tasks.other_processes import hold, other_process
from tests.streams_runtime.tasks.state_on_disk import CHANGELOG, OTHER, TASK, in_thread, put_state, set_age

DELAY_MS = 600_000


# --- deletion


def test_should_wipe_state_and_checkpoint_and_keep_what_was_set_aside(directory: StateDirectory) -> None:
    path = put_state(directory, TASK)
    (path / ".checkpoint.corrupt-1").write_text("broken")
    directory.wipe(TASK)

    assert sorted(one.name for one in path.iterdir()) == [".checkpoint.corrupt-1", ".lock"]
    assert directory.is_empty(TASK)
    assert directory.lock_owner(TASK) is None


def test_should_keep_the_lock_when_the_owner_wipes(directory: StateDirectory) -> None:
    put_state(directory, TASK)
    directory.lock(TASK)
    directory.wipe(TASK)
    assert directory.lock_owner(TASK) is threading.current_thread()


def test_should_not_wipe_what_another_thread_has_locked(directory: StateDirectory) -> None:
    path = put_state(directory, TASK)
    directory.lock(TASK)
    with pytest.raises(LockError, match="in use by thread MainThread"):
        in_thread(lambda: directory.wipe(TASK))
    assert CheckpointFile(path).read() == {CHANGELOG: 7}
    assert not directory.is_empty(TASK)


@pytest.mark.parametrize("dies_at", ["rename", "rmtree"])
def test_should_leave_nothing_that_looks_like_state_when_it_dies_while_wiping(
    directory: StateDirectory, dies_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_state(directory, TASK)

    class Died(BaseException):
        pass

    def die(*_: object, **options: object) -> None:
        assert not (path / ".checkpoint").exists(), "the checkpoint goes first"
        if not options.get("ignore_errors"):
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(*((Path, "rename", die) if dies_at == "rename" else (shutil, "rmtree", die)))
        with pytest.raises(Died):
            directory.wipe(TASK)

    assert directory.stored_offsets(TASK) == {}
    store_is_whole = (path / "rocksdb" / "counts" / "000001.sst").exists()
    assert store_is_whole is (dies_at == "rename")
    assert directory.is_empty(TASK) is not store_is_whole
    assert (path / "rocksdb").exists() is store_is_whole

    directory.wipe(TASK)  # whoever comes next deletes what was left over
    assert [one.name for one in path.iterdir()] == [".lock"]


def test_should_discard_single_stores(directory: StateDirectory) -> None:
    path = put_state(directory, TASK)
    (path / "rocksdb" / "totals").mkdir()
    directory.discard(TASK, [Path("rocksdb/counts"), Path("rocksdb/not there")])

    assert [one.name for one in (path / "rocksdb").iterdir()] == ["totals"]
    assert CheckpointFile(path).read() == {CHANGELOG: 7}


# --- cleaning


def test_should_delete_directories_unlocked_and_unchanged_for_longer_than_the_delay(directory: StateDirectory) -> None:
    for task in (TASK, TaskId(0, 1, "clicks")):
        put_state(directory, task, age_ms=DELAY_MS + 60_000)
    put_state(directory, OTHER, age_ms=DELAY_MS - 60_000)
    stranger = directory.application_directory / "global"
    stranger.mkdir()
    set_age(stranger, DELAY_MS * 10)

    assert directory.clean_obsolete(DELAY_MS) == [TASK, TaskId(0, 1, "clicks")]
    assert sorted(one.name for one in directory.application_directory.iterdir()) == [
        ".lock",
        "1_0",
        "global",
        "kafka-streams-process-metadata",
    ]
    assert directory.lock_owner(TASK) is None
    assert directory.clean_obsolete(DELAY_MS) == []


def test_should_keep_directories_that_a_thread_or_process_has_locked(tmp_path: Path, directory: StateDirectory) -> None:
    for task in (TASK, OTHER, TaskId(2, 0)):
        put_state(directory, task, age_ms=DELAY_MS * 2)
    directory.lock(TASK)
    in_thread(lambda: directory.lock(OTHER))
    (tmp_path / "app" / ".lock").unlink()
    with other_process(hold, tmp_path, TaskId(2, 0)) as (_, pipe):
        assert pipe.recv() == "held"
        assert in_thread(lambda: directory.clean_obsolete(DELAY_MS)) == []
        assert directory.clean_obsolete(DELAY_MS) == []  # not even the owner's own
    assert directory.lock_owner(TASK) is threading.current_thread()
    assert directory.non_empty_task_directories() == [TASK, OTHER, TaskId(2, 0)]


def test_should_count_a_change_inside_a_store_as_a_change(directory: StateDirectory) -> None:
    path = put_state(directory, TASK, age_ms=DELAY_MS * 2)
    (path / "rocksdb" / "counts" / "MANIFEST").write_text("new")
    assert directory.clean_obsolete(DELAY_MS) == []


def test_should_not_count_locking_as_a_change(directory: StateDirectory) -> None:
    put_state(directory, TASK, age_ms=DELAY_MS * 2)
    directory.lock(TASK)
    directory.unlock(TASK)
    assert directory.clean_obsolete(DELAY_MS) == [TASK]


def test_should_keep_a_directory_that_was_used_just_before_it_could_be_locked(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_state(directory, TASK, age_ms=DELAY_MS * 2)
    lock = directory.lock

    def used_by_another_first(task: TaskId) -> bool:
        CheckpointFile(path).write({CHANGELOG: 8})
        return lock(task)

    monkeypatch.setattr(directory, "lock", used_by_another_first)
    assert directory.clean_obsolete(DELAY_MS) == []
    assert CheckpointFile(path).read() == {CHANGELOG: 8}
    assert directory.lock_owner(TASK) is None


def test_should_lock_anew_a_directory_that_was_cleaned_away(directory: StateDirectory) -> None:
    path = put_state(directory, TASK, age_ms=DELAY_MS * 2)
    directory.clean_obsolete(DELAY_MS)
    assert not path.exists()
    assert directory.lock(TASK)
    assert [one.name for one in path.iterdir()] == [".lock"]


def test_should_delete_the_others_when_one_cannot_be(
    directory: StateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = put_state(directory, TASK, age_ms=DELAY_MS * 2)
    (stuck / ".checkpoint").unlink()
    (stuck / ".checkpoint").mkdir()  # what unlink refuses, root or not
    set_age(stuck, DELAY_MS * 2)
    put_state(directory, OTHER, age_ms=DELAY_MS * 2)

    with caplog.at_level(logging.WARNING):
        assert directory.clean_obsolete(DELAY_MS) == [OTHER]
    assert f"{stuck} could not be deleted and will be tried again" in caplog.text
    assert directory.lock_owner(TASK) is None
    assert not directory.is_empty(TASK)


# --- another log


def test_should_delete_state_of_another_log_and_say_so(
    tmp_path: Path, directory: StateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.belong_to("one log")
    put_state(directory, TASK)
    put_state(directory, OTHER)
    directory.close()
    again = StateDirectory(tmp_path, "app", SystemClock())
    again.belong_to("another log")

    assert again.non_empty_task_directories() == []
    assert again.stored_offsets(TASK) == {}
    assert again.process_id == directory.process_id
    assert caplog.messages == [
        f"the state in {tmp_path / 'app'} was that of another log with the same application.id, "
        "and is deleted: 0_1, 1_0"
    ]
    again.close()


def test_should_keep_state_of_the_same_log_and_state_of_which_the_log_is_not_known(directory: StateDirectory) -> None:
    put_state(directory, TASK)
    for _ in range(2):
        directory.belong_to("one log")
        assert directory.stored_offsets(TASK) == {CHANGELOG: 7}
        assert directory.non_empty_task_directories() == [TASK]


def test_should_sync_the_name_of_the_log_so_that_half_of_it_is_never_taken_for_another_log(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    directory.belong_to("one log")
    assert synced == ["cluster-id.tmp", "app"]
    directory.belong_to("one log")
    assert len(synced) == 2, "what is known is not written again"
