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
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import Outcome
from coordinator_api.group.records import LeverChanged, MemberRemoved, MemberReplaced, RebalanceCompleted
from coordinator_api.group.states import GroupState, RebalanceOutcome, RemovalReason
from coordinator_api.group.subscriptions import assigned_tasks, process_of
from streams_runtime.membership.calls import IllegalGeneration, UnknownMemberId
from streams_runtime.membership.member_events import AssignmentFailed
from streams_runtime.membership.member_state import Phase
from tests.simulation.cluster import TASKS
from tests.simulation.database import Write, decoded_once
from tests.simulation.faults import Kind, Of
from tests.simulation.member import SESSION_TIMEOUT_MS, ProcessMember
from tests.simulation.pause_rule import PauseRule
from tests.simulation.placement_rules import broken_by
from tests.simulation.rule_names import Rule

if TYPE_CHECKING:
    from tests.simulation.coordinated_group import CoordinatedGroup
    from tests.simulation.coordinator import SimulatedCoordinator
    from tests.simulation.hosts import Host
    from tests.simulation.world import SimulatedGroup, World


DISCONNECT_GRACE_MS = 200
CALL_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 8_000
LOOK_EVERY_MS = 1_000
WHOLE_EVERY_MS = 25
LATE_MS = LOOK_EVERY_MS + 500
"""A look may come so much later, and a group is read again after a while when that failed. Besides, the beat of whoever
takes it may still wait for an answer that does not come: for a third of the lease timeout.
"""

OWNERLESS_AT_MOST_MS = 2 * (SESSION_TIMEOUT_MS + REBALANCE_TIMEOUT_MS)
_SILENT = (RemovalReason.SESSION_EXPIRED, RemovalReason.NO_REQUEST_SINCE_JOIN)
_KEEP_FROM_RENEWING = (Kind.SLOW_COMMITS, Kind.FAILED_COMMITS, Kind.UNKNOWN_COMMITS, Kind.DATABASE_FULL)
CALM = (RebalanceOutcome.STABLE, RebalanceOutcome.PROBING, RebalanceOutcome.SETTLED)


class RuleBroken(AssertionError):
    """`rule`: its name."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


@dataclass(slots=True)
class Known:
    """Of one group: `image`: what is stored. `assigned`: what each generation gave to each member. `generations`: the
    last that each member took. `fetched`: the last that its fetches were answered with. `served_ms`: when it was last
    seen to be led by a coordinator that may answer.
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
    served_ms: int = 0


