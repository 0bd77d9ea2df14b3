"""Runs jobs in worker processes: `await pool.run(function, *arguments)`. Each worker runs one job at a time.

Jobs begin in the order of the calls of `run`. If the asyncio task that waits for a job is cancelled, the job's worker
process is killed at once. If a job is cancelled before it begins, it is only removed from the queue, and no worker is
killed. The number of workers never exceeds the size of the pool. A worker is replaced if it died, was killed, or uses
much memory. The caller of `run` gets errors of this project unchanged, with their fields.

One fork server (`ForkedWorkers`) starts and ends the workers of all pools of this process. The fork server starts with
the first worker. A new fork server starts if the fork server was killed. The fork server shares only sockets with this
process. The fork server and the workers get no signals from the terminal. The fork server and the workers end when this
process ends for any reason.

A service has separate workers for rebalances, and for the computations and documents of callers (`ServiceWorkers`).
Because of the separate workers, a caller's forecast never delays a group. Workers for rebalances have a higher niceness
than the serving process. Workers for computations have the highest niceness.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from assignor.errors import AssignorFault
from coordinator_api.workers.worker_process import ANSWER, COMMAND, END, FORK, LENGTH

Result = TypeVar("Result")

_ATTEMPTS = 3
"""The number of attempts to start a job. Another attempt is needed if the chosen idle worker has died.
"""

LARGE_BYTES = 256 * 1024 * 1024
"""If a worker uses more memory than this limit after a job, another worker replaces it."""


class WorkerDied(AssignorFault):
    """The worker ended during a job, because it ran out of memory or another process killed it. The job may be run
    again.
    """


class JobTookTooLong(AssignorFault):
    """The pool killed the worker because the job exceeded its time limit."""


class PoolClosed(AssignorFault):
    """The pool accepts no further jobs, because the service is stopping."""


class WorkerPool:
    """A pool of workers. Use each `WorkerPool` on one event loop only."""

    def __init__(self, size: int, workers: ForkedWorkers, *, nice: int = 0, large_bytes: int = LARGE_BYTES) -> None:
        """`size`: the largest number of jobs that run at one time. `nice`: the niceness of the workers."""
        self._workers = workers
        self._nice = nice
        self._large_bytes = large_bytes
        self._size = size
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._left_starting: list[asyncio.Future[Worker]] = []
        self._ending: set[asyncio.Task[int | None]] = set()
        self._closed = False
        # a thread waits for the fork server, because the event loop must not wait
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="workers")

    async def warm_up(self) -> None:
        """Start one worker now, so that the first job does not wait for it. Raises WorkersUnavailable."""
        async with self._slots:
            self._give_back(await self._take())

    async def run(self, function: Callable[..., Result], *arguments: object, limit_ms: int | None = None) -> Result:
        """Runs `function(*arguments)` in a worker process, and returns or raises its result.

        `function`: a function at the top level of a module. Arguments and results are pickled, so they should be small.
        `limit_ms`: time limit of the job from its start. Raises JobTookTooLong, WorkerDied, WorkersUnavailable,
        PoolClosed. Raises JobFailed in place of an error that cannot be pickled.
        """
        job = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        async with self._slots:
            succeeded, value = await self._answer(job, limit_ms)
        if not succeeded:
            raise value
        result: Result = value
        return result

    async def _answer(self, job: bytes, limit_ms: int | None) -> tuple[bool, Any]:
        """Runs a job. Returns (True, value) or (False, error)."""
        worker = await self._begin(job)
        try:
            async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                succeeded, value, resident_bytes = _unpickled(await self._message(worker))
        except TimeoutError:
            self._kill(worker)
            raise JobTookTooLong(f"gave no answer within {limit_ms} ms") from None
        except (OSError, EOFError):
            raise await self._why_it_died(self._kill(worker)) from None
        except BaseException:
            self._kill(worker)
            raise
        if resident_bytes > self._large_bytes:
            self._kill(worker)
        else:
            self._give_back(worker)
        return succeeded, value

    async def _begin(self, job: bytes) -> Worker:
        """Gives the job to a worker, and returns this worker when the job has begun. If the worker has died since its
        last job, another worker gets the job.
        """
        loop = asyncio.get_running_loop()
        for _ in range(_ATTEMPTS):
            worker = await self._take()
            try:
                await loop.sock_sendall(worker.connection, LENGTH.pack(len(job)))
                await loop.sock_sendall(worker.connection, job)
                await self._message(worker)
                return worker
            except (OSError, EOFError):
                died = await self._why_it_died(self._kill(worker))
            except BaseException:
                self._kill(worker)
                raise
        raise died

    def begin_close(self) -> None:
        """Kill all workers, including those that run a job. All calls of `run` that have not ended raise PoolClosed.
        Call `close` after `begin_close`.
        """
        self._closed = True
        for worker in [*self._idle]:
            self._kill(worker)
        for worker in self._busy:
            # the asyncio task that waits for the answer of this worker then reaps the worker
            self._workers.kill(worker)

    async def close(self) -> None:
        """Kill all workers like `begin_close`, and return when all jobs and workers have ended."""
        self.begin_close()
        for _ in range(self._size):
            await self._slots.acquire()  # When this call has acquired all slots, every job has ended.
        for _ in range(self._size):
            self._slots.release()
        if self._left_starting:
            await asyncio.wait(self._left_starting)
        await asyncio.gather(*self._ending)
        self._thread.shutdown(wait=False)

    async def _take(self) -> Worker:
        """Returns an idle worker. If no worker is idle, returns a worker whose job was cancelled while the worker was
        starting. If no worker is idle or starting, returns a new worker. A new worker starts only if every other worker
        has a job. There are therefore never more workers than `size`.
        """
        self._refuse_if_closed()
        if self._idle:
            worker = self._idle.pop()
        else:
            starting = self._left_starting.pop() if self._left_starting else self._start()
            try:
                worker = await asyncio.shield(starting)
            except asyncio.CancelledError:
                self._left_starting.append(starting)
                starting.add_done_callback(self._keep_started)
                raise
        self._busy.add(worker)
        if self._closed:
            self._kill(worker)
            self._refuse_if_closed()
        return worker

    def _start(self) -> asyncio.Future[Worker]:
        return asyncio.get_running_loop().run_in_executor(self._thread, self._workers.start, self._nice)

    def _keep_started(self, starting: asyncio.Future[Worker]) -> None:
        """Add a started worker to the idle workers if its job was cancelled during the start. If another job has taken
        the worker meanwhile, do nothing.
        """
        if starting not in self._left_starting:
            return
        self._left_starting.remove(starting)
        if not starting.cancelled() and starting.exception() is None:
            self._idle.append(starting.result())
            if self._closed:
                self._kill(starting.result())

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise PoolClosed("the service is stopping")

    def _give_back(self, worker: Worker) -> None:
        self._busy.discard(worker)
        self._idle.append(worker)
        if self._closed:
            self._kill(worker)

    def _kill(self, worker: Worker) -> asyncio.Task[int | None]:
        """Kill the worker at once. Returns the asyncio task that reaps the worker and returns its exit code."""
        self._workers.kill(worker)
        self._busy.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        ending = asyncio.get_running_loop().create_task(self._end(worker))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending

    async def _end(self, worker: Worker) -> int | None:
        # A cancelled read releases the socket's descriptor in the next turn of the event loop, so wait for this turn.
        # After `close`, another socket may get the same descriptor number.
        await asyncio.sleep(0)
        worker.connection.close()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._workers.end, worker)

    async def _why_it_died(self, ending: asyncio.Task[int | None]) -> AssignorFault:
        if self._closed:
            return PoolClosed("the service is stopping")
        code = await asyncio.shield(ending)
        if code is None or code >= 0:
            return WorkerDied("the worker process ended in the middle of its job")
        name = signal.Signals(-code).name
        hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        return WorkerDied(f"the worker process was ended by {name} in the middle of its job{hint}")

    async def _message(self, worker: Worker) -> bytearray:
        loop = asyncio.get_running_loop()
        (size,) = LENGTH.unpack(await _exactly(loop, worker, LENGTH.size))
        return await _exactly(loop, worker, size)


async def _exactly(loop: asyncio.AbstractEventLoop, worker: Worker, size: int) -> bytearray:
    content = bytearray(size)
    view = memoryview(content)
    while view:
        received = await loop.sock_recv_into(worker.connection, view)
        if not received:
            raise EOFError
        view = view[received:]
    return content


def _unpickled(answer: bytearray) -> tuple[bool, Any, int]:
    return pickle.loads(answer)  # type: ignore[no-any-return]  # noqa: S301 (a worker of this process sent it)


_START = (
    "import sys; sys.path[:] = {path!r}; "
    "from coordinator_api.workers.worker_process import main; main({descriptor}, {preload!r})"
)


class WorkersUnavailable(AssignorFault):
    """No worker process can be started. The message has the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """A worker process. `connection`: this process's end of the socket to the worker, non-blocking. `server`: the fork
    server that started the worker.
    """

    process: int
    connection: socket.socket
    server: subprocess.Popen[bytes]


