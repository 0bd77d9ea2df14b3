"""Who may touch which state: threads, processes, forks."""

import json
import os
import shutil
import signal
import stat
import threading
from pathlib import Path

import pytest

from assignor.errors import InputError
from assignor.types import ProcessId, TaskId, TopicPartition
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import LockError, ProcessorStateError
from streams_runtime.tasks.checkpoint_file import OFFSET_UNKNOWN, CheckpointFile
from streams_runtime.tasks.state_directory import PROCESS_FILE_NAME, StateDirectory, stored_process_id
from tests.known import known
from tests.streams_runtime.tasks.other_processes import end_soon, hold, hold_and_fork, other_process
from tests.streams_runtime.tasks.state_on_disk import CHANGELOG, OTHER, TASK, in_thread, put_state


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- layout


def test_should_keep_a_directory_a_task_under_the_application(tmp_path: Path, directory: StateDirectory) -> None:
    assert directory.application_directory == tmp_path / "app"
    assert directory.task_directory(TASK) == tmp_path / "app" / "0_1"
    assert directory.task_directory(TaskId(0, 1, "clicks")) == tmp_path / "app" / "clicks__0_1"


def test_should_make_new_directories_for_their_owner_only_and_leave_others_alone(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    state = StateDirectory(there / "new" / "state", "app", SystemClock())
    state.task_directory(TASK)
    state.close()

    assert mode(there) == 0o755
    for new in ("new", "new/state", "new/state/app", "new/state/app/0_1"):
        assert mode(there / new) == 0o700


@pytest.mark.parametrize("application_id", ["", ".", "..", "a/b"])
def test_should_refuse_an_application_id_that_is_no_name_of_a_directory(tmp_path: Path, application_id: str) -> None:
    with pytest.raises(InputError, match=r"application\.id"):
        StateDirectory(tmp_path, application_id, SystemClock())


def test_should_refuse_a_task_whose_name_leads_elsewhere(directory: StateDirectory) -> None:
    with pytest.raises(ProcessorStateError, match="cannot have a directory"):
        directory.task_directory(TaskId(0, 1, "../../x"))


def test_should_find_the_same_process_id_again_and_another_in_another_directory(tmp_path: Path) -> None:
    ids = []
    for name in ("a", "a", "b"):
        state = StateDirectory(tmp_path / name, "app", SystemClock())
        ids.append(state.process_id)
        state.close()
    assert ids[0] == ids[1] != ids[2]
    written = (tmp_path / "a" / "app" / "kafka-streams-process-metadata").read_text()
    assert json.loads(written) == {"processId": str(ids[0])}


def test_should_name_the_path_when_a_directory_cannot_be_made(tmp_path: Path, directory: StateDirectory) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProcessorStateError) as raised:
        StateDirectory(tmp_path / "file", "app", SystemClock())
    assert str(tmp_path / "file" / "app") in str(raised.value)

    (directory.application_directory / "0_1").write_text("")
    with pytest.raises(ProcessorStateError) as raised:
        directory.task_directory(TASK)
    assert str(directory.application_directory / "0_1") in str(raised.value)


# --- locks between threads


def test_should_give_a_tasks_lock_to_one_thread_at_a_time(directory: StateDirectory) -> None:
    assert directory.lock(TASK)
    assert directory.lock(TASK)  # the owner has it already
    assert directory.lock_owner(TASK) is threading.current_thread()
    assert not in_thread(lambda: directory.lock(TASK))
    assert in_thread(lambda: directory.lock(OTHER))

    in_thread(lambda: directory.unlock(TASK))  # not its own: nothing happens
    assert not in_thread(lambda: directory.lock(TASK))

    directory.unlock(TASK)
    assert directory.lock_owner(TASK) is None
    assert in_thread(lambda: directory.lock(TASK))
    assert not directory.lock(TASK)


def test_should_give_a_reported_directory_to_the_thread_that_has_the_task(directory: StateDirectory) -> None:
    assert directory.lock(TASK, to_report=True)
    assert directory.lock(TASK, to_report=True)
    assert not in_thread(lambda: directory.lock(TASK, to_report=True)), "one thread reports it"
    assert in_thread(lambda: directory.lock(TASK))
    assert not directory.lock(TASK), "the task has it now"
    directory.unlock(TASK)  # no longer this thread's
    assert not directory.lock(TASK, to_report=True)


