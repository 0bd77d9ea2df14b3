"""Runs one group: receives events, commits the waiting events together, and answers each event.

- An event goes into the `EventQueue`. The `DurableGroup` applies each event, and makes ONE commit. After the commit,
  the group wakes held requests, watches the cluster, starts a rebalance, sets the timer, and answers the event.
- A heartbeat or a fetch is answered from the committed state, without the queue and without a commit.

An event is answered only after its commit, so a crash at any point loses no answered event. Before an answer from
memory, the group checks that the lease of this process is still valid (`lease`). The group's rules are in `group/`.
This file passes heartbeats and fetches to the group's rules as soon as they arrive. The file passes the outcome of an
event to these modules:

- `event_queue`: the waiting events, and their common commits.
- `held_requests`: the long polls and the held heartbeats.
- `durable_group`: the group and its records in the store.
- `telemetry`: the lines in the service's log file, and the values in /metrics.
- `rebalance_loop`: the rebalances of the group.
- `cluster_watch`: the repeated polls for changed topics and for warm-ups.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from assignor.errors import AssignorFault
from assignor.pipeline.snapshot import RebalanceSnapshot
from coordinator_api.clock import GroupTimer
from coordinator_api.group import events
from coordinator_api.group.description import GroupDescription
from coordinator_api.group.events import Event, HeartbeatOrFetch
from coordinator_api.group.group import Group
from coordinator_api.group.health import GroupObservation, ObservedCluster, ObservedStore, ObservedWarmUp
from coordinator_api.group.health_rules import health_of
from coordinator_api.group.image import GroupImage
from coordinator_api.group.notices import GroupNotices, ProcessNotice, ReceivedNotice
from coordinator_api.group.outcome import (
    AssignmentPending,
    AssignmentReady,
    HeartbeatAnswered,
    MemberNews,
    ProcessHeartbeatAnswered,
    RebalanceReported,
    Rejected,
    Response,
    RunRebalance,
)
from coordinator_api.group.rebalancing import rebalance_to_run
from coordinator_api.group.records import CoordinatorRecord, GenerationStarted, MemberSubscribed
from coordinator_api.group.states import GroupState
from coordinator_api.group.subscriptions import process_of
from coordinator_api.lease.owned_groups import GroupLease
from coordinator_api.metrics import GroupMeasures
from coordinator_api.runtime.cluster_watch import ClusterWatch, WarmUpWatch
from coordinator_api.runtime.clusters import ClusterStanding
from coordinator_api.runtime.definitions import Definition
from coordinator_api.runtime.durable_group import DurableGroup, GroupEnvironment, RecordingFor
from coordinator_api.runtime.event_queue import EventQueue, TakenEvents
from coordinator_api.runtime.group_callers import GroupCallers
from coordinator_api.runtime.held_requests import CallerGone, HeldHeartbeats, HeldRequests
from coordinator_api.runtime.rebalance_loop import RebalanceLoop
from coordinator_api.runtime.rebalance_runner import RebalanceResources, RebalanceRunner
from coordinator_api.runtime.telemetry import GroupStanding, GroupTelemetry
from coordinator_api.store.repository import GroupLog, Recording
from coordinator_api.store.store_errors import LeaseEnded, NotOwner, StoreError

RETRY_AFTER_STORE_ERROR_MS = 1_000

LONGEST_WAIT_FOR_OWN_TICK_S = 0.1
"""If a heartbeat causes a change, the answer waits at most this time for the commit of the change."""

LONGEST_WAIT_FOR_STORE_S = 0.5
"""A heartbeat waits for at most this time until its group is read again. The group is read again after a write with an
unknown result.
"""

_NO_NEWS = (MemberSubscribed, GenerationStarted)
"""The types of records after which no member has to act. Records of these types do not change the answer to any held
request.
"""

_NO_GENERATION = -1
"""The generation of a heartbeat that only restarts the session timeout and acknowledges no assignment."""


class GroupRuntime:
    """A group with its queue, timer, watches and rebalances. Use `handle` for every change of the group, and `respond`
    for heartbeats and fetches. `image` may be read at any time.

    Each method that answers a request raises NotOwner if another coordinator owns the group. Each method that answers a
    request raises LeaseEnded while the lease is not valid.
    """

    def __init__(
        self,
        stored: GroupLog,
        environment: GroupEnvironment,
        resources: RebalanceResources,
        lease: GroupLease | None = None,
        replayed: Group | None = None,
        unreadable: Callable[[str, Exception], None] = lambda group_id, error: None,
    ) -> None:
        """`stored`: the stored log of the group, with sequence 0 and no records for a new group. `replayed`: the group
        that was replayed from the log; None if the log has not been replayed yet. `lease`: the lease of the group; None
        if no other coordinator can own the group. `unreadable`: a function that is called with the error if the group's
        log is damaged when it is read again. After a call of `unreadable`, all events of the group fail.
        """
        clock = environment.clock
        telemetry = GroupTelemetry(stored.group_id, environment.metrics)
        self.group_id = stored.group_id
        self.lease = lease or GroupLease(stored.group_id)
        self.cluster = ClusterStanding(clock.now_ms, telemetry)
        self.callers = GroupCallers(clock.now_ms)
        self._notices = GroupNotices()
        self._clock = clock
        self._runner = runner = RebalanceRunner(stored.group_id, resources)
        self._telemetry = telemetry
        self._connections = environment.connections
        self._watching = environment.watching
        self._readiness = environment.readiness
        self._unreadable = unreadable
        self._closed = False
        self._ticking: asyncio.Task[None] | None = None
        self._reading_again: asyncio.Future[Response] | None = None
        self._ticks_again = False
        self._durable = DurableGroup(stored, environment, telemetry, self.lease, replayed)
        self._standing = GroupStanding(self.image, clock.now_ms(), environment.metrics.time_without_owner.inc)
        self._queue = EventQueue(self._durable, self.lease, environment, self._reloaded, self._committed, self._failed)
        self._held_heartbeats = HeldHeartbeats()
        self._held = HeldRequests(self._respond_now, self._bytes_to_send)
        self._timer = GroupTimer(clock, self._tick_now)
        self._cluster_watch = ClusterWatch(
            runner, self.cluster, self._durable, self.handle, telemetry, environment.metadata_max_age_ms
        )
        self._warm_up_watch = WarmUpWatch(runner, self.cluster, self._durable, self.handle)
        self._was_stable = False
        self._rebalances = RebalanceLoop(
            runner, self.cluster, telemetry, self._cluster_watch.retry_ms, self._queue.put, self._waits_for
        )

    @property
    def group(self) -> Group:
        """The state machine of the group. The state machine may be newer than `image`, because events are being
        committed.
        """
        return self._durable.group

    @property
    def image(self) -> GroupImage:
        """The committed state, which may be shown to any caller."""
        return self._durable.image

    @property
    def stored_bytes(self) -> int:
        """The size of the group's log and recorded rebalances, as committed."""
        return self._durable.stored_bytes

    @property
    def is_declared(self) -> bool:
        """True if the committed state has a definition and is not Dead."""
        return self.image.input_json is not None and self.image.state is not GroupState.DEAD

    async def handle(self, event: Event, recording: Recording | None = None, tenant: str = "") -> Response:
        """Handles an event. Raises StoreError unless the records of the event were certainly committed.

        The event is handled even if its caller is cancelled. `recording`: the recording of a `ReportRebalance`, which
        is stored if the rebalance is new. `tenant`: the tenant whose quotas apply (`admission.Quotas`).
        """
        if isinstance(event, events.Join) and event.member_id is not None and not self._durable.is_uncertain:
            # the member's session must not expire while its rejoin waits for a commit
            alive = events.Heartbeat(event.member_id, _NO_GENERATION, group_instance_id=event.group_instance_id)
            self.group.respond(alive, self._clock.now_ms(), self.image)
        return await self._queue.put(event, None if recording is None else _if_new(recording), tenant)

    async def respond(self, event: HeartbeatOrFetch) -> Response:
        """Answers the event immediately, even during a commit or a rebalance. There are two exceptions. If this request
        caused a commit, the answer waits up to LONGEST_WAIT_FOR_OWN_TICK_S for the commit. If the group is uncertain,
        the answer waits up to LONGEST_WAIT_FOR_STORE_S until the group is read again.

        Raises StoreError if an uncertain group cannot be read again and the answer would refuse the member.
        """
        response = await self._respond(event)
        if isinstance(response, HeartbeatAnswered | ProcessHeartbeatAnswered):
            self._telemetry.metrics.heartbeats.inc()
        return response

    async def _respond(self, event: HeartbeatOrFetch) -> Response:
        if isinstance(event, events.ProcessHeartbeat) and event.connection_id is not None:
            self._connections.bind(event.connection_id, self.group_id, event.members, self._connection_lost)
        if self._durable.is_uncertain:
            await self._read_again()
            if self._durable.is_uncertain:
                return self._respond_while_uncertain(event)
        ticking = self._ticking
        response = self._respond_now(event)
        if isinstance(event, events.Heartbeat) and self._ticking is not ticking:
            await self._own_follow_up()
            response = self._respond_now(event)
        elif isinstance(event, events.FetchAssignment):
            await self._follow_up_of(response)
        return response

    async def wait_for_assignment(self, fetch: events.FetchAssignment, wait_s: float, gone: CallerGone) -> Response:
        """Answer `fetch`. Hold the request while the assignment is pending. The wait ends after `wait_s` seconds at the
        latest. The wait ends earlier if `gone()` returns, because the caller has then hung up.

        Raises StoreError like `respond`.
        """
        response = await self.respond(fetch)
        if not isinstance(response, AssignmentPending) or wait_s <= 0:
            return response
        recheck = replace(fetch, is_recheck=True)
        response = await self._held.hold(
            recheck, lambda answer: isinstance(answer, AssignmentPending), members=1, wait_s=wait_s, gone=gone
        )
        await self._follow_up_of(response)
        return response

    async def process_heartbeat(
        self, heartbeat: events.ProcessHeartbeat, known: str | None, wait_s: float, gone: CallerGone
    ) -> Response:
        """Returns `ProcessHeartbeatAnswered` or `Rejected`. The request is held while the field `news` of the answer
        equals `known`. The wait ends after `wait_s` seconds at the latest. The wait ends earlier if `gone()` returns,
        because the caller has then hung up. A held request does not interrupt the session timeouts of its members. So a
        request is never held for longer than half of the shortest session timeout. Raises StoreError like `respond`.
        """
        response = await self.respond(heartbeat)
        if not isinstance(response, ProcessHeartbeatAnswered) or response.news != known or wait_s <= 0:
            return response

        def brings_nothing_new(answer: Response) -> bool:
            return isinstance(answer, ProcessHeartbeatAnswered) and answer.news == known

        wait_s = min(wait_s, self._shortest_session_s(heartbeat.members) / 2)
        recheck = replace(heartbeat, is_recheck=True)
        with self._held_heartbeats.held(heartbeat.connection_id, heartbeat.members):
            return await self._held.hold(recheck, brings_nothing_new, len(heartbeat.members), wait_s, gone)

    def add_notices(self, answered: ProcessHeartbeatAnswered, notices: Sequence[ProcessNotice]) -> None:
        """Store the notices of a process heartbeat if at least one member of the process belongs to this group."""
        known = [
            self.image.members[member_id]
            for member_id, news in answered.members.items()
            if isinstance(news, MemberNews) and member_id in self.image.members
        ]
        if known:
            process = str(process_of(known[0].last_join.subscription) or known[0].member_id)
            self._notices.add(process, notices, self._clock.now_ms())

    def measures(self) -> GroupMeasures:
        """Returns the values for `/metrics` from the committed state of the group."""
        seen = self.observation()
        measures = self._standing.measures(self.group_id, self.image, health_of(seen), seen.now_ms)
        if not seen.flow.points:
            return measures
        newest = seen.flow.points[-1]
        return measures._replace(input_lag=newest.lag, input_behind_s=newest.behind_ms / 1_000)

    def observation(self) -> GroupObservation:
        """Returns what this process knows about the group, without the lags of task copies."""
        cluster, standing, since_ms = self.cluster, self._standing, self._standing.ownerless_since_ms
        group, members = self.group, self.image.members
        broken = group.broken_connections or (frozenset(), None)
        store = None if self._readiness is None else self._readiness.known
        return GroupObservation(
            group_id=self.group_id,
            image=self.image,
            now_ms=self._clock.now_ms(),
            cluster=ObservedCluster(None, cluster.error, cluster.failing_since_ms, cluster.topology_error),
            store=None if store is None else ObservedStore(store.text, store.since_ms),
            notices=self.notices(),
            ownerless=len(since_ms),
            ownerless_since_ms=min(since_ms.values(), default=None),
            rebalancing_since_ms=standing.rebalancing_since_ms,
            rebalanced_at_ms=standing.rebalanced_at_ms,
            flow=group.flow_history,
            # the lags of tasks take time in proportion to their number
            task_flows={} if group.flow_history.grows_since_ms() is None else group.flow().tasks,
            refused_definitions=self.callers.refused_definitions,
            refused_tokens=self.callers.refused_tokens,
            releases=self.callers.releases(members),
            mixed_since_ms=self.callers.mixed_since_ms,
            opened_at_ms=group.opened_at_ms,
            silent_members=sorted(group.silent_members & members.keys()),
            disconnected=sorted(broken[0] & members.keys()),
            disconnected_since_ms=broken[1],
            warm_ups=[
                ObservedWarmUp(task, member_id, warming_ms, group.progress_ms(member_id, task))
                for (task, member_id), warming_ms in standing.warming_since_ms.items()
                if member_id in members
            ],
        )

    def notices(self) -> list[ReceivedNotice]:
        """Returns the notices that arrived in the last day, the newest first."""
        return self._notices.newest_first(self._clock.now_ms())

    def _shortest_session_s(self, member_ids: Iterable[str]) -> float:
        members = self.image.members
        sessions_ms = (members[each].last_join.session_timeout_ms for each in member_ids if each in members)
        return min(sessions_ms, default=math.inf) / 1000

    @property
    def is_at_rest(self) -> bool:
        """True if the group can be handed over to another coordinator now. The group must not be uncertain, and must
        have no running or held rebalance.
        """
        at_rest = self.image.state in (GroupState.STABLE, GroupState.EMPTY) and self.image.held is None
        return at_rest and not self._durable.is_uncertain and not self._rebalances.is_running

    async def describe(self) -> GroupDescription:
        """Describes the committed state of the group, in a thread, because a large group takes time."""
        self.lease.check()
        return await asyncio.to_thread(self.group.describe, self.image, self._durable.committed_sessions)

    async def definition(self, image: GroupImage) -> Definition:
        """Returns the parsed definition of the state `image`."""
        assert image.input_json is not None, "only declared groups are described"
        return await self._runner.definition(image.input_json)

    async def seen_now(self, image: GroupImage) -> RebalanceSnapshot:
        """Returns the definition of the state `image` with the present state of its cluster. Raises the errors of
        `RebalanceRunner.seen_now`.
        """
        assert image.input_json is not None, "only declared groups are described"
        return await self._runner.seen_now(image.input_json)

    def is_polling_its_cluster(self) -> bool:
        """Returns whether the watch or a rebalance polls the cluster repeatedly. Repeated polls find out when a cluster
        that was out of reach answers again.
        """
        return self._cluster_watch.is_polling or self._rebalances.is_running

    async def renew(self) -> None:
        """Write a new log from the state in memory, because the stored log is damaged.

        Raises StoreError. After a failed write, the group is read from the store again.
        """
        await self._queue.renew()

    def reload_before_next_event(self) -> None:
        """Make the group uncertain, so that it is read from the store before its next event. Reading the group from the
        store restarts all session timeouts.
        """
        self._durable.reload_before_next_event()
        self._tick_later()

    def answer_now(self) -> None:
        """Answer the held requests from the present state of the group. Requests that arrive after `answer_now` are
        held again.
        """
        self._held.answer_now()

    def release(self) -> None:
        """Answer all held requests from the present state of the group. Requests that arrive later are not held."""
        self._held.release()

    async def close(self) -> None:
        """Stop timers, polls and rebalances. Events that are already in the queue are still handled."""
        self._held.release()
        await self.finish()

    async def finish(self) -> None:
        """Stop like `close`, but keep the held requests until `release` is called. The answers to held requests can
        then name the new owner of the group.
        """
        self._closed = True
        self._timer.stop()
        self._cluster_watch.stop()
        self._warm_up_watch.stop()
        self._rebalances.stop()
        await self._queue.close()

    def _respond_now(self, event: HeartbeatOrFetch) -> Response:
        if not self.lease.is_certain:
            self.lease.check()
        answer = self._durable.group.respond(event, self._clock.now_ms(), self._durable.image)
        if answer.wants_tick:
            self._tick_now()
        return answer.response

    async def _read_again(self) -> None:
        """Wait until an uncertain group has been read again, at most LONGEST_WAIT_FOR_STORE_S. The method puts an event
        into the queue. Before it handles an event, the queue reads an uncertain group again. All requests that wait for
        the reload share one event.
        """
        if self._reading_again is None or self._reading_again.done():
            self._reading_again = self._queue.put(events.Tick())
        await asyncio.wait((self._reading_again,), timeout=LONGEST_WAIT_FOR_STORE_S)

    def _respond_while_uncertain(self, event: HeartbeatOrFetch) -> Response:
        """Answers the request from the last state that is known to be committed. So members can keep working while the
        store fails. The caller of the uncertain write got no answer, so the write may take effect later than this
        answer. If the answer would refuse a member, the method raises StoreError instead. The uncertain write may have
        removed the reason for the refusal.
        """
        self.lease.check()
        response = self.group.respond(event, self._clock.now_ms(), self.image).response
        refused = response.members.values() if isinstance(response, ProcessHeartbeatAnswered) else (response,)
        if any(isinstance(each, Rejected) for each in refused):
            reading = self._reading_again
            error = reading.exception() if reading is not None and reading.done() else None
            if isinstance(error, StoreError):
                raise type(error)(str(error))
            raise StoreError(f"group {self.group_id} could not be read again in time after a write that failed")
        return response

    def _bytes_to_send(self, response: Response) -> int:
        """Estimates the number of bytes of assignments that members get in the answer, or fetch after the answer. The
        estimate assumes that all assignments have the same size, because they share most of their bytes.
        """
        if isinstance(response, AssignmentReady):
            return response.assignment.size
        if not isinstance(response, ProcessHeartbeatAnswered) or response.state is not GroupState.STABLE:
            return 0
        ready = [
            member_id
            for member_id, news in response.members.items()
            if isinstance(news, MemberNews) and news.assignment_generation == response.generation_id
        ]
        one = self.image.members.get(ready[0]) if ready else None
        assignment = None if one is None else one.last_assignment.assignment
        return 0 if assignment is None else len(ready) * assignment.size

    async def _follow_up_of(self, response: Response) -> None:
        if isinstance(response, AssignmentReady) and response.followup and self._ticking is not None:
            await self._own_follow_up()

    async def _own_follow_up(self) -> None:
        """Wait a little for the commit of a follow-up rebalance that this request started. The follow-up rebalance
        starts when the last member acknowledges its assignment by a request. After this wait, the answer to the request
        already shows the follow-up rebalance.
        """
        if self._ticking is not None:
            await asyncio.wait((self._ticking,), timeout=LONGEST_WAIT_FOR_OWN_TICK_S)

    def _connection_lost(self, connection_id: int, member_ids: Collection[str]) -> None:
        if self._closed:  # the group and its members may have moved to another coordinator
            return
        held_elsewhere = self._held_heartbeats.lost(connection_id, member_ids)
        # if this event fails, the group is read from the store again; no session then has a connection
        self._queue.put(events.ConnectionLost(connection_id, held_elsewhere))

    def _reloaded(self) -> None:
        self._standing.read_again(self.image, self._clock.now_ms())
        self._held.wake()
        self._watching.changed(self.group_id)

    def _failed(self) -> None:
        if self._readiness is not None and not self._closed:
            self._readiness.suspect()
        if self._queue.end is None:
            self._tick_later()
        else:
            self._unreadable(self.group_id, self._queue.end)

    def _tick_later(self) -> None:
        """Set the timer for a tick after RETRY_AFTER_STORE_ERROR_MS. If the group is uncertain, the tick also causes
        the group to be read again.
        """
        now_ms = self._clock.now_ms()
        self._timer.set(now_ms + RETRY_AFTER_STORE_ERROR_MS, now_ms)

    def _committed(self, records: Sequence[CoordinatorRecord], taken: TakenEvents) -> None:
        try:
            self._carry_out(records, taken)
        # An error here is a bug. The committed events are still answered. After the group was read again, the effects
        # of these events are carried out again.
        except Exception as error:
            self._telemetry.logger.error("outcome_not_carried_out", exc_info=error)
            self.reload_before_next_event()

    def _carry_out(self, records: Sequence[CoordinatorRecord], taken: TakenEvents) -> None:
        image, now_ms = self._durable.image, self._clock.now_ms()
        responses = [outcome.response for _, outcome in taken.events]
        brings_news = any(not isinstance(record, _NO_NEWS) for record in records)
        self._telemetry.answered(responses)
        if records:
            self._telemetry.committed(records, image)
            self._standing.committed(records, now_ms)
            self._watching.changed(self.group_id)
        if brings_news:
            self._held.wake()
        if self._closed:
            return
        is_stable = image.state is GroupState.STABLE
        if is_stable or self._was_stable:  # only stable groups are watched
            self._cluster_watch.follow()
            self._warm_up_watch.follow()
        self._was_stable = is_stable
        if taken.rebalance is not None:
            self._rebalances.start(taken.rebalance)
        self._timer.set(self._durable.group.next_timer_ms, now_ms)

    def _waits_for(self, rebalance: RunRebalance) -> bool:
        due = rebalance_to_run(self.image)
        return due is not None and (due.generation_id, due.steering) == (rebalance.generation_id, rebalance.steering)

    def _tick_now(self) -> None:
        """Start a tick. If a tick is already running, start another tick after it. The running tick may have missed a
        timer that became due later.
        """
        if self._closed:
            return
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick())
        else:
            self._ticks_again = True

    async def _tick(self) -> None:
        try:
            self._ticks_again = False
            await self._queue.put(events.Tick())
        except (LeaseEnded, NotOwner):  # the timer starts the next tick soon, if the group is still open then
            self._ticks_again = False
        except Exception as error:  # the group's timers must continue after any error
            if isinstance(error, AssignorFault):
                self._telemetry.logger.error("tick_failed", error=str(error))
            else:  # a bug
                self._telemetry.logger.error("tick_failed", exc_info=error)
            self._ticks_again = False
            self.reload_before_next_event()
        finally:
            self._ticking = None
        if self._ticks_again:
            self._tick_now()


def _if_new(recording: Recording) -> RecordingFor:
    """Returns a function that receives the group's answer to a report. The function returns the recording if the
    reported rebalance is new, else None.
    """
    return lambda response: recording if isinstance(response, RebalanceReported) and response.created else None
