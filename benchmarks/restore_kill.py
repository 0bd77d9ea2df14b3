"""A restart after SIGKILL: how many records are restored, and how soon the instance runs, beside a restore of all.

The application counts by key, exactly-once with default configs on the embedded log, in one process with one stream
thread. The coordinator and this benchmark run in processes of their own. The benchmark writes the changelog itself, a
count of 1 for each of five million keys, because that takes seconds and counting so many records takes minutes. Then:

1. An instance starts without state and restores all. This is the peer.
2. The instance processes records of random keys, of which there are always more. At a random moment after it has
   committed 100,000 of them, SIGKILL ends its process. The next instance starts on the same state directory.
3. Step 2 again, in all three times. Then the last instance processes the rest, and the counts of all keys are compared
   with the input.

A time is measured by the instance, from `StreamsInstance.start` until its task is restored and the state is RUNNING. It
includes joining the group and opening the store, and not the start of Python. The records are those that the instance
reports (`TaskRestored`).
"""

import multiprocessing
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.applications import APPLICATION_ID, CHANGELOG_0, EVENTS_0, counting, create_topics
from benchmarks.changelogs import key_of, write_keys
from benchmarks.flat_out import miscounted
from benchmarks.turns import load_average, progress
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.instance.application import group_body
from streams_runtime.instance.instance_resources import InstanceOptions
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.instance.thread_listener import TaskRestored, ThreadListener
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.base import Log
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.serdes import LONG

MOST_RECORDS, MOST_TIME = 0.01, 0.1
SEED = 1
EMPTY, KILLED = "without state", "after SIGKILL"
_LAST_COMMIT_S = 0.2
_LONGEST_S = 600.0
_POLL_S = 0.005

_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Effort:
    """`before_kill`: so many records are committed before each kill. `left`: so many more there are, at least."""

    keys: int = 5_000_000
    before_kill: int = 100_000
    kills: int = 3
    left: int = 200_000

    @property
    def events(self) -> int:
        return self.before_kill * self.kills + self.left * (self.kills + 1)


QUICK = Effort(keys=20_000, before_kill=1_000, kills=1, left=60_000)


class Start(NamedTuple):
    """`records`: restored. `seconds`: from the start until RUNNING."""

    records: int
    seconds: float


