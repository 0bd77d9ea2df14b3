"""Who is fenced, and who is refused because it is no member or has missed a rebalance.

- A member id that a newer incarnation of a static member replaced is fenced: `FENCED_INSTANCE_ID`. The group remembers
  the last `MAX_FENCED_MEMBER_IDS` of each member (`MemberReplaced` adds them), so that an older incarnation is fenced
  even when its request does not name its instance id. Differs from Kafka, which remembers none.
- An incarnation that is lower than the one that joined last is fenced as well. Differs from Kafka, which knows no
  incarnations.
- A member that is away has left: `UNKNOWN_MEMBER_ID`, until its process joins again and takes its place.
- A static member that missed a rebalance has lost its tasks: `ILLEGAL_GENERATION`.

Source: `ClassicGroup.validateMember`; KIP-345.
"""

from __future__ import annotations

from coordinator_api.group.events import Join
from coordinator_api.group.image import GroupImage
from coordinator_api.group.members import ClassicGroupMember
from coordinator_api.group.outcome import Rejected
from coordinator_api.group.states import GroupState, RejectionCode


def refuse_stranger(image: GroupImage, member_id: str, group_instance_id: str | None) -> Rejected | None:
    """None when `member_id` is a member of the group, and the one that its instance id, if it names one, belongs to."""
    if image.state is GroupState.DEAD:
        return Rejected(RejectionCode.GROUP_ID_NOT_FOUND, "the group has been deleted; declare it again by PUT")
    if group_instance_id is not None:
        static = image.members.with_instance(group_instance_id)
        if static is None:
            return Rejected(
                RejectionCode.UNKNOWN_MEMBER_ID,
                f"there is no member with group instance id {group_instance_id}; join without a member id",
            )
        if static.member_id != member_id:
            return _fenced(member_id)
    if member_id in image.members:
        return refuse_absent(image.members[member_id])
    if image.members.has_fenced(member_id):
        return _fenced(member_id)
    return Rejected(RejectionCode.UNKNOWN_MEMBER_ID, f"there is no member {member_id}; join without a member id")


def refuse_absent(member: ClassicGroupMember) -> Rejected | None:
    """None unless the member has left and its place waits for its process: what left asks for nothing any more."""
    if not member.is_away:
        return None
    return Rejected(
        RejectionCode.UNKNOWN_MEMBER_ID,
        f"member {member.member_id} has left, and its place is kept; join without a member id",
    )


def refuse_older_incarnation(event: Join, member: ClassicGroupMember) -> Rejected | None:
    """None unless the join names an incarnation that is lower than that of the member's last join."""
    known = member.last_join.incarnation
    if event.incarnation is None or known is None or event.incarnation >= known:
        return None
    return Rejected(
        RejectionCode.FENCED_INSTANCE_ID,
        f"incarnation {known} of {member.last_join.group_instance_id} has joined, "
        f"which is newer than {event.incarnation}; stop this one",
    )


def refuse_after_missed_rebalance(image: GroupImage, member: ClassicGroupMember) -> Rejected | None:
    """None unless the static member missed the current generation: its tasks may belong to other members by now."""
    if image.takes_part(member):
        return None
    return Rejected(
        RejectionCode.ILLEGAL_GENERATION,
        f"member {member.member_id} did not rejoin for generation {image.generation_id}; drop all tasks and rejoin",
    )


def _fenced(member_id: str) -> Rejected:
    return Rejected(
        RejectionCode.FENCED_INSTANCE_ID, f"a newer incarnation took the place of member {member_id}; stop this one"
    )
