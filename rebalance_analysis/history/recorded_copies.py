"""Where the copies are after a rebalance, as recorded. A recording has the bytes; this program's own run has the
reasons.

For most recordings both agree. A rebalance of another leader, or of another release, can differ in some tasks. The
copies of those tasks are then read from the recorded bytes, which show a warm-up as a standby and a task that is held
back as active nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from assignor.decisions import DecisionKind
from assignor.errors import AssignorFault
from assignor.explain import Explanation
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import ProcessId, Role, TaskId
from rebalance_analysis.history.triggers import ProcessView
from rebalance_analysis.rerun import Rerun, RerunPlacement


class PlacedCopy(NamedTuple):
    """A copy after a rebalance. `member`: the thread that has it; `name`: its instance id, client id or member id;
    both are None where threads are not known. `lag`: in records, as the leader knew it. `held_back`: the task does not
    run there yet.
    """

    role: Role
    process: ProcessId
    member: str | None = None
    name: str | None = None
    lag: int | None = None
    held_back: bool = False


class _CopyOwner(NamedTuple):
    process: ProcessId
    member: str | None


@dataclass(slots=True)
class _CopyOwners:
    active: dict[TaskId, list[_CopyOwner]] = field(default_factory=dict)
    standby: dict[TaskId, list[_CopyOwner]] = field(default_factory=dict)

    def of(self, task: TaskId) -> tuple[list[_CopyOwner], list[_CopyOwner]]:
        """Active and standby owners, sorted so that two recordings can be compared."""
        return sorted(self.active.get(task, ())), sorted(self.standby.get(task, ()), key=str)

    def tasks(self) -> set[TaskId]:
        return {*self.active, *self.standby}


@dataclass(frozen=True, slots=True)
class RecordedCopies:
    """`problem`: None when the rebalance ended before tasks were placed. `held_back`: tasks that no member was given
    yet. `differing`: tasks whose recorded copies are not where this program places them.
    """

    problem: PlacementProblem | None
    placement: Placement | None
    held_back: frozenset[TaskId]
    differing: frozenset[TaskId]
    recorded: _CopyOwners
    names: Mapping[str, str]

    def active(self) -> dict[TaskId, ProcessId]:
        """Where each task is active, or will be once its owner has given it up."""
        clients = {} if self.placement is None else self.placement.clients
        active = {task: process for process, client in clients.items() for task in client.active}
        for task in self.differing:
            active.pop(task, None)
            for owner in self.recorded.active.get(task, ())[:1]:
                active[task] = owner.process
        return active

    def copies(self, task: TaskId, explanation: Explanation | None) -> tuple[PlacedCopy, ...]:
        """The active copy comes first. `explanation`: from this program's own run."""
        if task in self.differing:
            active, standby = self.recorded.of(task)
            found = [(Role.ACTIVE, *owner, False) for owner in active]
            found += [(Role.STANDBY, *owner, False) for owner in standby]
        else:
            found = [] if explanation is None else list(explanation.copies)
        return tuple(
            PlacedCopy(role, process, member, self._name(member), self._lag(task, process), held_back)
            for role, process, member, held_back in found
        )

    def _name(self, member: str | None) -> str | None:
        return None if member is None else self.names.get(member, member)

    def _lag(self, task: TaskId, process: ProcessId) -> int | None:
        client = None if self.problem is None else self.problem.clients.get(process)
        return client.lags.lag_for(task) if client is not None and task in client.lags else None


def placed_after(ran: Rerun, processes: Mapping[ProcessId, ProcessView]) -> RecordedCopies:
    """`processes`: those of the rebalance; their members tell which recorded bytes belong to which process."""
    names = {member: name for view in processes.values() for member, name in view.members.items()}
    if isinstance(ran, RerunPlacement):
        ours, recorded = _by_process(ran.placement), _by_process(ran.recorded.output)
        compared = frozenset() if ran.recorded.output is None else _differing(ours, recorded)
        return RecordedCopies(ran.recorded.problem, ran.placement, frozenset(), compared, recorded, names)
    result, output = ran.result, ran.recorded.output
    waiting = frozenset(
        decision.task for decision in result.decisions if decision.kind is DecisionKind.WAITING_FOR_REVOCATION
    )
    recorded, differing = _CopyOwners(), frozenset[TaskId]()
    if output is not None and output.assignments != result.assignments:
        process_of = {member: process for process, view in processes.items() for member in view.members}
        recorded = _by_member(output.assignments, process_of)
        differing = _differing(_by_member(result.assignments, process_of), recorded)
        nowhere = differing - recorded.active.keys() if output.followup_rebalance else frozenset[TaskId]()
        waiting = waiting - differing | nowhere
    return RecordedCopies(result.problem, result.placement, waiting, differing, recorded, names)


def _differing(ours: _CopyOwners, recorded: _CopyOwners) -> frozenset[TaskId]:
    return frozenset(task for task in ours.tasks() | recorded.tasks() if ours.of(task) != recorded.of(task))


def _by_member(assignments: Mapping[str, bytes], process_of: Mapping[str, ProcessId]) -> _CopyOwners:
    """A member whose bytes cannot be read counts as having no tasks."""
    owners = _CopyOwners()
    for member, raw in assignments.items():
        process = process_of.get(member)
        if process is None:
            continue
        try:
            info = decode_assignment_info(decode_assignment(raw).user_data or b"")
        except AssignorFault:
            continue
        for task in dict.fromkeys(info.active_tasks):
            owners.active.setdefault(task, []).append(_CopyOwner(process, member))
        for task in info.standby_tasks:
            owners.standby.setdefault(task, []).append(_CopyOwner(process, member))
    return owners


def _by_process(placement: Placement | None) -> _CopyOwners:
    owners = _CopyOwners()
    for process, client in {} if placement is None else placement.clients.items():
        for task in client.active:
            owners.active.setdefault(task, []).append(_CopyOwner(process, None))
        for task in client.standby:
            owners.standby.setdefault(task, []).append(_CopyOwner(process, None))
    return owners
