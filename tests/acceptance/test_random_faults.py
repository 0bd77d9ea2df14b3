"""Twenty random SIGKILLs of executors, Python workers and the coordinator while an application counts, on real Spark.

Exactly-once counts are equal to a plain loop's; at-least-once counts are never below. No task and no state directory
ever has two owners.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.coordinator_process import CoordinatorProcess
from spark_jobs.demo_progress import ProgressMeter
from spark_jobs.member_process import EXECUTOR_TAG
from spark_jobs.ownership_history import overlaps, ownership_intervals
from spark_jobs.ownership_log import OwnershipLine, read_ownership
from spark_jobs.session import spark_session
from spark_jobs.stdlib_text import SourceLine, stdlib_lines
from spark_jobs.word_count import (
    COUNT_STORE,
    LINES,
    TextFeed,
    different_counts,
    expected_counts,
    read_counts,
    word_count,
)
from spark_jobs.workers import Workers, run
from streams_runtime.logs.opening import open_log

pytestmark = pytest.mark.spark

EXECUTORS = 3
KILLS = 20
TEXT_LINES = 20_000
LINES_A_PIECE = 1_000
SEED = 20_261_121
PROGRESS_TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session(f"local-cluster[{EXECUTORS},1,1024]", "random faults") as session:
        yield session


@dataclass(slots=True)
class Run:
    """One application under fire. `deaths`: Python worker to when it was killed, milliseconds since the epoch."""

    coordinator: CoordinatorProcess
    workers: Workers
    log_dir: Path
    feed: TextFeed
    text: Iterator[SourceLine]
    meter: ProgressMeter
    chance: random.Random
    written: list[SourceLine] = field(default_factory=list)
    deaths: dict[int, float] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)

    def work_on(self, records: int) -> None:
        """Until so many more records are committed; there is always more to read than is asked for."""
        target = self.meter.now().done + records
        deadline_s = time.monotonic() + PROGRESS_TIMEOUT_S
        while (seen := self.meter.now()).done < target:
            assert self.workers.wait(0.0) is None, "the instances run until they are told to stop"
            assert time.monotonic() < deadline_s, f"no progress after {self.killed}: {seen}"
            if seen.first_there - seen.first_done < LINES_A_PIECE:
                piece = list(islice(self.text, LINES_A_PIECE))
                self.feed.write(piece)
                self.written += piece

    def kill(self, what: str) -> None:
        self.killed[what] = self.killed.get(what, 0) + 1
        if what == "coordinator":
            self.coordinator.kill()
            self.coordinator.start()
            return
        victim = self.chance.choice(self._living())
        if what == "executor":
            assert victim.jvm_pid is not None, "it runs under an executor"
            os.kill(victim.jvm_pid, signal.SIGKILL)  # its Python worker gets SIGHUP and says goodbye
        else:
            self.deaths[victim.pid] = time.time() * 1000
            os.kill(victim.pid, signal.SIGKILL)

    def _living(self) -> list[OwnershipLine]:
        """One line of each instance that can be killed; when all are dead, those that come after them."""
        deadline_s = time.monotonic() + PROGRESS_TIMEOUT_S
        while time.monotonic() < deadline_s:
            alive = [line for line in self._newest_lines() if _is_alive(line.pid) and _is_alive(line.jvm_pid)]
            if alive:
                return alive
            self.work_on(1)  # whoever does it is alive
        raise AssertionError(f"no instance came back after {self.killed}")

    def _newest_lines(self) -> list[OwnershipLine]:
        """One line of each process that ever was an instance."""
        return list({line.pid: line for line in read_ownership(self.log_dir)}.values())


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def lives(lines: list[OwnershipLine], deaths: dict[int, float]) -> dict[str, list[tuple[float, float, int]]]:
    """Instance to its processes: from when to when they had its state directory, and their ids, oldest first."""
    of_process: dict[tuple[str, int], list[float]] = {}
    for line in lines:
        of_process.setdefault((line.instance, line.pid), []).append(line.at_ms)
    found: dict[str, list[tuple[float, float, int]]] = {}
    for (instance, pid), times in of_process.items():
        found.setdefault(instance, []).append((min(times), min(max(times), deaths.get(pid, max(times))), pid))
    return {instance: sorted(of_instance) for instance, of_instance in found.items()}


@pytest.mark.parametrize(
    "guarantee, is_right",
    [
        ("exactly_once_v2", lambda found, expected: different_counts(found, expected) == []),
        ("at_least_once", lambda found, expected: all(found.get(key, 0) >= expected[key] for key in expected)),
    ],
)
def test_should_count_right_when_twenty_random_processes_are_killed(
    spark: SparkSession,
    tmp_path: Path,
    guarantee: str,
    is_right: Callable[[dict[str, int], dict[str, int]], bool],
) -> None:
    application_id = guarantee.replace("_", "-")
    address = f"embedded:{tmp_path / 'records'}"
    application = word_count(
        {
            "application.id": application_id,
            "bootstrap.servers": address,
            "processing.guarantee": guarantee,
            "commit.interval.ms": 100,
            "num.standby.replicas": 1,
            "rack.aware.assignment.tags": EXECUTOR_TAG,
            "session.timeout.ms": 3_000,
            "heartbeat.interval.ms": 300,
        }
    )
    log = open_log(address)
    lines = list(stdlib_lines(TEXT_LINES))
    feed = TextFeed(log, lines)
    chance = random.Random(SEED)
    settings = {"group.initial.rebalance.delay.ms": 500, "cluster.bootstrap.servers": address}
    with CoordinatorProcess(tmp_path / "coordinator", settings) as coordinator:
        workers = run(
            spark,
            application,
            instances=EXECUTORS,
            threads=1,
            coordinator_url=coordinator.url,
            state_dir=str(tmp_path / "state"),
            log_dir=str(tmp_path / "log"),
        )
        under_fire = Run(
            coordinator,
            workers,
            tmp_path / "log",
            feed,
            cycle(lines),
            ProgressMeter(log, application_id, (LINES, f"{application_id}-{COUNT_STORE}-repartition")),
            chance,
        )
        try:
            under_fire.work_on(LINES_A_PIECE)
            for what in chance.sample(["executor"] * 4 + ["worker"] * 11 + ["coordinator"] * 5, KILLS):
                under_fire.kill(what)
                under_fire.work_on(chance.randrange(1, 4 * LINES_A_PIECE))
            under_fire.meter.wait(lambda seen: seen.is_complete, PROGRESS_TIMEOUT_S, lambda _seen: None)
        finally:
            workers.stop()
    feed.close()
    assert sum(under_fire.killed.values()) == KILLS
    found, expected = read_counts(log), expected_counts(under_fire.written)
    log.close()
    assert is_right(found, expected), f"seed {SEED}: {different_counts(found, expected)[:10]}"
    ownership = read_ownership(tmp_path / "log")
    assert overlaps(ownership_intervals(ownership, under_fire.deaths)) == []
    for instance, of_instance in lives(ownership, under_fire.deaths).items():
        for (_, ended_ms, pid), (began_ms, _, next_pid) in pairwise(of_instance):
            assert ended_ms <= began_ms, f"{instance}: {next_pid} had the state before {pid} was gone"
