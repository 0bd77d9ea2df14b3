"""Nodes of a cluster of three are killed while an application counts on it: every word is counted once.

The application, its instances and the coordinator all name the cluster as Kafka does, `host:port,host:port,host:port`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import pytest

from spark_jobs.demo.stdlib_text import SourceLine, stdlib_lines
from spark_jobs.demo.word_count import TextFeed, different_counts, expected_counts, read_counts
from spark_jobs.workers.member_process import InstanceSettings
from streams_runtime.application import Application, group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.acceptance.counting import exactly_once_word_count, meter_of
from tests.acceptance.instance_processes import instances
from tests.oracle.brokers import Brokers
from tests.told import Tell
from tests.warm_coordinator import WarmCoordinator

pytestmark = pytest.mark.kafka

APPLICATION_ID = "nodes-under-fire"
A_PIECE = 300
TIMEOUT_S = 90.0


@pytest.fixture
def brokers(oracle_jars: str, tmp_path: Path) -> Iterator[Brokers]:
    three = Brokers(tmp_path / "brokers")
    three.start()
    yield three
    three.kill()


def test_should_count_exactly_once_while_nodes_of_the_cluster_are_killed(
    brokers: Brokers, tmp_path: Path, tell: Tell
) -> None:
    address = brokers.bootstrap_servers
    application = exactly_once_word_count(APPLICATION_ID, address, session_timeout_ms=10_000)
    log = open_log(address)
    lines = list(stdlib_lines(2 * A_PIECE))
    text: Iterator[SourceLine] = cycle(lines)
    feed, written = TextFeed(log, lines), list[SourceLine]()
    meter = meter_of(log, APPLICATION_ID)

    def write_and_wait() -> float:
        """Until a part of it is counted, and some is left to do."""
        begun, target = time.monotonic(), meter.now().first_done + A_PIECE // 2
        piece = list(islice(text, A_PIECE))
        feed.write(piece)
        written.extend(piece)
        meter.wait(lambda seen: seen.first_done >= target, TIMEOUT_S, lambda _: None)
        return time.monotonic() - begun

    settings = {"group.initial.rebalance.delay.ms": 200, "cluster.bootstrap.servers": address}
    with (
        WarmCoordinator(tmp_path / "coordinator", settings) as coordinator,
        _declared(application, coordinator),
        instances(InstanceSettings(application, coordinator.url, state_dir=str(tmp_path / "state")), 2),
    ):
        write_and_wait()
        took_s = []
        for node in (1, 2):
            brokers.kill_node(node)
            took_s.append(write_and_wait())
            brokers.start_node(node)
            write_and_wait()
        meter.wait(lambda seen: seen.is_complete, TIMEOUT_S, lambda _: None)
    feed.close()
    found, expected = read_counts(log), expected_counts(written)
    log.close()
    seconds = ", ".join(f"{each:.1f}" for each in took_s)
    tell(f"{sum(expected.values())} words; seconds to go on after SIGKILL of a node: {seconds}")
    assert different_counts(found, expected) == []


@contextmanager
def _declared(application: Application, coordinator: CoordinatorProcess) -> Iterator[None]:
    with CoordinatorClient(coordinator.url) as client:
        client.declare(application.id, group_body(application))
    yield
