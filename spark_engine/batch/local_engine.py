"""Runs spans of chunks in processes of this machine. A worker process that dies is replaced.

Each worker process has its own pipe to the driver, so a killed process affects only its current span. If a process is
killed, another process runs its span. Each worker process has a thread that ends the process when the driver has ended.
Worker processes ignore Ctrl-C, because the driver handles it. Worker processes are spawned, because a fork of the
driver would be unsafe: Arrow starts threads in the driver.
"""

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

from spark_engine.batch.work import Chunk, ChunkT, EngineFailed, Wait
from spark_engine.batch.worker import Job, run_span

MAX_ATTEMPTS = 16
"""The largest number of attempts to run a span, similar to Spark's limit for a task. If chunks kill their processes,
`worker` gives up the span before the number of attempts reaches this limit.
"""
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
    """A context manager that runs `spans` in up to `processes` worker processes. All worker processes have ended when
    the block ends.
    """

    def __init__(self, job: Job[ChunkT], spans: Sequence[Sequence[ChunkT]], processes: int) -> None:
        self._job = pickle.dumps(job)
        self._waiting = deque(_Span(number, pickle.dumps(list(span))) for number, span in enumerate(spans))
        self._count = min(processes, len(spans))
        self._processes: list[_Process] = []
        self._unready_deaths = 0

    def __enter__(self) -> Wait:
        self._processes = [self._start() for _ in range(self._count)]
        return self._wait

    def __exit__(self, *_: object) -> None:
        for each in self._processes:
            # killing the process leaves no incomplete part, because only a complete part gets its final name
            each.process.kill()
        for each in self._processes:
            each.process.join()
            each.pipe.close()

    def _wait(self, timeout_s: float) -> bool:
        """Sends spans to the worker processes, for at most `timeout_s` seconds. Returns True if worker processes still
        run.
        """
        deadline_s = time.monotonic() + timeout_s
        while self._processes and (left_s := deadline_s - time.monotonic()) > 0:
            ready = wait([each.pipe for each in self._processes], left_s)
            for each in [each for each in self._processes if each.pipe in ready]:
                self._receive(each)
        return bool(self._processes)

    def _receive(self, each: _Process) -> None:
        try:
            kind, text = each.pipe.recv()
            if kind == _FAILED:
                raise EngineFailed(f"a worker process failed: {text}")
            self._unready_deaths = 0
            each.span = self._waiting.popleft() if self._waiting else None
            if each.span is not None:
                each.pipe.send((each.span.content, each.span.attempt))
                return
        except (EOFError, OSError):  # the worker's end of the pipe closes if and only if the worker process has ended
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
        each.pipe.close()  # a worker process that still runs ends when its pipe closes
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
    """Blocks SIGINT while a child process is started. The child inherits the signal mask, so SIGINT is blocked in the
    child too. The child first sets SIGINT to be ignored, and then unblocks SIGINT.
    """
    # start multiprocessing's resource tracker now: starting it unblocks SIGINT in this process
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, job_content: bytes) -> None:
    """The main function of a worker process: receives spans, runs each span, and reports each finished span to the
    driver.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    try:
        job: Job[Chunk] = pickle.loads(job_content)  # The driver sent these bytes. # noqa: S301
        while True:
            pipe.send((_READY, ""))
            content, attempt = pipe.recv()
            run_span(job, pickle.loads(content), attempt)  # The driver sent these bytes, too. # noqa: S301
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
