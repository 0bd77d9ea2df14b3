"""SIGKILL at random moments: each store is a committed prefix, nothing is wiped, and the counts are right."""

import random
import secrets
from pathlib import Path

import pytest

from tests.kills.__main__ import KILLS, kill_many
from tests.kills.running import AT_LEAST_ONCE, EXACTLY_ONCE, Settings, run
from tests.oracle.broker import Broker

FEW_KILLS = 5
both_guarantees = pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_LEAST_ONCE])


@pytest.mark.long
def test_should_leave_a_committed_prefix_in_each_store_after_a_kill(tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    settings = Settings("killed", EXACTLY_ONCE, uncommitted_bytes=20_000)

    results = run(settings, FEW_KILLS, tmp_path / "run", random.Random(seed), None)

    assert results.faults == [], f"seed {seed}"
    assert results.stores > FEW_KILLS


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(3_600)
@both_guarantees
def test_should_leave_a_committed_prefix_in_each_store_after_many_kills(guarantee: str) -> None:
    results = kill_many(KILLS, secrets.randbits(32), guarantee=guarantee)

    assert results.faults == []
    assert results.kills.total() >= KILLS


@pytest.mark.kafka
@both_guarantees
def test_should_leave_a_committed_prefix_in_each_store_after_a_kill_on_kafka(
    kafka_broker: Broker, tmp_path: Path, guarantee: str
) -> None:
    """`python -m tests.kills --bootstrap-servers` kills more often."""
    seed = secrets.randbits(32)
    settings = Settings(f"killed-{secrets.token_hex(4)}", guarantee, instances=2)

    results = run(settings, FEW_KILLS, tmp_path / "run", random.Random(seed), kafka_broker.bootstrap_servers)

    assert results.faults == [], f"seed {seed}"
    assert results.stores > FEW_KILLS
