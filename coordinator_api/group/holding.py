"""Holds a computed rebalance that takes a task from a live owner, until an operator approves the rebalance.

- A computed rebalance is completed if it takes no task from a live owner, or if it is approved already.
- A rebalance is computed again if it also assigns tasks that have no live owner. In this second computation, all other
  tasks stay with their owners.
- Any other rebalance is held, in the state CompletingRebalance.
- A held rebalance is completed after an approval, after its time limit, or after the hold is switched off.
- If a held rebalance is discarded, it is computed again, and all tasks stay with their owners.
- A join, a leave or a crash ends the wait for approval. The next generation needs a new approval.

Rules:
- While a rebalance is held, members keep processing their tasks. Members cannot distinguish a held rebalance from a
  rebalance that is computed for a long time.
- Tasks without a live owner never wait: they are assigned immediately. All other tasks move only in the follow-up
  rebalance, which waits for approval.
- A generation is computed again at most once, so there is no endless loop. A follow-up with an unchanged result is
  settled, which means that no further follow-up starts (`rebalance_result`). After a discard, every task also stays
  with its owner in the follow-up rebalance.
- An approval covers the rebalance and its follow-up and probing rebalances, because they complete the approved moves.
  An approval ends when a member joins or is removed, or when the definition changes. An approval ends when the drain of
  an instance or a member begins or ends. An approval also ends when a rebalance begins that is neither a follow-up nor
  a probing rebalance (`GroupImage.with_nothing_approved`, `RebalanceStarted`).

Kafka has no held rebalances.
"""

from dataclasses import dataclass, replace

from assignor.types import AssignorErrorCode, ProcessId, TaskId
from coordinator_api.group import events
from coordinator_api.group.events import AssignmentComputed, ComputedAssignments
from coordinator_api.group.group_levers import OperatorDecision
from coordinator_api.group.image import GroupImage, HeldRebalance
from coordinator_api.group.outcome import (
    AssignmentStored,
    ComputedAgain,
    GroupTransition,
    RebalanceWaits,
    Rejected,
    Response,
)
from coordinator_api.group.rebalance_result import completed_rebalance
from coordinator_api.group.records import HeldRebalanceEnded, RebalanceCompleted, RebalanceHeld, RebalanceKept
from coordinator_api.group.states import HoldEnd, KeptBecause, RebalanceOutcome, RejectionCode
from coordinator_api.group.subscriptions import assigned_tasks, process_of


def take_computed(step: GroupTransition, event: AssignmentComputed) -> Response:
    """Complete the computed rebalance, hold the rebalance, or request a second computation."""
    image, rebalance = step.image, event.rebalance
    if _has_to_wait(image, rebalance):
        if rebalance.places_ownerless:
            step.emit(RebalanceKept(image.generation_id, KeptBecause.TASKS_WITHOUT_OWNER))
            return ComputedAgain(image.generation_id)
        completed = completed_rebalance(image, event)
        held = HeldRebalance(step.now_ms, completed.end, completed.assignments, completed.warm_ups, completed.basis)
        step.emit(RebalanceHeld(image.generation_id, held))
        return RebalanceWaits(image.generation_id, step.now_ms)
    if image.kept_because is KeptBecause.TASKS_WITHOUT_OWNER:
        event = replace(event, rebalance=replace(rebalance, followup_rebalance=True))
    record = completed_rebalance(image, event)
    step.emit(record)
    return AssignmentStored(record.generation_id, record.end.outcome)


def _has_to_wait(image: GroupImage, rebalance: ComputedAssignments) -> bool:
    failed = rebalance.error is not None or rebalance.error_code != AssignorErrorCode.NONE
    asks = image.levers.hold is not None and image.kept_because is None and image.approved_generation is None
    return asks and rebalance.moves_owned and not failed


def carry_out_when_held(step: GroupTransition, decision: OperatorDecision) -> None:
    """Carry out a held rebalance, because the hold was switched off."""
    if step.image.held is not None:
        _carry_out(step, HoldEnd.HOLD_ENDED, decision)


