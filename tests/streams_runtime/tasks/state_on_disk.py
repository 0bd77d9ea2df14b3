"""State of tasks as it lies on disk, and a second thread to ask for it, for tests."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import SystemClock
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from streams_runtime.tasks.state_directory import StateDirectory

T = TypeVar("T")

TASK = TaskId(0, 1)
OTHER = TaskId(1, 0)
CHANGELOG = TopicPartition("app-counts-changelog", 1)


def in_thread(call: Callable[[], T]) -> T:
    results: list[T | BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run, name="other-thread")
    thread.start()
    thread.join()
    (result,) = results
    if isinstance(result, BaseException):
        raise result
    return result


def put_state(directory: StateDirectory, task: TaskId, *, age_ms: int = 0) -> Path:
    """A task with a store of two files and a checkpoint, all last changed `age_ms` ago."""
    path = directory.task_directory(task)
    store = path / "rocksdb" / "counts"
    store.mkdir(parents=True)
    (store / "000001.sst").write_text("state")
    (store / "MANIFEST").write_text("manifest")
    CheckpointFile(path).write({CHANGELOG: 7})
    set_age(path, age_ms)
    return path


def set_age(path: Path, age_ms: int) -> None:
    changed = SystemClock().now_ms() - age_ms
    for one in (*path.rglob("*"), path):
        os.utime(one, ns=(changed * 1_000_000,) * 2)
