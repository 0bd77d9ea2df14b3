"""One group at run time over a store that fails: nothing counts that was not written, and it heals by itself."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import pytest

from coordinator_api.clock import ServiceClock
from coordinator_api.group import events
from coordinator_api.group.image import RebalanceCause
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import AssignmentReady, Declared, JoinAnswered, Rejected, Response
from coordinator_api.group.states import GroupState, RebalanceReason, RejectionCode
from coordinator_api.lease.owned_groups import GroupLease
from coordinator_api.runtime import group_runtime
from coordinator_api.runtime.definitions import read_definition
from coordinator_api.runtime.durable_group import GroupEnvironment, RecordingFor
from coordinator_api.runtime.event_queue import EventQueue
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.runtime.rebalance_runner import RebalanceRunner
from coordinator_api.store.repository import Repository, Written
from coordinator_api.store.store_errors import StoreError
from tests.coordinator_api.group_members import definition, subscription
from tests.coordinator_api.rebalance_workers import rebalance_resources, rebalance_workers
from tests.coordinator_api.store.databases import open_engine, upgraded
from tests.known import known

Value = TypeVar("Value")
NO_DELAY = GroupLimits(initial_rebalance_delay_ms=0)
PROCESS_ID = "9638c027-9105-4c73-b9ed-d0bfcb47a168"


class Failure(StrEnum):
    BEFORE = "before the write"
    AFTER = "after the write"


class FailingRepository(Repository):
    """The real one, whose next appends fail as often as told, before or after they were written."""

    failure = Failure.BEFORE
    times = 0
    fails_on = ""

    async def append(
        self, group_id: str, expected: int, records: Sequence[str], *recorded: Any, **owned: Any
    ) -> Written:
        fails = self.times > 0 and any(self.fails_on in record for record in records)
        self.times -= fails
        if fails and self.failure is Failure.BEFORE:
            raise StoreError("told to fail before the write")
        last = await super().append(group_id, expected, records, *recorded, **owned)
        if fails:
            raise StoreError("told to fail after the write")
        return last


@asynccontextmanager
async def opened(
    directory: Path,
    repository_type: type[FailingRepository] = FailingRepository,
    clock: ServiceClock | None = None,
    limits: GroupLimits = NO_DELAY,
    lease: GroupLease | None = None,
) -> AsyncIterator[tuple[GroupRuntime, FailingRepository]]:
    """The group of the store in `directory`, as a service finds it that has just started."""
    async with open_engine(directory) as engine:
        await upgraded(engine)
        repository = repository_type(engine, 10)
        async with rebalance_workers() as workers:
            environment = GroupEnvironment(repository, clock or ServiceClock(), limits, 2_048)
            resources = rebalance_resources(workers)
            runtime = GroupRuntime(await repository.load_group("g"), environment, resources, lease)
            try:
                yield runtime, repository
            finally:
                await runtime.close()


async def declare(runtime: GroupRuntime) -> None:
    assert isinstance(await runtime.handle(events.DeclareGroup(read_definition(definition(), "g", 1_000))), Declared)


def join() -> events.Join:
    return events.Join(subscription(PROCESS_ID), 10_000, 10_000, new_member_id="m1")


async def hang_up_never() -> None:
    await asyncio.Event().wait()


async def fetch(runtime: GroupRuntime, generation_id: int) -> AssignmentReady:
    fetched = await runtime.wait_for_assignment(events.FetchAssignment("m1", generation_id), 30, hang_up_never)
    assert isinstance(fetched, AssignmentReady), fetched
    return fetched


@pytest.mark.parametrize("failure", list(Failure))
async def test_should_not_take_a_join_as_done_that_could_not_be_stored(tmp_path: Path, failure: Failure) -> None:
    async with opened(tmp_path) as (runtime, repository):
        await declare(runtime)
        repository.failure, repository.times = failure, 1
        with pytest.raises(StoreError, match=f"told to fail {failure}"):
            await runtime.handle(join())
        beat = await runtime.respond(events.Heartbeat("m1", 0))
        log = await repository.load_group("g")

    kinds = [json.loads(line)["type"] for line in log.records]
    if failure is Failure.BEFORE:
        assert kinds == ["DefinitionChanged"]
        assert isinstance(beat, Rejected)
        assert beat.code is RejectionCode.UNKNOWN_MEMBER_ID
    else:
        # the caller was told that it failed, and the group still is what its records say
        assert {"MemberSubscribed", "MemberRestored"} & set(kinds)
        assert not isinstance(beat, Rejected)


@pytest.mark.parametrize("failure", list(Failure))
async def test_should_compute_a_rebalance_again_that_could_not_be_stored(tmp_path: Path, failure: Failure) -> None:
    async with opened(tmp_path) as (runtime, repository):
        await declare(runtime)
        joined = await runtime.handle(join())
        assert isinstance(joined, JoinAnswered)
        repository.fails_on = "RebalanceCompleted"
        repository.failure, repository.times = failure, 1
        ready = await fetch(runtime, joined.generation_id)

        assert ready.generation_id == 1
        assert len(await repository.list_rebalances("g", None, 10)) == 1


async def test_should_be_the_same_group_when_replayed_from_a_compacted_log(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, repository):
        await declare(runtime)
        await runtime.handle(join())
        for generation_id in range(1, 12):
            await fetch(runtime, generation_id)
            sums = {**dict.fromkeys(("0_0", "0_1"), -2), "0_2": generation_id}
            raw = subscription(PROCESS_ID, sums, (0, 1), generation_id)
            rejoined = await runtime.handle(events.Join(raw, 10_000, 10_000, "unused", member_id="m1"))
            assert rejoined == JoinAnswered("m1", generation_id + 1, GroupState.COMPLETING_REBALANCE, created=False)
        await fetch(runtime, 12)
        image, log = runtime.group.image, await repository.load_group("g")

    async with opened(tmp_path) as (replayed, _):
        assert replayed.group.image == image
    assert len(log.records) < 20


class LateAnswers(EventQueue):
    """A tick hears that it is over only when the timer that it has set is due: many others were answered before it."""

    def put(
        self, event: events.Event, recording_for: RecordingFor | None = None, tenant: str = ""
    ) -> asyncio.Future[Response]:
        return asyncio.ensure_future(self._late(event, super().put(event, recording_for, tenant)))

    async def _late(self, event: events.Event, answer: asyncio.Future[Response]) -> Response:
        response = await answer
        if isinstance(event, events.Tick) and self.runtime.image.state is GroupState.PREPARING_REBALANCE:
            while self.runtime._timer.is_set:  # noqa: ASYNC110 (that it is due is told to nobody but the group)
                await asyncio.sleep(0)
        return response

    runtime: GroupRuntime


async def test_should_keep_a_time_that_comes_during_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tick makes the initial delay longer, and then nothing but time ends it."""
    monkeypatch.setattr(group_runtime, "EventQueue", LateAnswers)
    async with opened(tmp_path, limits=GroupLimits(initial_rebalance_delay_ms=20)) as (runtime, _):
        monkeypatch.setattr(LateAnswers, "runtime", runtime, raising=False)
        await declare(runtime)
        await asyncio.gather(*(runtime.handle(replace(join(), new_member_id=each)) for each in ("m1", "m2")))

        assert (await fetch(runtime, 1)).generation_id == 1


