"""The background of an instance: obsolete state goes, the log is kept in shape, errors end nothing."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from assignor.types import TaskId
from streams_runtime.common.clock import SystemClock
from streams_runtime.instance.housekeeping import Housekeeping, HousekeepingTimes
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.tasks.state_directory import StateDirectory

TIMEOUT_S = 10.0


class FailingLog(InMemoryLog):
    """Fails when it is maintained the first time. `maintained`: it was, again."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.maintained = threading.Event()

    def maintain(self) -> None:
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("on purpose")
        super().maintain()
        self.maintained.set()


class WatchedDirectory(StateDirectory):
    """`cleaned`: what the cleaner deleted."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir, "app", SystemClock())
        self.cleaned: list[TaskId] = []
        self.done = threading.Event()

    def clean_obsolete(self, cleanup_delay_ms: int) -> list[TaskId]:
        self.cleaned += super().clean_obsolete(cleanup_delay_ms)
        if self.cleaned:
            self.done.set()
        return self.cleaned


class AskedLog(InMemoryLog):
    """Is away when the first topic is asked for. `asked`: topics, in order; `again`: the last one a second time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.first = threading.Event()
        self.again = threading.Event()

    def partitions_of(self, topic: str) -> int:
        self.asked.append(topic)
        self.first.set()
        if len(self.asked) == 1:
            raise LogTimeout("away")
        if self.asked.count("out") == 2:
            self.again.set()
        return super().partitions_of(topic)


@contextmanager
def housekeeping(directory: StateDirectory, *given: Any, **more: Any) -> Iterator[Housekeeping]:
    with closing(directory), closing(Housekeeping("app", directory, *given, **more)) as started:
        started.start()
        yield started


def state_of(directory: StateDirectory, task: TaskId) -> Path:
    store = directory.task_directory(task) / "rocksdb" / "counts"
    store.mkdir(parents=True)
    return store


def test_should_maintain_the_log_again_when_it_failed_once(tmp_path: Path) -> None:
    log = FailingLog()
    with housekeeping(StateDirectory(tmp_path, "app", SystemClock()), log, 600_000, log_interval_ms=5):
        assert log.maintained.wait(TIMEOUT_S)


def test_should_delete_state_that_nobody_wants_but_none_that_is_locked(tmp_path: Path) -> None:
    directory = WatchedDirectory(tmp_path)
    obsolete, locked = TaskId(0, 0), TaskId(0, 1)
    kept = state_of(directory, locked)
    gone = state_of(directory, obsolete)
    assert directory.lock(locked)
    with housekeeping(directory, InMemoryLog(), 50, log_interval_ms=10):
        assert directory.done.wait(TIMEOUT_S)
    assert directory.cleaned[0] == obsolete
    assert (kept.exists(), gone.exists()) == (True, False)


def test_should_keep_looking_up_the_topics_that_tasks_will_write_to(tmp_path: Path) -> None:
    log, directory = AskedLog(), StateDirectory(tmp_path, "app", SystemClock())
    with housekeeping(directory, log, 600_000, log_interval_ms=5, written={"out", "changelog"}):
        assert log.again.wait(TIMEOUT_S)
    assert log.asked[:4] == ["changelog", "out", "changelog", "out"]


def test_should_look_up_topics_before_its_first_pause(tmp_path: Path) -> None:
    """An instance that came back may take a task over at once."""
    log, directory = AskedLog(), StateDirectory(tmp_path, "app", SystemClock())
    with housekeeping(directory, log, 600_000, log_interval_ms=600_000, written={"out"}):
        assert log.first.wait(TIMEOUT_S)


def test_should_close_at_once_and_twice(tmp_path: Path) -> None:
    with housekeeping(StateDirectory(tmp_path, "app", SystemClock()), InMemoryLog(), 600_000) as started:
        started.close()


@pytest.mark.parametrize(
    ("cleanup_delay_ms", "log_interval_ms", "pauses", "cleanups"),
    [
        (600, 5_000, [1_000, 1_000, 1_000], [True, True, True]),  # never more often than once a second
        (12_000, 5_000, [5_000, 5_000, 2_000, 5_000], [False, False, True, False]),
        (5_000, 5_000, [5_000, 5_000], [True, True]),
    ],
)
def test_should_maintain_the_log_at_each_pause_and_look_for_obsolete_state_once_in_the_delay(
    cleanup_delay_ms: int, log_interval_ms: int, pauses: list[int], cleanups: list[bool]
) -> None:
    times = HousekeepingTimes(cleanup_delay_ms, log_interval_ms)
    seen = [(times.pause_ms, times.passed()) for _ in pauses]
    assert seen == list(zip(pauses, cleanups, strict=True))
