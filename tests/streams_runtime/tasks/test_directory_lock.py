"""What a lock on a directory must not trip over: files deleted under it, and copies of its open file.

Who gets it, and what a second process is told, is in `test_state_directory`.
"""

import fcntl
import os
from pathlib import Path

import pytest

from streams_runtime.common.errors import LockError, ProcessorStateError
from streams_runtime.tasks.file_system import DirectoryLock


def test_should_lock_the_file_that_is_there_when_the_holder_deleted_the_one_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_flock = fcntl.flock
    calls: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        calls.append(operation)
        if len(calls) == 1:
            (tmp_path / ".lock").unlink()
        real_flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = DirectoryLock.acquire(tmp_path, "it")
    assert len(calls) == 2
    with pytest.raises(LockError, match=f"in use by process {os.getpid()}"):
        DirectoryLock.acquire(tmp_path, "it")
    lock.release()


def test_should_be_free_after_release_though_a_copy_of_the_open_file_lives_on(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, "it")
    (opened,) = [fd for fd in os.listdir("/proc/self/fd") if _is_lock_of(fd, tmp_path)]
    copy = os.dup(int(opened))  # as a child has that was forked behind Python's back
    try:
        lock.release()
        DirectoryLock.acquire(tmp_path, "it").release()
    finally:
        os.close(copy)


def test_should_say_another_process_when_the_file_does_not_tell_which(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, "it")
    (tmp_path / ".lock").write_text("")
    with pytest.raises(LockError, match="in use by another process: "):
        DirectoryLock.acquire(tmp_path, "it")
    lock.release()


def test_should_name_the_directory_when_it_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(ProcessorStateError) as raised:
        DirectoryLock.acquire(tmp_path / "not there", "it")
    assert f"it ({tmp_path}/not there) cannot be locked" in str(raised.value)


def _is_lock_of(descriptor: str, directory: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == str(directory / ".lock")
    except FileNotFoundError:
        return False
