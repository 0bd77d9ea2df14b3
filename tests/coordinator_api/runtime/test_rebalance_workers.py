"""Rebalances in worker processes: what comes back can be stored, a dead worker fails its rebalance, a void one ends."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from assignor.pipeline.snapshot import Member
from assignor.recording import parse_recorded_rebalance
from coordinator_api.clock import ServiceClock
from coordinator_api.group.events import AssignmentComputed, ComputedAssignments
from coordinator_api.group.image import unpacked_assignments
from coordinator_api.group.outcome import AssignmentDiscarded, AssignmentStored, RunRebalance
from coordinator_api.group.states import RebalanceOutcome
from coordinator_api.metrics import Metrics
from coordinator_api.runtime.allowed_assignors import AllowedAssignors
from coordinator_api.runtime.clusters import ClusterStanding
from coordinator_api.runtime.definitions import read_definition
from coordinator_api.runtime.durable_group import RecordingFor
from coordinator_api.runtime.rebalance_loop import RebalanceLoop
from coordinator_api.runtime.rebalance_runner import RebalanceRunner
from coordinator_api.runtime.telemetry import GroupTelemetry
from coordinator_api.store.recorded_documents import expanded
from coordinator_api.store.repository import Recording
from coordinator_api.workers.worker_pool import WorkerPool
from rebalance_analysis.compare import compare_rebalance
from rebalance_analysis.rerun import RerunRebalance, run_recorded
from tests.coordinator_api import held_assignor
from tests.coordinator_api.group_members import definition, subscription
from tests.coordinator_api.rebalance_workers import rebalance_resources, rebalance_workers
from tests.known import known

FIRST, SECOND = "9638c027-9105-4c73-b9ed-d0bfcb47a168", "0638c027-9105-4c73-b9ed-d0bfcb47a168"
MEMBERS = {"m1": Member(subscription(FIRST), "c", "i"), "m2": Member(subscription(SECOND))}
BUILT_IN = "HighAvailabilityTaskAssignor"
DYING = held_assignor.DyingAssignor.name
BROKEN = held_assignor.BrokenAssignor.name


def asked(generation_id: int = 1, assignor: str = BUILT_IN, revision: int = 1) -> RunRebalance:
    input_json = read_definition(definition(assignor=assignor), "g", 1_000)
    return RunRebalance(generation_id, revision, input_json, MEMBERS, "member joined")


def runner_on(workers: WorkerPool, own_assignor_limit_ms: int = 60_000) -> RebalanceRunner:
    allowed = AllowedAssignors((held_assignor.CLASS_PATH, DYING, BROKEN))
    return RebalanceRunner("g", rebalance_resources(workers, allowed, None, own_assignor_limit_ms))


async def test_what_comes_back_can_be_stored_as_it_is_and_runs_again_with_the_same_result() -> None:
    async with rebalance_workers() as workers:
        computed = await runner_on(workers).run(asked())

    event = computed.event
    assert isinstance(event, AssignmentComputed)
    assert unpacked_assignments(event.rebalance.packed) == event.rebalance.assignments
    assert event.rebalance.assignments.keys() == MEMBERS.keys()
    recording = known(computed.recording(AssignmentStored(1, RebalanceOutcome.STABLE), None))
    summary = json.loads(recording.summary)
    assert (summary["outcome"], summary["members"], summary["reason"]) == ("stable", 2, "member joined")
    recorded = parse_recorded_rebalance(json.loads(b"".join(expanded(recording.document))))
    assert recorded.note == "member joined"
    assert known(recorded.output).assignments == event.rebalance.assignments
    assert recorded.snapshot.members == MEMBERS
    again = run_recorded(recorded)
    assert isinstance(again, RerunRebalance)
    assert compare_rebalance(again.result, known(recorded.output)).equal


async def test_a_worker_that_does_not_know_the_definition_is_sent_it_again() -> None:
    async with rebalance_workers() as workers:
        runner = runner_on(workers)
        before = await runner.run(asked())
        os.kill(await workers.run(os.getpid), signal.SIGKILL)
        after = await runner.run(asked(generation_id=2))

    assert isinstance(before.event, AssignmentComputed)
    assert after.event.rebalance.error is None
    assert after.event.rebalance.assignments == before.event.rebalance.assignments


async def test_another_definition_is_used_though_its_number_is_the_same() -> None:
    async with rebalance_workers() as workers:
        runner = runner_on(workers)
        await runner.run(asked())
        computed = await runner.run(asked(assignor=BROKEN))

    assert computed.event.rebalance.error is not None


@pytest.mark.parametrize("assignor, error", [(DYING, "WorkerDied: .*SIGKILL"), (BROKEN, "RuntimeError: no idea")])
async def test_an_assignor_that_ends_its_process_fails_the_rebalance_like_an_error(assignor: str, error: str) -> None:
    async with rebalance_workers() as workers:
        runner = runner_on(workers)
        failed = await runner.run(asked(assignor=assignor))
        after = await runner.run(asked(generation_id=2))

    with pytest.raises(RuntimeError, match=error):
        raise RuntimeError(failed.event.rebalance.error)
    recording = known(failed.recording(AssignmentStored(1, RebalanceOutcome.ERROR), None))
    assert json.loads(recording.summary)["error"] == failed.event.rebalance.error
    document = json.loads(b"".join(expanded(recording.document)))
    assert document["output"]["error"] == failed.event.rebalance.error
    assert document["output"]["assignments"] == {}
    assert document["input"]["members"].keys() == MEMBERS.keys()
    assert after.event.rebalance.error is None


class Handed:
    """The group's side of the loop: what it was given, and what it would store."""

    def __init__(self) -> None:
        self.events: list[AssignmentComputed] = []
        self.recordings: list[Recording | None] = []
        self.came = asyncio.Event()

    async def back(self, event: AssignmentComputed, recording_for: RecordingFor | None) -> None:
        self.events.append(event)
        assert recording_for is not None
        assert recording_for(AssignmentDiscarded(event.generation_id)) is None
        self.recordings.append(recording_for(AssignmentStored(event.generation_id, RebalanceOutcome.STABLE)))
        self.came.set()


