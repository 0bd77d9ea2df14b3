"""Invariants of a group, which have to hold before and after each event. Tests check these invariants, and so does the
repair of a group's log.

The idea comes from `validate_state` of dask's scheduler.
"""

from collections.abc import Iterator

from coordinator_api.group.administration import drains_of_gone
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.liveness import Liveness
from coordinator_api.group.states import GroupState, KeptBecause


def broken_invariants(image: GroupImage, liveness: Liveness) -> tuple[str, ...]:
    """Returns a sentence for each invariant that does not hold."""
    found = [*_of_state(image), *_of_holding(image), *_of_identities(image), *_of_liveness(image, liveness)]
    if image.members:
        found += [f"{target} is drained, and is not in the group" for target in drains_of_gone(image)]
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
        yield "the initial delay is over, but the rebalance still counts as initial"
    if state is GroupState.PREPARING_REBALANCE and not image.initial and image.all_joined():
        yield "all members have joined, but the rebalance does not continue"
    if state is GroupState.STABLE and (
        image.last_rebalance is None or image.last_rebalance.generation_id != image.generation_id
    ):
        yield "the group is Stable, but no rebalance of its generation was completed"
    if image.last_rebalance is not None and image.last_rebalance.generation_id > image.generation_id:
        yield "the last rebalance is of a later generation than the group"


def _of_holding(image: GroupImage) -> Iterator[str]:
    if image.held is not None:
        if image.state is not GroupState.COMPLETING_REBALANCE:
            yield f"a rebalance is held, and the group is {image.state}"
        if image.levers.hold is None:
            yield "a rebalance is held, and nobody has asked for that"
        if image.held.assignments.keys() != image.members.keys():
            yield "the rebalance that is held is not of the present members"
        if image.kept_because is not None:
            yield "a rebalance that keeps every task where it is waits for approval"
    completing = image.state is GroupState.COMPLETING_REBALANCE
    if image.kept_because is KeptBecause.TASKS_WITHOUT_OWNER and not completing:
        yield f"every task is to be kept where it is, and the group is {image.state}"


def _of_identities(image: GroupImage) -> Iterator[str]:
    instances = [member.last_join.group_instance_id for member in image.members.values() if member.is_static]
    if len(instances) != len(set(instances)):
        yield "two members have the same group instance id"
    for member_id, member in image.members.items():
        if member.member_id != member_id:
            yield f"{member.member_id} is stored under the id {member_id}"
        if image.members.has_fenced(member_id):
            yield f"{member_id} is a member, and is fenced"


def _of_member(image: GroupImage, member: ClassicGroupMember) -> Iterator[str]:
    name, assigned = member.member_id, member.last_assignment
    preparing = image.state is GroupState.PREPARING_REBALANCE
    if member.last_join.generation_id > image.generation_id + (1 if preparing else 0):
        yield f"{name} has joined generation {member.last_join.generation_id}, which is not being prepared"
    if not preparing and not image.takes_part(member) and not (member.is_static or member.is_away):
        yield f"{name} is dynamic and did not join generation {image.generation_id}"
    if (assigned.assignment is None) != (assigned.generation_id == 0):
        yield f"{name} has an assignment without its generation, or a generation without an assignment"
    if assigned.generation_id > image.generation_id:
        yield f"{name} is assigned in a later generation than the group's"
    lacks = image.state is GroupState.STABLE and assigned.generation_id != image.generation_id
    if lacks and image.led_by is None:
        yield f"{name} has no assignment of generation {image.generation_id}"


def _of_liveness(image: GroupImage, liveness: Liveness) -> Iterator[str]:
    if liveness.sessions.keys() != (image.members.keys() if image.led_by is None else set()):
        yield "sessions and members differ"
    earliest = min((one.expires_at_ms for one in liveness.sessions.values()), default=None)
    if earliest is not None and (liveness.next_expiry_ms is None or liveness.next_expiry_ms > earliest):
        yield "a session expires before the next timer"
    for member in image.members.away() if image.led_by is None else ():
        session = liveness.sessions.get(member.member_id)
        if session is not None and (session.expires_at_ms != member.away_until_ms or session.connection_id is not None):
            yield f"{member.member_id} is away, and has a session that does not end with its grace"
    without = {
        member_id
        for member_id, session in liveness.sessions.items()
        if member_id in image.members
        and image.takes_part(image.members[member_id])
        and not image.members[member_id].is_away
        and session.acknowledged_generation < image.generation_id
    }
    if liveness.unfetched.keys() != (without if image.state is GroupState.STABLE else set()):
        yield "those who have not fetched are not those who have not acknowledged"
    belong = {
        (key, session.connection_id) for key, session in liveness.sessions.items() if session.connection_id is not None
    }
    if belong != {(key, number) for number, keys in liveness.connections.members.items() for key in keys}:
        yield "sessions and connections differ"
    if not liveness.connections.lost.keys() <= liveness.connections.members.keys():
        yield "a broken connection is remembered that no member belongs to"
    if image.state is GroupState.PREPARING_REBALANCE and liveness.join_timer is None:
        yield "a rebalance is being prepared, but no timer ends the wait"
