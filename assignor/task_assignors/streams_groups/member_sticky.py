"""The sticky task assignor of streams groups. The assignor assigns tasks to members. Each stream thread is one member.

1. An active task stays with the member that had it, up to the member's quota. The quota is the number of active tasks
   divided by the number of members, rounded up.
2. If an active task is not placed yet, it goes to the least loaded candidate, up to this member's quota.
3. The remaining active tasks go to the process with the fewest tasks per member. Within this process, the tasks go to
   the member with the fewest tasks.
4. A standby goes to the previous owner of the task, or else to the least loaded candidate. A member gets a standby only
   if it has fewer active tasks and standbys than its quota of all copies. If a standby is still not placed, it goes to
   a process without the task: the process with the fewest tasks per member.

The candidates of a task are the members that had a standby of the task. Kafka 4.4 has two more rules. If a member
reports an offset for the task, it is also a candidate, after all members that had a standby. Candidates with higher
offsets come first. Step 4 of Kafka 4.4 skips a candidate if its process has the task. In Kafka 4.3, no candidate gets
the standby if the process of the first candidate has the task. `assignor.configs.kafka_versions` lists the rules of
each version.

A quota is computed again whenever a member reaches the quota. The assignor ignores racks and tags, and makes no
warm-ups. The order of Java's maps and heaps is reproduced where it decides between equal members or processes. So this
module iterates over members and processes in the order of the hashes of their ids. Differs from Kafka: if the ids of
several members share a bucket, these members are in the order of the input. On a broker, members whose ids share a
bucket are in the order of the broker's own map.
Source: `StickyTaskAssignor` of `org.apache.kafka.coordinator.group.streams.assignor` (KIP-1071).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import NamedTuple

from assignor.configs.kafka_versions import KafkaRules
from assignor.errors import IllegalStateError
from assignor.java.hash_map import JavaHashMap
from assignor.java.priority_queue import JavaPriorityQueue
from assignor.task_assignors.base import MemberSpec
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.types import Role, TaskId


class ProcessState:
    """The tasks that are assigned to a process and to each of its members so far. `load`: the number of tasks per
    member. `members`: the ids of the members, at least one, in the order of the group.

    `add_to_least_loaded` chooses the first member of a heap, which is sorted by number of tasks. `add` discards the
    heap, so that the next call of `add_to_least_loaded` builds it again. The order of equal members depends on the
    heap's history, so `ProcessState` rebuilds the heap exactly when Kafka does. Source: `ProcessState`.
    """

    def __init__(self, process_id: str, members: Iterable[str]) -> None:
        self.process_id = process_id
        self.tasks_of: JavaHashMap[str, int] = JavaHashMap((member, 0) for member in members)
        """The number of tasks of each member, in Java's iteration order."""
        self.load = 0.0
        self.active: dict[str, list[TaskId]] = {member: [] for member in self.tasks_of}
        self.standby: dict[str, list[TaskId]] = {member: [] for member in self.tasks_of}
        self._count = 0
        self._tasks: set[TaskId] = set()
        self._by_tasks: JavaPriorityQueue[str] | None = None

    def has_task(self, task: TaskId) -> bool:
        return task in self._tasks

    def add(self, member: str, task: TaskId, is_active: bool) -> int:
        """Gives a task to the member. Returns the member's new number of tasks."""
        self._by_tasks = None
        return self._add(member, task, is_active)

    def add_to_least_loaded(self, task: TaskId, is_active: bool) -> tuple[str, int]:
        """Gives a task to the member with the fewest tasks. Returns the member and its new number of tasks."""
        if len(self.tasks_of) == 1:
            member = next(iter(self.tasks_of))
            return member, self._add(member, task, is_active)
        if self._by_tasks is None:
            self._by_tasks = JavaPriorityQueue(self.tasks_of.__getitem__, self.tasks_of)
        polled = self._by_tasks.poll()
        assert polled is not None, "a process has members"
        count = self._add(polled, task, is_active)
        self._by_tasks.offer(polled)
        return polled, count

    def _add(self, member: str, task: TaskId, is_active: bool) -> int:
        (self.active if is_active else self.standby)[member].append(task)
        self._tasks.add(task)
        self._count += 1
        self.load = self._count / len(self.tasks_of)
        count = self.tasks_of[member] + 1
        self.tasks_of[member] = count
        return count


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """The tasks of a member after the rebalance. Source: `MemberAssignment`, in which a sticky assignor leaves the
    warm-ups empty.
    """

    active: frozenset[TaskId]
    standby: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class _PreviousMember:
    id: str
    process: ProcessState

    @property
    def tasks(self) -> int:
        return self.process.tasks_of[self.id]