def loop_on(workers: WorkerPool, handed: Handed) -> RebalanceLoop:
    telemetry = GroupTelemetry("g", Metrics())
    standing = ClusterStanding(ServiceClock().now_ms, telemetry)
    return RebalanceLoop(runner_on(workers), standing, telemetry, 1_000, handed.back, lambda _: True)


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """The held assignor waits while this file exists; it never goes away in these tests."""
    file = tmp_path / "hold"
    file.touch()
    return file


async def test_a_void_rebalance_is_killed_and_the_next_one_runs(hold: Path) -> None:
    handed = Handed()
    async with rebalance_workers() as workers:
        loop = loop_on(workers, handed)
        await _hold_there(workers, hold)
        loop.start(asked(1, held_assignor.CLASS_PATH))
        loop.start(asked(2))
        await handed.came.wait()
        loop.stop()

    assert [event.generation_id for event in handed.events] == [2]
    assert [recording and recording.generation_id for recording in handed.recordings] == [2]


async def test_stopping_gives_up_a_running_rebalance_at_once(hold: Path) -> None:
    handed = Handed()
    async with rebalance_workers() as workers:
        loop = loop_on(workers, handed)
        await _hold_there(workers, hold)
        others = asyncio.all_tasks()
        loop.start(asked(1, held_assignor.CLASS_PATH))
        (rebalance,) = asyncio.all_tasks() - others
        assert not (await asyncio.wait([rebalance], timeout=0.5))[0], "it is held"
        loop.stop()
        async with asyncio.timeout(5):
            await rebalance
        assert not loop.is_running

    assert handed.events == []


async def _hold_there(workers: WorkerPool, hold: Path) -> None:
    """Workers know the environment of the process that their fork server was started from: say it to one of them."""
    await workers.run(held_assignor.hold_while, hold)


async def test_an_own_assignor_that_hangs_fails_its_rebalance_and_leaves_the_worker_to_others(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    async with rebalance_workers() as workers:
        await _hold_there(workers, hold)
        computed = await runner_on(workers, own_assignor_limit_ms=50).run(asked(assignor=held_assignor.CLASS_PATH))
        after = await runner_on(workers, own_assignor_limit_ms=1).run(asked())

    assert computed.event == AssignmentComputed(
        1, ComputedAssignments(error="JobTookTooLong: gave no answer within 50 ms")
    )
    assert after.event.rebalance.error is None  # Kafka's own have no limit
