"""A coordinator around the real `Group`, in simulated time: events that wait share a commit, which takes a while and
may fail; heartbeats are answered from the committed state, and held; rebalances come back late; it may be killed.

It does what `coordinator_api.groups` does, and checks what the group does to its members:
- nobody's session expires who was heard within it;
- nobody is taken for dead whose process waits for the answer to a heartbeat on a connection that is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator_api.group.events import (
    AssignmentComputed,
    ConnectionLost,
    Event,
    FetchAssignment,
    Heartbeat,
    Join,
    ProcessHeartbeat,
    RecheckProcess,
    Recovered,
    Tick,
)
from coordinator_api.group.group import Group
from coordinator_api.group.hearing import HeardEvent
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.outcome import JoinAnswered, Outcome, ProcessHeartbeatAnswered, Response, RunRebalance
from coordinator_api.group.rebalance_result import computed_assignments
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import MemberRemoved, RebalanceCompleted
from coordinator_api.group.states import RemovalReason
from tests.simulation.leader import lead
from tests.simulation.timeline import Timeline

GRACE_MS = 200
LIMITS = GroupLimits(initial_rebalance_delay_ms=500, disconnect_grace_ms=GRACE_MS)


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The connection broke, or the service is overloaded. `retry_after_ms`: what it asked for."""

    retry_after_ms: int | None = None


Reply = Callable[[Response | NoAnswer], None]


@dataclass(slots=True)
class Held:
    recheck: RecheckProcess
    known: str
    connection_id: int
    reply: Reply


