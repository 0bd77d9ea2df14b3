"""One group in a coordinator, around the real `Group`: events that wait share a commit, which takes a while and may
fail; heartbeats are answered from the committed state, and held; rebalances are computed beside that.

It does what `coordinator_api.runtime` does (`group_runtime`, `event_queue`, `durable_group`, `rebalance_loop`,
`cluster_watch`), without threads. While its coordinator may not answer, no event is taken: who could not be heard is
not late. Afterwards the group is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assignor.pipeline.snapshot import RebalanceResult
from coordinator_api.group import events
from coordinator_api.group.group import Group
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import (
    AssignmentReady,
    JoinAnswered,
    Outcome,
    ProcessHeartbeatAnswered,
    Rejected,
    RunRebalance,
)
from coordinator_api.group.rebalance_result import computed_assignments
from coordinator_api.group.rebalancing import awaits_warm_ups
from coordinator_api.group.record_codec import encode_record
from coordinator_api.group.records import CoordinatorRecord, GenerationStarted, MemberSubscribed
from coordinator_api.group.snapshot import snapshot_records
from coordinator_api.runtime.cluster_watch import all_caught_up
from coordinator_api.runtime.rebalance_loop import VOID_AFTER_S
from coordinator_api.store.store_errors import DatabaseOutOfReach, StoreError
from tests.simulation.database import Write, decoded_once
from tests.simulation.faults import Kind
from tests.simulation.leader import Leader
from tests.simulation.timeline import Action
from tests.simulation.windows import Windows
from tests.simulation.wire import Answer, NoAnswer, Reply, nobody_asked

if TYPE_CHECKING:
    from tests.simulation.coordinator import SimulatedCoordinator
    from tests.simulation.rules import Rules

RETRY_MS = 1_000
"""After an error of the store."""

LOOK_EVERY_MS = 1_000
USUALLY_COMPUTES_MS = 50
BUSY_MS = 1_000


@dataclass(frozen=True, slots=True)
class GroupSetting:
    """`compact_at`: lines of the log from which it is rewritten. `windows`: what is wrong with its leader.
    `fails_next`: whether its next rebalance fails; asked once for each.
    """

    limits: GroupLimits
    leader: Leader
    compact_at: int
    windows: Windows
    fails_next: Callable[[], bool]
    rules: Rules


@dataclass(slots=True, eq=False)
class Held:
    recheck: events.ProcessHeartbeat
    known: str
    connection_id: int
    reply: Reply


class NotOwned(StoreError):
    """The group has another epoch than that in which its coordinator owns it."""


class CoordinatedGroup:
    """`group`: the state machine, maybe ahead of `image`, which is committed. `epoch`: in which its coordinator owns
    it. `is_new`: nothing is stored of it yet.
    """

    def __init__(
        self,
        coordinator: SimulatedCoordinator,
        group_id: str,
        setting: GroupSetting,
        epoch: int,
        *,
        is_new: bool = False,
    ) -> None:
        """Raises DatabaseOutOfReach, NotOwned."""
        self.coordinator = coordinator
        self.group_id = group_id
        self.epoch = epoch
        self.is_new = is_new
        self.is_closed = False
        self.setting = setting
        self.rules = setting.rules
        self.heard_ms: dict[str, int] = {}
        self.held: list[Held] = []
        self._waiting: list[tuple[events.Event, Reply]] = []
        self._answering: list[Reply] = []
        self._committing = self._uncertain = False
        self._timer_ms: int | None = None
        self._timers = 0
        self._due: RunRebalance | None = None
        self._computing = 0
        self._looking = False
        self._load()
        self.rules.restarted(self)

    @property
    def is_paused(self) -> bool:
        """What the answer to a join says."""
        return self.image.levers.pause is not None

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing waits to be written."""
        return not (self._committing or self._waiting or self._uncertain or self.is_new)

    @property
    def now_ms(self) -> int:
        return self.coordinator.clock.now_ms()

    # --- what arrives

    def ask(self, event: events.Event, reply: Reply = nobody_asked) -> None:
        """An event that has to be committed."""
        if isinstance(event, events.Join):
            if self.coordinator.windows.is_open(Kind.OVERLOAD):
                reply(NoAnswer(retry_after_ms=BUSY_MS))
                return
            if event.member_id is not None and not self._uncertain:
                self.note(event.member_id)
                alive = events.Heartbeat(event.member_id, -1, group_instance_id=event.group_instance_id)
                self.group.respond(alive, self.now_ms, self.image)
        self._waiting.append((event, reply))
        self._commit_those_that_wait()

    def fetch(self, event: events.FetchAssignment, reply: Reply) -> None:
        self.note(event.member_id)
        response = self._hear(event)
        if isinstance(response, AssignmentReady):
            self.rules.fetched(self, event.member_id, response.generation_id)
        reply(response)

    def heartbeat(self, event: events.ProcessHeartbeat, known: str | None, wait_ms: int, reply: Reply) -> None:
        assert event.connection_id is not None
        for member_id in event.members:
            self.note(member_id)
        response = self._hear(event)
        if not _brings_nothing_new(response, known):
            reply(response)
            return
        assert known is not None
        held = Held(replace(event, is_recheck=True), known, event.connection_id, reply)
        self.held.append(held)
        self._later(wait_ms, lambda: self._end_hold(held))

    def connection_lost(self, connection_id: int) -> None:
        self.held = [held for held in self.held if held.connection_id != connection_id]
        elsewhere = {member_id: held.connection_id for held in self.held for member_id in held.recheck.members}
        self.ask(events.ConnectionLost(connection_id, elsewhere))

    def reload_before_next_event(self) -> None:
        """Its coordinator's lease had ended for a while."""
        self._uncertain = True
        self._commit_those_that_wait(reads_again=True)

    def close(self) -> None:
        """It is not led here any more: nothing follows, and nobody is answered."""
        self.is_closed = True
        unanswered = [*(reply for _, reply in self._waiting), *self._answering, *(held.reply for held in self.held)]
        self._waiting, self._answering, self.held = [], [], []
        for reply in unanswered:
            reply(NoAnswer())

    def _later(self, delay_ms: float, action: Action) -> None:
        def act() -> None:
            if not self.is_closed:
                action()

        self.coordinator.later(delay_ms, act)

    # --- what is known of members

    def note(self, member_id: str) -> None:
        """A sign of life. A static member that has missed a rebalance is refused, and that is none, as in Kafka."""
        member = self.group.image.members.get(member_id)
        if member is not None and self.group.image.takes_part(member):
            self.heard_ms[member_id] = self.now_ms

    def _hear(self, event: events.HeartbeatOrFetch) -> Answer:
        if self._uncertain and not self._committing:
            self._commit_those_that_wait(reads_again=True)
        heard = self.group.respond(event, self.now_ms, self.image)
        if self._uncertain and _refuses(heard.response):
            return NoAnswer()  # a write whose end is not known may be what would spare it
        if heard.wants_tick:
            self.ask(events.Tick())
        return heard.response

    def _end_hold(self, held: Held) -> None:
        if held in self.held:
            self.held.remove(held)
            held.reply(self._hear(held.recheck))

    def _wake(self) -> None:
        for held in list(self.held):
            response = self._hear(held.recheck)
            if held in self.held and not _brings_nothing_new(response, held.known):
                self.held.remove(held)
                held.reply(response)

    # --- commits

    def _load(self) -> None:
        database = self.coordinator.database
        stored = database.load(self.group_id, self.coordinator.session)
        if database.epoch_of(self.group_id) != (0 if self.is_new else self.epoch):
            raise NotOwned(f"{self.group_id} is not owned in epoch {self.epoch}")
        now_ms = self.now_ms
        records = map(decoded_once, stored.lines)
        self.group = Group.replay(self.group_id, self.setting.limits, records, now_ms)
        self.image = self.group.image
        self._sequence, self._lines = stored.sequence, len(stored.lines)
        self._uncertain = False
        self.heard_ms = dict.fromkeys(self.image.members, now_ms)
        self._waiting.insert(0, (events.Recovered(), nobody_asked))
        self._later(0, self._commit_those_that_wait)

    def _read_again(self) -> bool:
        try:
            self._load()
        except (DatabaseOutOfReach, NotOwned):
            self._turn_away()
            return False
        self.rules.restarted(self)
        self._wake()
        return True

    def _turn_away(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, reply in waiting:
            reply(NoAnswer())
        self._set_timer(self.now_ms + RETRY_MS)

    def _commit_those_that_wait(self, *, reads_again: bool = False) -> None:
        if self._committing or self.is_closed or not (self._waiting or reads_again):
            return
        if not self.coordinator.may_answer():
            self._uncertain = True
            self._turn_away()
            return
        if self._uncertain and not self._read_again():
            return
        if self._committing:
            return  # reading again has begun it
        now_ms, taken = self.now_ms, self._waiting
        self._waiting, self._committing = [], True
        outcomes: list[Outcome] = []
        for event, _ in taken:
            outcome = self.group.handle(event, now_ms)
            self.group.apply(outcome.records, now_ms)
            outcomes.append(outcome)
            if isinstance(outcome.response, JoinAnswered):
                self.note(outcome.response.member_id)
        self.rules.decided(self, outcomes)
        self._answering = [reply for _, reply in taken]
        records = tuple(record for outcome in outcomes for record in outcome.records)
        if not records:
            self._committed(outcomes, False)
            return
        image = self.group.image
        lines = tuple(encode_record(record) for record in records)
        self._write(lines, records, image, lambda write, error: self._written(write, outcomes, error))

    def _write(
        self,
        lines: tuple[str, ...],
        records: tuple[CoordinatorRecord, ...],
        image: GroupImage,
        written: Callable[[Write, StoreError | None], None],
        *,
        replaces: bool = False,
    ) -> None:
        coordinator = self.coordinator
        by = coordinator.lease.coordinator_id
        write = Write(self.group_id, by, self.epoch, self._sequence, lines, records, image, replaces)

        def told(error: StoreError | None) -> None:
            if not self.is_closed:
                written(write, error)

        coordinator.database.write(
            coordinator.session, write, lambda error: coordinator.arrives(lambda: told(error), lambda: None)
        )

    def _written(self, write: Write, outcomes: list[Outcome], error: StoreError | None) -> None:
        if error is not None:
            replies, self._answering, self._committing = self._answering, [], False
            self.coordinator.timeline.say("{}: {}: {}", self.coordinator.name, self.group_id, error)
            self._uncertain = True
            for reply in replies:
                reply(NoAnswer())
            if self.is_new:
                self.coordinator.lease.failed(self)
                return
            self._set_timer(self.now_ms + RETRY_MS)
            if self._waiting:
                self._commit_those_that_wait()
            return
        if self.is_new:
            self.is_new = False
            self.coordinator.lease.created(self)
        self._sequence += len(write.lines)
        self._lines += len(write.lines)
        self.image = write.image
        self._committed(outcomes, any(map(_brings_news, write.records)))

    def _committed(self, outcomes: list[Outcome], brings_news: bool) -> None:
        replies, self._answering, self._committing = self._answering, [], False
        if brings_news:
            self.rules.committed(self)
            self._wake()
        asked = [outcome.rebalance for outcome in outcomes if outcome.rebalance is not None]
        if asked:
            self._start_computing(asked[-1])
        for reply, outcome in zip(replies, outcomes, strict=True):
            reply(outcome.response)
        self._set_timer(self.group.next_timer_ms)
        self._look_at_warm_ups()
        if self._waiting:
            self._commit_those_that_wait()
        elif self._lines >= self.setting.compact_at and not self._committing:
            self._compact()

    def _compact(self) -> None:
        self._committing = True
        records = snapshot_records(self.image)
        lines = tuple(encode_record(record) for record in records)

        def written(_: Write, error: StoreError | None) -> None:
            self._committing = False
            if error is None:
                self._sequence += len(lines)
                self._lines = 0
            else:
                self._uncertain = True
            self._commit_those_that_wait()

        self._write(lines, (), self.image, written, replaces=True)

    # --- time

    def _set_timer(self, at_ms: int | None) -> None:
        if at_ms == self._timer_ms and at_ms is not None and at_ms > self.now_ms:
            return
        self._timer_ms = at_ms
        self._timers += 1
        if at_ms is not None:
            timer = self._timers
            self._later(max(1, at_ms - self.now_ms), lambda: self._timer_due(timer))

    def _timer_due(self, timer: int) -> None:
        if timer != self._timers or self._timer_ms is None:
            return
        if self.now_ms < self._timer_ms:  # the clock stood still for a while
            self._later(self._timer_ms - self.now_ms, lambda: self._timer_due(timer))
            return
        self._timer_ms = None
        self.ask(events.Tick())

    # --- rebalances

    def _start_computing(self, effect: RunRebalance) -> None:
        self._due = effect
        if not self._computing:
            self._compute_next()
        else:
            number = self._computing
            self._later(VOID_AFTER_S * 1000, lambda: self._give_up(number))

    def _compute_next(self) -> None:
        effect, self._due = self._due, None
        if effect is None:
            return
        self._computing = number = self.coordinator.timeline.fresh()
        takes_ms = self.setting.windows.up_to(Kind.SLOW_LEADER, USUALLY_COMPUTES_MS)
        self._later(takes_ms, lambda: self._finish(number, effect))

    def _give_up(self, number: int) -> None:
        if self._computing == number and self._due is not None:
            self._computing = 0
            self._compute_next()

    def _finish(self, number: int, effect: RunRebalance) -> None:
        if self._computing != number:
            return
        if self.setting.fails_next():
            computed = events.ComputedAssignments(error="TimeoutException: no offsets")
        else:
            result: RebalanceResult = self.setting.leader.lead(effect, self.now_ms)
            computed = computed_assignments(effect.members, effect.definition_revision, result)
        event = events.AssignmentComputed(effect.generation_id, computed, kept_owned=effect.steering.keeps_owned)

        def stored(_answer: Answer) -> None:
            if self._computing == number:
                self._computing = 0
                self._compute_next()

        self.ask(event, stored)

    def _look_at_warm_ups(self) -> None:
        if not self._looking and awaits_warm_ups(self.image):
            self._looking = True
            self._later(LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        self._looking = False
        image = self.image
        if not awaits_warm_ups(image):
            return
        sums = self.group.reported_offset_sums()
        reported = all(
            task in sums.get(member_id, {})
            for member_id, member in image.members.items()
            for task in member.last_assignment.warm_ups
        )
        if reported and all_caught_up(image, sums, self.setting.leader.snapshot({})):
            self.ask(events.WarmUpsCaughtUp(image.generation_id))
        self._look_at_warm_ups()


def _brings_nothing_new(response: Answer, known: str | None) -> bool:
    return isinstance(response, ProcessHeartbeatAnswered) and response.news == known


def _brings_news(record: object) -> bool:
    return not isinstance(record, MemberSubscribed | GenerationStarted)


def _refuses(response: Answer) -> bool:
    told = response.members.values() if isinstance(response, ProcessHeartbeatAnswered) else (response,)
    return any(isinstance(one, Rejected) for one in told)
