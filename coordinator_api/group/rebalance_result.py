"""What a computed round means for the group: which outcome it has, and whether anything can still change.

A round that asks for an immediate follow-up, and has decided exactly what the round just before it decided from exactly
the same input, would do so for ever: it is `settled`. Same input means the same definition and the same decoded
subscriptions, apart from the unique field and the generation, which every rejoin changes. A member that had not taken
the assignment before (its answer was lost) can still change things, so then it is not. Differs from Kafka: there such a
group goes on rebalancing. A round that failed gives everybody an error assignment. Source: `AssignorError`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from assignor.errors import IllegalStateError
from assignor.snapshot import RebalanceResult
from assignor.task_assignors.base import Placement
from assignor.types import AssignorErrorCode, TaskId
from coordinator_api.group.events import AssignmentComputed
from coordinator_api.group.image import GroupImage
from coordinator_api.group.records import RebalanceCompleted
from coordinator_api.group.states import RebalanceOutcome
from coordinator_api.group.subscriptions import (
    assigned_tasks,
    error_assignment,
    held_generation,
    process_of,
    rebalance_input,
)


def completed_rebalance(image: GroupImage, computed: AssignmentComputed) -> RebalanceCompleted:
    """The record of a round that was computed, an error thrown by the pipeline included."""
    result = computed.result
    if result.error is not None:
        return failed_rebalance(image, result.error.as_recorded(), computed.topics)
    if result.assignments.keys() != image.members.keys():
        strange = ", ".join(sorted(result.assignments.keys() ^ image.members.keys()))
        return failed_rebalance(image, IllegalStateError(f"assignments and members differ by {strange}").as_recorded())
    fingerprint = _fingerprint(image, result.assignments)
    failed = result.error_code is not AssignorErrorCode.NONE
    return RebalanceCompleted(
        generation_id=image.generation_id,
        outcome=RebalanceOutcome.ERROR if failed else _outcome(image, result, fingerprint),
        assignments=dict(result.assignments),
        followup_rebalance=result.followup_rebalance,
        probing_rebalance_at_ms=result.probing_rebalance_at_ms,
        error=result.error_code.name if failed else None,
        error_code=int(result.error_code),
        warm_ups=warm_ups_of(
            {member_id: one.subscription for member_id, one in image.members.items()},
            result.assignments,
            result.placement,
        ),
        fingerprint=fingerprint,
        topics=computed.topics,
        missing_topics=computed.missing_topics,
    )


def failed_rebalance(image: GroupImage, error: str, topics: Mapping[str, int] | None = None) -> RebalanceCompleted:
    """Everybody gets an ASSIGNMENT_ERROR; the group is Stable and tries again at the next PUT or join, or when the
    `topics` that it saw are other ones.
    """
    assignment = error_assignment(AssignorErrorCode.ASSIGNMENT_ERROR)
    return RebalanceCompleted(
        generation_id=image.generation_id,
        outcome=RebalanceOutcome.ERROR,
        assignments=dict.fromkeys(image.members, assignment),
        error=error,
        error_code=int(AssignorErrorCode.ASSIGNMENT_ERROR),
        topics=topics or {},
    )


def _outcome(image: GroupImage, result: RebalanceResult, fingerprint: str) -> RebalanceOutcome:
    if result.followup_rebalance:
        before = image.last_rebalance
        repeats = (
            before is not None
            and before.generation_id == image.generation_id - 1
            and before.followup_rebalance
            and before.fingerprint == fingerprint
        )
        return (
            RebalanceOutcome.SETTLED
            if repeats and _all_worked_by_the_last_rebalance(image)
            else RebalanceOutcome.FOLLOW_UP
        )
    return RebalanceOutcome.STABLE if result.probing_rebalance_at_ms is None else RebalanceOutcome.PROBING


def _all_worked_by_the_last_rebalance(image: GroupImage) -> bool:
    """Consumers before ConsumerProtocol version 2 do not say; they are taken to have."""
    held = {held_generation(member.subscription) for member in image.members.values() if image.takes_part(member)}
    return held <= {None, image.generation_id - 1}


def _fingerprint(image: GroupImage, assignments: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(str(image.rebalance_revision).encode())
    for member_id in sorted(image.members):
        for part in (
            member_id.encode(),
            rebalance_input(image.members[member_id].subscription),
            assignments[member_id],
        ):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def warm_ups_of(
    subscriptions: Mapping[str, bytes], assignments: Mapping[str, bytes], placement: Placement | None
) -> dict[str, tuple[TaskId, ...]]:
    """The placement knows warm-ups by process; a member has those that its own assignment lists as standby."""
    if placement is None or not any(client.warm_ups for client in placement.clients.values()):
        return {}
    found: dict[str, tuple[TaskId, ...]] = {}
    for member_id, subscription in subscriptions.items():
        process_id = process_of(subscription)
        client = None if process_id is None else placement.clients.get(process_id)
        if client is not None and client.warm_ups:
            standby = assigned_tasks(assignments[member_id]).standby
            found[member_id] = tuple(task for task in standby if task in client.warm_ups)
    return {member_id: tasks for member_id, tasks in found.items() if tasks}