def test_should_keep_a_directory_that_was_first_reported_and_then_locked(directory: StateDirectory) -> None:
    assert directory.lock(TASK, to_report=True)
    assert directory.lock(TASK)
    assert not in_thread(lambda: directory.lock(TASK))
    assert directory.lock(TASK, to_report=True), "it has it anyway"
    assert not in_thread(lambda: directory.lock(TASK))
    directory.unlock(TASK)
    assert directory.lock(TASK)
    assert not in_thread(lambda: directory.lock(TASK)), "nothing is left of the report"


def test_should_say_that_the_state_directory_was_deleted(directory: StateDirectory) -> None:
    shutil.rmtree(directory.application_directory)
    with pytest.raises(ProcessorStateError, match="was deleted while in use"):
        directory.lock(TASK)


# --- locks between processes


def test_should_refuse_a_second_process_and_name_directory_holder_and_remedy(tmp_path: Path) -> None:
    with other_process(hold, tmp_path, TASK) as (process, pipe):
        assert pipe.recv() == "held"
        with pytest.raises(LockError) as raised:
            StateDirectory(tmp_path, "app", SystemClock())

        assert str(raised.value) == (
            f"the state directory of application 'app' ({tmp_path}/app) is in use by process {process.pid}: two owners "
            "would write the same state stores. Give every instance a state.dir of its own, or end the other one first"
        )
        assert (tmp_path / "app" / ".lock").read_text() == f"{process.pid}\n"
        assert (tmp_path / "app" / "0_1" / ".lock").read_text() == f"{process.pid}\n"


def test_should_refuse_a_second_process_the_task_without_the_applications_lock(
    tmp_path: Path, directory: StateDirectory
) -> None:
    assert directory.lock(TASK)
    (tmp_path / "app" / ".lock").unlink()
    with other_process(hold, tmp_path, TASK) as (_, pipe):
        assert pipe.recv() == (
            f"the directory of task 0_1 ({tmp_path}/app/0_1) is in use by process {os.getpid()}: two owners would "
            "write the same state stores. Give every instance a state.dir of its own, or end the other one first"
        )


def test_should_refuse_a_second_instance_in_the_same_process(tmp_path: Path, directory: StateDirectory) -> None:
    with pytest.raises(LockError, match="this one, by another instance in it"):
        StateDirectory(tmp_path, "app", SystemClock())


def test_should_let_the_next_process_in_when_the_holder_is_killed(tmp_path: Path) -> None:
    with other_process(hold, tmp_path, TASK) as (process, pipe):
        assert pipe.recv() == "held"
        os.kill(known(process.pid), signal.SIGKILL)
        process.join()
        directory = StateDirectory(tmp_path, "app", SystemClock())
        assert directory.lock(TASK)
        directory.close()


def test_should_wait_for_a_process_that_is_just_ending(tmp_path: Path) -> None:
    with other_process(end_soon, tmp_path, None) as (_, pipe):
        assert pipe.recv() == "held"
        StateDirectory(tmp_path, "app", SystemClock(), lock_wait_ms=10_000).close()


def test_should_give_up_waiting_in_the_end(tmp_path: Path, directory: StateDirectory) -> None:
    with pytest.raises(LockError, match=r"\(waited 50 ms\)"):
        StateDirectory(tmp_path, "app", SystemClock(), lock_wait_ms=50)


def test_should_let_others_in_after_close_and_warn_of_locked_tasks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = StateDirectory(tmp_path, "app", SystemClock())
    assert first.lock(TASK)
    first.close()
    first.close()
    assert "tasks still locked: 0_1 by MainThread" in caplog.text
    with pytest.raises(ProcessorStateError, match="is closed"):
        first.lock(TASK)

    second = StateDirectory(tmp_path, "app", SystemClock())
    assert second.lock(TASK)
    second.close()


