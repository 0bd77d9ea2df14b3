"""Compares a recorded rebalance with the previous rebalance of the history. Also finds the task copies after the
recorded rebalance.

The bytes of the assignments are in the recording. The reasons come from a new run of the rebalance. Usually the
recorded leader and the new run place the tasks in the same way. The placements may differ if another leader or another
Kafka release led the rebalance. If the two placements of a task differ, its copies are read from the recorded bytes. In
the recorded bytes, a warm-up looks like a standby. A task that is held back has no active copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assignor.errors import AssignorFault
from assignor.explain import Explanation
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import AssignorErrorCode, ProcessId, Role, TaskId
from rebalance_analysis.history.triggers import ProcessView, RebalanceView, Trigger, processes_of, triggers, view_of
from rebalance_analysis.rerun import Rerun, RerunPlacement, RerunRebalance


class PastRebalance(NamedTuple):
    """A recorded rebalance that was run again. `generation`: the generation of the group. A placement problem has no
    generation; its position in the history is used instead.

    `interrupted`: the number of interrupted generations between the previous rebalance and this rebalance.
    """

    generation: int
    ran: Rerun
    interrupted: int = 0


@dataclass(frozen=True, slots=True)
class RebalanceFacts:
    """The facts about a rebalance that every history shows. Times are in milliseconds since the epoch. For a placement
    problem, all times are None.

    `interrupted`: the number of interrupted generations since the previous rebalance; these generations never got an
    assignment. `not_recorded`: the number of unrecorded generations since the previous rebalance. `note`: the note in
    the recording. `error`: the reason why no task was placed. `created`: the topics that the rebalance created for the
    group to read.
    """

    generation: int
    id: str
    now_ms: int | None
    since_previous_ms: int | None
    not_recorded: int
    interrupted: int
    triggers: tuple[Trigger, ...]
    note: str | None
    led_by: str | None
    error: str | None
    followup: bool
    probing_at_ms: int | None
    created: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeenRebalance:
    """A recorded rebalance and its comparison with the previous rebalance."""

    facts: RebalanceFacts
    view: RebalanceView
    placed: RecordedCopies

    @property
    def processes(self) -> Mapping[ProcessId, ProcessView]:
        return self.view.processes

    def instances(self) -> dict[ProcessId, str | None]:
        """Returns the `client_of_threads` of each process."""
        return {process: view.name for process, view in self.view.processes.items()}


def see(past: PastRebalance, before: SeenRebalance | None) -> SeenRebalance:
    """Compares a rebalance with the previous rebalance. `before`: the previous rebalance; None for the first recorded
    rebalance.
    """
    ran = past.ran
    processes = processes_of(ran)
    placed = _placed_after(ran, processes)
    view = view_of(ran, processes, placed.held_back)
    rebalance = ran.recorded if isinstance(ran, RerunRebalance) else None
    now_ms = None if rebalance is None else rebalance.now_ms
    earlier = None if before is None else before.facts
    before_ms = None if earlier is None else earlier.now_ms
    facts = RebalanceFacts(
        generation=past.generation,
        id=ran.id,
        now_ms=now_ms,
        since_previous_ms=None if now_ms is None or before_ms is None else now_ms - before_ms,
        not_recorded=0 if earlier is None else max(0, past.generation - earlier.generation - 1 - past.interrupted),
        interrupted=0 if earlier is None else past.interrupted,
        triggers=triggers(None if before is None else before.view, view, now_ms),
        note=None if rebalance is None else rebalance.note,
        led_by=None if rebalance is None else rebalance.led_by,
        error=_error(ran),
        followup=view.followup,
        probing_at_ms=view.probing_at_ms,
        created=view.created,
    )
    return SeenRebalance(facts, view, placed)


def _error(ran: Rerun) -> str | None:
    """Returns the error that the line records. If no error text is recorded, returns the error or the error code of the
    new run.
    """
    if isinstance(ran, RerunPlacement):
        return None
    if ran.recorded.output is None:
        return ran.error
    code = ran.result.error_code
    return ran.recorded.output.error or (None if code is AssignorErrorCode.NONE else code.name)


class PlacedCopy(NamedTuple):
    """A copy of a task after a rebalance. `member`: the member id of the thread that has the copy. `name`: the member's
    instance id, client id or member id. If threads are not known, `member` and `name` are None. `lag`: the lag that the
    leader used for the copy, in records. `held_back`: True if the process has to wait until another process has revoked
    the task.
    """

    role: Role
    process: ProcessId
    member: str | None = None
    name: str | None = None
    lag: int | None = None
    held_back: bool = False


class _OwnedCopy(NamedTuple):
    role: Role
    process: ProcessId
    member: str | None


_OwnedCopies = dict[TaskId, list[_OwnedCopy]]


@dataclass(frozen=True, slots=True)
class RecordedCopies:
    """The copies of all tasks after a recorded rebalance. `problem`: the placement problem; None if the rebalance ended
    before tasks were placed. `held_back`: the tasks that wait until their old owner has revoked them. `differing`: the
    tasks that the recorded leader and the new run place differently. `recorded`: the copies of the tasks in
    `differing`, according to the recording.
    """

    problem: PlacementProblem | None
    placement: Placement | None
    held_back: frozenset[TaskId]
    differing: frozenset[TaskId]
    recorded: _OwnedCopies
    names: Mapping[str, str]

    def active(self) -> dict[TaskId, ProcessId]:
        """Returns, for each task, the process of its active copy. The active copy may be held back."""
        clients = {} if self.placement is None else self.placement.clients
        active = {task: process for process, client in clients.items() for task in client.active}
        for task in self.differing:
            active.pop(task, None)
            for copy in _active(self.recorded, task)[:1]:
                active[task] = copy.process
        return active

    def copies(self, task: TaskId, explanation: Explanation | None) -> tuple[PlacedCopy, ...]:
        """Returns the copies of a task. The active copy is first. `explanation`: the explanation of the task from the
        new run.
        """
        if task in self.differing:
            found = [(*copy, False) for copy in _in_order(self.recorded.get(task, ()))]
        else:
            found = [] if explanation is None else list(explanation.copies)
        return tuple(
            PlacedCopy(role, process, member, self.name(member), self.lag(task, process), held_back)
            for role, process, member, held_back in found
        )

    def name(self, member: str | None) -> str | None:
        return None if member is None else self.names.get(member, member)

    def lag(self, task: TaskId, process: ProcessId | None) -> int | None:
        """Returns the lag that the leader used for a copy, in records; None if the leader did not know the lag."""
        client = None if self.problem is None or process is None else self.problem.clients.get(process)
        return client.lags.lag_for(task) if client is not None and task in client.lags else None


def _placed_after(ran: Rerun, processes: Mapping[ProcessId, ProcessView]) -> RecordedCopies:
    """Returns the task copies after a rebalance. `processes`: the processes of the rebalance. A recorded assignment of
    a member belongs to the process of this member.
    """
    names = {member: name for view in processes.values() for member, name in view.members.items()}
    if isinstance(ran, RerunPlacement):
        ours, recorded = _by_process(ran.placement), _by_process(ran.recorded.output)
        compared = frozenset() if ran.recorded.output is None else _differing(ours, recorded)
        return RecordedCopies(ran.recorded.problem, ran.placement, frozenset(), compared, recorded, names)
    result, output = ran.result, ran.recorded.output
    waiting = frozenset(
        decision.task for decision in result.decisions if decision.kind is DecisionKind.WAITING_FOR_REVOCATION
    )
    recorded, differing = {}, frozenset[TaskId]()
    if output is not None and output.assignments != result.assignments:
        process_of = {member: process for process, view in processes.items() for member in view.members}
        recorded = _by_member(output.assignments, process_of)
        differing = _differing(_by_member(result.assignments, process_of), recorded)
        nowhere = {task for task in differing if output.followup_rebalance and not _active(recorded, task)}
        waiting = waiting - differing | nowhere
    return RecordedCopies(result.problem, result.placement, waiting, differing, recorded, names)


def _active(copies: _OwnedCopies, task: TaskId) -> list[_OwnedCopy]:
    return [copy for copy in copies.get(task, ()) if copy.role is Role.ACTIVE]


def _in_order(copies: Sequence[_OwnedCopy]) -> list[_OwnedCopy]:
    """Sorts the copies of a task so that two recordings can be compared; active copies come first."""
    active = [copy for copy in copies if copy.role is Role.ACTIVE]
    return sorted(active) + sorted((copy for copy in copies if copy.role is not Role.ACTIVE), key=str)


def _differing(ours: _OwnedCopies, recorded: _OwnedCopies) -> frozenset[TaskId]:
    tasks = ours.keys() | recorded.keys()
    return frozenset(task for task in tasks if _in_order(ours.get(task, ())) != _in_order(recorded.get(task, ())))


def _by_member(assignments: Mapping[str, bytes], process_of: Mapping[str, ProcessId]) -> _OwnedCopies:
    """Returns the recorded copies of each task. If the assignment bytes of a member cannot be decoded, the member
    counts as a member without tasks.
    """
    copies: _OwnedCopies = {}
    for member, raw in assignments.items():
        process = process_of.get(member)
        if process is None:
            continue
        try:
            info = decode_assignment_info(decode_assignment(raw).user_data or b"")
        except AssignorFault:
            continue
        for role, tasks in ((Role.ACTIVE, dict.fromkeys(info.active_tasks)), (Role.STANDBY, info.standby_tasks)):
            for task in tasks:
                copies.setdefault(task, []).append(_OwnedCopy(role, process, member))
    return copies


def _by_process(placement: Placement | None) -> _OwnedCopies:
    copies: _OwnedCopies = {}
    for process, client in {} if placement is None else placement.clients.items():
        for role, tasks in ((Role.ACTIVE, client.active), (Role.STANDBY, client.standby)):
            for task in tasks:
                copies.setdefault(task, []).append(_OwnedCopy(role, process, None))
    return copies
