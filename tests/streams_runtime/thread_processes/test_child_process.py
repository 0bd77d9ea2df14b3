"""The process of a stream thread as such: what it keeps open, how it ends, and in which words that is told."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.common.errors import LockError
from streams_runtime.tasks.directory_lock import DirectoryLock
from streams_runtime.thread_processes.child_process import ChildProcess, how_it_ended


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[DirectoryLock]:
    held = DirectoryLock.acquire(tmp_path, "it")
    yield held
    held.release()


def test_should_keep_the_lock_of_a_process_that_is_gone_until_it_has_ended(tmp_path: Path, lock: DirectoryLock) -> None:
    assert lock.descriptor is not None
    process = ChildProcess([lock.descriptor])
    lock.forget()  # as the system does it for a process that was killed: nobody has unlocked it
    with pytest.raises(LockError):
        DirectoryLock.acquire(tmp_path, "it")
    assert process.end() != 0, "nobody had told it to start a thread"
    DirectoryLock.acquire(tmp_path, "it").release()


def test_should_end_when_nobody_speaks_to_it_any_more() -> None:
    process = ChildProcess([])
    assert process.end() >= 0, "by itself"


def test_should_leave_signals_to_the_thread_that_starts_it() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    ChildProcess([]).end()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [
        (0, "ended by itself, with exit code 0"),
        (70, "ended by itself, with exit code 70"),
        (-signal.SIGKILL, "was ended by SIGKILL"),
        (-signal.SIGSEGV, "was ended by SIGSEGV"),
        (-(signal.SIGRTMIN + 3), f"was ended by signal {signal.SIGRTMIN + 3}"),
    ],
)
def test_should_say_how_it_ended(exit_code: int, said: str) -> None:
    assert how_it_ended(exit_code) == said
