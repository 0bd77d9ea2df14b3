"""The last records of a group, one line each, as part of errors that must not happen.

A broken invariant cannot be understood without what led to it, so every `IllegalTransition` ends with the story.
"""

from __future__ import annotations

from collections import deque

from coordinator_api.group.image import GroupImage
from coordinator_api.group.records import (
    ApprovalRestored,
    AssignmentsPacked,
    CoordinatorRecord,
    DefinitionChanged,
    DrainChanged,
    GenerationStarted,
    GroupDeleted,
    GroupEmptied,
    GroupRestored,
    HeldRebalanceEnded,
    HoldChanged,
    InstanceDrained,
    InstanceDrainEnded,
    LastRebalanceRestored,
    MemberAway,
    MemberRemoved,
    MemberReplaced,
    MemberReported,
    MemberRestored,
    MemberSubscribed,
    PauseChanged,
    PromotionChanged,
    RebalanceCompleted,
    RebalanceHeld,
    RebalanceKept,
    RebalanceLedElsewhere,
    RebalanceStarted,
    RejoinGraceChanged,
    WarmUpsPromoted,
)

STORY_LENGTH = 64


class Story:
    """Remembers the last `STORY_LENGTH` records that the group took in."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=STORY_LENGTH)

    def add(self, record: CoordinatorRecord, after: GroupImage, now_ms: int) -> None:
        self._lines.append(f"{now_ms} {in_words(record)} -> {after.state} generation {after.generation_id}")

    def lines(self) -> tuple[str, ...]:
        """Oldest first: `<ms> <what happened> -> <state> generation <n>`."""
        return tuple(self._lines)


def in_words(record: CoordinatorRecord) -> str:
    """A record in a few words."""
    match record:
        case DefinitionChanged(revision, origin=origin):
            return f"definition {revision}" + (f" by {origin.declared_by}" if origin.declared_by else "")
        case DrainChanged(draining):
            return "draining" if draining else "no longer draining"
        case HoldChanged() | RejoinGraceChanged() | PromotionChanged() | PauseChanged():
            return _lever_in_words(record)
        case InstanceDrained(drained):
            return f"{drained.target} is to have no tasks"
        case InstanceDrainEnded(target):
            return f"{target} may have tasks"
        case MemberSubscribed(member_id, join):
            return f"{member_id} joined for generation {join.generation_id}"
        case MemberReplaced(None, old_member_id, new_member_id):
            return f"{new_member_id} came back in the place of {old_member_id}"
        case MemberReplaced(group_instance_id, old_member_id, new_member_id):
            return f"{new_member_id} replaced {old_member_id} as {group_instance_id}"
        case MemberAway(member_id, until_ms):
            return f"{member_id} is away, until {until_ms}"
        case MemberRemoved(member_id, reason):
            return f"{member_id} removed: {reason}"
        case RebalanceStarted(cause):
            return f"rebalance started: {cause.reason}" + (f", {cause.detail}" if cause.detail else "")
        case GenerationStarted(generation_id):
            return f"generation {generation_id} started"
        case GroupEmptied(generation_id):
            return f"generation {generation_id} is empty"
        case RebalanceCompleted(generation_id, end):
            return f"rebalance {generation_id} completed: {end.outcome}"
        case RebalanceHeld(generation_id, held):
            return f"rebalance {generation_id} waits for approval: {held.end.outcome}"
        case HeldRebalanceEnded(generation_id, end, said):
            why = f", {said.reason}" if said.reason else ""
            return f"rebalance {generation_id} waits no more: {end}{why}"
        case RebalanceKept(generation_id, because):
            return f"rebalance {generation_id} is computed again, all kept: {because}"
        case ApprovalRestored(generation_id):
            return f"rebalance {generation_id} was approved"
        case WarmUpsPromoted(warm_ups):
            named = (f"{member_id} {' '.join(map(str, tasks))}" for member_id, tasks in warm_ups.items())
            return f"warm-ups have caught up: {', '.join(named)}"
        case RebalanceLedElsewhere(led_by, generation_id, end=end):
            return f"rebalance {generation_id} led by {led_by}: {end.outcome}"
        case MemberReported(member_id):
            return f"{member_id} reported"
        case GroupDeleted():
            return "group deleted"
        case GroupRestored():
            return "group restored"
        case LastRebalanceRestored():
            return "last rebalance restored"
        case MemberRestored(member):
            return f"{member.member_id} restored"
        case AssignmentsPacked(assignments):
            return f"assignments of {len(assignments)} members"


def _lever_in_words(record: HoldChanged | RejoinGraceChanged | PromotionChanged | PauseChanged) -> str:
    match record:
        case HoldChanged(hold):
            return "rebalances wait for no approval" if hold is None else f"rebalances wait {hold.time_limit_ms} ms"
        case RejoinGraceChanged(grace):
            return "no rejoin grace" if grace is None else f"rejoin grace of {grace.grace_ms} ms"
        case PromotionChanged(promotion):
            return "promotion at the probing deadline" if promotion is None else "promotion when caught up"
        case PauseChanged(pause):
            return "no longer paused" if pause is None else "paused"