class ForkedWorkers:
    """The fork server and the workers that it starts. Several threads may use a `ForkedWorkers`."""

    def __init__(self, preload: Iterable[str] = ()) -> None:
        """`preload`: the modules that jobs need. The fork server imports these modules once, so their import takes no
        time in a worker.
        """
        self._preload = tuple(preload)
        self._turn = threading.Lock()
        self._server: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def start(self, nice: int) -> Worker:
        """Start a worker. Raises WorkersUnavailable."""
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._turn:
                server, control = self._running()
                process = self._ask(control, FORK, nice, [theirs.fileno()])
            if process < 0:
                raise WorkersUnavailable(f"a worker process cannot be started: {os.strerror(-process)}")
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return Worker(process, ours, server)

    @staticmethod
    def kill(worker: Worker) -> None:
        """Kill the worker without waiting. The connection to the worker is closed as well. Call `end` after `kill`."""
        if worker.server.poll() is None:
            # the worker is not reaped yet, so its process id cannot belong to another process
            with suppress(ProcessLookupError):
                os.kill(worker.process, signal.SIGKILL)
        with suppress(OSError):
            # closing the connection ends the worker even if the fork server has ended
            worker.connection.shutdown(socket.SHUT_RDWR)

    def end(self, worker: Worker) -> int | None:
        """Wait until the process of a killed or failed worker has ended. Returns the exit code of the worker. The code
        is negative if a signal ended the worker, and None if the code is unknown.
        """
        with self._turn:
            if self._server is None or worker.server is not self._server[0]:
                return None
            try:
                return self._ask(self._server[1], END, worker.process, [])
            except WorkersUnavailable:
                return None

    def close(self) -> None:
        """End the fork server. All workers must have ended before this call."""
        with self._turn:
            self._stop()

    def _ask(self, control: socket.socket, letter: bytes, number: int, passed: list[int]) -> int:
        try:
            socket.send_fds(control, [COMMAND.pack(letter, number)], passed)
            answer = control.recv(ANSWER.size, socket.MSG_WAITALL)
        except OSError:
            answer = b""
        if len(answer) != ANSWER.size:
            self._stop()
            raise WorkersUnavailable("the process that starts workers has ended")
        code: int = ANSWER.unpack(answer)[0]
        return code

    def _running(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Returns the running fork server and the socket for its commands."""
        if self._server is not None and self._server[0].poll() is not None:
            self._stop()
        if self._server is None:
            self._server = self._start_server()
        return self._server

    def _start_server(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            start = _START.format(path=sys.path, descriptor=theirs.fileno(), preload=self._preload)
            server = subprocess.Popen(  # noqa: S603 (this starts Python itself)
                [sys.executable, "-c", start],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C at the terminal must not end workers
            )
        return server, ours

    def _stop(self) -> None:
        if self._server is not None:
            server, control = self._server
            control.close()
            server.kill()
            server.wait()
            self._server = None


MODULES = (
    "coordinator_api.runtime.rebalance_work",
    "coordinator_api.runtime.reported_rebalances",
    # this package does not import this module, but the fork server imports it by name
    "coordinator_api.http.computations",
    "coordinator_api.http.json_objects",
    "coordinator_api.http.page_computations",
)
"""The modules that workers need. The fork server imports the modules before it forks a worker."""

_forked = ForkedWorkers(MODULES)
"""The fork server of all services of this process. The fork server starts with the first worker, and ends with the
process.
"""

_MOST_REBALANCES = 4
_MORE_READERS = 2
_NICE_REBALANCES, _NICE_COMPUTATIONS = 3, 10


class ServiceWorkers:
    """The pools of a service: `rebalances` and `computations`. Use these pools on one event loop only."""

    def __init__(self, max_computations: int) -> None:
        """`max_computations`: the largest number of computations at one time. The pool `computations` has a few more
        workers, which read large documents.
        """
        self.rebalances = WorkerPool(min(_MOST_REBALANCES, os.cpu_count() or 1), _forked, nice=_NICE_REBALANCES)
        self.computations = WorkerPool(max_computations + _MORE_READERS, _forked, nice=_NICE_COMPUTATIONS)
        self._warming_up: asyncio.Task[None] | None = None

    def warm_up(self) -> None:
        """Start workers in the background, so that the first rebalance finds a worker."""
        self._warming_up = asyncio.get_running_loop().create_task(self._warm_up())

    async def close(self) -> None:
        """Kill all workers, including those that run a job."""
        await self.rebalances.close()
        await self.computations.close()

    async def _warm_up(self) -> None:
        try:
            await self.rebalances.warm_up()
            await self.computations.warm_up()
        except PoolClosed:
            return
        except AssignorFault as fault:  # only log the error: the next call of `run` also raises it
            structlog.get_logger("coordinator_api").error("workers_unavailable", error=str(fault))