class SimulatedService:
    """`commit_ms`: the longest time that a commit takes. `commit_fails`: how likely one fails. `overloaded`: it refuses
    joins. `open_connections`: those that processes still use. `lost_connections`: those whose end it has seen.
    """

    def __init__(self, timeline: Timeline, first: Event) -> None:
        self.timeline = timeline
        self.commit_ms = 5
        self.commit_fails = 0.0
        self.overloaded = False
        self.open_connections: set[int] = set()
        self.lost_connections: set[int] = set()
        self.is_up = True
        self.group = Group("shop", LIMITS)
        self.image = self.group.image
        self.restarts = 0
        self.evicted: list[tuple[int, MemberRemoved]] = []
        self._log: list[str] = []
        self._waiting: list[tuple[Event, Reply]] = []
        self._answering: list[Reply] = []
        self._held: list[Held] = []
        self._timer = 0
        self._committing = False
        self._heard_ms: dict[str, int] = {}
        self.ask(first, lambda _: None)

    @property
    def is_paused(self) -> bool:
        """What the answer to a join says."""
        return self.image.levers.pause is not None

    # --- what arrives

    def ask(self, event: Event, reply: Reply) -> None:
        """An event that has to be committed."""
        if not self.is_up:
            reply(NoAnswer())
        elif isinstance(event, Join) and self.overloaded:
            reply(NoAnswer(retry_after_ms=1_000))
        else:
            if isinstance(event, Join) and event.member_id is not None:
                self._note(event.member_id)
                alive = Heartbeat(event.member_id, -1, group_instance_id=event.group_instance_id)
                self.group.hear(alive, self.timeline.now_ms, self.image)
            self._waiting.append((event, reply))
            self._commit_those_that_wait()

    def fetch(self, event: FetchAssignment, reply: Reply) -> None:
        if not self.is_up:
            reply(NoAnswer())
            return
        self._note(event.member_id)
        reply(self._hear(event))

    def heartbeat(self, event: ProcessHeartbeat, known: str | None, wait_ms: int, reply: Reply) -> None:
        assert event.connection_id is not None
        if not self.is_up:
            reply(NoAnswer())
            return
        for member_id in event.members:
            self._note(member_id)
        response = self._hear(event)
        if not (isinstance(response, ProcessHeartbeatAnswered) and response.news == known):
            reply(response)
            return
        held = Held(RecheckProcess(event.members), known, event.connection_id, reply)
        self._held.append(held)
        self.timeline.after(wait_ms, lambda: self._end_hold(held))

    def connection_lost(self, connection_id: int) -> None:
        self._held = [held for held in self._held if held.connection_id != connection_id]
        self.lost_connections.add(connection_id)
        if self.is_up:
            elsewhere = {member_id: held.connection_id for held in self._held for member_id in held.recheck.members}
            self.ask(ConnectionLost(connection_id, elsewhere), lambda _: None)

    # --- what goes wrong

    def kill(self, down_ms: int) -> None:
        self.timeline.say("coordinator killed")
        self.is_up = False
        self.restarts += 1
        unanswered = [*(reply for _, reply in self._waiting), *self._answering, *(held.reply for held in self._held)]
        self._waiting, self._answering, self._held = [], [], []
        self._committing = False
        for reply in unanswered:
            reply(NoAnswer())
        self.timeline.after(down_ms, self._start)

    def _start(self) -> None:
        self.timeline.say("coordinator started")
        self.is_up = True
        self._read()

    def _read(self) -> None:
        """Become what the store has."""
        now_ms = self.timeline.now_ms
        self.group = Group.replay("shop", LIMITS, (decode_record(line) for line in self._log), now_ms)
        self.image = self.group.image
        self._heard_ms = dict.fromkeys(self.image.members, now_ms)
        self._waiting.insert(0, (Recovered(), lambda _: None))
        self._commit_those_that_wait()

    # --- inside

    def _note(self, member_id: str) -> None:
        """A sign of life. A static member that has missed a rebalance is refused, and that is none, as in Kafka."""
        member = self.group.image.members.get(member_id)
        if member is not None and self.group.image.takes_part(member):
            self._heard_ms[member_id] = self.timeline.now_ms

    def _hear(self, event: HeardEvent) -> Response:
        heard = self.group.hear(event, self.timeline.now_ms, self.image)
        if heard.wants_tick:
            self.ask(Tick(), lambda _: None)
        return heard.response

    def _end_hold(self, held: Held) -> None:
        if held in self._held:
            self._held.remove(held)
            held.reply(self._hear(held.recheck))

    def _wake(self) -> None:
        for held in list(self._held):
            response = self._hear(held.recheck)
            if not (isinstance(response, ProcessHeartbeatAnswered) and response.news == held.known):
                self._held.remove(held)
                held.reply(response)

    def _commit_those_that_wait(self) -> None:
        if self._committing or not self._waiting:
            return
        now_ms, taken = self.timeline.now_ms, self._waiting
        self._waiting, self._committing = [], True
        outcomes: list[Outcome] = []
        for event, _ in taken:
            outcome = self.group.handle(event, now_ms)
            self.group.apply(outcome.records, now_ms)
            outcomes.append(outcome)
            if isinstance(outcome.response, JoinAnswered):
                self._note(outcome.response.member_id)
        self._check(outcomes)
        self._answering = [reply for _, reply in taken]
        records = [encode_record(record) for outcome in outcomes for record in outcome.records]
        restarts = self.restarts
        stored = not self.timeline.happens(self.commit_fails)
        if stored or self.timeline.happens(0.5):  # a commit that fails, or that a kill cuts off, may have been made
            self._log += records
        delay_ms = self.timeline.chance.uniform(0, self.commit_ms) if records else 0
        self.timeline.after(delay_ms, lambda: self._committed(restarts, outcomes, stored))

    def _committed(self, restarts: int, outcomes: list[Outcome], stored: bool) -> None:
        if restarts != self.restarts:
            return
        replies, self._answering, self._committing = self._answering, [], False
        if not stored:
            self.timeline.say("a commit failed")
            for reply in replies:
                reply(NoAnswer())
            self._read()
            return
        self.image = self.group.image
        self.group.validate_state()
        for outcome in outcomes:
            for record in outcome.records:
                shown = f"generation {record.generation_id}" if isinstance(record, RebalanceCompleted) else record
                self.timeline.say(f"   {str(shown)[:150]}")
        self._wake()
        effects = [effect for outcome in outcomes for effect in outcome.effects]
        if effects:
            self.timeline.after(self.timeline.chance.uniform(0, 50), lambda: self._compute(restarts, effects[-1]))
        for reply, outcome in zip(replies, outcomes, strict=True):
            reply(outcome.response)
        self._set_timer()
        self._commit_those_that_wait()

    def _compute(self, restarts: int, effect: RunRebalance) -> None:
        if restarts == self.restarts:
            result = lead(effect, self.timeline.now_ms)
            computed = computed_assignments(effect.members, effect.definition_revision, result)
            self.ask(AssignmentComputed(effect.generation_id, computed), lambda _: None)

    def _set_timer(self) -> None:
        self._timer += 1
        timer, due_ms = self._timer, self.group.next_timer_ms
        if due_ms is not None:
            self.timeline.after(max(0, due_ms - self.timeline.now_ms), lambda: self._tick(timer))

    def _tick(self, timer: int) -> None:
        if timer == self._timer and self.is_up:
            self.ask(Tick(), lambda _: None)

    def _check(self, outcomes: list[Outcome]) -> None:
        members = self.image.members
        for outcome in outcomes:
            for record in outcome.records:
                if not isinstance(record, MemberRemoved) or record.member_id not in members:
                    continue
                if record.reason is not RemovalReason.LEFT:
                    self.evicted.append((self.timeline.now_ms, record))
                silent_ms = self.timeline.now_ms - self._heard_ms[record.member_id]
                if record.reason in (RemovalReason.SESSION_EXPIRED, RemovalReason.NEVER_HEARD_FROM):
                    assert silent_ms >= members[record.member_id].last_join.session_timeout_ms, record
                if record.reason is RemovalReason.DISCONNECTED:
                    assert silent_ms >= GRACE_MS, record
                    waits_on = [one.connection_id for one in self._held if record.member_id in one.recheck.members]
                    assert self.open_connections.isdisjoint(waits_on), f"{record}: its process waits for an answer"
