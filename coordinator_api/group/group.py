"""The state machine of one group: `handle` computes the outcome of an event, `apply` applies its records, and `replay`
rebuilds a group.

The docstring of the package `group` shows the loop that calls a group. Source: the classic group of
`GroupMetadataManager`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Self

from assignor.types import TaskId
from coordinator_api.group import events
from coordinator_api.group.administration import apply_lever_command, declare, delete, drain, end_drains_of_gone
from coordinator_api.group.description import GroupDescription, describe
from coordinator_api.group.events import Event, HeartbeatOrFetch, LeverCommand
from coordinator_api.group.heartbeats import connection_lost, respond
from coordinator_api.group.holding import end_hold_when_over
from coordinator_api.group.image import GroupImage
from coordinator_api.group.invariants import broken_invariants
from coordinator_api.group.joining import expire_sessions, join, leave, remove_members_that_never_fetched
from coordinator_api.group.liveness import GroupLimits, Liveness, Session
from coordinator_api.group.outcome import Accepted, GroupTransition, ImmediateResponse, Outcome, Response
from coordinator_api.group.rebalancing import (
    end_join_wait,
    follow_up_when_acknowledged,
    rebalance_to_run,
    rebalance_when_topics_changed,
    start_probing_rebalance,
    store_rebalance,
)
from coordinator_api.group.records import CoordinatorRecord, GenerationStarted, IllegalTransition, RebalanceKept
from coordinator_api.group.reported_flow import FlowHistory, GroupFlow, group_flow
from coordinator_api.group.reporting import refuse_led_elsewhere, report

HISTORY_LENGTH = 64
"""The number of past records in the message of an IllegalTransition. The past records are needed to find the cause of a
broken invariant.
"""

_COMPUTED_NEXT = (GenerationStarted, RebalanceKept)
"""The types of records after which a rebalance has to be computed."""


class Group:
    """The state machine of one group. Not thread-safe: no other call may run between `handle` and `apply`."""

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.limits = limits
        self._image = GroupImage()
        self._liveness = Liveness(limits)
        self._history: deque[str] = deque(maxlen=HISTORY_LENGTH)
        self._decided: tuple[Outcome, GroupTransition] | None = None

    @classmethod
    def replay(cls, group_id: str, limits: GroupLimits, records: Iterable[CoordinatorRecord], now_ms: int) -> Self:
        """Builds the group from its records, in order. Raises IllegalTransition.

        Sessions and timeouts start again at `now_ms`. The recorded probing deadline is used unchanged.
        """
        group = cls(group_id, limits)
        group.apply(records, now_ms)
        group.begin_sessions(now_ms)
        return group

    def begin_sessions(self, now_ms: int) -> None:
        """Restart all sessions and timeouts at `now_ms`, because no request could arrive before this time."""
        self._liveness.rearm(self._image, now_ms)

    @property
    def image(self) -> GroupImage:
        """The immutable state after the last applied record. The commit of the last records may still be under way."""
        return self._image

    @property
    def next_timer_ms(self) -> int | None:
        """The time at which the group needs its next `Tick`. Read this time after each event. None: never. If the time
        is in the past, the `Tick` is due immediately.
        """
        return self._liveness.next_timer_ms(self._image)

    def handle(self, event: Event, now_ms: int) -> Outcome:
        """Decides on the outcome of `event`, without changing the durable state. Raises IllegalTransition if the rules
        of the group have a bug.

        `now_ms`: the time of the event, in milliseconds since the epoch.
        """
        step = GroupTransition(self.limits, self._image, self._liveness, now_ms)
        try:
            response = _dispatch(step, event)
            if step.image.levers.drained:
                end_drains_of_gone(step, self._image)
        except IllegalTransition as illegal:
            raise self._with_history(f"{event!r}: {illegal}") from illegal
        records = tuple(step.records)
        computes = isinstance(event, events.Recovered) or any(isinstance(record, _COMPUTED_NEXT) for record in records)
        rebalance = rebalance_to_run(step.image) if computes else None
        outcome = Outcome(records, response, rebalance)
        self._decided = (outcome, step)
        return outcome

    def respond(self, event: HeartbeatOrFetch, now_ms: int, image: GroupImage) -> ImmediateResponse:
        """Answer the heartbeat or fetch from `image`, the last committed state. If the event is not a recheck, the call
        also restarts the session timeouts of the members whose requests are accepted.

        The answer needs no commit. The state of this group may be newer than `image`, because records are being
        committed.
        """
        if image.led_by is not None:
            refused = refuse_led_elsewhere(image, event)
            if refused is not None:
                return ImmediateResponse(refused)
        self._decided = None  # the sessions in `_decided` do not contain this request
        return respond(self._liveness, self._image, image, event, now_ms)

    def apply(self, records: Iterable[CoordinatorRecord], now_ms: int) -> None:
        """Apply records in order, either before their commit or in a replay from the store. Raises IllegalTransition.

        `now_ms`: the time of the event that made the records. The group adopts the state that the last `handle`
        computed. If the records are not from the last `handle`, or if another call has changed the group, the group
        applies the records one by one.
        """
        decided, self._decided = self._decided, None
        if decided is not None and records is decided[0].records:
            self._adopt(decided[1])
            return
        step = GroupTransition(self.limits, self._image, self._liveness, now_ms)
        try:
            for record in records:
                step.emit(record)
        except IllegalTransition as illegal:
            self._history.extend(step.history)
            raise self._with_history(str(illegal)) from illegal
        self._adopt(step)

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The session of each member. A heartbeat changes this mapping. An applied record replaces this mapping with a
        new mapping.
        """
        return self._liveness.sessions

    def describe(
        self, image: GroupImage | None = None, committed_sessions: Mapping[str, Session] | None = None
    ) -> GroupDescription:
        """Describes the group for operators. `image`: the state to describe, usually the last committed state; None for
        the present state.

        `committed_sessions`: the members' sessions of the last committed state. While the record of a member's leave is
        being committed, the member's session is only in `committed_sessions`.
        """
        return describe(self.group_id, image or self._image, self._liveness.sessions, committed_sessions or {})

    def reported_offset_sums(self) -> dict[str, Mapping[TaskId, int]]:
        """Returns the offset sums of each member's tasks, from the member's last heartbeat. Not durable."""
        return {member_id: session.offsets.sums for member_id, session in self._liveness.sessions.items()}

    def progress_ms(self, member_id: str, task: TaskId) -> int | None:
        """Returns the time at which the member last reported a higher offset sum of the task; None if it reported none.
        Not durable.
        """
        session = self._liveness.sessions.get(member_id)
        return None if session is None else session.offsets.progress_ms.get(task)

    def flow(self) -> GroupFlow:
        """Returns the flow of the group's tasks, from the heartbeats of the members. Not durable."""
        return group_flow((session.flow for session in self._liveness.sessions.values()), self.flow_history)

    @property
    def flow_history(self) -> FlowHistory:
        return self._liveness.flow_history

    @property
    def opened_at_ms(self) -> int | None:
        """The time at which the group was read from the store; None if it is new."""
        return self._liveness.opened_at_ms

    @property
    def silent_members(self) -> frozenset[str]:
        """The members that have sent no request since the group was read from the store."""
        return frozenset(self._liveness.silent_members)

    @property
    def broken_connections(self) -> tuple[frozenset[str], int] | None:
        """The members whose connections are broken, and the time of the first break; None if there are none."""
        return self._liveness.connections.broken()

    def history(self) -> tuple[str, ...]:
        """Returns the last records that the group applied, oldest first. Each line has the form `<ms> <event> ->
        <state> generation <n>`.
        """
        return tuple(self._history)

    def validate_state(self) -> None:
        """Raises IllegalTransition, with the history, if an invariant is broken."""
        broken = broken_invariants(self._image, self._liveness)
        if broken:
            raise self._with_history("; ".join(broken))

    def _adopt(self, step: GroupTransition) -> None:
        self._image, self._liveness = step.image, step.liveness
        self._history.extend(step.history)

    def _with_history(self, what: str) -> IllegalTransition:
        return IllegalTransition("\n  ".join((f"group {self.group_id}: {what}", *self._history)))


