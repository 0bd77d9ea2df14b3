"""One group at run time: events in, one after the other, each committed before it is answered.

    event -> DurableGroup (handle, commit, apply) -> wake held requests, watch the cluster, start a rebalance,
             set the timer -> answer

A crash at any point loses nothing that was answered: what was not committed was not answered. The group's rules are in
`group/`. This file gives each event its turn and hands what comes of it to those who carry it out:

    durable_group     the group and its records in the store      held_requests    long polls
    rebalance_loop    the rebalances that it asks for             group_timer      the next tick
    cluster_watch     looks at the cluster that its definition names
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from coordinator_api.clusters.standing import ClusterStanding
from coordinator_api.group import events
from coordinator_api.group.description import GroupDescription
from coordinator_api.group.events import Event
from coordinator_api.group.group import Group
from coordinator_api.group.image import GroupImage
from coordinator_api.group.outcome import Outcome, RebalanceReported, Response, RunRebalance
from coordinator_api.group.records import MemberSubscribed
from coordinator_api.group.states import GroupState
from coordinator_api.groups.background_tasks import BackgroundTasks
from coordinator_api.groups.cluster_watch import ClusterWatch
from coordinator_api.groups.definitions import Definition, read_input
from coordinator_api.groups.durable_group import DurableGroup, RecordingFor
from coordinator_api.groups.group_environment import GroupEnvironment
from coordinator_api.groups.group_timer import GroupTimer
from coordinator_api.groups.held_requests import HeldRequests
from coordinator_api.groups.rebalance_loop import RebalanceLoop
from coordinator_api.groups.rebalance_runner import RebalanceRunner
from coordinator_api.store.repository import GroupLog, Recording
from coordinator_api.telemetry import GroupTelemetry

RETRY_AFTER_STORE_ERROR_MS = 1_000


class GroupRuntime:
    """Owns one group. Every change goes through `handle`; on the event loop `group` may be read between events."""

    def __init__(
        self, stored: GroupLog, runner: RebalanceRunner, telemetry: GroupTelemetry, environment: GroupEnvironment
    ) -> None:
        """`stored`: what the store has of the group, sequence 0 and no records for a new one."""
        clock = environment.clock
        self.group_id = stored.group_id
        self.cluster = ClusterStanding(clock.now_ms, telemetry)
        self._clock = clock
        self._runner = runner
        self._telemetry = telemetry
        self._turn = asyncio.Lock()
        self._closed = False
        self._tasks = BackgroundTasks()
        self._durable = DurableGroup(stored, environment, telemetry)
        self._held = HeldRequests(self.handle)
        self._timer = GroupTimer(clock, telemetry, lambda: self._tasks.start(self._tick()))
        self._watch = ClusterWatch(
            runner,
            self.cluster,
            telemetry,
            environment.metadata_max_age_ms,
            lambda topics: self.handle(events.TopicsSeen(topics)),
        )
        self._rebalances = RebalanceLoop(
            runner,
            self.cluster,
            telemetry,
            environment,
            self._tasks,
            self._watch.retry_ms,
            self._in_turn,
            self._waits_for,
        )

    @property
    def group(self) -> Group:
        return self._durable.group

    @property
    def is_declared(self) -> bool:
        """Whether the group exists, as far as is known: it has a definition and was not deleted."""
        image = self.group.image
        return image.input_json is not None and image.state is not GroupState.DEAD

    async def handle(self, event: Event, recording: Recording | None = None) -> Response:
        """Raises StoreError when the records could not be committed: the caller must not take the event as done.

        `recording`: of a `ReportRebalance`, stored with it when it is new.
        """
        recording_for = None if recording is None else _if_new(recording)
        # shielded: a caller that hangs up in the middle must not leave a commit without its apply
        return await asyncio.shield(self._tasks.start(self._in_turn(event, recording_for)))

    async def wait_for_assignment(
        self, fetch: events.FetchAssignment, wait_s: float, gone: Callable[[], Awaitable[object]]
    ) -> Response:
        """Answer `fetch`, held up to `wait_s` seconds while the assignment is pending, or until `gone()` returns."""
        return await self._held.answer(fetch, wait_s, gone)

    async def describe(self) -> tuple[GroupDescription, GroupImage]:
        """The group between two events, and the state that was described. In a thread: a large group takes time."""
        async with self._turn:
            return await asyncio.to_thread(lambda: (self.group.describe(), self.group.image))

    async def definition(self, image: GroupImage) -> Definition:
        """Of the state that was described."""
        assert image.input_json is not None, "only declared groups are described"
        # what a group that is led elsewhere works with changes from report to report, under one revision
        return await (
            self._runner.definition(image.revision, image.input_json)
            if image.led_by is None
            else asyncio.to_thread(read_input, image.input_json)
        )

    def is_looking_at_its_cluster(self) -> bool:
        """Whether the watch or a rebalance will notice when a cluster that is out of reach answers again."""
        return self._watch.is_looking or self._rebalances.is_running

    def release(self) -> None:
        """Hold no requests any longer: those that wait are answered as the group stands now."""
        self._held.release()

    async def close(self) -> None:
        """Stop timers, looks and rebalances. Events in progress come to their end."""
        self._closed = True
        self._held.release()
        self._timer.stop()
        self._watch.stop()
        self._rebalances.stop()
        async with self._turn:
            pass

    async def _in_turn(self, event: Event, recording_for: RecordingFor | None = None) -> Response:
        async with self._turn:
            try:
                if self._durable.is_uncertain:
                    await self._durable.reload()
                    self._held.wake()
                    await self._process(events.Recovered(), None)
                return await self._process(event, recording_for)
            finally:
                if self._durable.is_uncertain:
                    self._timer.set(self._clock.now_ms() + RETRY_AFTER_STORE_ERROR_MS)

    async def _process(self, event: Event, recording_for: RecordingFor | None) -> Response:
        outcome = await self._durable.handle(event, recording_for)
        if outcome.records:
            self._telemetry.committed(outcome.records, self.group.image)
            # a member that subscribes changes no answer to another member's held request
            if any(not isinstance(record, MemberSubscribed) for record in outcome.records):
                self._held.wake()
        self._telemetry.answered(outcome.response)
        if not self._closed:
            self._carry_out(outcome)
            await self._durable.compact_if_long()
        return outcome.response

    def _carry_out(self, outcome: Outcome) -> None:
        self._watch.follow(self.group.image)
        for effect in outcome.effects:
            self._rebalances.start(effect)
        self._timer.set(outcome.next_timer_ms)

    def _waits_for(self, effect: RunRebalance) -> bool:
        image = self.group.image
        return image.state is GroupState.COMPLETING_REBALANCE and image.generation_id == effect.generation_id

    async def _tick(self) -> None:
        try:
            await self._in_turn(events.Tick())
        except Exception as error:  # whatever it was: time must not stop for the group
            self._telemetry.tick_failed(error)
            self._durable.distrust()
            self._timer.set(self._clock.now_ms() + RETRY_AFTER_STORE_ERROR_MS)


def _if_new(recording: Recording) -> RecordingFor:
    """The recording of a reported rebalance, unless the group knows that rebalance already."""
    return lambda response: recording if isinstance(response, RebalanceReported) and response.created else None
