"""What has to hold after each step, whatever goes wrong, and what has to hold once nothing goes wrong any more.

Each rule has a name. A history that breaks one is made shorter as long as it breaks the same one. Only what may have
changed is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId
from coordinator_api.group.group import Group
from coordinator_api.group.image import GroupImage
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.outcome import Outcome
from coordinator_api.group.record_codec import decode_record
from coordinator_api.group.records import InstanceDrainEnded, MemberRemoved, MemberReplaced, RebalanceCompleted
from coordinator_api.group.states import GroupState, RebalanceOutcome, RemovalReason
from coordinator_api.group.subscriptions import assigned_tasks, process_of
from streams_runtime.membership.coordinator_errors import GroupIdNotFound, IllegalGeneration, UnknownMemberId
from streams_runtime.membership.member_events import AssignmentFailed
from streams_runtime.membership.member_phase import Phase
from tests.simulation.database import Write
from tests.simulation.faults import Kind
from tests.simulation.leader import TASKS
from tests.simulation.member import SESSION_TIMEOUT_MS, ProcessMember
from tests.simulation.pause_rule import PauseRule
from tests.simulation.placement_rules import broken_by
from tests.simulation.rule_names import (
    ACKNOWLEDGED_IS_FETCHED,
    ANSWERED_SURVIVES,
    BECOMES_STABLE,
    DRAINED_RUNS_NOTHING,
    EXACT_COUNTS,
    GENERATIONS_RISE,
    HANDED_OUT_IS_STORED,
    HEARD_STAY,
    LEVERS_STAY,
    NO_MEMBER_FAILS,
    NO_TASK_ALONE,
    NOT_LOST_FOR_NOTHING,
    ONE_MEMBER,
    ONE_OWNER,
    ONE_WRITER,
    REPLAYS,
)

if TYPE_CHECKING:
    from tests.simulation.coordinated_group import CoordinatedGroup
    from tests.simulation.world import SimulatedGroup, World


DISCONNECT_GRACE_MS = 200
CALL_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 8_000
LOOK_EVERY_MS = 1_000
OWNERLESS_AT_MOST_MS = 2 * (SESSION_TIMEOUT_MS + REBALANCE_TIMEOUT_MS)
_SILENT = (RemovalReason.SESSION_EXPIRED, RemovalReason.NEVER_HEARD_FROM)
CALM = (RebalanceOutcome.STABLE, RebalanceOutcome.PROBING, RebalanceOutcome.SETTLED)


class RuleBroken(AssertionError):
    """`rule`: its name."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


@dataclass(slots=True)
class Known:
    """Of one group: `image`: what is stored. `assigned`: what each generation gave to each member. `generations`: the
    last that each member took. `fetched`: the last that its fetches were answered with.
    """

    group: SimulatedGroup | None = None
    image: GroupImage = field(default_factory=GroupImage)
    assigned: dict[tuple[int, str], AssignmentParts] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    fetched: dict[str, int] = field(default_factory=dict)
    is_whole: bool = False
    commits: int = 0
    counted: GroupImage | None = None
    ownerless_ms: dict[TaskId, int] = field(default_factory=dict)


