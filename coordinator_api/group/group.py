"""One group: `handle(event, now_ms) -> Outcome`, `apply(records)`, `replay(records) -> Group`.

The whole loop, with the group locked by the caller:

    outcome = group.handle(event, now_ms)      # decides; changes nothing that has to survive
    store.commit(group_id, outcome.records)    # one transaction, together with a recorded round
    group.apply(outcome.records, now_ms)       # the only way its state changes
    answer(outcome.response); start(outcome.effects); tick_at(outcome.next_timer_ms)

and after a restart: `group = Group.replay(group_id, limits, records, now_ms)`, then `handle(Recovered(), now_ms)`.

    states       the words                      image      durable state, and what each record makes of it
    events       what can happen                liveness   sessions and timers, not durable
    records      what is remembered             transition one event being handled
    outcome      what comes of it               joining, membership, administration, ticking, rounds, topics,
                                                reporting: the rules

Source: the classic group of `GroupMetadataManager`; the way of working is that of etcd's raft: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Self

from assignor.types import TaskId
from coordinator_api.group.administration import declare, delete, drain
from coordinator_api.group.description import GroupDescription, describe
from coordinator_api.group.events import (
    AssignmentComputed,
    DeclareGroup,
    DeleteGroup,
    Drain,
    Event,
    FetchAssignment,
    Heartbeat,
    Join,
    Leave,
    RebalanceFailed,
    RecheckAssignment,
    Recovered,
    ReportRebalance,
    Tick,
    TopicsSeen,
)
from coordinator_api.group.image import GroupImage, IllegalTransition, next_image, snapshot_records
from coordinator_api.group.invariants import broken_invariants
from coordinator_api.group.joining import join
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.liveness import Liveness
from coordinator_api.group.membership import fetch_assignment, heartbeat, leave
from coordinator_api.group.outcome import Accepted, Outcome, Response
from coordinator_api.group.rebalancing import rebalance_to_run, store_rebalance
from coordinator_api.group.records import CoordinatorRecord, GenerationStarted
from coordinator_api.group.reporting import led_elsewhere, report
from coordinator_api.group.states import GroupState
from coordinator_api.group.story import Story
from coordinator_api.group.ticking import tick
from coordinator_api.group.topics import topics_seen
from coordinator_api.group.transition import GroupTransition, next_timer_ms


class Group:
    """The state machine of one group. Not thread-safe: the caller locks from `handle` to `apply`."""

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.limits = limits
        self._image = GroupImage()
        self._liveness = Liveness(limits)
        self._story = Story()

    @classmethod
    def replay(cls, group_id: str, limits: GroupLimits, records: Iterable[CoordinatorRecord], now_ms: int) -> Self:
        """The group that these records, in order, lead to. Raises IllegalTransition.

        Sessions and round timeouts start anew at `now_ms`; a probing deadline is the one that was recorded.
        """
        group = cls(group_id, limits)
        group.apply(records, now_ms)
        group._liveness.rearm(group._image, now_ms)
        return group

    @property
    def image(self) -> GroupImage:
        """The durable state, immutable."""
        return self._image

    @property
    def state(self) -> GroupState:
        return self._image.state

    @property
    def generation_id(self) -> int:
        return self._image.generation_id

    @property
    def next_timer_ms(self) -> int | None:
        """When the group wants its next `Tick`, as of now; None for never."""
        return next_timer_ms(self._image, self._liveness)

    def handle(self, event: Event, now_ms: int) -> Outcome:
        """What `event` at `now_ms` (milliseconds since the epoch) leads to. Raises IllegalTransition for a bug."""
        step = GroupTransition(self.limits, self._image, self._liveness, now_ms)
        try:
            response = _dispatch(step, event)
        except IllegalTransition as illegal:
            raise self._told(f"{event!r}: {illegal}") from illegal
        outcome = step.outcome(response)
        if isinstance(event, Recovered) or any(isinstance(record, GenerationStarted) for record in outcome.records):
            return replace(outcome, effects=rebalance_to_run(step.image))
        return outcome

    def apply(self, records: Iterable[CoordinatorRecord], now_ms: int) -> None:
        """Take in committed records, in order; `now_ms` is the time of their event. Raises IllegalTransition."""
        for record in records:
            before = self._image
            try:
                self._image = next_image(before, record)
            except IllegalTransition as illegal:
                raise self._told(str(illegal)) from illegal
            self._liveness.taken_in(record, before, self._image, now_ms)
            self._story.add(record, self._image, now_ms)

    def snapshot(self) -> tuple[CoordinatorRecord, ...]:
        """The shortest list of records that replays to this state, so that a store may forget the older ones."""
        return snapshot_records(self._image)

    def describe(self) -> GroupDescription:
        return describe(self.group_id, self._image, self._liveness)

    def reported_offset_sums(self) -> dict[str, Mapping[TaskId, int]]:
        """By member, how far it is with each task, as its last heartbeat said. Not durable."""
        return {member_id: session.task_offset_sums for member_id, session in self._liveness.sessions.items()}

    def story(self) -> tuple[str, ...]:
        """The last records taken in, oldest first, one line each."""
        return self._story.lines()

    def validate_state(self) -> None:
        """Raises IllegalTransition, with the story, when something holds that cannot."""
        broken = broken_invariants(self._image, self._liveness)
        if broken:
            raise self._told("; ".join(broken))

    def _told(self, what: str) -> IllegalTransition:
        return IllegalTransition("\n  ".join((f"group {self.group_id}: {what}", *self._story.lines())))


def _dispatch(step: GroupTransition, event: Event) -> Response:
    refused = led_elsewhere(step, event)
    if refused is not None:
        return refused
    match event:
        case Heartbeat():
            return heartbeat(step, event)
        case FetchAssignment() | RecheckAssignment():
            return fetch_assignment(step, event)
        case Join():
            return join(step, event)
        case Leave():
            return leave(step, event)
        case AssignmentComputed() | RebalanceFailed():
            return store_rebalance(step, event)
        case TopicsSeen():
            topics_seen(step, event)
            return Accepted()
        case ReportRebalance():
            return report(step, event)
        case DeclareGroup():
            return declare(step, event)
        case Drain():
            return drain(step)
        case DeleteGroup():
            return delete(step)
        case Tick():
            tick(step)
            return Accepted()
        case Recovered():
            return Accepted()
