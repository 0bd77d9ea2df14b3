"""Processes of this machine that run spans, replaced when they die.

Rules: each has a pipe of its own, so that a process that is killed costs only what it was doing: its span is given to
another one, ahead of the others. A process ends by itself when the driver is gone (it waits for that in a thread), and
takes no notice of Ctrl-C, which is the driver's to act on. Processes are spawned, not forked: Arrow has threads.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Self

from spark_jobs.batch.outcome import EngineFailed
from spark_jobs.batch.work import Chunk, ChunkT
from spark_jobs.batch.worker import Job, run_span

MAX_ATTEMPTS = 16
"""As for Spark's tasks: more than a span in which chunks kill their processes takes until it is left."""
_READY, _FAILED = "ready", "failed"


@dataclass(slots=True)
class _Span:
    number: int
    content: bytes
    attempt: int = 0


@dataclass(slots=True)
class _Process:
    process: SpawnProcess
    pipe: Connection
    span: _Span | None = None


class LocalProcesses:
    """A context, in which `spans` are run by up to `processes` processes; at its end none is left."""

    def __init__(self, job: Job[ChunkT], spans: Sequence[Sequence[ChunkT]], processes: int) -> None:
        self._job = pickle.dumps(job)
        self._waiting = deque(_Span(number, pickle.dumps(list(span))) for number, span in enumerate(spans))
        self._count = min(processes, len(spans))
        self._processes: list[_Process] = []
        self._unready_deaths = 0

    def __enter__(self) -> Self:
        self._processes = [self._start() for _ in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._processes:
            each.process.kill()  # parts are renamed when they are complete: there is nothing to end gently
        for each in self._processes:
            each.process.join()
            each.pipe.close()

    def wait(self, timeout_s: float) -> bool:
        """See to the processes for that long; whether some still run. Raises EngineFailed."""
        deadline_s = time.monotonic() + timeout_s
        while self._processes and (left_s := deadline_s - time.monotonic()) > 0:
            ready = wait([each.pipe for each in self._processes], left_s)
            for each in [each for each in self._processes if each.pipe in ready]:
                self._hear(each)
        return bool(self._processes)

    def _hear(self, each: _Process) -> None:
        try:
            kind, text = each.pipe.recv()
            if kind == _FAILED:
                raise EngineFailed(f"a worker process failed: {text}")
            self._unready_deaths = 0
            each.span = self._waiting.popleft() if self._waiting else None
            if each.span is not None:
                each.pipe.send((each.span.content, each.span.attempt))
                return
        except (EOFError, OSError):  # the other end is closed when, and only when, the process has ended
            self._count_death(each)
        self._end(each)
        if self._waiting and len(self._processes) < self._count:
            self._processes.append(self._start())

    def _count_death(self, each: _Process) -> None:
        if each.span is None:
            self._unready_deaths += 1
        else:
            each.span.attempt += 1
            self._waiting.appendleft(each.span)
        if self._unready_deaths >= MAX_ATTEMPTS or (each.span is not None and each.span.attempt >= MAX_ATTEMPTS):
            raise EngineFailed(
                f"worker processes died {MAX_ATTEMPTS} times, the last with exit code {_exit_code(each)}"
            )

    def _end(self, each: _Process) -> None:
        self._processes.remove(each)
        each.pipe.close()  # one that lives ends by this
        each.process.join()

    def _start(self) -> _Process:
        ours, theirs = multiprocessing.Pipe()
        with theirs, _held_interrupts():
            process = multiprocessing.get_context("spawn").Process(
                target=_work, args=(theirs, self._job), name="chunks", daemon=True
            )
            process.start()
        return _Process(process, ours)


def _exit_code(each: _Process) -> int | None:
    each.process.join()
    return each.process.exitcode


@contextlib.contextmanager
def _held_interrupts() -> Iterator[None]:
    """Keep SIGINT from a child until it has said that it ignores it: the mask is inherited."""
    resource_tracker.ensure_running()  # it lifts such a mask when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, job_content: bytes) -> None:
    """The body of a worker process: spans come in, and a word that the last one is done goes out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    try:
        job: Job[Chunk] = pickle.loads(job_content)  # noqa: S301 (from the driver that started this process)
        while True:
            pipe.send((_READY, ""))
            content, attempt = pipe.recv()
            for _ in run_span(job, pickle.loads(content), attempt):  # noqa: S301
                pass
    except EOFError:
        return
    except Exception as fault:
        with contextlib.suppress(OSError):
            pipe.send((_FAILED, f"{type(fault).__name__}: {fault}"))


def _end_with_the_driver() -> None:
    driver = multiprocessing.parent_process()
    assert driver is not None, "this process was started by multiprocessing"
    wait([driver.sentinel])
    os._exit(1)
