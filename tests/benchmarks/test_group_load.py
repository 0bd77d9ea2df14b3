"""The driver of `group-load` sees what it has to see, the rows print what they promise, and the peer is a real one."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from assignor.types import TaskId
from benchmarks.group_load.definitions import TOPIC, definition
from benchmarks.group_load.fleet import Fleet
from benchmarks.group_load.fleet_plan import FleetPlan
from benchmarks.group_load.holdings import Holding, Holdings, overlaps
from benchmarks.group_load.latencies import Latencies, Percentiles
from benchmarks.group_load.results import Results
from benchmarks.group_load.rows import ROWS
from benchmarks.group_load.running import run_rows
from tests.coordinator_api.service_process import ServiceProcess

LONGEST_S = 60.0
TASKS = 30
ONE, TWO = TaskId(0, 1), TaskId(0, 2)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    directory = tmp_path_factory.mktemp("service")
    with ServiceProcess(directory, "--group-initial-rebalance-delay-ms", "200") as running:
        yield running


def plan(service: ServiceProcess, group: str, *, held: bool, processes: int = 4) -> FleetPlan:
    with service.client() as client:
        client.put(f"/v1/groups/{group}", json=definition(TASKS)).raise_for_status()
    return FleetPlan(group, processes, 2, TOPIC, held=held, session_timeout_ms=30_000, heartbeat_interval_ms=100)


def with_fleet(service: ServiceProcess, of: FleetPlan, scenario: Callable[[Fleet], Coroutine[Any, Any, None]]) -> Fleet:
    """Runs it while the fleet lives."""
    fleet = Fleet(of, service.url)

    async def run() -> None:
        fleet.start()
        try:
            await scenario(fleet)
        finally:
            fleet.close()

    asyncio.run(run())
    return fleet


def test_should_count_a_living_member_that_the_group_forgets(service: ServiceProcess) -> None:
    async def scenario(fleet: Fleet) -> None:
        generation = await fleet.at_rest_in(1, LONGEST_S)
        forgotten = fleet.members[0].member_id
        async with httpx.AsyncClient(base_url=service.url, trust_env=False) as client:
            (await client.delete(f"/v1/groups/forgetful/members/{forgotten}")).raise_for_status()
        await fleet.at_rest_in(generation + 1, LONGEST_S)
        assert fleet.members[0].member_id != forgotten

    assert with_fleet(service, plan(service, "forgetful", held=True), scenario).evictions == 1


def test_should_see_a_task_that_two_members_hold() -> None:
    holdings = Holdings()
    holdings.take("a", [ONE, TWO], at=1.0)
    holdings.drop("a", [TWO], at=2.0)
    holdings.take("b", [TWO], at=2.0)
    assert holdings.owned_twice == []
    holdings.take("b", [ONE], at=3.0)
    assert holdings.owned_twice == ["b took 0_1 at 3.000, which a held"]


def test_should_see_it_in_the_holdings_of_two_drivers() -> None:
    first, second = Holding(ONE, "a", 1.0, 3.0), Holding(ONE, "b", 3.0)
    assert overlaps([second, first]) == []
    assert overlaps([first, second._replace(since=2.9)]) == ["b took 0_1 at 2.900, which a held"]
    assert overlaps([first._replace(until=9.0), Holding(TWO, "b", 2.0), second]) == [
        "b took 0_1 at 3.000, which a held"
    ]


def test_should_count_the_heartbeats_that_a_late_answer_kept_from_being_sent() -> None:
    latencies = Latencies()
    latencies.add(10.0, 10.35, every=0.1)
    latencies.add(20.0, 20.001, every=0.1)
    assert sorted(map(round, latencies.lasted)) == [1, 50, 150, 250, 350]
    seen = latencies.between(10.3, 12.0)
    assert (seen.seen, round(seen.p50), round(seen.most)) == (4, 250, 350)
    assert latencies.between(12.0, 19.0) == Percentiles(0, 0, 0, 0)


QUICK_ROWS = ("members-200",)


@pytest.mark.long
@pytest.mark.parametrize("row", QUICK_ROWS)
def test_should_run_a_row_alone(row: str, tmp_path: Path) -> None:
    assert_measured(row, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("row", [row for row in ROWS if row not in QUICK_ROWS and not row.startswith("broker-")])
def test_should_run_every_other_row_alone(row: str, tmp_path: Path) -> None:
    assert_measured(row, tmp_path)


def assert_measured(row: str, directory: Path) -> None:
    """The figures themselves are not looked at: they say how busy this machine is, except those that must be 0."""
    console = Console(file=io.StringIO(), width=160)
    results = Results(directory / "figures.jsonl", quick=True)
    run_rows(console, [row], results)
    measured = {figure.what: figure for figure in results.figures}
    assert "failed" not in measured, measured["failed"].note
    assert all(measured[what].value == 0 for what in measured if "evictions" in what or "two members" in what)
    assert {json.loads(line)["row"] for line in results.file.read_text().splitlines()} == {row}
    assert isinstance(console.file, io.StringIO)
    assert all(what[:20] in console.file.getvalue() for what in measured)
