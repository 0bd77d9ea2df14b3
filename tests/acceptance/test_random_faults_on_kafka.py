"""Executors, Python workers, the coordinator and the broker are killed while an application counts on real Kafka.

Exactly-once: the counts are equal to a plain loop's, and no task and no state directory ever has two owners.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_engine.session.spark_session import spark_session
from spark_jobs.demo.word_count import different_counts
from tests.acceptance.application_under_fire import WordCountUnderFire
from tests.oracle.broker import Broker
from tests.told import Tell

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

EXECUTORS = 2
TEXT_LINES = 6_000
KILLS = ["executor", "worker", "worker", "broker", "broker", "coordinator"]


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    with spark_session(f"local-cluster[{EXECUTORS},1,1024]", "random faults on Kafka") as session:
        yield session


def test_should_count_exactly_once_when_executors_and_the_broker_are_killed(
    own_broker: Broker, spark: SparkSession, tmp_path: Path, tell: Tell
) -> None:
    def restart_broker() -> None:
        own_broker.kill()
        own_broker.start()

    seed = time.time_ns() % 1_000_000
    under_fire = WordCountUnderFire(
        spark,
        EXECUTORS,
        application_id="under-fire",
        address=own_broker.bootstrap_servers,
        guarantee="exactly_once_v2",
        text_lines=TEXT_LINES,
        directory=tmp_path,
        services={"broker": restart_broker},
        threads=2,
    )
    counted = under_fire.run(KILLS, random.Random(seed))
    went_on = ", ".join(f"{what} {seconds:.1f}" for what, seconds in counted.took_s)
    tell(f"seed {seed}: {sum(counted.expected.values())} words; seconds to go on after a kill: {went_on}")
    assert different_counts(counted.found, counted.expected) == [], f"seed {seed}"
