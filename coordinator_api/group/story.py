"""The last things that happened to a group, in one line each, for errors that must not happen.

An error without its history cannot be understood afterwards; so every broken invariant is told with its story.
"""

from __future__ import annotations

from collections import deque

from coordinator_api.group.image import GroupImage
from coordinator_api.group.records import (
    CoordinatorRecord,
    DefinitionChanged,
    DrainChanged,
    GenerationStarted,
    GroupEmptied,
    MemberRemoved,
    MemberReplaced,
    MemberReported,
    MemberRestored,
    MemberSubscribed,
    RebalanceCompleted,
    RebalanceLedElsewhere,
    RebalanceStarted,
)

STORY_LENGTH = 64


class Story:
    """Remembers the last `STORY_LENGTH` records that were taken in."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=STORY_LENGTH)

    def add(self, record: CoordinatorRecord, after: GroupImage, now_ms: int) -> None:
        self._lines.append(f"{now_ms} {told(record)} -> {after.state} generation {after.generation_id}")

    def lines(self) -> tuple[str, ...]:
        """Oldest first: `<ms> <what happened> -> <state> generation <n>`."""
        return tuple(self._lines)


def told(record: CoordinatorRecord) -> str:
    """A record in a few words."""
    match record:
        case DefinitionChanged(revision):
            return f"definition {revision}"
        case DrainChanged(draining):
            return "draining" if draining else "not draining any more"
        case MemberSubscribed(member_id, joined_generation=generation_id):
            return f"{member_id} joined for generation {generation_id}"
        case MemberReplaced(group_instance_id, old_member_id, new_member_id):
            return f"{new_member_id} replaced {old_member_id} as {group_instance_id}"
        case MemberRemoved(member_id, reason):
            return f"{member_id} removed: {reason}"
        case RebalanceStarted(reason, detail=detail):
            return f"preparing: {reason}" + (f", {detail}" if detail else "")
        case GenerationStarted(generation_id) | GroupEmptied(generation_id):
            return f"{type(record).__name__} {generation_id}"
        case RebalanceCompleted(generation_id, outcome):
            return f"round {generation_id} completed: {outcome}"
        case RebalanceLedElsewhere(led_by, generation_id, outcome=outcome):
            return f"round {generation_id} led by {led_by}: {outcome}"
        case MemberReported(member_id):
            return f"{member_id} reported"
        case MemberRestored(member_id):
            return f"{member_id} restored"
        case _:
            return type(record).__name__