class LaterClock(ServiceClock):
    """Two minutes ahead, as if the service had been down for so long."""

    def now_ms(self) -> int:
        return super().now_ms() + 120_000


async def test_should_probe_at_once_when_it_became_due_while_the_service_was_down(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, _):
        await declare(runtime)
        await runtime.handle(join())
        await fetch(runtime, 1)
        newcomer = subscription("00000000-0000-4000-8000-000000000001")
        await runtime.handle(events.Join(newcomer, 10_000, 10_000, new_member_id="m2"))
        sums = dict.fromkeys(("0_0", "0_1", "0_2", "0_3"), -2)
        await runtime.handle(
            events.Join(subscription(PROCESS_ID, sums, (0, 1, 2, 3), 1), 10_000, 10_000, "unused", member_id="m1")
        )
        await fetch(runtime, 2)
        assert known(runtime.image.present_end).probing_rebalance_at_ms is not None

    async with opened(tmp_path, clock=LaterClock()) as (runtime, _):
        await runtime.handle(events.Recovered())
        # held until the timer starts the rebalance, which m1 then has to rejoin for
        told = await runtime.wait_for_assignment(events.FetchAssignment("m1", 3), 30, hang_up_never)
        assert isinstance(told, Rejected)
        assert told.code is RejectionCode.REBALANCE_IN_PROGRESS
        assert runtime.group.image.cause == RebalanceCause(RebalanceReason.PROBING_REBALANCE)


async def test_should_not_know_a_group_whose_deletion_was_written_though_it_failed(tmp_path: Path) -> None:
    class FailingDelete(FailingRepository):
        async def delete(self, group_id: str, expected: int, *, epoch: int) -> None:
            await super().delete(group_id, expected, epoch=epoch)
            raise StoreError("told to fail after the write")

    async with opened(tmp_path, FailingDelete) as (runtime, _):
        await declare(runtime)
        with pytest.raises(StoreError):
            await runtime.handle(events.DeleteGroup())
        await runtime.handle(events.Tick())
        assert not runtime.is_declared


async def test_should_finish_a_commit_whose_caller_hung_up(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, _):
        await declare(runtime)
        caller = asyncio.ensure_future(runtime.handle(join()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        await runtime.handle(events.Tick())  # waits its turn behind the join
        beat = await runtime.respond(events.Heartbeat("m1", 0))

    assert not isinstance(beat, Rejected)


async def test_should_write_no_rebalance_after_its_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computing, closed = asyncio.Event(), asyncio.Event()
    compute = RebalanceRunner.run

    async def compute_until_closed(*arguments: object) -> object:
        computed = await compute(*arguments)  # type: ignore[arg-type]
        computing.set()
        await closed.wait()
        return computed

    monkeypatch.setattr(RebalanceRunner, "run", compute_until_closed)
    async with opened(tmp_path) as (runtime, repository):
        await declare(runtime)
        await runtime.handle(join())
        await computing.wait()
        await runtime.close()
        closed.set()
        for _ in range(100):
            await asyncio.sleep(0)

        assert not runtime.is_polling_its_cluster(), "the rebalance has ended"
        kinds = [json.loads(line)["type"] for line in (await repository.load_group("g")).records]

    assert "RebalanceCompleted" not in kinds


async def test_should_keep_nothing_of_rebalances_that_are_over(tmp_path: Path) -> None:
    async def rebalances(generation_ids: range) -> None:
        for generation_id in generation_ids:
            await fetch(runtime, generation_id)
            raw = subscription(PROCESS_ID, {"0_2": generation_id}, (0, 1), generation_id)
            await runtime.handle(events.Join(raw, 600_000, 600_000, "unused", member_id="m1"))

    def living() -> int:
        gc.collect()
        return sum(str(type(one).__module__).startswith(("assignor", "coordinator_api")) for one in gc.get_objects())

    async with opened(tmp_path) as (runtime, _):
        await declare(runtime)
        await runtime.handle(join())
        await rebalances(range(1, 16))
        before = living()
        await rebalances(range(16, 41))

        assert living() - before < 20, "25 rebalances later"