class Rules:
    """An `Observer`. `longest_ownerless_ms`: of any task, while somebody could have had it."""

    def __init__(self, world: World) -> None:
        self.longest_ownerless_ms = 0
        self.pauses = PauseRule()
        self._world = world
        self._known: dict[str, Known] = {}
        self._touched: set[str] = set()
        self._zombies_until_ms = 0
        self._evicted: list[tuple[int, str]] = []
        world.timeline.after(LOOK_EVERY_MS, self._look_for_owners)

    def image_of(self, group_id: str) -> GroupImage:
        """What is stored of the group."""
        return self._of(group_id).image

    def touched(self, group_id: str) -> None:
        """Something may have changed."""
        self._touched.add(group_id)

    def coordinator_changed(self) -> None:
        if len(self._world.coordinators) > 1:
            self._zombies_until_ms = self._world.timeline.now_ms + 1_000_000
        elif self._zombies_until_ms > self._world.timeline.now_ms:
            self._zombies_until_ms = self._world.timeline.now_ms + 2 * SESSION_TIMEOUT_MS + CALL_TIMEOUT_MS
        if sum(one.holds_lease for one in self._world.coordinators) > 1:
            raise RuleBroken(ONE_WRITER, "two hold the lease")

    @property
    def _zombies_were_there(self) -> bool:
        """Who hears from two coordinators, hears what is out of date."""
        return self._world.timeline.now_ms < self._zombies_until_ms

    def _of(self, group_id: str) -> Known:
        known = self._known.get(group_id)
        if known is None:
            known = self._known[group_id] = Known()
        return known

    # --- what coordinators do

    def stored(self, write: Write) -> None:
        """A write was made."""
        known = self._of(write.group_id)
        before = known.image
        if write.replaces:
            if write.image != before:
                raise RuleBroken(ANSWERED_SURVIVES, f"{write.group_id}: a snapshot is not what was stored")
            return
        known.image = write.image
        self._touched.add(write.group_id)
        for rule, what in broken_by(write, before):
            raise RuleBroken(rule, f"{write.group_id}: {what}")
        for record in write.records:
            match record:
                case RebalanceCompleted(generation_id):
                    shown = f"generation {generation_id} is complete: {record.end.outcome}"
                    self._world.timeline.say("   {}: {}", write.group_id, shown)
                    for member_id, member in write.image.members.items():
                        last = member.last_assignment
                        if last.generation_id == generation_id and last.assignment is not None:
                            known.assigned[generation_id, member_id] = last.assignment
                    continue
                case MemberReplaced(_, old, new):
                    moved = {key: one for key, one in known.assigned.items() if key[1] == old}
                    known.assigned |= {(generation, new): one for (generation, _), one in moved.items()}
                case InstanceDrainEnded(target):
                    self._group(write.group_id).operator.drain_ended(target)
            self._world.timeline.say("   {}: {}", write.group_id, record)
        self._check_levers(write.group_id, write.image)

    def restarted(self, group: CoordinatedGroup) -> None:
        known = self._of(group.group_id)
        if group.image != known.image:
            raise RuleBroken(ANSWERED_SURVIVES, f"{group.group_id} was read and is not what was stored")

    def decided(self, group: CoordinatedGroup, outcomes: Sequence[Outcome]) -> None:
        """Who is evicted: nobody who was heard within its session, nobody whose process waits on a whole connection."""
        members, now_ms = group.image.members, group.now_ms
        for outcome in outcomes:
            for record in outcome.records:
                if not isinstance(record, MemberRemoved) or record.member_id not in members:
                    continue
                if members[record.member_id].is_away:
                    continue
                if record.reason is not RemovalReason.LEFT:
                    self._evicted.append((self._world.timeline.now_ms, record.member_id))
                silent_ms = now_ms - group.heard_ms.get(record.member_id, now_ms)
                timeout_ms = members[record.member_id].last_join.session_timeout_ms
                if record.reason in _SILENT and silent_ms < timeout_ms:
                    raise RuleBroken(HEARD_STAY, f"{record}, silent for {silent_ms} ms")
                if record.reason is RemovalReason.DISCONNECTED:
                    waits_on = [one.connection_id for one in group.held if record.member_id in one.recheck.members]
                    if silent_ms < DISCONNECT_GRACE_MS or not self._world.open_connections.isdisjoint(waits_on):
                        raise RuleBroken(HEARD_STAY, f"{record}, silent for {silent_ms} ms")

    def fetched(self, group: CoordinatedGroup, member_id: str, generation_id: int) -> None:
        fetched = self._of(group.group_id).fetched
        fetched[member_id] = max(generation_id, fetched.get(member_id, generation_id))

    def committed(self, group: CoordinatedGroup) -> None:
        group.group.validate_state()
        fetched = self._of(group.group_id).fetched
        for member_id, session in group.group.sessions.items():
            if session.acknowledged_generation > fetched.get(member_id, -1):
                raise RuleBroken(ACKNOWLEDGED_IS_FETCHED, f"{member_id} in {session.acknowledged_generation}")

    def _check_levers(self, group_id: str, image: GroupImage) -> None:
        operator, levers = self._group(group_id).operator, image.levers
        if operator.is_asking:
            return
        stands = (
            None if levers.hold is None else levers.hold.time_limit_ms,
            None if levers.rejoin_grace is None else levers.rejoin_grace.grace_ms,
            levers.pause is not None,
            levers.promotion is not None,
            set(levers.drained),
        )
        was_set = (operator.hold_ms, operator.grace_ms, operator.is_paused, operator.promotes, operator.drained)
        if stands != was_set:
            raise RuleBroken(LEVERS_STAY, f"{group_id}: {stands} instead of {was_set}")

    # --- what members do

    def worked(self, member: ProcessMember) -> None:
        """Its stream thread did something. What was committed to the log is exact at any moment."""
        known, cluster = self._of(member.group_id), member.process.host.group.cluster
        if cluster.log.commits != known.commits:
            known.commits = cluster.log.commits
            cluster.check()

    def has_passed(self, member: ProcessMember, processed: Mapping[TaskId, int]) -> None:
        """Its stream thread has made a pass. `processed`: how many records of each task before."""
        wrong = self.pauses.broken_by(member.process, processed, member.thread.processed)
        if wrong:
            raise RuleBroken(
                LEVERS_STAY, f"{member.alias} is told of the pause and processes {', '.join(map(str, wrong))}"
            )

    def handed_out(self, member: ProcessMember, member_id: str, generation_id: int, data: bytes) -> None:
        """A member fetched its assignment."""
        known = self._of(member.group_id)
        stored = known.assigned.get((generation_id, member_id))
        if stored is None or bytes(stored) != data:
            raise RuleBroken(HANDED_OUT_IS_STORED, f"{member.alias} as {member_id}, generation {generation_id}")
        if generation_id < known.generations.get(member_id, 0) and not self._zombies_were_there:
            raise RuleBroken(GENERATIONS_RISE, f"{member.alias} went back to {generation_id}")
        known.generations[member_id] = generation_id

    def loses(self, member: ProcessMember, reason: str, member_id: str | None) -> None:
        """It is about to drop all tasks. `member_id`: that it had."""
        if self._zombies_were_there:
            return
        known = self.image_of(member.group_id).members.get(member_id or "")
        if reason == UnknownMemberId.known_code and known is not None and not known.is_away:
            raise RuleBroken(NOT_LOST_FOR_NOTHING, f"{member.alias} is a member as {member_id}")
        if reason == IllegalGeneration.known_code and known is not None and not known.is_static:
            raise RuleBroken(NOT_LOST_FOR_NOTHING, f"{member.alias} has missed nothing")

    # --- after each step

    def check(self) -> None:
        if self._touched:
            touched, self._touched = self._touched, set()
            for group_id in sorted(touched):
                self._check_group(group_id)

    def _group(self, group_id: str) -> SimulatedGroup:
        known = self._of(group_id)
        if known.group is None:
            known.group = next(one for one in self._world.groups.values() if one.group_id == group_id)
        return known.group

    def members_of(self, group_id: str) -> list[ProcessMember]:
        """Those that live, of all processes that are not over."""
        return [
            member
            for host in self._world.hosts.values()
            if host.group.group_id == group_id
            for process in host.processes
            for member in process.living
        ]

    def _check_group(self, group_id: str) -> None:
        known, living = self._of(group_id), self.members_of(group_id)
        known.is_whole = False
        image, owners = known.image, dict[TaskId, ProcessMember]()
        for member in living:
            in_group = image.members.get(member.machine.member_id or "")
            if in_group is None or not image.takes_part(in_group):
                continue  # the log fences it
            for task in member.running:
                if task in owners and not self._zombies_were_there:
                    raise RuleBroken(ONE_OWNER, f"{task} runs at {owners[task].alias} and {member.alias}")
                owners[task] = member
        if known.counted is not image and not self._zombies_were_there:
            known.counted = image
            aliases = [member_id.partition(".")[0] for member_id in image.members]
            for member in living:
                if aliases.count(member.alias) > 1:
                    raise RuleBroken(ONE_MEMBER, f"{member.alias}: {sorted(image.members)}")

    def ended(self, member: ProcessMember) -> None:
        """It has come to its end."""
        failure = member.ended.failure if member.ended is not None else None
        if failure is not None and not self._may_fail(member):
            raise RuleBroken(NO_MEMBER_FAILS, f"{member.alias}: {failure!r}")

    def _may_fail(self, member: ProcessMember) -> bool:
        """A rebalance failed, or its own thread did, or a zombie did not know the group."""
        assert member.ended is not None
        failure = member.ended.failure
        if isinstance(failure, GroupIdNotFound):
            return self._zombies_were_there
        return member.failed is not None or isinstance(failure, AssignmentFailed)

    def _look_for_owners(self) -> None:
        world = self._world
        coordinator = world.coordinator
        is_well = (
            coordinator is not None
            and len(world.coordinators) == 1
            and not coordinator.is_frozen
            and not world.database.windows.any_open
            and not world.coordinator_windows.any_open
        )
        for group in world.groups.values():
            self._look_for_owners_of(group, is_well)
        if not world.is_quiet:
            world.timeline.after(LOOK_EVERY_MS, self._look_for_owners)

    def _look_for_owners_of(self, group: SimulatedGroup, is_well: bool) -> None:
        known = self._of(group.group_id)
        able = (
            is_well
            and not group.is_told_to_stop
            and not group.windows.any_open
            and any(
                host.living is not None
                and not host.living.is_frozen
                and not host.link.windows.any_open
                and not host.windows.any_open
                for host in self._world.hosts.values()
                if host.group is group
            )
        )
        running = {task for member in self.members_of(group.group_id) for task in member.running}
        for task in TASKS:
            since = 0 if task in running or not able else known.ownerless_ms.get(task, 0) + LOOK_EVERY_MS
            known.ownerless_ms[task] = since
            self.longest_ownerless_ms = max(self.longest_ownerless_ms, since)
            if since > OWNERLESS_AT_MOST_MS + (group.operator.grace_ms or 0):
                raise RuleBroken(NO_TASK_ALONE, f"{group.group_id}: {task} for {since} ms")

    # --- at rest

    def quiet(self) -> None:
        """The faults have ended, or the last pauses have."""
        for group_id, known in self._known.items():
            known.is_whole = False
            self._touched.add(group_id)

    def rest_within_ms(self) -> int:
        """Dead members' sessions end, calls that were lost are repeated, and rebalances follow one another."""
        jumps_ms = sum(abs(each.amount) for each in self._world.schedule.faults if each.kind is Kind.COORDINATOR_CLOCK)
        operators = [group.operator for group in self._world.groups.values()]
        waits_ms = max(3 * (one.hold_ms or 0) + 2 * (one.grace_ms or 0) for one in operators)
        return 3 * (CALL_TIMEOUT_MS + SESSION_TIMEOUT_MS + REBALANCE_TIMEOUT_MS) + waits_ms + jumps_ms

    def is_whole(self) -> bool:
        whole = True
        for group in self._world.groups.values():
            known = self._of(group.group_id)
            if not known.is_whole:
                known.is_whole = not self._missing(group)
                whole = whole and known.is_whole
        return whole

    def _missing(self, group: SimulatedGroup) -> str:
        """What the group still lacks."""
        image, living = self.image_of(group.group_id), self.members_of(group.group_id)
        if group.operator.is_asking:
            return "its operator waits for an answer"
        if not living:
            return "it has no members"
        if image.state is not GroupState.STABLE:
            return f"it is {image.state}"
        if image.last_rebalance is None or image.last_rebalance.end.outcome not in CALM:
            return "another rebalance follows"
        if image.members.keys() != {member.machine.member_id for member in living}:
            return f"{sorted(image.members)} are its members"
        if any(member.machine.phase is not Phase.HOLDING for member in living):
            return "its members are busy"
        if {member.machine.heartbeat({}).body.generation_id for member in living} != {image.generation_id}:
            return "not all have the assignment"
        if sorted(task for member in living for task in member.running) != list(TASKS):
            return "not every task runs once"
        is_paused = image.levers.pause is not None
        if any(self.pauses.is_told(member.process) is not is_paused for member in living):
            return "not all have heard whether it is paused"
        if group.cluster.lag() and not is_paused:
            return f"{group.cluster.lag()} words are not counted"
        return ""

    def never_rested(self) -> None:
        missing = {group.group_id: self._missing(group) for group in self._world.groups.values()}
        raise RuleBroken(BECOMES_STABLE, str({key: what for key, what in missing.items() if what}))

    def check_at_rest(self) -> None:
        world = self._world
        for group in world.groups.values():
            image, living = self.image_of(group.group_id), self.members_of(group.group_id)
            late_ms = world.schedule.faults_ms + CALL_TIMEOUT_MS
            ids = {member.machine.member_id for member in living}
            late = [member_id for at_ms, member_id in self._evicted if at_ms > late_ms and member_id in ids]
            if late:
                raise RuleBroken(HEARD_STAY, f"{late} although all is well")
            self._check_levers(group.group_id, image)
            self._check_drained(image)
            stored = world.database.load(group.group_id)
            replayed = Group.replay(group.group_id, _LIMITS, map(decode_record, stored.lines), 0)
            if replayed.image != image:
                raise RuleBroken(REPLAYS, group.group_id)
            group.cluster.check()
            for member in living:
                member.thread.check_stores()
            for host in world.hosts.values():
                if host.group is group:
                    group.cluster.check_checkpoints(host.machine)
            counted, expected = group.cluster.committed_counts(), group.cluster.expected_counts()
            if group.operator.is_paused:
                continue
            if counted != expected and (
                group.cluster.exactly_once or any(counted.get(word, 0) < count for word, count in expected.items())
            ):
                raise RuleBroken(EXACT_COUNTS, f"{group.group_id}: {counted} instead of {expected}")

    def _check_drained(self, image: GroupImage) -> None:
        drained = [one for one in image.members.values() if _is_drained(image, one.member_id)]
        settled = image.last_rebalance is not None and image.last_rebalance.end.outcome is RebalanceOutcome.STABLE
        if not settled or len(drained) == len(image.members) or image.levers.hold is not None:
            return
        for member in drained:
            assignment = member.last_assignment.assignment
            if assignment is not None and assigned_tasks(assignment).active:
                raise RuleBroken(DRAINED_RUNS_NOTHING, member.member_id)


_LIMITS = GroupLimits()


def _is_drained(image: GroupImage, member_id: str) -> bool:
    process = process_of(image.members[member_id].last_join.subscription)
    return member_id in image.levers.drained or str(process) in image.levers.drained
