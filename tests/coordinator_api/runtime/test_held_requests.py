"""Held requests: woken in waves, answered only with news, let go when time is up or the caller is gone."""

import asyncio
import itertools

import pytest

from coordinator_api.group.events import FetchAssignment, ProcessHeartbeat
from coordinator_api.group.outcome import Accepted, AssignmentPending, Response
from coordinator_api.runtime.held_requests import WAVE_BYTES, WAVE_MEMBERS, HeldRequests, Recheck

RECHECK = FetchAssignment("m", 1, is_recheck=True)


class Answers:
    """What the group answers: `news` for everybody, and whether it has been asked."""

    def __init__(self) -> None:
        self.news = False
        self.error: Exception | None = None
        self.asked = asyncio.Event()

    def __call__(self, _recheck: Recheck) -> Response:
        self.asked.set()
        if self.error is not None:
            raise self.error
        return Accepted() if self.news else AssignmentPending()


class Group:
    def __init__(self) -> None:
        self.answers = Answers()
        self.held = HeldRequests(self.answers, lambda _: self.weight)
        self.weight = 0
        self.answered = 0

    async def hold(self, members: int = 1, wait_s: float = 600, gone: asyncio.Event | None = None) -> Response:
        hang_up = gone or asyncio.Event()
        recheck = RECHECK if members == 1 else ProcessHeartbeat({}, is_recheck=True)
        response = await self.held.hold(
            recheck, lambda answer: isinstance(answer, AssignmentPending), members, wait_s, hang_up.wait
        )
        self.answered += 1
        return response

    async def holding(self, number: int, members: int = 1) -> list[asyncio.Task[Response]]:
        tasks = [asyncio.ensure_future(self.hold(members)) for _ in range(number)]
        await asyncio.sleep(0)
        return tasks

    async def waves(self, number: int, members: int = 1) -> list[int]:
        """How many are answered in each step of the loop, once there is news."""
        tasks = await self.holding(number, members)
        self.answers.news = True
        self.held.wake()
        seen = [0]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            seen.append(self.answered)
        return [after - before for before, after in itertools.pairwise(seen) if after > before]


@pytest.mark.parametrize("members", [1, 10, 1_000])
async def test_should_answer_for_a_bounded_number_of_members_in_one_wave(members: int) -> None:
    group = Group()
    number = 400 if members == 1 else 60

    steps = await group.waves(number, members)

    most = -(-WAVE_MEMBERS // members)
    assert max(steps) <= most
    assert len(steps) >= number // most


async def test_should_end_a_wave_after_so_many_bytes_of_assignments() -> None:
    group = Group()
    group.weight = WAVE_BYTES // 4

    assert await group.waves(12) == [4, 4, 4]


async def test_should_keep_holding_when_a_change_brings_nothing_new() -> None:
    group = Group()
    (task,) = await group.holding(1)
    for _ in range(3):
        group.answers.asked.clear()
        group.held.wake()
        await group.answers.asked.wait()

    assert not task.done()
    group.answers.news = True
    group.held.wake()
    assert await task == Accepted()


async def test_should_not_miss_a_change_just_before_it_is_held() -> None:
    group = Group()
    group.answers.news = True

    assert await group.hold() == Accepted()


async def test_should_let_go_when_time_is_up_or_the_caller_is_gone() -> None:
    group = Group()
    gone = asyncio.Event()
    left = asyncio.ensure_future(group.hold(gone=gone))
    await asyncio.sleep(0)
    gone.set()

    assert await left == AssignmentPending()
    assert await group.hold(wait_s=0.01) == AssignmentPending()


async def test_should_tell_the_news_that_came_by_when_time_is_up() -> None:
    group = Group()
    waiting = asyncio.ensure_future(group.hold(wait_s=0.01))
    await asyncio.sleep(0)
    group.answers.news = True  # and nobody wakes it

    assert await waiting == Accepted()


async def test_should_release_all_at_once_and_hold_nobody_any_more() -> None:
    group = Group()
    tasks = await group.holding(1_000)
    group.held.release()
    for _ in range(3):
        await asyncio.sleep(0)

    assert all(task.done() for task in tasks)
    assert await group.hold() == AssignmentPending()


async def test_should_hand_an_error_to_the_request_that_it_befell() -> None:
    group = Group()
    tasks = await group.holding(2)
    group.answers.error = ValueError("told to fail")
    group.held.wake()

    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["told to fail"] * 2


async def test_should_keep_nothing_of_requests_that_are_over() -> None:
    group = Group()
    tasks = await group.holding(10)
    cancelled, *others = tasks
    cancelled.cancel()
    group.answers.news = True
    group.held.wake()
    await asyncio.gather(*others)

    assert not group.held._held
    assert not group.held._due
