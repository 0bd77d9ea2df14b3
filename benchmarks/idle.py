"""What an instance costs while nothing happens: processor time and memory of its process alone.

The application counts by key, with default configs on the embedded log: one active task for each partition, with its
own RocksDB store. Every task counts one record; the measurement begins when all are committed. The coordinator and the
benchmark run in processes of their own.
"""

import argparse
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from assignor.types import TopicPartition
from benchmarks.applications import APPLICATION_ID, EVENTS, RESULTS, counting
from benchmarks.restore_memory import resident_mb
from benchmarks.turns import progress
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.instance.application import Application, group_body
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.local_run.local_run import Progress, ProgressMeter
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient

PARTITIONS, THREADS, SECONDS = 500, 4, 60.0
MOST_CPU_PERCENT = 5.0
MOST_MB = 300.0
_LONGEST_START_S = 300.0

_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Idle:
    """What is measured, and for how long. `settle_s`: from the last commit to the beginning of the measurement.

    `commit_interval_ms`: by default that of at-least-once.
    """

    partitions: int = PARTITIONS
    threads: int = THREADS
    seconds: float = SECONDS
    settle_s: float = 3.0
    commit_interval_ms: int = 30_000


QUICK = Idle(partitions=8, threads=2, seconds=0.5, settle_s=0.1, commit_interval_ms=100)


class Usage(NamedTuple):
    """Of one process: the processor time that it has used, and the memory that it has now."""

    processor_s: float
    resident_mb: float


class Cost(NamedTuple):
    """`cpu_percent`: of one core."""

    cpu_percent: float
    resident_mb: float


def run(console: Console, *, quick: bool = False) -> None:
    """Measure 500 partitions with 4 threads for a minute; print both figures beside their budgets."""
    measured = QUICK if quick else Idle()
    _show(console, measured, measure(measured))


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks idle", description=__doc__)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="so many tasks")
    parser.add_argument("--threads", type=int, default=THREADS, help="num.stream.threads")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long it is measured")
    options = parser.parse_args(arguments)
    measured = Idle(options.partitions, options.threads, options.seconds)
    _show(console, measured, measure(measured))


def measure(measured: Idle) -> Cost:
    """Start everything, wait until it is idle, and measure. Raises StreamsRuntimeError when the instance fails."""
    with tempfile.TemporaryDirectory(prefix="bench-idle-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        servers = f"embedded:{directory / 'log'}"
        settings = {"cluster.bootstrap.servers": servers, "group.initial.rebalance.delay.ms": 0}
        with (
            closing(open_log(servers)) as log,
            CoordinatorProcess(directory / "coordinator", settings) as coordinator,
            progress() as bar,
        ):
            log.create_topics([NewTopic(topic, measured.partitions) for topic in (EVENTS, RESULTS)])
            work = bar.add_task("idle: starting", total=measured.seconds)
            with _instance(measured, servers, directory / "state", coordinator.url) as instance:
                _count_one_each(log, measured.partitions)
                time.sleep(measured.settle_s)
                bar.update(work, description="idle: measuring")
                before, begun_s = _ask(instance), time.monotonic()
                while (passed_s := time.monotonic() - begun_s) < measured.seconds:
                    bar.update(work, completed=passed_s)
                    time.sleep(min(1.0, measured.seconds - passed_s))
                after, ended_s = _ask(instance), time.monotonic()
    cpu_percent = 100 * (after.processor_s - before.processor_s) / (ended_s - begun_s)
    return Cost(cpu_percent, after.resident_mb)


def run_instance(measured: Idle, servers: str, state_dir: Path, coordinator_url: str, pipe: Connection) -> None:
    """The process that is measured. It answers each request with its `Usage`, and ends when the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the benchmark's, which closes the pipe
    made = _application(measured, servers, state_dir)
    with closing(CoordinatorClient(coordinator_url)) as client:
        client.declare(made.id, group_body(made))
    instance = StreamsInstance(made, coordinator_url)
    instance.start()
    if instance.wait_until_running(_LONGEST_START_S):
        try:
            while True:
                pipe.send(Usage(time.process_time(), resident_mb()))
                pipe.recv()
        except (EOFError, BrokenPipeError):
            pass
    instance.close(_LONGEST_START_S)


def _application(measured: Idle, servers: str, state_dir: Path) -> Application:
    return counting(
        {
            "application.id": APPLICATION_ID,
            "bootstrap.servers": servers,
            "state.dir": str(state_dir),
            "num.stream.threads": measured.threads,
            "commit.interval.ms": measured.commit_interval_ms,
        }
    )


@contextmanager
def _instance(measured: Idle, servers: str, state_dir: Path, coordinator_url: str) -> Iterator[Connection]:
    """A pipe to an instance that runs all its tasks."""
    ours, its = _processes.Pipe()
    arguments = (measured, servers, state_dir, coordinator_url, its)
    process = _processes.Process(target=run_instance, args=arguments, daemon=True)
    process.start()
    its.close()
    try:
        _answer(ours, _LONGEST_START_S)
        yield ours
    finally:
        ours.close()
        process.join(_LONGEST_START_S)
        if process.is_alive():
            process.kill()
            process.join()


def _ask(instance: Connection) -> Usage:
    instance.send("usage")
    return _answer(instance, _LONGEST_START_S)


def _answer(instance: Connection, timeout_s: float) -> Usage:
    try:
        if instance.poll(timeout_s):
            answer: Usage = instance.recv()
            return answer
    except EOFError:
        raise StreamsRuntimeError("the instance failed; its output says why") from None
    raise StreamsRuntimeError(f"the instance does not answer within {timeout_s:g} s")


def _count_one_each(log: Log, partitions: int) -> None:
    """Have every task process a record, and wait until all are committed."""
    with closing(log.producer()) as producer:
        for number in range(partitions):
            producer.send(TopicPartition(EVENTS, number), b"key", b"value", timestamp_ms=number)
        producer.flush()
    meter = ProgressMeter(log, APPLICATION_ID, [EVENTS])
    meter.wait(_is_complete, _LONGEST_START_S, lambda _progress: None)


def _is_complete(progress: Progress) -> bool:
    return progress.is_complete


def _show(console: Console, measured: Idle, cost: Cost) -> None:
    table = Table(
        title=f"An idle instance: {measured.partitions:,} partitions, {measured.threads} threads,"
        f" embedded log, {measured.seconds:g} s"
    )
    table.add_column("of its process")
    for heading in ("measured", "at most"):
        table.add_column(heading, justify="right")
    table.add_column("")
    rows = (
        ("CPU, % of one core", cost.cpu_percent, MOST_CPU_PERCENT),
        ("resident memory, MB", cost.resident_mb, MOST_MB),
    )
    for name, value, most in rows:
        table.add_row(name, f"{value:,.1f}", f"{most:,.0f}", "reached" if value <= most else "MISSED")
    console.print(table)
