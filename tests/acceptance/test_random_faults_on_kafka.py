"""Executors, Python workers, the coordinator and the broker are killed while an application counts on real Kafka.

Exactly-once: the counts are equal to a plain loop's, and no task and no state directory ever has two owners.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
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
from tests.oracle.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

APPLICATION_ID = "under-fire"
EXECUTORS = 2
TEXT_LINES = 6_000
KILLS = ["executor", "worker", "worker", "broker", "broker", "coordinator"]


@pytest.fixture
def broker(oracle_jars: str, tmp_path: Path) -> Iterator[Broker]:
    one = Broker(tmp_path / "broker")
    one.start()
    yield one
    one.stop()


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    with spark_session(f"local-cluster[{EXECUTORS},1,1024]", "random faults on Kafka") as session:
        yield session


def test_should_count_exactly_once_when_executors_and_the_broker_are_killed(
    broker: Broker, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = broker.bootstrap_servers
    application = word_count(
        {
            "application.id": APPLICATION_ID,
            "bootstrap.servers": address,
            "processing.guarantee": "exactly_once_v2",
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
    seed = time.time_ns() % 1_000_000
    chance = random.Random(seed)
    settings = {"group.initial.rebalance.delay.ms": 500, "cluster.bootstrap.servers": address}

    def restart_broker() -> None:
        broker.kill()
        broker.start()

    with CoordinatorProcess(tmp_path / "coordinator", settings) as coordinator:

        def restart_coordinator() -> None:
            coordinator.kill()
            coordinator.start()

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
            {"coordinator": restart_coordinator, "broker": restart_broker},
            tmp_path / "log",
            feed,
            cycle(lines),
            ProgressMeter(log, APPLICATION_ID, (LINES, f"{APPLICATION_ID}-{COUNT_STORE}-repartition")),
            chance,
        )
        try:
            under_fire.work_on(LINES_A_PIECE)
            took_s = []
            for what in chance.sample(KILLS, len(KILLS)):
                under_fire.kill(what)
                began_s = time.monotonic()
                under_fire.work_on(chance.randrange(1, 3 * LINES_A_PIECE))
                took_s.append(f"{what} {time.monotonic() - began_s:.1f}")
            under_fire.finish()
        finally:
            workers.stop()
    feed.close()
    found, expected = read_counts(log), expected_counts(under_fire.written)
    log.close()
    with capsys.disabled():
        print(f"\nseed {seed}: {sum(expected.values())} words; seconds to go on after a kill: {', '.join(took_s)}")
    assert different_counts(found, expected) == [], f"seed {seed}"
    under_fire.assert_nothing_had_two_owners()
