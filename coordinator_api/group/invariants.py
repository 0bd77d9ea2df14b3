"""What holds for a group between any two events.

The idea is `validate_state` of dask's scheduler. For tests, and for a coordinator that would rather stop than lie.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.liveness import Liveness
from coordinator_api.group.states import GroupState


def broken_invariants(image: GroupImage, liveness: Liveness) -> tuple[str, ...]:
    """Every rule that does not hold, as a sentence; empty when all is well."""
    found = [*_of_state(image), *_of_identities(image), *_of_liveness(image, liveness)]
    for member in image.members.values():
        found.extend(_of_member(image, member))
    return tuple(found)


def _of_state(image: GroupImage) -> Iterator[str]:
    state = image.state
    if image.led_by is not None and state not in (GroupState.STABLE, GroupState.DEAD):
        yield f"the group is led elsewhere and {state}"
    if state in (GroupState.EMPTY, GroupState.DEAD) and image.members:
        yield f"a group that is {state} has members"
    if state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and not image.members:
        yield f"a group that is {state} has no members"
    if image.members and image.input_json is None:
        yield "there are members but no definition"
    if image.initial and state is not GroupState.PREPARING_REBALANCE:
        yield "the initial delay is over, but the round still counts as the first"
    if state is GroupState.PREPARING_REBALANCE and not image.initial and image.all_joined():
        yield "all members have joined, but the round does not go on"
    if state is GroupState.STABLE and (
        image.last_rebalance is None or image.last_rebalance.generation_id != image.generation_id
    ):
        yield "the group is Stable without a completed round of its generation"
    if image.last_rebalance is not None and image.last_rebalance.generation_id > image.generation_id:
        yield "the last round is of a later generation than the group"


def _of_identities(image: GroupImage) -> Iterator[str]:
    instances = [one.group_instance_id for one in image.members.values() if one.group_instance_id is not None]
    if len(instances) != len(set(instances)):
        yield "two members have one group instance id"
    for member_id, member in image.members.items():
        if member.member_id != member_id:
            yield f"{member.member_id} is kept as {member_id}"
        if image.is_fenced(member_id):
            yield f"{member_id} is a member and fenced"


def _of_member(image: GroupImage, member: ClassicGroupMember) -> Iterator[str]:
    name = member.member_id
    preparing = image.state is GroupState.PREPARING_REBALANCE
    if member.joined_generation > image.generation_id + (1 if preparing else 0):
        yield f"{name} has joined generation {member.joined_generation}, which is not being prepared"
    if not preparing and not image.takes_part(member) and member.group_instance_id is None:
        yield f"{name} is dynamic and did not join generation {image.generation_id}"
    if (member.assignment is None) != (member.assigned_generation == 0):
        yield f"{name} has an assignment without its generation, or the other way round"
    if member.assigned_generation > image.generation_id:
        yield f"{name} is assigned in a later generation than the group's"
    lacks = image.state is GroupState.STABLE and member.assigned_generation != image.generation_id
    if lacks and image.led_by is None:
        yield f"{name} has no assignment of generation {image.generation_id}"


def _of_liveness(image: GroupImage, liveness: Liveness) -> Iterator[str]:
    if liveness.sessions.keys() != (image.members.keys() if image.led_by is None else set()):
        yield "sessions and members differ"
    earliest = min((one.expires_at_ms for one in liveness.sessions.values()), default=None)
    if earliest is not None and (liveness.next_expiry_ms is None or liveness.next_expiry_ms > earliest):
        yield "a session ends before the group looks again"
    if image.state is GroupState.PREPARING_REBALANCE and liveness.join_timer is None:
        yield "a round is prepared and nothing ends the wait"
