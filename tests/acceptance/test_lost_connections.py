"""What the coordinator makes of a connection that breaks: the death of a process, or only of the network between.

Real sockets on loopback, and a proxy that breaks them. Sessions are so long that they explain nothing, but where a test
says so.
"""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.fleet.faulty_proxy import FaultyProxy
from tests.acceptance.fleet.fleet import Fleet, MortalService
from tests.acceptance.fleet.fleet_process import FleetProcess, Manners
from tests.acceptance.fleet.http_connection import HttpConnection, NoAnswer
from tests.acceptance.fleet.witness import now_ms

GROUP = "lost-connections"
PARTITIONS = 12
LONG_MS = 60_000
SHORT_MS = 3_000
SOON_S = 20.0
"""Long before a session of `LONG_MS` is over, however busy the machine is."""

HELD = Manners(GROUP, LONG_MS, 500)


@asynccontextmanager
async def fleet_of(directory: Path, grace_ms: int = 200) -> AsyncIterator[tuple[MortalService, Fleet, FaultyProxy]]:
    service = MortalService(
        directory,
        *("--group-initial-rebalance-delay-ms", "200"),
        environment={"ASSIGNOR_GROUP_DISCONNECT_GRACE_MS": str(grace_ms)},
    )
    try:
        await service.start()
        fleet = Fleet(service.address, GROUP, PARTITIONS, 1)
        async with FaultyProxy(service.address, random.Random(1)) as proxy:
            await fleet.declare()
            try:
                yield service, fleet, proxy
            finally:
                fleet.close()
    finally:
        service.close()


def ids(processes: list[FleetProcess]) -> set[str | None]:
    return {member.member_id for process in processes for member in process.members}


async def heard_again(fleet: Fleet, processes: list[FleetProcess]) -> None:
    """Until each of them has had two answers more: the second of these calls was sent after this one was made."""
    before = {process.number: process.beats for process in processes}
    await fleet.until(
        lambda: all(process.beats >= before[process.number] + 2 for process in processes), "all to be heard from again"
    )


@pytest.mark.parametrize("last_words", [False, True], ids=["silent", "last words came with the end"])
async def test_should_give_away_the_tasks_of_a_process_as_soon_as_its_connection_breaks(
    tmp_path: Path, last_words: bool
) -> None:
    """`last_words`: on a new connection. The service reads them with its end, because it did not run meanwhile."""
    async with fleet_of(tmp_path) as (service, fleet, _):
        fleet.add(4, HELD)
        settled = await fleet.until_settled()
        dead = fleet.processes[0]
        dead_ids = ids([dead])
        assert dead.active

        if last_words:
            service.signal(signal.SIGSTOP)
            await HttpConnection(service.address).send_and_hang_up(dead.heartbeat_request())
        fleet.kill([dead])
        service.signal(signal.SIGCONT)

        await fleet.until_settled(beyond=settled, timeout_s=SOON_S)
        assert service.removed().keys() == dead_ids
        await fleet.assert_whole(service)


@pytest.mark.long
async def test_should_end_members_on_a_silent_network_by_their_session_timeout(tmp_path: Path) -> None:
    async with fleet_of(tmp_path) as (service, fleet, proxy):
        fleet.add(3, HELD)
        beyond = fleet.add(1, replace(HELD, session_timeout_ms=SHORT_MS), through=proxy.address)[0]
        settled = await fleet.until_settled()
        beyond_ids = ids([beyond])

        silent_ms = now_ms()
        proxy.fall_silent()
        beyond.say_nothing()
        fleet.processes.remove(beyond)

        await fleet.until_settled(beyond=settled, timeout_s=SOON_S)
        assert now_ms() - silent_ms >= SHORT_MS - HELD.heartbeat_interval_ms - 100
        assert service.removed() == dict.fromkeys(beyond_ids, "session-expired")


Trouble = Callable[[MortalService, Fleet, FaultyProxy], Awaitable[None]]


