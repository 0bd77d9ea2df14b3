"""One heartbeat for all members of a process: held until it brings news, and no sign of life while it is held."""

import asyncio
from pathlib import Path

from coordinator_api.group import events
from coordinator_api.group.outcome import JoinAnswered, MemberNews, ProcessHeartbeatAnswered, Rejected, Response
from coordinator_api.runtime.group_runtime import GroupRuntime
from tests.coordinator_api.runtime.test_event_queue import join, slow_group
from tests.coordinator_api.runtime.test_group_runtime import NO_DELAY, fetch, hang_up_never


def beat(generation_id: int, *member_ids: str) -> events.ProcessHeartbeat:
    return events.ProcessHeartbeat({one: events.Heartbeat(one, generation_id) for one in member_ids}, 7)


async def heard(
    runtime: GroupRuntime, event: events.ProcessHeartbeat, known: str | None = None, wait_s: float = 600
) -> ProcessHeartbeatAnswered:
    answered = await runtime.process_heartbeat(event, known, wait_s, hang_up_never)
    assert isinstance(answered, ProcessHeartbeatAnswered), answered
    return answered


async def held_until(runtime: GroupRuntime, event: events.ProcessHeartbeat, known: str) -> asyncio.Task[Response]:
    task = asyncio.ensure_future(runtime.process_heartbeat(event, known, 600, hang_up_never))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_should_tell_a_process_of_a_rebalance_when_it_starts(tmp_path: Path) -> None:
    async with slow_group(tmp_path, NO_DELAY) as (runtime, _):
        joined = await runtime.handle(join(1))
        assert isinstance(joined, JoinAnswered)
        await fetch(runtime, joined.generation_id)
        first = await heard(runtime, beat(1, "m1"))
        assert first.members["m1"] == MemberNews(rejoin=False, stop=False, assignment_generation=1)

        task = await held_until(runtime, beat(1, "m1"), first.news)
        await runtime.handle(join(2))
        told = await task

    assert isinstance(told, ProcessHeartbeatAnswered)
    assert told.members["m1"] == MemberNews(rejoin=True, stop=False, assignment_generation=1)
    assert told.news != first.news


async def test_should_answer_at_once_when_the_news_are_not_known(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, _):
        await runtime.handle(join(1))
        told = await asyncio.wait_for(heard(runtime, beat(0, "m1", "stranger"), known="something else"), 30)

    assert isinstance(told.members["stranger"], Rejected)
    assert isinstance(told.members["m1"], MemberNews)


async def test_should_answer_the_known_news_when_time_is_up(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, _):
        await runtime.handle(join(1))
        first = await heard(runtime, beat(0, "m1"))

        assert (await heard(runtime, beat(0, "m1"), first.news, wait_s=0.01)).news == first.news
        assert (await heard(runtime, beat(0, "m1"), first.news, wait_s=0)).news == first.news


async def test_should_not_wake_a_process_because_its_members_have_subscribed(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, _):
        await runtime.handle(join(1))
        first = await heard(runtime, beat(0, "m1"))
        task = await held_until(runtime, beat(0, "m1"), first.news)
        await runtime.handle(join(2))
        for _ in range(20):
            await asyncio.sleep(0)

        assert not task.done()
        runtime.release()
        assert await task == first