def decide_held(step: GroupTransition, event: events.DecideHeldRebalance) -> Response:
    """Carry out the held rebalance if the event approves it. If the event discards the held rebalance, compute its
    generation again, so that every task stays with its owner.
    """
    refused = _refuse_not_held(step.image, event.generation_id)
    if refused is not None:
        return refused
    decision = OperatorDecision(event.by, step.now_ms, event.reason)
    if event.approves:
        return _carry_out(step, HoldEnd.APPROVED, decision)
    generation_id = step.image.generation_id
    step.emit(HeldRebalanceEnded(generation_id, HoldEnd.DISCARDED, decision))
    step.emit(RebalanceKept(generation_id, KeptBecause.DISCARDED))
    return ComputedAgain(generation_id)


def end_hold_when_over(step: GroupTransition) -> None:
    """Carry out the held rebalance if its time limit has passed."""
    until_ms = step.image.held_until_ms()
    if until_ms is not None and until_ms <= step.now_ms:
        _carry_out(step, HoldEnd.TIME_LIMIT, OperatorDecision(None, step.now_ms))


def give_up_held(step: GroupTransition, why: str) -> None:
    """End the held rebalance, because a new rebalance begins. `why`: a text with the cause of the new rebalance."""
    by_nobody = OperatorDecision(None, step.now_ms, why)
    step.emit(HeldRebalanceEnded(step.image.generation_id, HoldEnd.REPLACED, by_nobody))


@dataclass(frozen=True, slots=True)
class DescribedHeld:
    """The description of a held rebalance for operators. `until_ms`: the time at which the held rebalance is carried
    out without approval. `outcome`: the outcome of the held rebalance if it is carried out.
    """

    generation_id: int
    since_ms: int
    until_ms: int
    outcome: RebalanceOutcome
    tasks_to_move: tuple[TaskId, ...]


def describe_held(image: GroupImage) -> DescribedHeld | None:
    """Describes the held rebalance. Returns None if no rebalance is held. The call takes time in proportion to the size
    of the group.
    """
    held, until_ms = image.held, image.held_until_ms()
    if held is None or until_ms is None:
        return None
    return DescribedHeld(image.generation_id, held.since_ms, until_ms, held.end.outcome, tasks_to_move(image))


def tasks_to_move(image: GroupImage) -> tuple[TaskId, ...]:
    """Returns the tasks that the held rebalance takes from a process, sorted. The process may lose an active task or a
    standby task. A standby that becomes active in the same process does not count. A lost warm-up does not count
    either, because warm-ups are temporary. The result is empty if no rebalance is held.
    """
    held = image.held
    if held is None:
        return ()
    kept: set[tuple[ProcessId | str, TaskId]] = set()
    kept_active: set[tuple[ProcessId | str, TaskId]] = set()
    for member_id, parts in held.assignments.parts.items():
        process, given = _process(image, member_id), assigned_tasks(parts)
        kept_active |= {(process, task) for task in given.active}
        kept |= {(process, task) for task in (*given.active, *given.standby)}
    moved: set[TaskId] = set()
    for member_id, member in image.members.items():
        last = member.last_assignment
        if last.assignment is None:
            continue
        process, has = _process(image, member_id), assigned_tasks(last.assignment)
        moved |= {task for task in has.active if (process, task) not in kept_active}
        moved |= {task for task in has.standby if (process, task) not in kept and task not in last.warm_ups}
    return tuple(sorted(moved))


def _process(image: GroupImage, member_id: str) -> ProcessId | str:
    """Returns the process of a member, or the member's id if its subscription has an unknown future version."""
    return process_of(image.members[member_id].last_join.subscription) or member_id


def _carry_out(step: GroupTransition, end: HoldEnd, decision: OperatorDecision) -> AssignmentStored:
    held, generation_id = step.image.held, step.image.generation_id
    assert held is not None, "only a rebalance that is held is carried out"
    step.emit(HeldRebalanceEnded(generation_id, end, decision))
    step.emit(RebalanceCompleted(generation_id, held.end, held.assignments, held.warm_ups, held.basis))
    return AssignmentStored(generation_id, held.end.outcome)


def _refuse_not_held(image: GroupImage, generation_id: int | None) -> Rejected | None:
    if image.held is None:
        return Rejected(
            RejectionCode.ILLEGAL_GENERATION,
            f"no rebalance waits for approval; the group is {image.state} in generation {image.generation_id}",
        )
    if generation_id not in (None, image.generation_id):
        return Rejected(
            RejectionCode.ILLEGAL_GENERATION,
            f"generation {generation_id} does not wait for approval; generation {image.generation_id} does: look "
            "at that one",
        )
    return None
