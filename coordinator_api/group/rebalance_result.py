"""Determines the outcome of a computed rebalance, and whether a follow-up could still change the assignments.

A rebalance that asks for an immediate follow-up is `settled` if it has the same input and the same decision as the
previous rebalance. A settled rebalance starts no follow-up. If settled rebalances started follow-ups, the follow-ups
would go on for ever. Two inputs are the same if the definitions and the decoded subscriptions are equal. The comparison
ignores the unique field and the generation of a subscription, because these two fields change with every rejoin. A
rebalance is not settled if a member did not receive its previous assignment, for example because the answer was lost.
A member that rejoins without its assignment can still change the result. Differs from Kafka: a group in Kafka starts
one follow-up after another, even if the follow-ups change nothing.

After a failed rebalance, every member gets an assignment with an error. Source: `AssignorError`.
"""

import hashlib
from collections.abc import Mapping

from assignor.errors import IllegalStateError
from assignor.pipeline.snapshot import Member, RebalanceResult
from assignor.protocol.assignment_packing import share
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.task_assignors.base import Placement
from assignor.types import AssignorErrorCode, TaskId
from coordinator_api.group.events import AssignmentComputed, ComputedAssignments
from coordinator_api.group.image import GroupImage, PackedAssignments, RebalanceBasis, RebalanceEnd, packed_assignments
from coordinator_api.group.records import RebalanceCompleted
from coordinator_api.group.states import RebalanceOutcome
from coordinator_api.group.subscriptions import (
    assigned_tasks,
    error_assignment,
    held_generation,
    process_of,
    rebalance_input,
)
from rebalance_analysis.measures import moves_owned, places_ownerless


def computed_assignments(
    members: Mapping[str, Member], definition_revision: int, result: RebalanceResult
) -> ComputedAssignments:
    """Returns the part of `result` that the group needs. The function runs in the process that computed the rebalance,
    because it reads every subscription.

    `members`, `definition_revision`: the fields of the `RunRebalance` that requested the computation.
    """
    if result.error is not None:
        return ComputedAssignments(error=result.error.with_hint())
    subscriptions = {member_id: member.subscription for member_id, member in members.items()}
    if result.assignments.keys() != members.keys():
        strange = ", ".join(sorted(result.assignments.keys() ^ members.keys()))
        error = IllegalStateError(f"the assignor's output and the members differ; in only one of them: {strange}")
        return ComputedAssignments(error=error.with_hint())
    assignments = packed_assignments(result.assignments)
    placed = None if result.problem is None or result.placement is None else (result.problem, result.placement)
    return ComputedAssignments(
        assignments=SharedAssignments(assignments.parts),
        packed=assignments.packed,
        warm_ups=warm_ups_of(subscriptions, result.assignments, result.placement),
        fingerprint=_fingerprint(definition_revision, subscriptions, result.assignments),
        followup_rebalance=result.followup_rebalance,
        probing_rebalance_at_ms=result.probing_rebalance_at_ms,
        error_code=int(result.error_code),
        moves_owned=placed is not None and moves_owned(*placed),
        places_ownerless=placed is not None and places_ownerless(*placed),
    )


def completed_rebalance(image: GroupImage, computed: AssignmentComputed) -> RebalanceCompleted:
    """Returns the record of a computed or failed rebalance."""
    rebalance = computed.rebalance
    if rebalance.error is not None:
        return _failed_rebalance(image, rebalance.error, computed.topics)
    failed = rebalance.error_code != AssignorErrorCode.NONE
    return RebalanceCompleted(
        generation_id=image.generation_id,
        end=RebalanceEnd(
            outcome=RebalanceOutcome.ERROR if failed else _outcome(image, rebalance),
            followup_rebalance=rebalance.followup_rebalance,
            probing_rebalance_at_ms=rebalance.probing_rebalance_at_ms,
            error=AssignorErrorCode(rebalance.error_code).name if failed else None,
            error_code=rebalance.error_code,
        ),
        assignments=PackedAssignments(rebalance.assignments.parts, rebalance.packed),
        warm_ups=rebalance.warm_ups,
        basis=RebalanceBasis(rebalance.fingerprint, computed.topics, computed.missing_topics),
    )


def _failed_rebalance(image: GroupImage, error: str, topics: Mapping[str, int]) -> RebalanceCompleted:
    """Returns the record of a failed rebalance: each member gets an ASSIGNMENT_ERROR, and the group becomes Stable. The
    next PUT or join, or a change of `topics`, starts a new rebalance.
    """
    assignment = error_assignment(AssignorErrorCode.ASSIGNMENT_ERROR)
    return RebalanceCompleted(
        generation_id=image.generation_id,
        end=RebalanceEnd(RebalanceOutcome.ERROR, error=error, error_code=int(AssignorErrorCode.ASSIGNMENT_ERROR)),
        assignments=packed_assignments(SharedAssignments(dict.fromkeys(image.members, AssignmentParts(assignment)))),
        basis=RebalanceBasis(topics=topics),
    )


def _outcome(image: GroupImage, rebalance: ComputedAssignments) -> RebalanceOutcome:
    if not rebalance.followup_rebalance:
        return RebalanceOutcome.STABLE if rebalance.probing_rebalance_at_ms is None else RebalanceOutcome.PROBING
    before = image.last_rebalance
    repeats = (
        before is not None
        and before.generation_id == image.generation_id - 1
        and before.end.followup_rebalance
        and before.basis.fingerprint == rebalance.fingerprint
    )
    return RebalanceOutcome.SETTLED if repeats and _all_held_the_last_assignment(image) else RebalanceOutcome.FOLLOW_UP


def _all_held_the_last_assignment(image: GroupImage) -> bool:
    """Returns whether all participating members held the assignment of the previous generation. Members without a
    generation are ignored. A member without a generation held no assignment, or its version of ConsumerProtocol is
    below 2.
    """
    taking_part = (member for member in image.members.values() if image.takes_part(member))
    held = {held_generation(member.last_join.subscription) for member in taking_part}
    return held <= {None, image.generation_id - 1}


def _fingerprint(revision: int, subscriptions: Mapping[str, bytes], assignments: SharedAssignments) -> str:
    shared: dict[bytes, bytes] = {}
    digest = hashlib.sha256(str(revision).encode())
    for member_id in sorted(subscriptions):
        parts = assignments.parts[member_id]
        if parts.shared not in shared:
            shared[parts.shared] = hashlib.sha256(parts.shared).digest()
        inputs = rebalance_input(subscriptions[member_id])
        for part in (member_id.encode(), inputs, parts.head, shared[parts.shared], parts.tail):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def warm_ups_of(
    subscriptions: Mapping[str, bytes], assignments: Mapping[str, bytes], placement: Placement | None
) -> dict[str, tuple[TaskId, ...]]:
    """Returns, for each member, the standby tasks in its assignment that are warm-ups of its process."""
    if placement is None or not any(client.warm_ups for client in placement.clients.values()):
        return {}
    parts = share(assignments).parts
    found: dict[str, tuple[TaskId, ...]] = {}
    for member_id, subscription in subscriptions.items():
        process_id = process_of(subscription)
        client = None if process_id is None else placement.clients.get(process_id)
        if client is not None and client.warm_ups:
            standby = assigned_tasks(parts[member_id]).standby
            found[member_id] = tuple(task for task in standby if task in client.warm_ups)
    return {member_id: tasks for member_id, tasks in found.items() if tasks}