class Rules:
    """What coordinators, members and the database report to it is what it checks."""

    def __init__(self, world: World) -> None:
        self.pauses = PauseRule()
        self._world = world
        self._known: dict[str, Known] = {}
        self._touched: set[str] = set()
        self._hosts: dict[str, list[Host]] = {}
        self._whole_at_ms = 0
        self._failed_ms = 0
        self._evicted: list[tuple[int, str]] = []
        world.timeline.after(LOOK_EVERY_MS, self._look_for_owners)

    def image_of(self, group_id: str) -> GroupImage:
        """What is stored of the group."""
        return self._of(group_id).image

    def touched(self, group_id: str) -> None:
        """Something may have changed."""
        self._touched.add(group_id)

    def coordinator_failed(self) -> None:
        """One was killed, stopped or replaced."""
        self._failed_ms = self._world.timeline.now_ms

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
        if not self._owns(write.group_id, write.by, write.epoch):
            raise RuleBroken(Rule.OWNER_WRITES, f"{write.group_id}: {write.by} in epoch {write.epoch}")
        if write.replaces:
            if write.image != before:
                raise RuleBroken(Rule.ANSWERED_SURVIVES, f"{write.group_id}: a snapshot is not what was stored")
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
                case LeverChanged(lever, is_on=False) if lever.name is LeverName.DRAIN:
                    self._group(write.group_id).operator.drain_ended(lever.target)
            self._world.timeline.say("   {}: {}", write.group_id, record)
        self._check_levers(write.group_id, write.image)

    def _owns(self, group_id: str, coordinator_id: str | None, epoch: int) -> bool:
        """As the rows say at this moment."""
        table = self._world.database.table
        return table is None or table.groups[group_id][1:3] == (coordinator_id, epoch)

    def answered(self, group: CoordinatedGroup) -> None:
        """Before its first write is made, a new group has no row."""
        coordinator = group.coordinator
        if not group.is_new and not self._owns(group.group_id, coordinator.lease.coordinator_id, group.epoch):
            raise RuleBroken(
                Rule.OWNER_ANSWERS, f"{coordinator.name} answers for {group.group_id} in epoch {group.epoch}"
            )

    def handed_over(self, group_id: str) -> None:
        for group in self._world.groups.values():
            if group.weighed is not None and group.group_id != group_id:
                weighed, group.weighed = group.weighed, None
                self._world.struck(weighed)

    def restarted(self, group: CoordinatedGroup) -> None:
        known = self._of(group.group_id)
        if group.image != known.image:
            raise RuleBroken(Rule.ANSWERED_SURVIVES, f"{group.group_id} was read and is not what was stored")

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
                    raise RuleBroken(Rule.HEARD_STAY, f"{record}, silent for {silent_ms} ms")
                if record.reason is RemovalReason.DISCONNECTED:
                    waits_on = [one.connection_id for one in group.held if record.member_id in one.recheck.members]
                    if silent_ms < DISCONNECT_GRACE_MS or not self._world.open_connections.isdisjoint(waits_on):
                        raise RuleBroken(Rule.HEARD_STAY, f"{record}, silent for {silent_ms} ms")

    def fetched(self, group: CoordinatedGroup, member_id: str, generation_id: int) -> None:
        fetched = self._of(group.group_id).fetched
        fetched[member_id] = max(generation_id, fetched.get(member_id, generation_id))

    def committed(self, group: CoordinatedGroup) -> None:
        group.group.validate_state()
        fetched = self._of(group.group_id).fetched
        for member_id, session in group.group.sessions.items():
            if session.acknowledged_generation > fetched.get(member_id, -1):
                raise RuleBroken(Rule.ACKNOWLEDGED_IS_FETCHED, f"{member_id} in {session.acknowledged_generation}")

    def _check_levers(self, group_id: str, image: GroupImage) -> None:
        operator, levers = self._group(group_id).operator, image.levers
        if operator.is_asking:
            return
        of_group = (levers.hold, levers.rejoin_grace, levers.promotion, levers.pause)
        stands = ({each.name: each.value_ms for each in of_group if each is not None}, set(levers.drained))
        was_set = (operator.levers, operator.drained)
        if stands != was_set:
            raise RuleBroken(Rule.LEVERS_STAY, f"{group_id}: {stands} instead of {was_set}")

    # --- what members do

    def worked(self, member: ProcessMember) -> None:
        """Its stream thread did something. What is committed to the log and to stores is exact at any moment."""
        known, cluster = self._of(member.group_id), member.process.host.group.cluster
        cluster.check_disk(member.process.machine)
        if cluster.log.commits != known.commits:
            known.commits = cluster.log.commits
            cluster.check()

    def has_passed(self, member: ProcessMember, processed: Mapping[TaskId, int]) -> None:
        """Its stream thread has made a pass. `processed`: how many records of each task before."""
        wrong = self.pauses.broken_by(member.process, processed, member.thread.processed)
        if wrong:
            raise RuleBroken(
                Rule.LEVERS_STAY, f"{member.alias} is told of the pause and processes {', '.join(map(str, wrong))}"
            )

    def handed_out(self, member: ProcessMember, member_id: str, generation_id: int, data: bytes) -> None:
        """A member fetched its assignment."""
        known = self._of(member.group_id)
        stored = known.assigned.get((generation_id, member_id))
        if stored is None or bytes(stored) != data:
            raise RuleBroken(Rule.HANDED_OUT_IS_STORED, f"{member.alias} as {member_id}, generation {generation_id}")
        if generation_id < known.generations.get(member_id, 0):
            raise RuleBroken(Rule.GENERATIONS_RISE, f"{member.alias} went back to {generation_id}")
        known.generations[member_id] = generation_id

    def loses(self, member: ProcessMember, reason: str, member_id: str | None) -> None:
        """It is about to drop all tasks. `member_id`: that it had."""
        known = self.image_of(member.group_id).members.get(member_id or "")
        if reason == UnknownMemberId.known_code and known is not None and not known.is_away:
            raise RuleBroken(Rule.NOT_LOST_FOR_NOTHING, f"{member.alias} is a member as {member_id}")
        if reason == IllegalGeneration.known_code and known is not None and not known.is_static:
            raise RuleBroken(Rule.NOT_LOST_FOR_NOTHING, f"{member.alias} has missed nothing")

    # --- after each step

    def check(self) -> bool:
        """Never enough: it goes on."""
        table = self._world.database.table
        if table is not None and table.ended:
            for coordinator_id in table.ended:
                self._check_ended(coordinator_id, table.renewed_ms.get(coordinator_id, 0))
            table.ended.clear()
        if self._touched:
            touched, self._touched = self._touched, set()
            for group_id in sorted(touched):
                self._check_group(group_id)
        return False

    def _check_ended(self, coordinator_id: str, renewed_ms: int) -> None:
        """That the database was away is no reason, if it was there for a while in between. `renewed_ms`: when it had
        renewed its row.
        """
        now_ms, lease_ms = self._world.timeline.now_ms, self._world.lease_ms
        one = next((each for each in self._world.coordinators if each.lease.coordinator_id == coordinator_id), None)
        if one is None or lease_ms is None:
            return
        away_until_ms = 0
        for fault in self._world.schedule.faults:
            until_ms = fault.at_ms + fault.for_ms
            if fault.at_ms > now_ms or until_ms <= renewed_ms:
                continue
            if fault.kind is Kind.DATABASE_AWAY:
                if away_until_ms and fault.at_ms - away_until_ms < lease_ms / 2:
                    return
                away_until_ms = max(away_until_ms, until_ms)
            elif fault.kind in _KEEP_FROM_RENEWING or (
                fault.kind.of is Of.COORDINATOR and self._world.places[fault.target - 1].url == one.url
            ):
                return
        raise RuleBroken(Rule.LIVING_STAY, f"{one.name}, {coordinator_id}, which renewed its row at {renewed_ms}")

    def _group(self, group_id: str) -> SimulatedGroup:
        known = self._of(group_id)
        if known.group is None:
            known.group = next(one for one in self._world.groups.values() if one.group_id == group_id)
        return known.group

    def members_of(self, group_id: str) -> list[ProcessMember]:
        """Those that live, of all processes that are not over."""
        return [member for host in self._hosts_of(group_id) for process in host.started for member in process.living]

    def _hosts_of(self, group_id: str) -> list[Host]:
        hosts = self._hosts.get(group_id)
        if hosts is None:
            hosts = [host for host in self._world.hosts.values() if host.group.group_id == group_id]
            self._hosts[group_id] = hosts
        return hosts

    def _check_group(self, group_id: str) -> None:
        known, living = self._of(group_id), self.members_of(group_id)
        known.is_whole = False
        image, owners = known.image, dict[TaskId, ProcessMember]()
        for member in living:
            in_group = image.members.get(member.machine.member_id or "")
            if in_group is None or not image.takes_part(in_group):
                continue  # the log fences it
            for task in member.running:
                if task in owners:
                    raise RuleBroken(Rule.ONE_OWNER, f"{task} runs at {owners[task].alias} and {member.alias}")
                owners[task] = member
        if known.counted is not image:
            known.counted = image
            aliases = [member_id.partition(".")[0] for member_id in image.members]
            for member in living:
                if aliases.count(member.alias) > 1:
                    raise RuleBroken(Rule.ONE_MEMBER, f"{member.alias}: {sorted(image.members)}")

    def ended(self, member: ProcessMember) -> None:
        """It has come to its end."""
        failure = member.ended.failure if member.ended is not None else None
        if failure is not None and not self._may_fail(member):
            raise RuleBroken(Rule.NO_MEMBER_FAILS, f"{member.alias}: {failure!r}")

    def _may_fail(self, member: ProcessMember) -> bool:
        """A rebalance failed, or its own thread did."""
        assert member.ended is not None
        failure = member.ended.failure
        return member.failed is not None or isinstance(failure, AssignmentFailed)

    def _look_for_owners(self) -> None:
        world, now_ms = self._world, self._world.timeline.now_ms
        coordinators, is_database_well = world.coordinators, not world.database.windows.any_open
        for one in coordinators:
            if not one.is_well or one.session.reach.any_open or not is_database_well:
                one.well_since_ms = now_ms
        is_well = is_database_well and not world.coordinator_windows.any_open
        for group in world.groups.values():
            serves = [one for one in coordinators if one.serves(group.group_id)]
            self._look_for_server(group, coordinators, is_served=bool(serves))
            self._look_for_owners_of(group, is_well and any(one.is_well for one in serves))
        if not world.is_quiet:
            world.timeline.after(LOOK_EVERY_MS, self._look_for_owners)

    def _look_for_server(
        self, group: SimulatedGroup, coordinators: Sequence[SimulatedCoordinator], *, is_served: bool
    ) -> None:
        """Counted from when one was there that could take it, whose database answered in time. What happens to others
        that have a row is no excuse.
        """
        known, now_ms, lease_ms = self._of(group.group_id), self._world.timeline.now_ms, self._world.lease_ms
        if is_served or not group.operator.has_declared or lease_ms is None:
            known.served_ms = now_ms
            return
        well_ms = min((one.well_since_ms for one in coordinators if one.is_well), default=now_ms)
        since_ms = max(known.served_ms, self._failed_ms, well_ms)
        if now_ms - since_ms > lease_ms * 4 / 3 + LATE_MS:
            raise RuleBroken(Rule.SERVED_AGAIN, f"{group.group_id}: not since {since_ms}")

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
            if since > OWNERLESS_AT_MOST_MS + group.operator.levers.get(LeverName.REJOIN_GRACE, 0):
                raise RuleBroken(Rule.NO_TASK_ALONE, f"{group.group_id}: {task} for {since} ms")

    # --- at rest

    def quiet(self) -> None:
        """The faults have ended, or the last pauses have."""
        for group_id, known in self._known.items():
            known.is_whole = False
            self._touched.add(group_id)

    def rest_within_ms(self) -> int:
        """Dead members' sessions end, calls that were lost are repeated, and rebalances follow one another."""
        jumps_ms = sum(abs(each.amount) for each in self._world.schedule.faults if each.kind is Kind.COORDINATOR_CLOCK)
        levers = [group.operator.levers for group in self._world.groups.values()]
        waits_ms = max(3 * on.get(LeverName.HOLD, 0) + 2 * on.get(LeverName.REJOIN_GRACE, 0) for on in levers)
        waits_ms += 2 * (self._world.lease_ms or 0)
        return 3 * (CALL_TIMEOUT_MS + SESSION_TIMEOUT_MS + REBALANCE_TIMEOUT_MS) + waits_ms + jumps_ms

    def is_whole(self) -> bool:
        """It is looked at now and then only."""
        if self._world.timeline.now_ms < self._whole_at_ms:
            return False
        self._whole_at_ms = self._world.timeline.now_ms + WHOLE_EVERY_MS
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
        if {member.machine.heartbeat({}, {}).body.generation_id for member in living} != {image.generation_id}:
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
        raise RuleBroken(Rule.BECOMES_STABLE, str({key: what for key, what in missing.items() if what}))

    def check_at_rest(self) -> None:
        world = self._world
        for group in world.groups.values():
            image, living = self.image_of(group.group_id), self.members_of(group.group_id)
            late_ms = world.schedule.faults_ms + CALL_TIMEOUT_MS
            ids = {member.machine.member_id for member in living}
            late = [member_id for at_ms, member_id in self._evicted if at_ms > late_ms and member_id in ids]
            if late:
                raise RuleBroken(Rule.HEARD_STAY, f"{late} although all is well")
            self._check_levers(group.group_id, image)
            self._check_drained(image)
            stored = world.database.stored(group.group_id)
            replayed = Group.replay(group.group_id, _LIMITS, map(decoded_once, stored.lines), 0)
            if replayed.image != image:
                raise RuleBroken(Rule.REPLAYS, group.group_id)
            group.cluster.check()
            for member in living:
                member.thread.check_stores()
            for host in world.hosts.values():
                if host.group is group:
                    group.cluster.check_checkpoints(host.machine)
                    group.cluster.check_disk(host.machine)
            counted, expected = group.cluster.committed_counts(), group.cluster.expected_counts()
            if group.operator.is_paused:
                continue
            if counted != expected and (
                group.cluster.exactly_once or any(counted.get(word, 0) < count for word, count in expected.items())
            ):
                raise RuleBroken(Rule.EXACT_COUNTS, f"{group.group_id}: {counted} instead of {expected}")

    def _check_drained(self, image: GroupImage) -> None:
        drained = [one for one in image.members.values() if _is_drained(image, one.member_id)]
        settled = image.last_rebalance is not None and image.last_rebalance.end.outcome is RebalanceOutcome.STABLE
        if not settled or len(drained) == len(image.members) or image.levers.hold is not None:
            return
        for member in drained:
            assignment = member.last_assignment.assignment
            if assignment is not None and assigned_tasks(assignment).active:
                raise RuleBroken(Rule.DRAINED_RUNS_NOTHING, member.member_id)


_LIMITS = GroupLimits()


def _is_drained(image: GroupImage, member_id: str) -> bool:
    process = process_of(image.members[member_id].last_join.subscription)
    return member_id in image.levers.drained or str(process) in image.levers.drained
