"""Each stateful kind, exactly once, under SIGKILL, takeover by a standby, scale-out and restart."""

import secrets

import pytest

from tests.kills.killed_kinds import SEEDS, run
from tests.kills.kinds import KINDS
from tests.oracle.broker import Broker


@pytest.mark.long
def test_should_give_the_results_of_a_run_without_faults() -> None:
    results = run([secrets.randbits(32)])

    assert results.faults == []
    assert results.compared.keys() == KINDS.keys()


@pytest.mark.kafka
def test_should_give_the_results_of_a_run_without_faults_on_kafka(kafka_broker: Broker) -> None:
    results = run([secrets.randbits(32)], kafka_broker.bootstrap_servers)

    assert results.faults == []
    assert results.compared.keys() == KINDS.keys()


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_should_give_the_results_of_runs_without_faults() -> None:
    results = run(_seeds())

    assert results.faults == []
    assert results.unfinished > SEEDS


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_should_give_the_results_of_runs_without_faults_on_kafka(kafka_broker: Broker) -> None:
    results = run(_seeds(), kafka_broker.bootstrap_servers)

    assert results.faults == []
    assert results.unfinished > SEEDS


def _seeds() -> range:
    first = secrets.randbits(32)
    return range(first, first + SEEDS)