async def break_all_for_long(_: MortalService, _fleet: Fleet, proxy: FaultyProxy) -> None:
    proxy.refuses = True
    assert proxy.break_all() >= 5
    await asyncio.sleep(1.5)  # what is tested: many times the grace goes by, and nobody can come back
    proxy.refuses = False


async def restart(service: MortalService, _fleet: Fleet, _proxy: FaultyProxy) -> None:
    await service.kill_and_start()


async def hang_up_other_calls(_: MortalService, fleet: Fleet, _proxy: FaultyProxy) -> None:
    for process in fleet.processes:
        process.hang_up_other_calls()


@pytest.mark.parametrize(
    "trouble, grace_ms",
    [
        pytest.param(break_all_for_long, 200, marks=pytest.mark.long, id="a proxy breaks and stays away"),
        pytest.param(restart, 1, id="the coordinator restarts"),
        pytest.param(hang_up_other_calls, 1, id="connections of other calls end"),
    ],
)
async def test_should_not_take_it_for_a_death_when(tmp_path: Path, trouble: Trouble, grace_ms: int) -> None:
    async with fleet_of(tmp_path, grace_ms) as (service, fleet, proxy):
        fleet.add(5, HELD, through=proxy.address if trouble is break_all_for_long else None)
        fleet.add(1, HELD)
        settled = await fleet.until_settled()

        await trouble(service, fleet, proxy)
        await heard_again(fleet, fleet.processes)

        assert await fleet.until_settled() == settled
        assert service.removed() == {}
        await fleet.assert_whole(service)


@pytest.mark.long
async def test_should_hold_no_heartbeat_until_a_session_is_over(tmp_path: Path) -> None:
    """Its caller asks to be held for as long as four sessions."""
    async with fleet_of(tmp_path) as (service, fleet, _):
        fleet.add(2, replace(HELD, session_timeout_ms=SHORT_MS, heartbeat_interval_ms=4 * SHORT_MS))
        settled = await fleet.until_settled()

        await heard_again(fleet, fleet.processes)

        assert await fleet.until_settled() == settled
        assert service.removed() == {}
        await fleet.assert_whole(service)


@pytest.mark.parametrize(
    "through", ["a hang-up", pytest.param("a proxy that loses the answers", marks=pytest.mark.long)]
)
async def test_should_make_no_second_member_of_a_join_whose_answer_was_lost(tmp_path: Path, through: str) -> None:
    async with fleet_of(tmp_path, grace_ms=LONG_MS) as (_, fleet, proxy):
        if through == "a hang-up":
            fleet.add(2, replace(HELD, hang_up_chance=0.7))
        else:
            proxy.loses_answers = 0.7
            fleet.add(2, HELD, through=proxy.address)

        await fleet.until_settled(timeout_s=SOON_S)
        proxy.loses_answers = 0.0

        described = await fleet.describe()
        assert {entry["member_id"] for entry in described["members"]} == ids(fleet.processes)
        assert fleet.witness.owned_twice() == []


async def test_should_answer_a_repeated_first_join_as_the_first_time(tmp_path: Path) -> None:
    async with fleet_of(tmp_path) as (service, fleet, _):
        process = FleetProcess(1, service.address, HELD, fleet.witness, random.Random(1), members=1)
        member = process.members[0]
        calls = HttpConnection(service.address)
        body = process.join_body(member)

        first = await calls.ask("POST", f"{HELD.path}/subscriptions", body)
        with pytest.raises(NoAnswer):
            await calls.ask("POST", f"{HELD.path}/subscriptions", body, answer_timeout_s=0)
        again = await calls.ask("POST", f"{HELD.path}/subscriptions", body)
        other = await calls.ask("POST", f"{HELD.path}/subscriptions", {**body, "join_id": "another"})

        assert (first.status, again.status, other.status) == (201, 200, 201)
        assert first.document()["member_id"] == again.document()["member_id"] != other.document()["member_id"]
        await service.kill_and_start()
        once_more = await HttpConnection(service.address).ask("POST", f"{HELD.path}/subscriptions", body)
        assert once_more.document()["member_id"] == first.document()["member_id"]
        assert len((await fleet.describe())["members"]) == 2
