"""What one caller, one large group or a slow disk must not do to the members of a group.

Every limit here is far from what is promised (docs/promises.md, `python -m benchmarks group-load`), so that a busy
machine does not break a test, and far from what the service did before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.fleet.fleet import Fleet, MortalService
from tests.acceptance.fleet.fleet_process import FleetProcess, Manners
from tests.acceptance.fleet.http_connection import HttpConnection, NoAnswer
from tests.acceptance.fleet.service_cost import cpu_seconds, metric, process_tree
from tests.checkout import ROOT
from tests.coordinator_api import held_assignor

GROUP = "pressed"
LONG_MS = 60_000
HELD = Manners(GROUP, LONG_MS, 500)
PLAIN = replace(HELD, held=False, repeats_joins=False)
Call = Callable[[Fleet], tuple[str, str, object]]
NOTICED_S = 2.0
"""A caller who waits this long for a heartbeat has noticed."""


@asynccontextmanager
async def service(directory: Path, *flags: str, **environment: str) -> AsyncIterator[MortalService]:
    started = MortalService(directory, *("--group-initial-rebalance-delay-ms", "200"), *flags, environment=environment)
    try:
        await started.start()
        yield started
    finally:
        started.close()


@asynccontextmanager
async def settled_fleet(of: MortalService, manners: Manners = PLAIN, processes: int = 3) -> AsyncIterator[Fleet]:
    fleet = Fleet(of.address, GROUP, 12, 1)
    try:
        await fleet.declare()
        fleet.add(processes, manners)
        await fleet.until_settled()
        yield fleet
    finally:
        fleet.close()


@contextmanager
def disk_that_stands_still(of: MortalService) -> Iterator[None]:
    """While this lasts, no commit of the service ends: another program is writing to its file."""
    with contextlib.closing(sqlite3.connect(of.database, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


@asynccontextmanager
async def disk_that_is_slow(of: MortalService) -> AsyncIterator[None]:
    """While this lasts, a commit of the service takes some tenths of a second."""
    over = asyncio.Event()

    async def slow() -> None:
        while not over.is_set():
            with disk_that_stands_still(of):
                await asyncio.sleep(0.2)
            await asyncio.sleep(0.1)  # SQLite asks again after a tenth of a second at the latest

    slowing = asyncio.create_task(slow())
    try:
        yield
    finally:
        over.set()
        await slowing


def first_join(fleet: Fleet, number: int) -> dict[str, object]:
    process = FleetProcess(number, fleet.address, PLAIN, fleet.witness, random.Random(number), members=1)
    return process.join_body(process.members[0])


def heartbeat(fleet: Fleet) -> tuple[str, str, object]:
    member = fleet.members()[0]
    return "POST", f"{PLAIN.path}/members/{member.member_id}/heartbeat", {"generation_id": member.generation_id}


def heartbeat_of_a_process(fleet: Fleet) -> tuple[str, str, object]:
    beats = {member.member_id: {"generation_id": member.generation_id} for member in fleet.processes[0].members}
    return "POST", f"{PLAIN.path}/heartbeat?wait_ms=0", {"members": beats}


def fetch(fleet: Fleet) -> tuple[str, str, object]:
    return "GET", f"{PLAIN.path}/members/{fleet.members()[0].member_id}/assignment?min_generation=0", None


@pytest.mark.parametrize("call", [heartbeat, heartbeat_of_a_process, fetch])
async def test_should_answer_members_while_a_commit_of_others_waits(tmp_path: Path, call: Call) -> None:
    async with service(tmp_path) as of, settled_fleet(of) as fleet:
        with disk_that_stands_still(of):
            calls = HttpConnection(of.address)
            join = asyncio.create_task(calls.ask("POST", f"{PLAIN.path}/subscriptions", first_join(fleet, 99)))
            for _ in range(20):
                answer = await HttpConnection(of.address).ask(*call(fleet), answer_timeout_s=NOTICED_S)
                assert answer.status == 200, answer
            assert not join.done()

        assert (await join).status == 201


async def test_should_evict_nobody_while_many_join_and_the_disk_is_slow(tmp_path: Path) -> None:
    manners = replace(PLAIN, session_timeout_ms=3_000, heartbeat_interval_ms=500)
    async with service(tmp_path) as of, settled_fleet(of, manners) as fleet:
        async with disk_that_is_slow(of):
            fleet.add(30, manners)
            await fleet.until(lambda: all(member.member_id for member in fleet.members()), "all to have joined")
        await fleet.until_settled()
        assert fleet.witness.evictions == []
        assert of.removed() == {}
        await fleet.assert_whole(of)


@pytest.mark.long
async def test_should_evict_nobody_while_a_disk_stands_still_for_longer_than_a_session(tmp_path: Path) -> None:
    manners = replace(PLAIN, session_timeout_ms=2_000, heartbeat_interval_ms=200)
    async with service(tmp_path) as of, settled_fleet(of, manners) as fleet:
        with disk_that_stands_still(of):
            calls = HttpConnection(of.address)
            join = asyncio.create_task(calls.ask("POST", f"{PLAIN.path}/subscriptions", first_join(fleet, 99)))
            await asyncio.sleep(4)  # what is tested: two sessions go by

        assert (await join).status == 201
        beats = {process.number: process.beats for process in fleet.processes}
        await fleet.until(lambda: all(each.beats > beats[each.number] + 3 for each in fleet.processes), "heartbeats")
        assert fleet.witness.evictions == []
        assert of.removed() == {}


async def test_should_commit_many_joins_at_once(tmp_path: Path) -> None:
    joins = 40
    async with service(tmp_path) as of, settled_fleet(of) as fleet:
        before = await metric(of.address, "assignor_commit_latency_seconds_count")
        with disk_that_stands_still(of):
            callers = [HttpConnection(of.address) for _ in range(joins)]
            sent = [
                asyncio.create_task(caller.ask("POST", f"{PLAIN.path}/subscriptions", first_join(fleet, 100 + number)))
                for number, caller in enumerate(callers)
            ]
            beats = [
                asyncio.create_task(HttpConnection(of.address).ask(*heartbeat(fleet), answer_timeout_s=60))
                for _ in range(10)
            ]
            # what was sent before these has arrived when they are answered, or waits where they wait
            await asyncio.wait(beats, timeout=NOTICED_S)
        assert [answer.status for answer in await asyncio.gather(*sent)] == [201] * joins
        assert [answer.status for answer in await asyncio.gather(*beats)] == [200] * len(beats)
        assert await metric(of.address, "assignor_commit_latency_seconds_count") - before < joins / 2


def held_computation() -> dict[str, object]:
    return {
        "format": "placement/1",
        "id": "held",
        "assignor": held_assignor.CLASS_PATH,
        "configs": {},
        "tasks": ["0_0"],
        "stateful": [],
        "clients": {"00000000-0000-0000-0000-000000000001": {"capacity": 1, "lags": {}}},
    }


@asynccontextmanager
async def holding_service(directory: Path, *flags: str) -> AsyncIterator[tuple[MortalService, Path]]:
    """A service, and the file that holds every rebalance and computation while it is there."""
    hold = directory / "hold"
    environment = {"PYTHONPATH": str(ROOT), held_assignor.HOLD_FILE_VARIABLE: str(hold)}
    async with service(
        directory, "--task-assignor-classes", held_assignor.CLASS_PATH, *flags, **environment
    ) as started:
        yield started, hold


async def test_should_describe_a_large_group_without_much_work(tmp_path: Path) -> None:
    """And what is stored for a member does not grow with the number of members, although each is told of all others."""
    manners = replace(PLAIN, endpoint=True, heartbeat_interval_ms=20_000)
    stored_bytes = []
    for processes in (100, 400):
        directory = tmp_path / str(processes)
        directory.mkdir()
        async with service(directory) as of:
            fleet = Fleet(of.address, GROUP, processes, 1)
            try:
                await fleet.declare()
                fleet.add(processes, manners, members=1)
                await fleet.until_settled()
                used_before_s = cpu_seconds(of.pid)
                described = await fleet.describe()
                used_s = cpu_seconds(of.pid) - used_before_s
                assert len(described["members"]) == processes
                rebalances = described["generation_id"]
            finally:
                fleet.close()
            assert await of.stop() == 0
        files = list(directory.glob("assignor.sqlite3*"))
        stored_bytes.append(sum(file.stat().st_size for file in files) / rebalances / processes)
    assert used_s < 0.4
    assert stored_bytes[1] < 2 * stored_bytes[0], stored_bytes


@pytest.mark.parametrize("manners", [PLAIN, HELD], ids=["single calls", "held heartbeats"])
async def test_should_end_soon_after_sigterm_while_a_rebalance_is_computed_and_everybody_waits(
    tmp_path: Path, manners: Manners
) -> None:
    async with holding_service(tmp_path) as (of, hold):
        hold.touch()
        fleet = Fleet(of.address, GROUP, 12, 1)
        try:
            await fleet.declare(assignor=held_assignor.CLASS_PATH)
            fleet.add(4, manners)
            await fleet.until(lambda: all(each.state == "CompletingRebalance" for each in fleet.processes), "rebalance")
            caller = HttpConnection(of.address)
            computation = asyncio.create_task(caller.ask("POST", "/v1/simulate", held_computation()))
            silent = await asyncio.open_connection(of.address.host, of.address.port)
            assert (await fleet.describe())["state"] == "CompletingRebalance"
            tree = process_tree(of.pid)

            asked_s = time.monotonic()
            of.signal(signal.SIGTERM)
            await asyncio.to_thread(wait_until_gone, tree)
            assert time.monotonic() - asked_s < 8
            assert await of.stop() == 0

            silent[1].transport.abort()
            with contextlib.suppress(NoAnswer):
                assert (await computation).status == 503
            hold.unlink()
            await of.start()
            await fleet.until_settled()
            await fleet.assert_whole(of)
        finally:
            fleet.close()


def wait_until_gone(pids: list[int], timeout_s: float = 20.0) -> None:
    """Until none of these processes runs; one that has ended and waits to be reaped does not."""
    deadline_s = time.monotonic() + timeout_s
    for pid in pids:
        while runs(pid):
            assert time.monotonic() < deadline_s, f"process {pid} runs on"
            time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_should_compute_a_rebalance_again_when_the_process_that_computed_it_is_killed(tmp_path: Path) -> None:
    """An error assignment would end every member of the group."""
    async with holding_service(tmp_path) as (of, hold):
        hold.touch()
        fleet = Fleet(of.address, GROUP, 12, 1)
        try:
            await fleet.declare(assignor=held_assignor.CLASS_PATH)
            fleet.add(2, PLAIN)
            await fleet.until(lambda: all(each.state == "CompletingRebalance" for each in fleet.processes), "rebalance")
            for pid in process_tree(of.pid)[1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            hold.unlink()
            await fleet.until_settled()
            assert (await fleet.describe())["last_rebalance"]["outcome"] == "stable"
        finally:
            fleet.close()


async def test_should_say_that_it_stops_to_who_still_waits_for_a_commit(tmp_path: Path) -> None:
    async with service(tmp_path, "--shutdown-timeout-ms", "1000") as of, settled_fleet(of) as fleet:
        with disk_that_stands_still(of):
            calls = HttpConnection(of.address)
            join = asyncio.create_task(
                calls.ask("POST", f"{PLAIN.path}/subscriptions", first_join(fleet, 99), answer_timeout_s=60)
            )
            for _ in range(10):  # what was sent before these has arrived when they are answered
                assert (await HttpConnection(of.address).ask(*heartbeat(fleet))).status == 200
            of.signal(signal.SIGTERM)
            answer = await join

        assert (answer.status, answer.code()) == (503, "COORDINATOR_NOT_AVAILABLE")
        assert await of.stop() == 0


async def test_should_end_soon_after_sigterm_while_the_disk_stands_still(tmp_path: Path) -> None:
    async with service(tmp_path) as of, settled_fleet(of) as fleet:
        members = sorted(str(member.member_id) for member in fleet.members())
        with disk_that_stands_still(of):
            join = asyncio.create_task(
                HttpConnection(of.address).ask(
                    "POST", f"{PLAIN.path}/subscriptions", first_join(fleet, 99), answer_timeout_s=60
                )
            )
            for _ in range(10):  # what was sent before these has arrived when they are answered
                assert (await HttpConnection(of.address).ask(*heartbeat(fleet))).status == 200
            asked_s = time.monotonic()
            of.signal(signal.SIGTERM)
            assert await of.stop() == 1  # while another program still holds the file for itself
            assert time.monotonic() - asked_s < 8
            with contextlib.suppress(NoAnswer):
                assert (await join).status == 503
        await of.start()
        await fleet.until_settled()
        assert sorted(str(member.member_id) for member in fleet.members()) == members


async def test_should_leave_no_process_behind_when_it_is_killed(tmp_path: Path) -> None:
    async with holding_service(tmp_path) as (of, hold):
        hold.touch()
        fleet = Fleet(of.address, GROUP, 12, 1)
        try:
            await fleet.declare(assignor=held_assignor.CLASS_PATH)
            fleet.add(2, PLAIN)
            await fleet.until(lambda: all(each.state == "CompletingRebalance" for each in fleet.processes), "rebalance")
            tree = process_tree(of.pid)
            of.signal(signal.SIGKILL)
            await asyncio.to_thread(wait_until_gone, tree)
        finally:
            fleet.close()


@pytest.mark.long
async def test_should_store_a_rebalance_of_very_many_tasks_while_others_notice_nothing(tmp_path: Path) -> None:
    """200 members share 50,000 tasks. A member of another group is heard all the time, and a stop does not wait."""
    partitions, processes = 50_000, 100
    manners = replace(PLAIN, endpoint=True, heartbeat_interval_ms=5_000, rebalance_timeout_ms=300_000)
    async with service(tmp_path) as of:
        other = Fleet(of.address, "bystanders", 4, 1)
        fleet = Fleet(of.address, GROUP, partitions, 1)
        try:
            await other.declare()
            other.add(1, replace(PLAIN, group_id="bystanders", session_timeout_ms=6_000, heartbeat_interval_ms=200))
            bystanders = await other.until_settled()
            await fleet.declare()
            fleet.add(processes, manners)
            await fleet.until_settled(timeout_s=240)

            assert await other.until_settled() == bystanders
            await other.assert_whole(of)
            await fleet.assert_whole(of)
            assert max(other.witness.slowest_s.values()) < NOTICED_S

            fleet.add(1, manners)
            await fleet.until(lambda: any(each.state == "CompletingRebalance" for each in fleet.processes), "rebalance")
            asked_s = time.monotonic()
            assert await of.stop() == 0
            assert time.monotonic() - asked_s < 10
        finally:
            fleet.close()
            other.close()


@pytest.mark.parametrize("stopped_s, at_least", [(0.4, 1), (1.5, 3)])
async def test_should_refuse_computations_first_then_descriptions_then_joins_and_heartbeats_never(
    tmp_path: Path, stopped_s: float, at_least: int
) -> None:
    """A service that hardly gets to run: it is stopped for `stopped_s` at a time, between moments in which it runs."""
    async with service(tmp_path) as of, settled_fleet(of) as fleet:
        calls = {
            "computation": ("POST", "/v1/assign", {}),
            "describe": ("GET", PLAIN.path, None),
            "join": ("POST", f"{PLAIN.path}/subscriptions", {**first_join(fleet, 99), "member_id": "nobody"}),
            "heartbeat": heartbeat(fleet),
        }
        async with service_that_hardly_runs(of, stopped_s):
            for _ in range(3):  # its lag is a mean of the last moments
                answers = await asyncio.gather(
                    *(HttpConnection(of.address).ask(*call, answer_timeout_s=60) for call in calls.values())
                )
        statuses = dict(zip(calls, (answer.status for answer in answers), strict=True))

    refused = [name for name, status in statuses.items() if status == 429]
    assert at_least <= len(refused) <= 3
    assert refused == list(calls)[: len(refused)]
    assert statuses["heartbeat"] == 200


@asynccontextmanager
async def service_that_hardly_runs(of: MortalService, stopped_s: float) -> AsyncIterator[None]:
    over = asyncio.Event()

    async def hinder() -> None:
        while not over.is_set():
            of.signal(signal.SIGSTOP)
            await asyncio.sleep(stopped_s)
            of.signal(signal.SIGCONT)
            await asyncio.sleep(0.03)

    hindering = asyncio.create_task(hinder())
    try:
        await asyncio.sleep(6 * stopped_s)  # until its lag is what it will be
        yield
    finally:
        over.set()
        await hindering
        of.signal(signal.SIGCONT)
