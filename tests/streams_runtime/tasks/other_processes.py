"""What a second process does to a state directory, for tests: real processes, told what to do by name.

Started with `spawn`, so that nothing is inherited; every one prints into a pipe what came of it and ends when told so.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from assignor.types import TaskId
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import LockError
from streams_runtime.tasks.state_directory import StateDirectory


def hold(state_dir: Path, task: TaskId | None, pipe: Connection) -> None:
    """Take the application's directory, and the task's; tell the error or "held"; hold on until told to end."""
    try:
        directory = StateDirectory(state_dir, "app", SystemClock())
        if task is not None:
            directory.lock(task)
    except LockError as error:
        pipe.send(str(error))
    else:
        pipe.send("held")
    pipe.recv()


def hold_and_fork(state_dir: Path, task: TaskId, pipe: Connection) -> None:
    """Like `hold`, with a forked child that tells what it can do with its parent's object and then lives on."""
    directory = StateDirectory(state_dir, "app", SystemClock())
    directory.lock(task)
    if os.fork() == 0:
        try:
            directory.unlock(task)
            directory.close()
            directory.lock(task)
        except Exception as error:
            pipe.send((os.getpid(), os.getppid(), f"{type(error).__name__}: {error}"))
        time.sleep(60)
        os._exit(0)
    pipe.recv()


def end_soon(state_dir: Path, task: TaskId | None, pipe: Connection) -> None:
    """Hold the application's directory, and end 200 ms after having said so."""
    StateDirectory(state_dir, "app", SystemClock())
    pipe.send("held")
    time.sleep(0.2)


@contextmanager
def other_process(what: object, state_dir: Path, task: TaskId | None) -> Iterator[tuple[BaseProcess, Connection]]:
    """One of the functions above in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=what, args=(state_dir, task, there), daemon=True)  # type: ignore[arg-type]
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        process.kill()
        process.join()
        here.close()