class _StandbyCandidate(NamedTuple):
    """A member that may get a task back. `offset`: the offset that the member reports for the task, or 0."""

    member: _PreviousMember
    had_standby: bool
    offset: int

    def rank(self) -> tuple[bool, int]:
        return not self.had_standby, -self.offset


class _Quota:
    """The number of tasks that a member may have. Source: `computeTasksPerMember`, `maybeUpdate…TasksPerMember`."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.per_member = self._rounded_up()

    def note(self, tasks_of_member: int) -> None:
        """Updates the quota after a member got a task. If the member has just reached the quota, the quota is computed
        again without the member and its tasks.
        """
        if tasks_of_member == self.per_member:
            self._members -= 1
            self._tasks -= tasks_of_member
            self.per_member = self._rounded_up()

    def _rounded_up(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


@dataclass(eq=False)
class StreamsGroupPlacement:
    """Places all tasks of the group. `members`: the members by member id. `tasks`: the tasks of all subtopologies.
    `stateful`: the tasks with a changelog. `rules`: the rules of a version of Kafka.
    """

    members: InitVar[Mapping[str, MemberSpec]]
    _tasks: Sequence[TaskId]
    _stateful: Sequence[TaskId]
    _replicas: int
    rules: InitVar[KafkaRules]

    def __post_init__(self, members: Mapping[str, MemberSpec], rules: KafkaRules) -> None:
        self.decisions: list[Decision] = []
        """The decisions about tasks; `consumer` of a decision is the member that gets the task."""
        self._active_quota = _Quota(len(self._tasks), len(members))
        self._quota = _Quota(len(self._tasks) + len(self._stateful) * self._replicas, len(members))
        self._passes_over_holders = rules.sorts_candidates_by_offset
        walked = list(JavaHashMap(members.items()))
        self._processes = _processes(members, walked, rules)
        self._had_active: dict[TaskId, _PreviousMember] = {}
        candidates: dict[TaskId, list[_StandbyCandidate]] = {}
        for member_id in walked:
            spec = members[member_id]
            member = _PreviousMember(member_id, self._processes[spec.process_id])
            # if the task was active on several members, the last of these members counts as the owner
            self._had_active.update(dict.fromkeys(spec.active, member))
            for task in spec.standby:
                candidates.setdefault(task, []).append(_StandbyCandidate(member, True, spec.task_offsets.get(task, 0)))
            if rules.sorts_candidates_by_offset:
                for task in spec.task_offsets.keys() - spec.standby:
                    candidates.setdefault(task, []).append(_StandbyCandidate(member, False, spec.task_offsets[task]))
        if rules.sorts_candidates_by_offset:
            for of_task in candidates.values():
                of_task.sort(key=_StandbyCandidate.rank)
        self._candidates = {task: [each.member for each in of_task] for task, of_task in candidates.items()}

    def solved(self) -> dict[str, MemberAssignment]:
        """Returns the assignment of each member. Raises IllegalStateError if there are tasks and no members."""
        if self._tasks and not self._processes:
            raise IllegalStateError(f"No process available to assign active task {min(self._tasks, key=_by_text)}.")
        self._assign_active()
        if self._replicas > 0:
            self._assign_standbys()
        return {
            member: MemberAssignment(frozenset(process.active[member]), frozenset(process.standby[member]))
            for process in self._processes.values()
            for member in process.tasks_of
        }

    def _assign_active(self) -> None:
        left = []
        for task in sorted(self._tasks, key=_by_partition):
            member = self._had_active.get(task)
            if member is None or not self._give_active(member, task, DecisionKind.PREVIOUS_ACTIVE):
                left.append(task)
        remaining = []
        for task in left:
            member = _least_loaded(self._candidates.get(task, ()))
            if member is None or not self._give_active(member, task, DecisionKind.PREVIOUS_STANDBY):
                remaining.append(task)
        by_load = self._processes_by_load()
        for task in sorted(remaining, key=_by_text):
            process = by_load.poll()
            assert process is not None, "every process is put back"
            chosen, count = process.add_to_least_loaded(task, is_active=True)
            self._active_quota.note(count)
            self._quota.note(count)
            self._log_decision(DecisionKind.LEAST_LOADED, task, Role.ACTIVE, chosen)
            by_load.offer(process)

    def _give_active(self, member: _PreviousMember, task: TaskId, kind: DecisionKind) -> bool:
        if member.tasks >= self._active_quota.per_member:
            return False
        count = member.process.add(member.id, task, is_active=True)
        self._active_quota.note(count)
        self._quota.note(count)
        self._log_decision(kind, task, Role.ACTIVE, member.id)
        return True

    def _assign_standbys(self) -> None:
        left = []
        for task in sorted(self._stateful, key=_by_partition, reverse=True):
            given = 0
            while given < self._replicas and (self._give_back(task) or self._give_to_previous_standby(task)):
                given += 1
            if given < self._replicas:
                left.append((task, self._replicas - given))
        by_load = self._processes_by_load()
        for task, wanted in sorted(left, key=lambda each: _by_text(each[0]), reverse=True):
            for given in range(wanted):
                if not self._give_standby_to_least_loaded(by_load, task):
                    found_none = Decision(DecisionKind.NO_STANDBY_HOST, task, Role.STANDBY, detail=wanted - given)
                    self.decisions.append(found_none)
                    break

    def _give_back(self, task: TaskId) -> bool:
        """Gives a standby to the previous owner of the task. Returns False if the previous owner cannot get the
        standby.
        """
        member = self._had_active.get(task)
        if member is None or member.process.has_task(task):
            return False
        return self._give_standby(member, task, DecisionKind.PREVIOUS_ACTIVE)

    def _give_to_previous_standby(self, task: TaskId) -> bool:
        candidates: Sequence[_PreviousMember] = self._candidates.get(task, ())
        if self._passes_over_holders:
            candidates = [member for member in candidates if not member.process.has_task(task)]
        member = _least_loaded(candidates, without=task)
        return member is not None and self._give_standby(member, task, DecisionKind.PREVIOUS_STANDBY)

    def _give_standby(self, member: _PreviousMember, task: TaskId, kind: DecisionKind) -> bool:
        if member.tasks >= self._quota.per_member:
            return False
        self._quota.note(member.process.add(member.id, task, is_active=False))
        self._log_decision(kind, task, Role.STANDBY, member.id)
        return True

    def _give_standby_to_least_loaded(self, by_load: JavaPriorityQueue[ProcessState], task: TaskId) -> bool:
        """Gives a standby to the least loaded process without the task. Returns False if every process has the task. As
        in Kafka, the processes with the task are polled from the heap, and offered again in reverse order.
        """
        passed_over: list[ProcessState] = []
        process = by_load.poll()
        while process is not None and process.has_task(task):
            passed_over.append(process)
            process = by_load.poll()
        if process is not None:
            chosen, count = process.add_to_least_loaded(task, is_active=False)
            self._quota.note(count)
            self._log_decision(DecisionKind.LEAST_LOADED, task, Role.STANDBY, chosen)
            by_load.offer(process)
        by_load.add_all(reversed(passed_over))
        return process is not None

    def _processes_by_load(self) -> JavaPriorityQueue[ProcessState]:
        return JavaPriorityQueue(lambda process: process.load, self._processes.values())

    def _log_decision(self, kind: DecisionKind, task: TaskId, role: Role, member: str) -> None:
        self.decisions.append(Decision(kind, task, role, consumer=member))


def _processes(
    members: Mapping[str, MemberSpec], walked: Sequence[str], rules: KafkaRules
) -> JavaHashMap[str, ProcessState]:
    of_process: dict[str, list[str]] = {}
    for member in walked:
        of_process.setdefault(members[member].process_id, []).append(member)
    states = {process_id: ProcessState(process_id, ids) for process_id, ids in of_process.items()}
    if not rules.computes_processes_if_absent:
        return JavaHashMap(states.items(), initial_capacity=len(members))
    processes: JavaHashMap[str, ProcessState] = JavaHashMap(initial_capacity=len(members))
    for member in walked:  # `compute_if_absent` may grow the table even if the process is known
        process_id = members[member].process_id
        processes.compute_if_absent(process_id, states[process_id])
    return processes


def _least_loaded(members: Sequence[_PreviousMember], without: TaskId | None = None) -> _PreviousMember | None:
    """Returns the first member, or a later member that has fewer tasks and belongs to a process with a lower load.

    `without`: a task that the member's process must not have. As in Kafka, returns None if the process of the first
    member has this task. In this case, the other members are not checked.
    """
    if not members or (without is not None and members[0].process.has_task(without)):
        return None
    candidate = members[0]
    for member in members[1:]:
        if without is not None and member.process.has_task(without):
            continue
        if member.process.load < candidate.process.load and member.tasks < candidate.tasks:
            candidate = member
    return candidate


def _by_text(task: TaskId) -> tuple[str, int]:
    """Returns the key by which a broker sorts tasks. A broker sorts subtopologies by their names, which are texts, so
    "10" comes before "2".
    """
    return str(task.subtopology), task.partition


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task.partition, str(task.subtopology)