def _dispatch(step: GroupTransition, event: Event) -> Response:
    if step.image.led_by is not None:
        refused = refuse_led_elsewhere(step.image, event)
        if refused is not None:
            return refused
    if isinstance(event, LeverCommand):
        return apply_lever_command(step, event)
    match event:
        case events.ConnectionLost():
            return connection_lost(step, event)
        case events.Join():
            return join(step, event)
        case events.Leave():
            return leave(step, event)
        case events.AssignmentComputed():
            return store_rebalance(step, event)
        case events.TopicsSeen():
            rebalance_when_topics_changed(step, event)
            return Accepted()
        case events.ReportRebalance():
            return report(step, event)
        case events.DeclareGroup():
            return declare(step, event)
        case events.Drain():
            return drain(step)
        case events.DeleteGroup():
            return delete(step)
        case events.Tick():
            _tick(step)
            return Accepted()
        case events.Recovered():
            return Accepted()


def _tick(step: GroupTransition) -> None:
    """Run the actions that are due, in the order of the calls below. A tick has no effect if it comes too early."""
    if step.image.led_by is not None:
        return  # the leader outside this service manages the timers of the group
    expire_sessions(step)
    remove_members_that_never_fetched(step)
    end_join_wait(step)
    start_probing_rebalance(step)
    follow_up_when_acknowledged(step)
    # `end_hold_when_over` must be the last call, because it may complete a rebalance. A follow-up of this rebalance may
    # start only after members have fetched the new assignments.
    end_hold_when_over(step)
