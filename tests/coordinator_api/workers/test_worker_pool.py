"""Real processes: jobs and errors come back, a job that is given up is killed, and no worker outlives its service."""

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pytest
import uvloop

from assignor.errors import AssignorFault, DecodeError, InputError, NotBuiltYet, StreamsError, TopologyError
from coordinator_api.errors import TooManyRequests, UnreadableBytes
from coordinator_api.http.problems import Problem
from coordinator_api.workers.worker_pool import (
    LARGE_BYTES,
    ForkedWorkers,
    JobTookTooLong,
    PoolClosed,
    Worker,
    WorkerDied,
    WorkerPool,
)
from coordinator_api.workers.worker_process import COMMAND, END, JobFailed
from tests.coordinator_api.workers import jobs
from tests.known import known
from tests.processes import children

FREED_BYTES = 50_000_000


@pytest.fixture(scope="session", params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": uvloop.new_event_loop if request.param == "uvloop" else None}


@pytest.fixture(scope="module")
def workers() -> Iterator[ForkedWorkers]:
    forked = ForkedWorkers(["tests.coordinator_api.workers.jobs"])
    yield forked
    forked.close()


@asynccontextmanager
async def pool_of(
    size: int, workers: ForkedWorkers, nice: int = 0, large: int = LARGE_BYTES
) -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(size, workers, nice=nice, large_bytes=large)
    try:
        yield pool
    finally:
        await pool.close()


class Running:
    """A job that runs until it is killed."""

    def __init__(self, pool: WorkerPool, directory: Path) -> None:
        fifo = directory / f"fifo-{len(list(directory.iterdir()))}"
        os.mkfifo(fifo)
        self._fifo = fifo
        self.task = asyncio.ensure_future(pool.run(jobs.hold, fifo))

    async def started(self) -> int:
        """The process that runs it."""
        self._file: BinaryIO = await asyncio.to_thread(self._fifo.open, "rb", buffering=0)
        return int(await asyncio.to_thread(self._file.readline))

    async def ended(self) -> None:
        assert await asyncio.to_thread(self._file.read) == b""
        self._file.close()


async def test_a_job_runs_in_another_process_and_its_result_comes_back(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        assert await pool.run(jobs.process) != os.getpid()
        large = os.urandom(3_000_000)
        assert await pool.run(jobs.echo, {"a": [large, None, 1.5]}) == {"a": [large, None, 1.5]}


@pytest.mark.parametrize(
    "fault",
    [
        InputError("must be a number", "input.size"),
        NotBuiltYet("later", "input.assignor"),
        DecodeError("SubscriptionInfo", "too short", 7),
        UnreadableBytes(DecodeError("SubscriptionInfo", "too short", 7), "subscription"),
        TooManyRequests("wait"),
        Problem("INVALID_REQUEST", "no", headers={"A": "b"}, extensions={"offset": 3}),
        StreamsError("broken"),
        ZeroDivisionError("by zero"),
    ],
)
async def test_an_error_comes_back_as_itself_with_its_fields(workers: ForkedWorkers, fault: Exception) -> None:
    async with pool_of(1, workers) as pool:
        with pytest.raises(type(fault)) as raised:
            await pool.run(jobs.raise_it, fault)
    assert type(raised.value) is type(fault)
    assert str(raised.value) == str(fault)
    fields = {name: value for name, value in vars(raised.value).items() if name != "__notes__"}
    assert fields == vars(fault)


async def test_what_caused_an_error_comes_along(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        with pytest.raises(StreamsError) as raised:
            await pool.run(jobs.raise_with_cause)
    assert isinstance(raised.value.__cause__, TopologyError)


async def test_an_unexpected_error_says_where_it_happened(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        with pytest.raises(ZeroDivisionError) as raised:
            await pool.run(jobs.raise_it, ZeroDivisionError())
    assert "jobs.py" in raised.value.__notes__[0]


async def test_what_cannot_be_pickled_comes_back_as_text_and_the_worker_goes_on(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        before = await pool.run(jobs.process)
        with pytest.raises(JobFailed, match="NotPicklable: it holds a lock"):
            await pool.run(jobs.raise_not_picklable)
        with pytest.raises((JobFailed, TypeError), match="lock"):
            await pool.run(jobs.return_not_picklable)
        with pytest.raises(JobFailed, match="SystemExit: 3"):
            await pool.run(jobs.raise_it, SystemExit(3))
        with pytest.raises((AttributeError, pickle.PicklingError)):
            await pool.run(lambda: None)
        assert await pool.run(jobs.process) == before


async def test_jobs_begin_in_the_order_in_which_they_came(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        done: list[object] = []

        async def job(number: int) -> None:
            done.append(await pool.run(jobs.echo, number))

        await asyncio.gather(*map(job, range(20)))
        assert done == list(range(20))


async def test_as_many_jobs_as_its_size_run_at_once(workers: ForkedWorkers, tmp_path: Path) -> None:
    async with pool_of(2, workers) as pool:
        one, two = Running(pool, tmp_path), Running(pool, tmp_path)
        assert await one.started() != await two.started()
        for each in (one, two):
            each.task.cancel()
            await each.ended()


async def test_a_job_that_is_given_up_is_killed_and_the_next_one_runs(workers: ForkedWorkers, tmp_path: Path) -> None:
    async with pool_of(1, workers) as pool:
        given_up = Running(pool, tmp_path)
        process = await given_up.started()
        waiting = asyncio.ensure_future(pool.run(jobs.process))
        given_up.task.cancel()
        await given_up.ended()
        with pytest.raises(asyncio.CancelledError):
            await given_up.task
        assert await waiting != process


async def test_a_job_that_waits_is_taken_back(workers: ForkedWorkers, tmp_path: Path) -> None:
    async with pool_of(1, workers) as pool:
        running = Running(pool, tmp_path)
        await running.started()
        waiting = asyncio.ensure_future(pool.run(jobs.process))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not running.task.done()
        running.task.cancel()
        await running.ended()


async def test_a_worker_that_dies_fails_its_job_only(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        with pytest.raises(WorkerDied, match="SIGKILL"):
            await pool.run(jobs.die, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="SIGSEGV"):
            await pool.run(jobs.die, signal.SIGSEGV)
        with pytest.raises(WorkerDied):
            await pool.run(jobs.leave, 3)
        assert await pool.run(jobs.echo, 1) == 1


async def test_a_worker_that_dies_between_two_jobs_is_replaced(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        os.kill(await pool.run(jobs.process), signal.SIGKILL)
        assert await pool.run(jobs.echo, 1) == 1


async def test_a_worker_that_has_grown_is_replaced(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        small = await pool.run(jobs.grow, 1_000)
        assert await pool.run(jobs.grow, 1_000) == small
        assert await pool.run(jobs.grow, LARGE_BYTES) == small
        assert await pool.run(jobs.grow, 1_000) != small


async def test_what_a_job_has_freed_goes_back_to_the_operating_system(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers) as pool:
        before = await pool.run(jobs.resident_bytes)
        await pool.run(jobs.free_pieces, FREED_BYTES // 1_000, 1_000)
        assert await pool.run(jobs.resident_bytes) - before < FREED_BYTES // 4


async def test_workers_stand_back_and_ignore_the_signals_of_a_terminal(workers: ForkedWorkers) -> None:
    async with pool_of(1, workers, nice=3) as pool:
        assert await pool.run(jobs.niceness) == min(os.nice(0) + 3, 19)
        assert await pool.run(jobs.ignore_the_terminal) == "still here"


async def test_closing_ends_running_and_waiting_jobs_at_once(workers: ForkedWorkers, tmp_path: Path) -> None:
    async with pool_of(1, workers) as pool:
        running = Running(pool, tmp_path)
        await running.started()
        waiting = [asyncio.ensure_future(pool.run(jobs.process)) for _ in range(3)]
        async with asyncio.timeout(5):
            await pool.close()
            await running.ended()
        for task in (running.task, *waiting):
            with pytest.raises(PoolClosed):
                await task
        with pytest.raises(PoolClosed):
            await pool.run(jobs.process)


class SlowStarts:
    """Workers start once they may `go_on`."""

    def __init__(self, start: Callable[[int], Worker]) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.started: list[Worker] = []
        self._start = start

    def __call__(self, nice: int) -> Worker:
        self.begun.set()
        assert self.go_on.wait(30)
        self.started.append(self._start(nice))
        return self.started[-1]


@pytest.fixture
def slow(workers: ForkedWorkers, monkeypatch: pytest.MonkeyPatch) -> SlowStarts:
    starts = SlowStarts(workers.start)
    monkeypatch.setattr(workers, "start", starts)
    return starts


async def test_closing_waits_for_a_worker_that_starts(workers: ForkedWorkers, slow: SlowStarts) -> None:
    async with pool_of(1, workers) as pool:
        given_up = asyncio.ensure_future(pool.run(jobs.process))
        await asyncio.to_thread(slow.begun.wait, 30)
        given_up.cancel()
        closing = asyncio.ensure_future(pool.close())
        await asyncio.wait([given_up])
        slow.go_on.set()
        await closing
        with pytest.raises(ProcessLookupError):
            os.kill(slow.started[0].process, 0)


async def given_up_before_it_begins(pool: WorkerPool) -> None:
    """After as many turns of the event loop as it takes to ask for a worker."""
    job = asyncio.ensure_future(pool.run(jobs.process))
    for _ in range(3):
        await asyncio.sleep(0)
    job.cancel()
    await job


ENDS: dict[str, Callable[[WorkerPool], Awaitable[object]]] = {
    "given up before it begins": given_up_before_it_begins,
    "given up soon": lambda pool: asyncio.wait_for(pool.run(jobs.spin), 0.01),
    "ended by its limit": lambda pool: pool.run(jobs.spin, limit_ms=10),
    "died": lambda pool: pool.run(jobs.die, signal.SIGKILL),
    "has grown": lambda pool: pool.run(jobs.grow, 0),
    "answered with what cannot be read": lambda pool: pool.run(jobs.return_unreadable),
    "refused": lambda pool: pool.run(jobs.return_not_picklable),
}


@pytest.mark.parametrize("end", ENDS)
async def test_no_job_leaves_a_worker(workers: ForkedWorkers, end: str) -> None:
    places = 2
    async with pool_of(places, workers, large=0 if end == "has grown" else LARGE_BYTES) as pool:
        server, before = int(_parent_of(await pool.run(jobs.process))), asyncio.all_tasks()
        files = len(os.listdir("/proc/self/fd"))

        async def ends() -> None:
            with suppress(asyncio.CancelledError, TimeoutError, JobTookTooLong, WorkerDied, AttributeError, TypeError):
                await ENDS[end](pool)

        await asyncio.gather(*(ends() for _ in range(12)))
        await asyncio.gather(*(pool.run(jobs.process) for _ in range(places)))
        await asyncio.gather(*(asyncio.all_tasks() - before))  # the ends of workers
        assert len(children(server)) <= places
        assert len(os.listdir("/proc/self/fd")) <= files + places


async def test_a_job_gets_the_worker_that_another_left(workers: ForkedWorkers, slow: SlowStarts) -> None:
    async with pool_of(1, workers) as pool:
        for _ in range(20):
            with pytest.raises(asyncio.CancelledError):
                await given_up_before_it_begins(pool)
        last = asyncio.ensure_future(pool.run(jobs.process))
        await asyncio.sleep(0)
        slow.go_on.set()
        assert [await last] == [worker.process for worker in slow.started]


async def test_a_fork_server_that_was_killed_is_replaced() -> None:
    workers = ForkedWorkers(["tests.coordinator_api.workers.jobs"])
    async with pool_of(2, workers) as pool:
        first = await pool.run(jobs.process)
        server = int(await asyncio.to_thread(_parent_of, first))
        os.kill(server, signal.SIGKILL)
        assert await pool.run(jobs.process) == first, "its workers live on"
        with pytest.raises(AssignorFault):
            await pool.run(jobs.leave, 0)
        assert await pool.run(jobs.process) != first
    workers.close()


async def test_no_worker_outlives_a_service_that_is_killed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.coordinator_api.workers.program", str(fifo)], stderr=subprocess.PIPE
    ) as service:
        with fifo.open("rb", buffering=0) as held:
            held.readline()
            service.kill()
            assert held.read() == b"", "the worker has ended"
        known(service.stderr).read()  # ends when the fork server, which has the same stderr, has ended


def _parent_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1]


# --- the process that workers are forked from, beside a service that is killed


_PROGRAM = "from coordinator_api.workers.worker_process import main; main({descriptor}, ())"
_TIMEOUT_S = 60


def test_should_end_without_a_word_when_nobody_is_left_to_read_its_answer() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(_TIMEOUT_S)
    service, server = socket.socketpair()
    service.sendall(COMMAND.pack(END, ended.pid))
    service.close()

    program = _PROGRAM.format(descriptor=server.fileno())
    run = subprocess.run(
        [sys.executable, "-c", program],
        pass_fds=[server.fileno()],
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    server.close()

    assert (run.returncode, run.stderr) == (0, b"")
