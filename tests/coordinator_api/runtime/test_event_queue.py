"""Many events, one commit: what is shared, what is shown meanwhile, what fails together and what fails alone."""

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from coordinator_api.group import events
from coordinator_api.group.group import Group
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import Accepted, HeartbeatAnswered, JoinAnswered, Rejected, Response
from coordinator_api.group.records import CoordinatorRecord, IllegalTransition, MemberSubscribed
from coordinator_api.group.snapshot import snapshot_records
from coordinator_api.group.states import RejectionCode
from coordinator_api.runtime import durable_group
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.runtime.held_requests import HeldRequests
from coordinator_api.store.repository import Written
from coordinator_api.store.store_errors import StoreError
from tests.coordinator_api.group_members import subscription
from tests.coordinator_api.runtime.test_group_runtime import FailingRepository, declare, opened
from tests.known import known

Value = TypeVar("Value")
LONG_DELAY = GroupLimits(initial_rebalance_delay_ms=600_000)
"""All joins are for the first rebalance, which does not begin during the test."""


class SlowRepository(FailingRepository):
    """`open`: commits wait for it. `commits`: the number of records in each."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.open = asyncio.Event()
        self.open.set()
        self.begun = asyncio.Event()
        self.commits: list[int] = []

    async def append(
        self, group_id: str, expected: int, records: Sequence[str], *recorded: Any, **owned: Any
    ) -> Written:
        self.begun.set()
        await self.open.wait()
        self.commits.append(len(records))
        return await super().append(group_id, expected, records, *recorded, **owned)


@asynccontextmanager
async def slow_group(
    directory: Path, limits: GroupLimits = LONG_DELAY
) -> AsyncIterator[tuple[GroupRuntime, SlowRepository]]:
    async with opened(directory, SlowRepository, limits=limits) as (runtime, repository):
        assert isinstance(repository, SlowRepository)
        await declare(runtime)
        repository.commits.clear()
        repository.begun.clear()
        yield runtime, repository
        repository.open.set()


def join(number: int, **changes: object) -> events.Join:
    raw = subscription(str(uuid.UUID(int=number + 1)))
    return events.Join(raw, 600_000, 600_000, new_member_id=f"m{number}", **changes)  # type: ignore[arg-type]


def asked(runtime: GroupRuntime, event: events.Event) -> asyncio.Task[Response]:
    return asyncio.ensure_future(runtime.handle(event))


async def until_commits_wait(repository: SlowRepository, runtime: GroupRuntime) -> asyncio.Task[Response]:
    """Some member's join has been taken, and its commit does not come to an end."""
    repository.open.clear()
    somebody = asked(runtime, join(1_000))
    await repository.begun.wait()
    return somebody


async def test_should_answer_a_heartbeat_while_the_commit_of_somebody_else_takes_its_time(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, repository):
        await runtime.handle(join(0))
        somebody = await until_commits_wait(repository, runtime)

        beat = await asyncio.wait_for(runtime.respond(events.Heartbeat("m0", 0)), 30)
        pending = await asyncio.wait_for(runtime.respond(events.FetchAssignment("m0", 1)), 30)

        assert isinstance(beat, HeartbeatAnswered)
        assert not isinstance(pending, Rejected)
        assert not somebody.done()


async def test_should_commit_together_what_waits_together(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, repository):
        somebody = await until_commits_wait(repository, runtime)
        others = [asked(runtime, join(number)) for number in range(200)]
        await asyncio.sleep(0)
        repository.open.set()
        answers = await asyncio.gather(somebody, *others)

        assert all(isinstance(answer, JoinAnswered) for answer in answers)
        assert len(repository.commits) == 2
        assert len(runtime.image.members) == 201
        stored = "".join((await repository.load_group("g")).records)
        assert [number for number in range(200) if f'"m{number}"' not in stored] == []


async def test_should_not_show_what_is_not_committed(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, repository):
        somebody = await until_commits_wait(repository, runtime)
        assert "m1000" in runtime.group.image.members, "it has been taken in memory"

        beat = await runtime.respond(events.Heartbeat("m1000", 0))
        described = await runtime.describe()

        assert isinstance(beat, Rejected)
        assert beat.code is RejectionCode.UNKNOWN_MEMBER_ID
        assert (described.members, len(described.image.members), len(runtime.image.members)) == ((), 0, 0)
        repository.open.set()
        await somebody
        assert list(runtime.image.members) == ["m1000"]


async def test_should_answer_nobody_of_a_batch_that_could_not_be_stored(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, repository):
        somebody = await until_commits_wait(repository, runtime)
        others = [asked(runtime, join(number)) for number in range(20)]
        await asyncio.sleep(0)
        repository.times, repository.fails_on = 1, '"m7"'
        repository.open.set()
        assert isinstance(await somebody, JoinAnswered)
        answers = await asyncio.gather(*others, return_exceptions=True)

        assert [type(answer) for answer in answers] == [StoreError] * 20
        assert len({id(answer) for answer in answers}) == 20, "an error that many raise gathers the traces of all"
        again = await asyncio.gather(*(runtime.handle(join(number)) for number in range(20)))
        assert all(isinstance(answer, JoinAnswered) and answer.created for answer in again)
        assert len(runtime.image.members) == 21


