"""An instance that was stopped, given up by its group, and goes on: it is fenced, gives its tasks up and joins again.

Exactly-once holds over it: what it had half done when it was stopped is done once, by whoever had its tasks then.
"""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from spark_jobs.demo.stdlib_text import stdlib_lines
from spark_jobs.demo.word_count import TextFeed, different_counts, expected_counts, read_counts
from spark_jobs.workers.group_view import GroupView, wait_for_group
from spark_jobs.workers.member_process import InstanceSettings
from streams_runtime.application import group_body
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.acceptance.counting import exactly_once_word_count, meter_of
from tests.acceptance.instance_processes import instances
from tests.oracle.broker import Broker
from tests.warm_coordinator import WarmCoordinator

pytestmark = pytest.mark.kafka

APPLICATION_ID = "fenced"
A_PIECE = 2_000
TIMEOUT_S = 90.0


def test_should_join_again_when_it_was_stopped_and_its_tasks_went_to_another(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    address = kafka_broker.bootstrap_servers
    application = exactly_once_word_count(APPLICATION_ID, address, session_timeout_ms=1_500)
    lines = list(stdlib_lines(3 * A_PIECE))
    settings = {"group.initial.rebalance.delay.ms": 200, "cluster.bootstrap.servers": address}
    with (
        closing(open_log(address)) as log,
        WarmCoordinator(tmp_path / "coordinator", settings) as coordinator,
        CoordinatorClient(coordinator.url) as client,
    ):
        client.declare(APPLICATION_ID, group_body(application))
        feed = TextFeed(log, lines)
        meter = meter_of(log, APPLICATION_ID)
        runs = InstanceSettings(application, coordinator.url, state_dir=str(tmp_path / "state"))
        with instances(runs, 2) as processes:

            def wait_for_members(count: int) -> GroupView:
                return wait_for_group(
                    client,
                    APPLICATION_ID,
                    lambda view: view.is_settled and len(view.members) == count and all(m.active for m in view.members),
                    f"{count} members with tasks",
                    TIMEOUT_S,
                )

            wait_for_members(2)
            feed.write(lines[:A_PIECE])
            meter.wait(lambda seen: seen.first_done > 0, TIMEOUT_S, lambda _: None)
            os.kill(processes[0].pid, signal.SIGSTOP)
            feed.write(lines[A_PIECE : 2 * A_PIECE])
            wait_for_members(1)
            meter.wait(lambda seen: seen.is_complete, TIMEOUT_S, lambda _: None)
            os.kill(processes[0].pid, signal.SIGCONT)
            wait_for_members(2)
            feed.write(lines[2 * A_PIECE :])
            meter.wait(lambda seen: seen.is_complete, TIMEOUT_S, lambda _: None)
        feed.close()
        assert different_counts(read_counts(log), expected_counts(lines)) == []
