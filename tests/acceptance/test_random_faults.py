"""Twenty random SIGKILLs of executors, Python workers and the coordinator while an application counts, on real Spark.

Exactly-once counts are equal to a plain loop's; at-least-once counts are never below. No task and no state directory
ever has two owners.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.coordinator_process import CoordinatorProcess
from spark_jobs.demo_progress import ProgressMeter
from spark_jobs.member_process import EXECUTOR_TAG
from spark_jobs.session import spark_session
from spark_jobs.stdlib_text import stdlib_lines
from spark_jobs.word_count import (
    COUNT_STORE,
    LINES,
    TextFeed,
    different_counts,
    expected_counts,
    read_counts,
    word_count,
)
from spark_jobs.workers import run
from streams_runtime.logs.opening import open_log
from tests.acceptance.application_under_fire import LINES_A_PIECE, ApplicationUnderFire

pytestmark = pytest.mark.spark

EXECUTORS = 3
KILLS = 20
TEXT_LINES = 20_000
SEED = 20_261_121


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session(f"local-cluster[{EXECUTORS},1,1024]", "random faults") as session:
        yield session


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
        under_fire = ApplicationUnderFire(
            workers,
            {"coordinator": lambda: restart(coordinator)},
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
            under_fire.finish()
        finally:
            workers.stop()
    feed.close()
    assert sum(under_fire.killed.values()) == KILLS
    found, expected = read_counts(log), expected_counts(under_fire.written)
    log.close()
    assert is_right(found, expected), f"seed {SEED}: {different_counts(found, expected)[:10]}"
    under_fire.assert_nothing_had_two_owners()


def restart(coordinator: CoordinatorProcess) -> None:
    coordinator.kill()
    coordinator.start()
