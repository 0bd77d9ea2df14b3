"""What an overload, one large group, or an end in the middle of a rebalance must not do to the members of a group.

Every limit here is far from what is promised (docs/promises.md, `python -m benchmarks group-load`), so that a busy
machine does not break a test, and far from what the service did before.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.process_tree import descendants
from tests.acceptance.fleet.fleet import MortalService
from tests.acceptance.fleet.fleet_process import Manners
from tests.acceptance.fleet.http_connection import HttpConnection, NoAnswer
from tests.acceptance.fleet.running import HELD, PLAIN, held_rebalance, running_fleet, running_service, settled_fleet
from tests.coordinator_api import held_assignor
from tests.processes import wait_until_gone

NOTICED_S = 2.0
"""A caller who waits this long for a heartbeat has noticed."""
OVERLOADED_WITHIN_S = 60.0


@pytest.mark.parametrize(
    "manners",
    [pytest.param(PLAIN, id="single calls", marks=pytest.mark.long), pytest.param(HELD, id="held heartbeats")],
)
async def test_should_end_soon_after_sigterm_while_a_rebalance_is_computed_and_everybody_waits(
    tmp_path: Path, manners: Manners
) -> None:
    async with held_rebalance(tmp_path, 4, manners) as (of, fleet, hold):
        await fleet.until(lambda: all(each.state == "CompletingRebalance" for each in fleet.processes), "all to wait")
        caller = HttpConnection(of.address)
        computation = asyncio.create_task(caller.ask("POST", "/v1/simulate", held_assignor.held_problem()))
        silent = await asyncio.open_connection(of.address.host, of.address.port)
        assert (await fleet.describe())["state"] == "CompletingRebalance"
        tree = list(descendants(of.pid))

        asked_s = time.monotonic()
        of.signal(signal.SIGTERM)
        await asyncio.to_thread(wait_until_gone, tree, 20.0)
        assert time.monotonic() - asked_s < 8
        assert await of.stop() == 0

        silent[1].transport.abort()
        with contextlib.suppress(NoAnswer):
            assert (await computation).status == 503
        hold.unlink()
        await of.start()
        await fleet.until_settled()
        await fleet.assert_whole(of)


async def test_should_compute_a_rebalance_again_when_the_process_that_computed_it_is_killed(tmp_path: Path) -> None:
    """An error assignment would end every member of the group."""
    async with held_rebalance(tmp_path, 2) as (of, fleet, hold):
        for pid in list(descendants(of.pid))[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        hold.unlink()
        await fleet.until_settled()
        assert (await fleet.describe())["last_rebalance"]["outcome"] == "stable"


@pytest.mark.long
async def test_should_store_a_rebalance_of_very_many_tasks_while_others_notice_nothing(tmp_path: Path) -> None:
    """200 members share 50,000 tasks. A member of another group is heard all the time, and a stop does not wait."""
    many = replace(PLAIN, endpoint=True, heartbeat_interval_ms=5_000, rebalance_timeout_ms=300_000)
    few = replace(PLAIN, group_id="bystanders", session_timeout_ms=6_000, heartbeat_interval_ms=200)
    async with running_service(tmp_path) as of, running_fleet(of, few, 1, partitions=4) as other:
        bystanders = await other.until_settled()
        async with running_fleet(of, many, 100, partitions=50_000) as fleet:
            settled = await fleet.until_settled(timeout_s=240)

            assert await other.until_settled() == bystanders
            await other.assert_whole(of)
            await fleet.assert_whole(of)
            assert max(other.witness.slowest_s.values()) < NOTICED_S

            fleet.add(1, many)
            # the last of them lets the service compute, which takes it seconds
            await fleet.until(lambda: all(each.awaited > settled for each in fleet.members()), "all to have rejoined")
            asked_s = time.monotonic()
            assert await of.stop() == 0
            assert time.monotonic() - asked_s < 10


@pytest.mark.parametrize("stopped_s, at_least", [(0.4, 1), pytest.param(2.2, 3, marks=pytest.mark.long)])
async def test_should_refuse_computations_first_then_descriptions_then_joins_and_heartbeats_never(
    tmp_path: Path, stopped_s: float, at_least: int
) -> None:
    """A service that hardly gets to run: it is stopped for `stopped_s` at a time, between moments in which it runs."""
    async with settled_fleet(tmp_path) as (of, fleet):
        member = fleet.members()[0]
        of_member = f"{PLAIN.path}/members/{member.member_id}"
        calls = {
            "computation": ("POST", "/v1/assign", {}),
            "describe": ("GET", PLAIN.path, None),
            "join": ("POST", f"{PLAIN.path}/subscriptions", {**fleet.processes[0].join_body(member), "member_id": "x"}),
            "heartbeat": ("POST", f"{of_member}/heartbeat", {"generation_id": member.generation_id}),
        }

        async def status(call: str) -> int:
            return (await HttpConnection(of.address).ask(*calls[call], answer_timeout_s=60)).status

        refused: list[str] = []
        async with service_that_hardly_runs(of, stopped_s), asyncio.timeout(OVERLOADED_WITHIN_S):
            # The lag is a mean of the last moments, and changes between the calls of one round: so several rounds.
            while len(refused) < at_least or refused != list(calls)[: len(refused)]:
                statuses = dict(zip(calls, await asyncio.gather(*map(status, calls)), strict=True))
                assert statuses["heartbeat"] == 200
                refused = [name for name in calls if statuses[name] == 429]


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
        yield
    finally:
        over.set()
        await hindering
        of.signal(signal.SIGCONT)
