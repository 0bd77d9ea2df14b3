"""Nothing comes out of the memory of a group that is not owned here any more, or while the lease has ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest

from coordinator_api.group import events
from coordinator_api.group.outcome import HeartbeatAnswered, JoinAnswered, Response
from coordinator_api.lease.owned_groups import GroupLease
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.store.store_errors import LeaseEnded, NotOwner, StoreError
from tests.coordinator_api.runtime.test_group_runtime import (
    FailingRepository,
    Failure,
    declare,
    fetch,
    hang_up_never,
    join,
    opened,
)

WAIT_S = 60.0


class RenewedOrNot:
    is_valid = True

    def check(self) -> None:
        if not self.is_valid:
            raise LeaseEnded(LeaseEnded.public)


class Led:
    """A group with one member, which has its assignment."""

    def __init__(
        self, runtime: GroupRuntime, repository: FailingRepository, lease: RenewedOrNot, lost: list[str]
    ) -> None:
        self.runtime = runtime
        self.repository = repository
        self.lease = lease
        self.lost = lost

    async def hold(self) -> asyncio.Task[Response]:
        """A fetch that waits for the next generation."""
        waiting = self.runtime.wait_for_assignment(events.FetchAssignment("m1", 2), 600, hang_up_never)
        held = asyncio.ensure_future(waiting)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not held.done()
        return held


@pytest.fixture
async def led(tmp_path: Path) -> AsyncIterator[Led]:
    lease = RenewedOrNot()
    lost: list[str] = []
    async with opened(tmp_path, lease=GroupLease("g", 0, lease.check, lost.append)) as (runtime, repository):
        await declare(runtime)
        joined = await runtime.handle(join())
        assert isinstance(joined, JoinAnswered)
        await fetch(runtime, joined.generation_id)
        yield Led(runtime, repository, lease, lost)


async def every_answer(runtime: GroupRuntime) -> list[StoreError]:
    heartbeat = events.Heartbeat("m1", 1)
    asked: tuple[Awaitable[object], ...] = (
        runtime.respond(heartbeat),
        runtime.respond(events.FetchAssignment("m1", 1)),
        runtime.process_heartbeat(events.ProcessHeartbeat({"m1": heartbeat}, 7), None, 600, hang_up_never),
        runtime.wait_for_assignment(events.FetchAssignment("m1", 2), 600, hang_up_never),
        runtime.handle(join()),
        runtime.handle(events.Leave("stranger")),  # whose refusal needs no write
        runtime.describe(),
    )
    found = []
    for each in asked:
        with pytest.raises(StoreError) as refused:
            await asyncio.wait_for(each, WAIT_S)
        found.append(refused.value)
    return found


async def test_should_refuse_every_answer_while_the_lease_has_ended(led: Led) -> None:
    led.lease.is_valid = False
    assert {type(each) for each in await every_answer(led.runtime)} == {LeaseEnded}

    led.lease.is_valid = True
    led.runtime.reload_before_next_event()
    answered = await led.runtime.respond(events.Heartbeat("m1", 1))
    assert isinstance(answered, HeartbeatAnswered)
    assert led.lost == []


async def test_should_refuse_every_answer_once_the_group_is_elsewhere(led: Led) -> None:
    held = await led.hold()
    led.runtime.lease.end()
    led.runtime.answer_now()
    with pytest.raises(NotOwner):
        await asyncio.wait_for(held, WAIT_S)
    assert {type(each) for each in await every_answer(led.runtime)} == {NotOwner}


async def test_should_let_those_go_who_are_held_when_the_lease_ends(led: Led) -> None:
    held = await led.hold()
    led.lease.is_valid = False
    led.runtime.answer_now()
    with pytest.raises(LeaseEnded):
        await asyncio.wait_for(held, WAIT_S)

    led.lease.is_valid = True
    again = await led.hold()
    led.runtime.release()
    await asyncio.wait_for(again, WAIT_S)


async def test_should_finish_what_is_written_and_keep_those_who_are_held(led: Led) -> None:
    held = await led.hold()
    leaving = asyncio.ensure_future(led.runtime.handle(events.RequestRebalance()))
    await asyncio.sleep(0)
    await led.runtime.finish()
    assert leaving.done()
    led.runtime.lease.check()
    held.cancel()


async def test_should_say_that_it_was_lost_when_a_write_finds_another_epoch(led: Led) -> None:
    led.runtime.lease.epoch = 7
    with pytest.raises(NotOwner):
        await led.runtime.handle(events.RequestRebalance())
    assert led.lost == ["g"]
    with pytest.raises(NotOwner):
        await led.runtime.respond(events.Heartbeat("m1", 1))


async def test_should_say_that_it_was_lost_when_it_is_read_in_another_epoch(led: Led) -> None:
    led.repository.failure, led.repository.times = Failure.AFTER, 1
    with pytest.raises(StoreError):
        await led.runtime.handle(events.RequestRebalance())
    led.runtime.lease.epoch = 7
    with pytest.raises(NotOwner):
        await led.runtime.handle(events.RequestRebalance())
    assert led.lost == ["g"]


async def test_should_not_hear_of_connections_once_it_is_closed(led: Led) -> None:
    poll = events.ProcessHeartbeat({"m1": events.Heartbeat("m1", 1)}, 7)
    await led.runtime.process_heartbeat(poll, None, 0, hang_up_never)
    await led.runtime.close()
    stored = (await led.repository.load_group("g")).sequence
    led.runtime._connections.lost(7)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (await led.repository.load_group("g")).sequence == stored
