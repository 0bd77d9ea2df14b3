"""What a slow disk, or one that stands still, must not do to the members of a group."""

import asyncio
import contextlib
import random
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.fleet.fleet import Fleet, MortalService
from tests.acceptance.fleet.fleet_process import FleetProcess
from tests.acceptance.fleet.http_connection import Answer, HttpConnection, NoAnswer
from tests.acceptance.fleet.running import PLAIN, settled_fleet

NOTICED_S = 2.0
"""A caller who waits this long for a heartbeat has noticed."""


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


def heartbeat(fleet: Fleet) -> tuple[str, str, object]:
    member = fleet.members()[0]
    return "POST", f"{PLAIN.path}/members/{member.member_id}/heartbeat", {"generation_id": member.generation_id}


def heartbeat_of_a_process(fleet: Fleet) -> tuple[str, str, object]:
    beats = {member.member_id: {"generation_id": member.generation_id} for member in fleet.processes[0].members}
    return "POST", f"{PLAIN.path}/heartbeat?wait_ms=0", {"members": beats}


def fetch(fleet: Fleet) -> tuple[str, str, object]:
    return "GET", f"{PLAIN.path}/members/{fleet.members()[0].member_id}/assignment?min_generation=0", None


def first_join(fleet: Fleet, number: int = 99) -> asyncio.Task[Answer]:
    """Of one more process with one member; its answer waits for a commit."""
    process = FleetProcess(number, fleet.address, PLAIN, fleet.witness, random.Random(number), members=1)
    body = process.join_body(process.members[0])
    calls = HttpConnection(fleet.address)
    return asyncio.create_task(calls.ask("POST", f"{PLAIN.path}/subscriptions", body, answer_timeout_s=60))


async def until_arrived(fleet: Fleet) -> None:
    """What was sent before these heartbeats has arrived when they are answered."""
    for _ in range(10):
        assert (await HttpConnection(fleet.address).ask(*heartbeat(fleet))).status == 200


async def test_should_answer_members_while_a_commit_of_others_waits(tmp_path: Path) -> None:
    async with settled_fleet(tmp_path) as (of, fleet):
        with disk_that_stands_still(of):
            join = first_join(fleet)
            for call in (heartbeat, heartbeat_of_a_process, fetch):
                for _ in range(20):
                    answer = await HttpConnection(of.address).ask(*call(fleet), answer_timeout_s=NOTICED_S)
                    assert answer.status == 200, (call, answer)
            assert not join.done()

        assert (await join).status == 201


async def test_should_evict_nobody_while_many_join_and_the_disk_is_slow(tmp_path: Path) -> None:
    manners = replace(PLAIN, session_timeout_ms=3_000)
    async with settled_fleet(tmp_path, manners=manners) as (of, fleet):
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
    async with settled_fleet(tmp_path, manners=manners) as (of, fleet):
        with disk_that_stands_still(of):
            join = first_join(fleet)
            await asyncio.sleep(4)  # what is tested: two sessions go by

        assert (await join).status == 201
        beats = {process.number: process.beats for process in fleet.processes}
        await fleet.until(lambda: all(each.beats > beats[each.number] + 3 for each in fleet.processes), "heartbeats")
        assert fleet.witness.evictions == []
        assert of.removed() == {}


async def test_should_say_that_it_stops_to_who_still_waits_for_a_commit(tmp_path: Path) -> None:
    async with settled_fleet(tmp_path, "--shutdown-timeout-ms", "1000") as (of, fleet):
        with disk_that_stands_still(of):
            join = first_join(fleet)
            await until_arrived(fleet)
            of.signal(signal.SIGTERM)
            answer = await join

        assert (answer.status, answer.code()) == (503, "COORDINATOR_NOT_AVAILABLE")
        assert await of.stop() == 0


@pytest.mark.long
async def test_should_end_soon_after_sigterm_while_the_disk_stands_still(tmp_path: Path) -> None:
    async with settled_fleet(tmp_path) as (of, fleet):
        members = sorted(str(member.member_id) for member in fleet.members())
        with disk_that_stands_still(of):
            join = first_join(fleet)
            await until_arrived(fleet)
            asked_s = time.monotonic()
            of.signal(signal.SIGTERM)
            assert await of.stop() == 1  # while another program still holds the file for itself
            assert time.monotonic() - asked_s < 8
            with contextlib.suppress(NoAnswer):
                assert (await join).status == 503
        await of.start()
        await fleet.until_settled()
        assert sorted(str(member.member_id) for member in fleet.members()) == members
