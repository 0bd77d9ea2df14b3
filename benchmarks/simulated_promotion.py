"""Two instances of a group on a simulated clock, with the real group, the real assignor and the rule of the watch.

Rebalances take no time here, and everybody is heard every 100 ms.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assignor.pipeline import assign
from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.types import LATEST_OFFSET, TaskId
from coordinator_api.group.events import (
    AssignmentComputed,
    DeclareGroup,
    Event,
    FetchAssignment,
    Heartbeat,
    HeartbeatOrFetch,
    Join,
    SetLever,
    Tick,
    WarmUpsCaughtUp,
)
from coordinator_api.group.group import Group
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import AssignmentReady, HeartbeatAnswered, JoinAnswered, Response, RunRebalance
from coordinator_api.group.rebalance_result import computed_assignments
from coordinator_api.group.rebalancing import awaits_warm_ups
from coordinator_api.group.states import GroupState, RebalanceOutcome
from coordinator_api.runtime.cluster_watch import WARM_UP_POLL_INTERVAL_S, all_caught_up
from coordinator_api.runtime.definitions import read_definition, read_input
from tests.coordinator_api.group_members import subscription

STEP_MS = 100
LONGEST_MS = 24 * 3_600_000
_SESSION_MS = 45_000


def restored_after(known: Mapping[str, float], standby: tuple[str, ...], records: float, end: int) -> dict[str, float]:
    """Offset sums of `standby` when each has restored so many `records` more; none goes beyond `end`."""
    return {task: min(end, known.get(task, 0) + records) for task in standby}


@dataclass(slots=True)
class _Instance:
    """One thread. `restored`: offset sums of its standby tasks."""

    name: str
    process_id: str
    generation_id: int = 0
    member_id: str | None = None
    waits_for: int | None = None
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    restored: dict[str, float] = field(default_factory=dict)

    def sums(self) -> dict[str, int]:
        restored = {task: int(self.restored.get(task, 0)) for task in self.standby}
        return {**dict.fromkeys(self.active, LATEST_OFFSET), **restored}

    def join(self) -> Join:
        owned = tuple(TaskId.parse(task).partition for task in self.active)
        said = subscription(self.process_id, self.sums(), owned, self.generation_id or None)
        return Join(said, _SESSION_MS, _SESSION_MS, self.name, self.member_id, client_id=self.name)

    def take(self, ready: AssignmentReady) -> None:
        info = _info(bytes(ready.assignment))
        self.generation_id, self.waits_for = ready.generation_id, None
        self.active = tuple(str(task) for task in info.active_tasks)
        self.standby = tuple(str(task) for task in info.standby_tasks)


def _info(raw: bytes) -> AssignmentInfo:
    user_data = decode_assignment(raw).user_data
    assert user_data is not None
    return decode_assignment_info(user_data)


class _SimulatedGroup:
    def __init__(self, definition: dict[str, Any], records_a_second: int) -> None:
        self.now_ms = 0
        self.group = Group("bench", GroupLimits(initial_rebalance_delay_ms=0))
        self.instances: list[_Instance] = []
        input_json = read_definition(definition, "bench", max_partitions=10_000)
        self._definition = read_input(input_json).snapshot
        (ends,) = (self._definition.changelog_end_offsets or {}).values()
        self._end = max(ends)
        self._records_a_step = records_a_second * STEP_MS / 1_000
        self.send(DeclareGroup(input_json))

    def send(self, event: Event) -> Response:
        outcome = self.group.handle(event, self.now_ms)
        self.group.apply(outcome.records, self.now_ms)
        if outcome.rebalance is not None:
            self.send(self._computed(outcome.rebalance))
        return outcome.response

    def ask(self, event: HeartbeatOrFetch) -> Response:
        """As `GroupRuntime` does: the answer to a heartbeat that starts a follow-up says so."""
        answered = self.group.respond(event, self.now_ms, self.group.image)
        if answered.wants_tick:
            self.send(Tick())
            if isinstance(event, Heartbeat):
                answered = self.group.respond(event, self.now_ms, self.group.image)
        return answered.response

    def start(self, name: str, process_id: str) -> None:
        instance = _Instance(name, process_id)
        self.instances.append(instance)
        self._join(instance)

    def step(self) -> None:
        """100 ms later: everybody has restored a little, is heard, and does what it is told."""
        self.now_ms += STEP_MS
        for instance in self.instances:
            instance.restored = restored_after(instance.restored, instance.standby, self._records_a_step, self._end)
        due_ms = self.group.next_timer_ms
        if due_ms is not None and due_ms <= self.now_ms:
            self.send(Tick())
        for instance in self.instances:
            self._hear(instance)
        if self.now_ms % int(WARM_UP_POLL_INTERVAL_S * 1_000) == 0:
            self._look()

    def is_settled(self) -> bool:
        last = self.group.image.last_rebalance
        known = all(each.generation_id == self.group.image.generation_id for each in self.instances)
        done = last is not None and last.end.outcome is RebalanceOutcome.STABLE
        return known and done and self.group.image.state is GroupState.STABLE

    def _hear(self, instance: _Instance) -> None:
        assert instance.member_id is not None
        sums = {TaskId.parse(task): offset for task, offset in instance.sums().items()}
        told = self.ask(Heartbeat(instance.member_id, instance.generation_id, sums))
        assert isinstance(told, HeartbeatAnswered), told
        if told.rejoin:
            self._join(instance)
        if instance.waits_for is not None:
            fetched = self.ask(FetchAssignment(instance.member_id, instance.waits_for))
            if isinstance(fetched, AssignmentReady):
                instance.take(fetched)

    def _join(self, instance: _Instance) -> None:
        joined = self.send(instance.join())
        assert isinstance(joined, JoinAnswered), joined
        instance.member_id, instance.waits_for = joined.member_id, joined.generation_id

    def _look(self) -> None:
        """As `WarmUpWatch` does."""
        image = self.group.image
        if awaits_warm_ups(image) and all_caught_up(image, self.group.reported_offset_sums(), self._definition):
            self.send(WarmUpsCaughtUp(image.generation_id))

    def _computed(self, effect: RunRebalance) -> AssignmentComputed:
        result = assign(replace(self._definition, members=effect.members, steering=effect.steering), self.now_ms)
        rebalance = computed_assignments(effect.members, effect.definition_revision, result)
        return AssignmentComputed(effect.generation_id, rebalance)


def simulated_growth(definition: dict[str, Any], records_a_second: int, *, promotes: bool) -> tuple[float, int]:
    """Seconds from the join of a second instance until the group is stable, and the rebalances on the way."""
    simulated = _SimulatedGroup(definition, records_a_second)
    if promotes:
        simulated.send(SetLever(LeverName.PROMOTION, True))
    simulated.start("first", "00000000-0000-0000-0000-000000000001")
    _until_settled(simulated)
    began_ms, generation_id = simulated.now_ms, simulated.group.image.generation_id
    simulated.start("second", "00000000-0000-0000-0000-000000000002")
    _until_settled(simulated)
    few, many = sorted(len(each.active) for each in simulated.instances)
    assert many - few <= 1, "the group is stable, and its tasks are not spread"
    return (simulated.now_ms - began_ms) / 1_000, simulated.group.image.generation_id - generation_id


def _until_settled(simulated: _SimulatedGroup) -> None:
    until_ms = simulated.now_ms + LONGEST_MS
    simulated.step()
    while not simulated.is_settled():
        assert simulated.now_ms < until_ms, "not stable after a day"
        simulated.step()
