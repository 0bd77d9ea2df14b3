"""One writer at a time, nobody waits for ever, and nobody is left behind."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from streams_runtime.logs.embedded.connections import WriteLock
from streams_runtime.logs.log_errors import LogError, LogTimeout


def open_files(directory: Path) -> list[str]:
    """The open files in this directory. Files of other tests in this process may be closed at any time."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of this listing, and of a file that is closed meanwhile
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [link for link in links if link.startswith(str(directory))]


def test_should_let_one_in_at_a_time_over_threads_and_files(tmp_path: Path) -> None:
    locks = [WriteLock(tmp_path / "lock", 10_000) for _ in range(3)]
    inside: list[int] = []
    most = 0

    def enter(number: int) -> None:
        nonlocal most
        for _ in range(50):
            with locks[number % 3].held():
                inside.append(number)
                most = max(most, len(inside))
                inside.remove(number)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(enter, range(6)))
    assert most == 1
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("same", [True, False], ids=["same process", "as from another process"])
def test_should_give_up_at_the_time_out_and_leave_nothing_behind(tmp_path: Path, same: bool) -> None:
    holder = WriteLock(tmp_path / "lock", 10_000)
    waiter = WriteLock(tmp_path / "lock", 50)
    if same:
        waiter._threads = holder._threads
    with holder.held():
        begun = time.monotonic()
        with pytest.raises(LogTimeout, match="was busy with other writers for 50 ms"), waiter.held():
            pass
        assert 0.049 < time.monotonic() - begun < 5
    for thread in threading.enumerate():
        if thread.name == "log-write-lock":
            thread.join(10)  # who gave up left a thread behind: it ends when the lock comes
    assert open_files(tmp_path) == []
    with waiter.held(), pytest.raises(LogTimeout), WriteLock(tmp_path / "lock", 1).held():
        pass


def test_should_give_back_the_lock_when_the_work_fails(tmp_path: Path) -> None:
    lock = WriteLock(tmp_path / "lock", 50)
    with pytest.raises(KeyError), lock.held():
        raise KeyError
    with lock.held():
        pass


def test_should_come_in_soon_although_another_one_takes_the_lock_again_and_again(tmp_path: Path) -> None:
    done = threading.Event()
    greedy, modest = WriteLock(tmp_path / "lock", 10_000), WriteLock(tmp_path / "lock", 10_000)

    def take_again_and_again() -> None:
        while not done.is_set():
            with greedy.held():
                time.sleep(0.002)
            time.sleep(0.0002)

    thread = threading.Thread(target=take_again_and_again)
    thread.start()
    try:
        begun = time.monotonic()
        for _ in range(10):
            with modest.held():
                pass
        assert time.monotonic() - begun < 5
    finally:
        done.set()
        thread.join()


def test_should_say_so_when_there_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="none cannot be used"), WriteLock(tmp_path / "none" / "lock", 50).held():
        pass