def test_should_not_hand_locks_down_to_a_forked_child(tmp_path: Path) -> None:
    with other_process(hold_and_fork, tmp_path, TASK) as (parent, pipe):
        child, parent_seen, said = pipe.recv()
        try:
            assert parent_seen == parent.pid
            assert said == (
                f"ProcessorStateError: the state directory {tmp_path}/app belongs to process {parent.pid}, from which "
                "this one was forked: a child has to open a state directory of its own"
            )
            with pytest.raises(LockError):  # what the child tried did not take the parent's lock away
                StateDirectory(tmp_path, "app", SystemClock())

            parent.kill()
            parent.join()
            directory = StateDirectory(tmp_path, "app", SystemClock())  # though the child is still there
            assert directory.lock(TASK)
            directory.close()
        finally:
            os.kill(child, signal.SIGKILL)


# --- what is on disk


def test_should_list_tasks_with_state_in_order_and_nothing_else(directory: StateDirectory) -> None:
    for task in (TaskId(10, 0), OTHER, TASK, TaskId(0, 1, "clicks")):
        put_state(directory, task)
    empty = directory.task_directory(TaskId(5, 5))
    (empty / ".checkpoint").write_text("0\n0\n")
    (empty / ".checkpoint.corrupt-1").write_text("")
    (empty / ".lock").write_text("")
    for name in ("global", "00_1", "0_1_2", "x"):
        (directory.application_directory / name / "rocksdb").mkdir(parents=True)
    (directory.application_directory / "7_7").write_text("a file")

    assert directory.non_empty_task_directories() == [TASK, OTHER, TaskId(10, 0), TaskId(0, 1, "clicks")]
    assert directory.is_empty(TaskId(5, 5))
    assert directory.is_empty(TaskId(9, 9))
    assert not directory.is_empty(TASK)


def test_should_return_stored_offsets_and_none_for_a_missing_or_broken_file(
    directory: StateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    file = CheckpointFile(directory.task_directory(TASK))
    assert directory.lock(TASK, to_report=True)
    assert directory.stored_offsets(TASK) == {}
    file.write({CHANGELOG: OFFSET_UNKNOWN})
    assert directory.stored_offsets(TASK) == {}, "only a thread that runs the task changes the offsets"
    assert directory.lock(TASK)
    directory.unlock(TASK)
    assert directory.stored_offsets(TASK) == {CHANGELOG: OFFSET_UNKNOWN}
    file.path.write_text("broken")
    assert directory.lock(TASK)
    assert directory.stored_offsets(TASK) == {}
    assert "checkpoint of task 0_1 cannot be used" in caplog.text
    assert file.path.exists()  # it is set aside by the task that loads it


def test_should_not_keep_offsets_that_a_thread_with_the_task_may_have_changed(tmp_path: Path) -> None:
    def read(_store: Path) -> tuple[TopicPartition, int]:
        if len(offsets) == 2:  # the task is assigned to another thread during the first read
            assert in_thread(lambda: directory.lock(TASK))
        return CHANGELOG, offsets.pop(0)

    offsets = [5, 6]
    directory = StateDirectory(tmp_path, "app", SystemClock(), read_offset=read)
    put_state(directory, TASK)
    assert directory.lock(TASK, to_report=True)
    assert directory.stored_offsets(TASK) == {CHANGELOG: 5}
    assert directory.stored_offsets(TASK) == {CHANGELOG: 6}
    directory.close()


KNOWN = "2230ea3e-4048-4d7d-bee0-e650940ec648"


def test_should_read_what_kafka_wrote_and_ignore_fields_of_a_later_version(tmp_path: Path) -> None:
    (tmp_path / PROCESS_FILE_NAME).write_text(json.dumps({"processId": KNOWN, "later": 1}))
    assert stored_process_id(tmp_path) == ProcessId.parse(KNOWN)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"processId": null}', '{"processId": "x"}'])
def test_should_draw_a_new_id_when_the_file_cannot_be_read(tmp_path: Path, content: str) -> None:
    (tmp_path / PROCESS_FILE_NAME).write_text(content)
    drawn = stored_process_id(tmp_path)
    assert stored_process_id(tmp_path) == drawn
