"""A log that was opened before a fork works in both processes, each with its own files."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from streams_runtime.logs.embedded import EmbeddedLog
from tests.streams_runtime.logs.reading_and_writing import T0, reading, records_of, values_of, write


def in_child(work: Callable[[], None]) -> int:
    """Process id of a forked child that runs `work` and ends with 0, or with 1 when that fails."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.alarm(30)  # a child that hangs must not hang the test
        work()
        code = 0
    finally:
        os._exit(code)


def ended_well(child: int) -> bool:
    return os.waitpid(child, 0)[1] == 0


def test_should_work_in_parent_and_child_when_it_was_in_use_before_the_fork(log: EmbeddedLog) -> None:
    write(log, T0, b"parent")
    consumer = reading(log, T0)
    assert len(consumer.poll(0, 10)) == 1

    def work() -> None:
        assert values_of(log, T0) == [(0, b"parent")]
        write(log, T0, b"child")
        assert [record.value for record in records_of(consumer.poll(0, 10))] == [b"child"]
        log.maintain()
        log.close()

    assert ended_well(in_child(work))
    assert [record.value for record in records_of(consumer.poll(0, 10))] == [b"child"]
    write(log, T0, b"parent again")
    assert values_of(log, T0) == [(0, b"parent"), (1, b"child"), (2, b"parent again")]


def test_should_not_keep_the_write_lock_in_a_child_if_held_during_the_fork(log: EmbeddedLog, directory: Path) -> None:
    ready, say_ready = os.pipe()
    end, say_end = os.pipe()

    def work() -> None:
        os.write(say_ready, b"x")
        os.read(end, 1)

    with log._writer._lock.held():
        child = in_child(work)
        assert os.read(ready, 1) == b"x"
        held = os.listdir(f"/proc/{child}/fd")
        assert not [fd for fd in held if os.readlink(f"/proc/{child}/fd/{fd}") == str(directory / "write.lock")]
    begun = time.monotonic()
    write(log, T0, b"free")
    assert time.monotonic() - begun < 5
    os.write(say_end, b"x")
    assert ended_well(child)
    for fd in (ready, say_ready, end, say_end):
        os.close(fd)


def test_should_let_the_child_write_when_a_lock_was_held_during_the_fork(log: EmbeddedLog) -> None:
    write(log, T0, b"parent")

    def work() -> None:
        write(log, T0, b"child")
        log.maintain()

    with log._reads._lock, log._writer._lock._threads, log._signals._lock, log._maintenance.lock:
        assert ended_well(in_child(work))
    assert values_of(log, T0) == [(0, b"parent"), (1, b"child")]