class RestoredTask(ThreadListener):
    """Keeps the report of the restored task."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.records = 0

    def restored(self, task: TaskRestored) -> None:
        self.records = task.records
        self.done.set()


def run(console: Console, *, quick: bool = False) -> None:
    """Print a row for each start."""
    effort = QUICK if quick else Effort()
    with tempfile.TemporaryDirectory(prefix="bench-restore-kill-", ignore_cleanup_errors=True) as directory:
        starts, wrong = measure(effort, Path(directory))
    table = Table(title=f"Restart of an exactly-once count of {effort.keys:,} keys, embedded log")
    for heading in ("start", "restored records", "of all", "s until RUNNING", "of a restore of all"):
        table.add_column(heading, justify="left" if heading == "start" else "right")
    everything, *after_kills = starts
    for number, each in enumerate(starts):
        name = EMPTY if number == 0 else f"{KILLED} {number}"
        shares = (f"{100 * each.records / everything.records:.2f} %", f"{each.seconds / everything.seconds:.3f}")
        table.add_row(name, f"{each.records:,}", shares[0], f"{each.seconds:.2f}", shares[1])
    is_reached = all(
        each.records <= MOST_RECORDS * everything.records and each.seconds <= MOST_TIME * everything.seconds
        for each in after_kills
    )
    verdict = "too few keys to say" if quick else "reached" if is_reached and not wrong else "MISSED"
    table.caption = (
        f"goal: at most {MOST_RECORDS:.0%} of the records, {MOST_TIME} of the time: {verdict}; "
        f"{wrong:,} keys miscounted; {load_average()}"
    )
    console.print(table)


def measure(effort: Effort, directory: Path) -> tuple[list[Start], int]:
    """The first start, the starts after kills, and the number of miscounted keys. Raises StreamsRuntimeError."""
    servers = f"embedded:{directory / 'log'}"
    settings = {"cluster.bootstrap.servers": servers, "group.initial.rebalance.delay.ms": 0}
    chance = random.Random(SEED)
    starts: list[Start] = []
    with (
        closing(EmbeddedLog(directory / "log")) as log,
        CoordinatorProcess(directory / "coordinator", settings) as coordinator,
        progress() as bar,
    ):
        create_topics(log)
        work = bar.add_task("kill: writing the changelog", total=effort.kills + 1)
        write_keys(log, CHANGELOG_0, map(key_of, range(effort.keys)), LONG.serialize(1))
        keys = [key_of(chance.randrange(effort.keys)) for _ in range(effort.events)]
        write_keys(log, EVENTS_0, keys, b"event")
        for number in range(effort.kills + 1):
            bar.update(work, description=f"kill: start {number + 1}", completed=number)
            with instance(servers, directory / "state", coordinator.url, number) as (process, start):
                starts.append(start)
                if number == effort.kills:
                    _wait_for_commit(log, effort.events, process)
                    continue
                _wait_for_commit(log, _committed(log) + effort.before_kill, process)
                time.sleep(chance.uniform(0, _LAST_COMMIT_S))
                process.kill()
                process.join()
                if _committed(log) >= effort.events:
                    raise StreamsRuntimeError("all records were processed before the kill: there have to be more")
        return starts, miscounted(log, {each: 1 + count for each, count in Counter(keys).items()})


@contextmanager
def instance(
    servers: str, state_dir: Path, coordinator_url: str, incarnation: int
) -> Iterator[tuple[SpawnProcess, Start]]:
    """A process that runs all tasks, and how it started. At the end of the context, it has ended."""
    ours, its = _processes.Pipe()
    process = _processes.Process(
        target=run_instance, args=(servers, state_dir, coordinator_url, incarnation, its), daemon=True
    )
    process.start()
    its.close()
    try:
        if not ours.poll(_LONGEST_S):
            raise StreamsRuntimeError(f"the instance does not run after {_LONGEST_S:g} s")
        yield process, ours.recv()
    except EOFError:
        raise StreamsRuntimeError("the instance failed; its output says why") from None
    finally:
        ours.close()
        process.join(_LONGEST_S)
        if process.is_alive():
            process.kill()
            process.join()


def run_instance(servers: str, state_dir: Path, coordinator_url: str, incarnation: int, pipe: Connection) -> None:
    """The process that is measured. It sends its `Start`, and ends when the pipe is closed.

    Its member is static, as those of `assignor workers run` are, so it takes the place of the killed one at once.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the benchmark's, which closes the pipe
    application = counting(
        {
            "application.id": APPLICATION_ID,
            "bootstrap.servers": servers,
            "state.dir": str(state_dir),
            "processing.guarantee": "exactly_once_v2",
        }
    )
    with closing(CoordinatorClient(coordinator_url)) as client:
        client.declare(APPLICATION_ID, group_body(application))
    task = RestoredTask()
    options = InstanceOptions(
        thread_name=lambda index: f"{APPLICATION_ID}-t{index}",
        thread_listener=lambda _name: task,
        incarnation=incarnation,
        owns_process=True,
    )
    running = StreamsInstance(application, coordinator_url, options)
    start_s = time.perf_counter()
    running.start()
    if task.done.wait(_LONGEST_S) and running.wait_until_running(_LONGEST_S):
        pipe.send(Start(task.records, time.perf_counter() - start_s))
        with suppress(EOFError):
            pipe.recv()
    running.close(_LONGEST_S)


def _committed(log: Log) -> int:
    found = log.committed_offsets(APPLICATION_ID, [EVENTS_0]).get(EVENTS_0)
    return 0 if found is None else found.offset


def _wait_for_commit(log: Log, offset: int, process: SpawnProcess) -> None:
    """Until the input is committed up to this offset."""
    deadline_s = time.monotonic() + _LONGEST_S
    while _committed(log) < offset:
        if not process.is_alive() or time.monotonic() > deadline_s:
            raise StreamsRuntimeError(f"only {_committed(log):,} of {offset:,} records are committed")
        time.sleep(_POLL_S)
