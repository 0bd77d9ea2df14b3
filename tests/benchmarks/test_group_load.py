"""The driver of `group-load` sees what it has to see, the rows print what they promise, and the peer is a real one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.group_load.fleet_process import FleetPlan, FleetProcess
from benchmarks.group_load.latencies import Latencies, Percentiles
from benchmarks.group_load.results import Results
from benchmarks.group_load.rows import ROWS
from benchmarks.group_load.running import run_rows
from benchmarks.group_load.service import definition
from spark_jobs.ownership.ownership_history import overlaps, ownership_intervals
from tests.benchmarks.printing import printed_by
from tests.coordinator_api.service_process import ServiceProcess

LONGEST_S = 60.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    directory = tmp_path_factory.mktemp("service")
    with ServiceProcess(directory, "--group-initial-rebalance-delay-ms", "200") as running:
        yield running


def test_should_count_a_living_member_that_the_group_forgets(service: ServiceProcess) -> None:
    with service.client() as client:
        client.put("/v1/groups/forgetful", json=definition(30)).raise_for_status()
        plan = FleetPlan("forgetful", 4, 2, session_timeout_ms=30_000, heartbeat_interval_ms=100)
        with FleetProcess(plan, service.url) as fleet:
            fleet.start()
            generation = fleet.at_rest_in(1, LONGEST_S)
            forgotten = fleet.member_ids()[0]
            client.delete(f"/v1/groups/forgetful/members/{forgotten}").raise_for_status()
            fleet.at_rest_in(generation + 1, LONGEST_S)
            assert forgotten not in fleet.member_ids()
            assert fleet.report().evictions == 1
            assert overlaps(ownership_intervals(fleet.ownership())) == []


def test_should_count_the_heartbeats_that_a_late_answer_kept_from_being_sent() -> None:
    latencies = Latencies()
    latencies.add(10.0, 10.35, every=0.1)
    latencies.add(20.0, 20.001, every=0.1)
    assert sorted(map(round, latencies.lasted)) == [1, 50, 150, 250, 350]
    seen = latencies.between(10.3, 12.0)
    assert (seen.seen, round(seen.p50), round(seen.most)) == (4, 250, 350)
    assert latencies.between(12.0, 19.0) == Percentiles(0, 0, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize("row", [row for row in ROWS if not row.startswith("broker-")])
def test_should_run_a_row_alone(row: str, tmp_path: Path) -> None:
    """The figures themselves are not looked at: they say how busy this machine is, except those that must be 0."""
    results = Results(tmp_path / "figures.jsonl", quick=True)
    text = printed_by(lambda console: run_rows(console, [row], results))
    measured = {figure.what: figure for figure in results.figures}
    assert "failed" not in measured, measured["failed"].note
    assert all(measured[what].value == 0 for what in measured if "evictions" in what or "two members" in what)
    assert {json.loads(line)["row"] for line in results.file.read_text().splitlines()} == {row}
    assert all(what[:20] in text for what in measured)