@pytest.mark.parametrize("method, commits", [("handle", 1), ("apply", 2)])
async def test_should_let_an_event_of_an_error_fail_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, commits: int
) -> None:
    """When it is applied in part, the group is read again, and nothing of it stays."""
    right = getattr(Group, method)

    def fails_on_m3(self: Group, taken: Any, now_ms: int) -> Any:
        done = right(self, taken, now_ms)
        records = done.records if method == "handle" else taken
        if any(isinstance(record, MemberSubscribed) and record.member_id == "m3" for record in records):
            raise IllegalTransition("told to fail")
        return done

    monkeypatch.setattr(Group, method, fails_on_m3)
    async with slow_group(tmp_path) as (runtime, repository):
        answers = await asyncio.gather(*(runtime.handle(join(number)) for number in range(6)), return_exceptions=True)

        assert [type(answer) for answer in answers] == [JoinAnswered] * 3 + [IllegalTransition] + [JoinAnswered] * 2
        assert len(repository.commits) == commits
        assert list(runtime.image.members) == ["m0", "m1", "m2", "m4", "m5"]
        assert "m3" not in " ".join((await repository.load_group("g")).records)


async def test_should_note_at_its_arrival_that_a_member_rejoins(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, repository):
        await runtime.handle(join(0))
        (before,) = runtime.group.describe(runtime.image).members
        await until_commits_wait(repository, runtime)
        await asyncio.sleep(0.005)
        asked(runtime, join(0, member_id="m0"))
        await asyncio.sleep(0)

        (after,) = runtime.group.describe(runtime.image).members
        assert known(after.last_heard_ms) > known(before.last_heard_ms)


async def test_should_describe_a_member_in_full_until_its_leave_is_committed(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, repository):
        await runtime.handle(join(0))
        (before,) = (await runtime.describe()).members
        repository.open.clear()
        repository.begun.clear()
        leaving = asked(runtime, events.Leave("m0"))
        await repository.begun.wait()

        assert runtime.group.image.members.get("m0") is None, "it has left, and that is being committed"
        (meanwhile,) = (await runtime.describe()).members
        assert meanwhile.last_heard_ms == before.last_heard_ms
        assert meanwhile == before

        repository.open.set()
        await leaving
        assert (await runtime.describe()).members == ()


async def test_should_delete_a_group_between_the_events_before_and_after(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, repository):
        drained, deleted, later = await asyncio.gather(
            runtime.handle(events.Drain()), runtime.handle(events.DeleteGroup()), runtime.handle(join(1))
        )

        assert (drained, deleted) == (Accepted(), Accepted())
        assert isinstance(later, Rejected)
        assert later.code is RejectionCode.GROUP_ID_NOT_FOUND
        assert not runtime.is_declared
        assert (await repository.load_group("g")).sequence == 0


async def test_should_finish_the_events_that_wait_when_it_is_closed(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, repository):
        somebody = await until_commits_wait(repository, runtime)
        other = asked(runtime, join(1))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(runtime.close())
        repository.open.set()
        await closing

        assert isinstance(await somebody, JoinAnswered)
        assert isinstance(await other, JoinAnswered)


async def test_should_encode_snapshots_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    def watched(image: GroupImage) -> tuple[CoordinatorRecord, ...]:
        threads.add(threading.get_ident())
        return snapshot_records(image)

    monkeypatch.setattr(durable_group, "snapshot_records", watched)
    async with slow_group(tmp_path) as (runtime, repository):
        await asyncio.gather(*(runtime.handle(join(number)) for number in range(50)))
        await runtime.close()
        kinds = [json.loads(line)["type"] for line in (await repository.load_group("g")).records]

    assert kinds.count("MemberRestored") == 50
    assert threads
    assert threading.get_ident() not in threads


async def test_should_log_one_line_for_many_members_that_change_together(tmp_path: Path) -> None:
    async with slow_group(tmp_path) as (runtime, _):
        with capture_logs() as few:
            await runtime.handle(join(0))
        with capture_logs() as many:
            await asyncio.gather(*(runtime.handle(join(number)) for number in range(1, 100)))

    assert [line["member"] for line in few if line["event"] == "member_subscribed"] == ["m0"]
    of_members = [line for line in many if line["log_level"] == "info" and "subscribed" in line["event"]]
    assert [(line["event"], line["members"]) for line in of_members] == [("members_subscribed", 99)]


async def test_should_answer_after_a_commit_though_wake_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with slow_group(tmp_path) as (runtime, _):
        with monkeypatch.context() as failing:
            failing.setattr(HeldRequests, "wake", Mock(side_effect=ValueError("told to fail")))
            assert isinstance(await runtime.handle(join(0)), JoinAnswered)
        assert isinstance(await runtime.handle(join(1)), JoinAnswered)
        assert list(runtime.image.members) == ["m0", "m1"]


async def test_should_go_on_with_its_log_if_a_snapshot_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_group, "snapshot_records", Mock(side_effect=ValueError("told to fail")))
    async with slow_group(tmp_path) as (runtime, repository):
        for number in range(30):
            assert isinstance(await runtime.handle(join(number)), JoinAnswered)
        kinds = [json.loads(line)["type"] for line in (await repository.load_group("g")).records]

    assert kinds.count("MemberSubscribed") == 30
