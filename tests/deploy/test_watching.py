"""Every alert rule and every query of the dashboard, on a real Prometheus that scrapes a coordinator in trouble."""

import json
import re
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.types import TaskId
from coordinator_api.metrics import METRICS as SERVICE_METRICS
from streams_runtime.common.metrics import METRICS as INSTANCE_METRICS
from streams_runtime.common.metrics import InstanceMetrics
from tests.coordinator_api import held_assignor
from tests.coordinator_api.group_members import HttpMember, definition, new_group, settle
from tests.coordinator_api.held_rebalance import held_rebalance
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.store.databases import execute
from tests.deploy.prometheus_server import (
    DASHBOARD,
    RULES,
    Prometheus,
    hurried,
    prometheus_programs,
    running_prometheus,
)
from tests.package.test_deployment import free_port
from tests.streams_runtime.word_counting import wait_for

BROKEN = held_assignor.BrokenAssignor.name
DATABASE = "assignor.sqlite3"
SESSION_MS = 1_800_000
ONLY_WHEN_IT_HAPPENS = ("assignor_shed_requests_total",)
"""Counters with labels: there is nothing to show before the first time."""


@contextmanager
def served(metrics: InstanceMetrics) -> Iterator[str]:
    """Serve the metrics of an instance at an address of its own. Yields host and port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = metrics.exposition()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def queries() -> list[tuple[str, str]]:
    """Title of the panel, and query."""
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())]


def test_should_name_only_metrics_that_there_are() -> None:
    known = {metric.name for metric in (*SERVICE_METRICS, *INSTANCE_METRICS)}
    expressions = [expr for _, expr in queries()] + re.findall(r"expr: (.*)", RULES.read_text(encoding="utf-8"))

    named = {name for each in expressions for name in re.findall(r"\b(?:assignor|streams)_\w+", each)}

    assert {re.sub(r"_bucket$", "", name) for name in named} - known == set()
    assert len(expressions) > 40


def test_should_say_what_each_panel_and_alert_is_about() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    alerts = re.findall(r"alert: (\w+)", RULES.read_text(encoding="utf-8"))
    page = (RULES.parents[2] / "docs" / "how-to" / "watch-a-group.md").read_text(encoding="utf-8")

    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [alert for alert in alerts if f"`{alert}`" not in page] == []


@pytest.mark.long
def test_should_be_rules_that_prometheus_takes() -> None:
    _, tool = prometheus_programs()

    checked = subprocess.run([tool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.long
def test_should_fire_after_the_times_that_the_rules_say_and_not_before() -> None:
    _, tool = prometheus_programs()

    times = Path(__file__).with_name("assignor-alerts-times.yml")
    tested = subprocess.run([tool, "test", "rules", str(times)], capture_output=True, text=True, check=False)

    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.long
def test_should_fire_each_alert_when_its_trouble_is_there_and_none_before(tmp_path: Path) -> None:
    prometheus_programs()
    port = free_port()
    flags = ("--group-initial-rebalance-delay-ms", "50", "--task-assignor-classes", BROKEN)
    instance = InstanceMetrics()
    (tmp_path / "service").mkdir()
    (tmp_path / "prometheus").mkdir()
    service = ServiceProcess(tmp_path / "service", *flags, "--port", str(port))
    with service, service.client() as client, served(instance) as at:
        targets = {"assignor": f"127.0.0.1:{port}", "instances": at}
        with running_prometheus(tmp_path / "prometheus", targets) as prometheus:
            calm_group(client)
            wait_for(lambda: bool(prometheus.query("sum(assignor_members) == 2")), lambda: prometheus.query("up"))
            assert (prometheus.firing(), prometheus.rule_problems()) == ({}, [])

            make_trouble(client, instance)
            give_time_back(service)
            grow(prometheus, instance)
            expect_firing(
                prometheus,
                "AssignorGroupBroken",
                "AssignorGroupDegraded",
                "AssignorTasksWithoutOwner",
                "AssignorRebalanceFailed",
                "AssignorRebalanceLoop",
                "AssignorHeldForLong",
                "AssignorRestoreStalled",
                "AssignorRecordsDropped",
                "AssignorCoordinatorBehind",
            )
            for title, expression in queries():
                found = prometheus.query(hurried(expression))
                assert found or any(name in expression for name in ONLY_WHEN_IT_HAPPENS), (title, expression)

            with locked(tmp_path / "service" / DATABASE):
                expect_firing(prometheus, "AssignorStoreNotReady")
            service.kill()
            expect_firing(prometheus, "AssignorCoordinatorDown")
            damage_a_log(tmp_path / "service" / DATABASE)
            service.start()
            expect_firing(prometheus, "AssignorUnreadableGroups")
            assert prometheus.rule_problems() == []


def expect_firing(prometheus: Prometheus, *names: str) -> None:
    """All of them at one time or another, each with words in place of its template."""
    missing = set(names)

    def all_have_fired() -> bool:
        for name, alert in prometheus.firing().items():
            words = " ".join(alert["annotations"].values())
            assert "<" not in words, words
            missing.discard(name)
        return not missing

    wait_for(all_have_fired, lambda: f"not fired: {missing}")


def calm_group(client: httpx.Client) -> None:
    join(client, new_group(client), 2)


def join(client: httpx.Client, group_id: str, count: int) -> list[HttpMember]:
    members = [HttpMember(client, group_id, session_timeout_ms=SESSION_MS) for _ in range(count)]
    for member in members:
        assert member.subscribe().is_success
    settle(*members)
    return members


def make_trouble(client: httpx.Client, instance: InstanceMetrics) -> None:
    held_rebalance(client)
    warming_up(client)
    without_owner(client)
    a_loop(client)
    a_failure(client)
    thread = instance.thread("t-1")
    thread.restoring({TaskId(0, 1): 500}, 0.0)
    thread.standby_lags({(TaskId(0, 2), "counts"): 12})
    task = thread.task(TaskId(0, 0))
    task.dropped("late")
    thread.task_processed(TaskId(0, 0), 1)


def grow(prometheus: Prometheus, instance: InstanceMetrics) -> None:
    """A counter has to be seen once before it can be seen growing."""
    wait_for(lambda: bool(prometheus.query("streams_dropped_records_total")), lambda: prometheus.query("up"))
    instance.thread("t-1").task(TaskId(0, 0)).dropped("late")


def without_owner(client: httpx.Client) -> None:
    first, _ = join(client, new_group(client), 2)
    assert client.put(f"{first.path}/rejoin-grace", json={"grace_ms": 3_600_000}).is_success
    assert first.leave().is_success


def warming_up(client: httpx.Client) -> None:
    """One member has all the state, and another one comes, so that a probing rebalance is to come."""
    group_id = new_group(client)
    (first,) = join(client, group_id, 1)
    second = HttpMember(client, group_id, session_timeout_ms=SESSION_MS)
    assert second.subscribe().is_success
    assert first.subscribe().is_success
    settle(first, second)


def a_loop(client: httpx.Client) -> None:
    (member,) = join(client, new_group(client), 1)
    for _ in range(31):
        assert client.post(f"{member.path}/rebalance").is_success
        settle(member)


def a_failure(client: httpx.Client) -> None:
    group_id = new_group(client)
    assert client.put(f"/v1/groups/{group_id}", json={**definition(), "assignor": BROKEN}).is_success
    member = HttpMember(client, group_id, session_timeout_ms=SESSION_MS)
    assert member.subscribe().is_success
    assert member.fetch().status_code == 200


def give_time_back(service: ServiceProcess) -> None:
    """The service stands still for a while, and then knows that it did."""
    service.process.send_signal(signal.SIGSTOP)
    threading.Event().wait(1.5)
    service.process.send_signal(signal.SIGCONT)


@contextmanager
def locked(database: Path) -> Iterator[None]:
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


def damage_a_log(database: Path) -> None:
    first = "(SELECT min(group_id) FROM groups)"
    execute(database, f"UPDATE group_records SET body = 'x' WHERE sequence = 1 AND group_id = {first}")
