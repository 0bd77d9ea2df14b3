"""What a member hears, and what the group notes when it hears from a member. Nothing here needs a commit.

A heartbeat and a fetch change nothing durable. So they are answered at once from the last committed state, while other
events of the group wait for the store, and the sign of life counts from the moment of its arrival. The notes go to the
group's `Liveness`. It belongs to the working state, which may be ahead of the committed one: a member that has just
been removed there has no session any more, and nothing is noted of it.

As an event of its own (`hear`), it may start the follow-up rebalance, once all have their assignments.

Source: `classicGroupHeartbeatToClassicGroup`, `classicGroupSyncToClassicGroup`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from coordinator_api.group.events import (
    ConnectionLost,
    FetchAssignment,
    Heartbeat,
    ProcessHeartbeat,
    RecheckAssignment,
    RecheckProcess,
)
from coordinator_api.group.fencing import refuse_after_missed_rebalance, refuse_stranger
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import Liveness
from coordinator_api.group.members import ClassicGroupMember
from coordinator_api.group.outcome import (
    Accepted,
    AssignmentPending,
    AssignmentReady,
    HeartbeatAnswered,
    MemberNews,
    ProcessHeartbeatAnswered,
    Rejected,
    Response,
)
from coordinator_api.group.rebalancing import follow_up_when_acknowledged
from coordinator_api.group.states import GroupState, RebalanceOutcome, RejectionCode
from coordinator_api.group.transition import GroupTransition

HeardEvent = Heartbeat | ProcessHeartbeat | RecheckProcess | FetchAssignment | RecheckAssignment

HeardAnswer = HeartbeatAnswered | ProcessHeartbeatAnswered | AssignmentReady | AssignmentPending | Rejected

DIGEST_BYTES = 12


def answer(image: GroupImage, event: HeardEvent) -> HeardAnswer:
    """What the member hears in this state."""
    match event:
        case Heartbeat():
            return _heartbeat(image, event)
        case ProcessHeartbeat() | RecheckProcess():
            return _process_heartbeat(image, event.members)
        case FetchAssignment() | RecheckAssignment():
            return _assignment(image, event)


def hear(step: GroupTransition, event: HeardEvent) -> Response:
    """A heartbeat or a fetch as an event of its own. A heartbeat that starts the follow-up hears of it at once."""
    answered = answer(step.image, event)
    if isinstance(answered, Rejected):
        return answered
    note(step.liveness, step.image, event, answered, step.now_ms)
    follow_up_when_acknowledged(step)
    return answer(step.image, event) if isinstance(event, Heartbeat | ProcessHeartbeat) else answered


def connection_lost(step: GroupTransition, event: ConnectionLost) -> Response:
    """Not yet the end of its members: `ticking` decides once they have had time to come back."""
    step.liveness.connection_lost(event.connection_id, event.held_elsewhere, step.now_ms)
    return Accepted()


def note(liveness: Liveness, working: GroupImage, event: HeardEvent, answered: HeardAnswer, now_ms: int) -> None:
    """Note what `event` says of its members. `answered`: what they hear; nothing is noted of one that is refused."""
    if isinstance(answered, Rejected):
        return
    match event:
        case Heartbeat():
            assert isinstance(answered, HeartbeatAnswered)
            _note_heartbeat(liveness, working, event, answered, now_ms)
        case ProcessHeartbeat():
            assert isinstance(answered, ProcessHeartbeatAnswered)
            for member_id, one in event.members.items():
                told = answered.members[member_id]
                if not isinstance(told, Rejected):
                    _note_heartbeat(liveness, working, one, answered, now_ms, event.connection_id)
                elif told.code is RejectionCode.ILLEGAL_GENERATION:
                    _note_connection(liveness, working, member_id, event.connection_id, now_ms)
        case RecheckProcess():
            pass
        case FetchAssignment() | RecheckAssignment():
            member = working.members.get(event.member_id)
            if member is None or member.is_away:
                return
            if isinstance(event, FetchAssignment):
                liveness.heard_from(member, now_ms)
            if isinstance(answered, AssignmentReady):
                liveness.acknowledged(event.member_id, answered.generation_id)


def _note_heartbeat(
    liveness: Liveness,
    working: GroupImage,
    event: Heartbeat,
    answered: HeartbeatAnswered | ProcessHeartbeatAnswered,
    now_ms: int,
    connection_id: int | None = None,
) -> None:
    member = working.members.get(event.member_id)
    if member is None or member.is_away:
        return
    liveness.heard_from(member, now_ms, connection_id, event.task_offset_sums)
    if answered.state is GroupState.STABLE and event.generation_id == answered.generation_id:
        liveness.acknowledged(event.member_id, event.generation_id)


def _note_connection(
    liveness: Liveness, working: GroupImage, member_id: str, connection_id: int | None, now_ms: int
) -> None:
    """A static member that missed a rebalance is refused, and its session goes on running out. But its process lives on
    this connection: the end of an earlier one is no sign of its death.
    """
    member = working.members.get(member_id)
    if member is not None and not member.is_away and connection_id is not None:
        liveness.belongs_to(member_id, connection_id, now_ms)


def _heartbeat(image: GroupImage, event: Heartbeat) -> HeartbeatAnswered | Rejected:
    """Whether the member has to rejoin, fetch or stop.

    Differs from Kafka: an older generation than the group's is accepted as long as the member takes part in the current
    one (it just has not fetched yet), and a member that has rejoined is not asked to rejoin again. In Kafka it would be
    blocked in JoinGroup.
    """
    member = _member(image, event)
    if isinstance(member, Rejected):
        return member
    return HeartbeatAnswered(
        image.state,
        _has_to_rejoin(image, member),
        image.draining,
        image.generation_id,
        paused=image.levers.pause is not None,
    )


def _process_heartbeat(image: GroupImage, members: Mapping[str, Heartbeat]) -> ProcessHeartbeatAnswered:
    """Each member hears what its own heartbeat would have told it, and whether it can fetch an assignment."""
    told: dict[str, MemberNews | Rejected] = {}
    for member_id, event in members.items():
        member = _member(image, event)
        if isinstance(member, Rejected):
            told[member_id] = member
        else:
            rejoin = _has_to_rejoin(image, member)
            told[member_id] = MemberNews(rejoin, image.draining, _generation_to_fetch(image, member))
    paused = image.levers.pause is not None
    news = _digest(image.generation_id, told, paused)
    return ProcessHeartbeatAnswered(image.state, image.generation_id, told, news, paused)


def _member(image: GroupImage, event: Heartbeat) -> ClassicGroupMember | Rejected:
    refused = refuse_stranger(image, event.member_id, event.group_instance_id)
    if refused is not None:
        return refused
    member = image.members[event.member_id]
    refused = refuse_after_missed_rebalance(image, member)
    if refused is not None:
        return refused
    if event.generation_id > max(member.last_join.generation_id, image.generation_id):
        return _ahead(event.generation_id, image)
    return member


def _has_to_rejoin(image: GroupImage, member: ClassicGroupMember) -> bool:
    return image.state is GroupState.PREPARING_REBALANCE and not image.has_joined(member)


def _generation_to_fetch(image: GroupImage, member: ClassicGroupMember) -> int:
    return 0 if _awaits_result(image, member) else member.last_assignment.generation_id


def _awaits_result(image: GroupImage, member: ClassicGroupMember) -> bool:
    """Whether the member has rejoined, and the rebalance that it rejoined for has not come to its end.

    An older assignment could hand it a task that its new subscription does not claim and that the rebalance may give to
    another member. Until it rejoins, it may fetch its last assignment again.
    """
    return image.state is GroupState.COMPLETING_REBALANCE or image.has_joined(member)


def _digest(generation_id: int, told: Mapping[str, MemberNews | Rejected], paused: bool) -> str:
    """The same for the same news, whichever process of the service tells it."""
    spelled = [
        (member_id, str(one.code))
        if isinstance(one, Rejected)
        else (member_id, one.rejoin, one.stop, one.assignment_generation)
        for member_id, one in sorted(told.items())
    ]
    said = (generation_id, spelled, "paused") if paused else (generation_id, spelled)
    text = json.dumps(said, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _assignment(
    image: GroupImage, event: FetchAssignment | RecheckAssignment
) -> AssignmentReady | AssignmentPending | Rejected:
    """The member's assignment, as soon as there is one: only the result of the rebalance that it rejoined for."""
    refused = refuse_stranger(image, event.member_id, event.group_instance_id)
    if refused is not None:
        return refused
    member = image.members[event.member_id]
    refused = refuse_after_missed_rebalance(image, member)
    if refused is not None:
        return refused
    if event.min_generation > image.generation_id + 1:
        return _ahead(event.min_generation, image)
    if _awaits_result(image, member):
        return AssignmentPending()
    last = member.last_assignment
    if last.assignment is not None and last.generation_id >= event.min_generation:
        return AssignmentReady(last.generation_id, last.assignment, _followup_comes(image))
    if image.state is GroupState.PREPARING_REBALANCE:
        return Rejected(
            RejectionCode.REBALANCE_IN_PROGRESS,
            f"generation {event.min_generation} was abandoned or is still being prepared; rejoin, then fetch",
        )
    return AssignmentPending()


def _followup_comes(image: GroupImage) -> bool:
    last = image.last_rebalance
    return last is not None and (last.end.outcome is RebalanceOutcome.FOLLOW_UP or last.awaits_topics())


def _ahead(generation_id: int, image: GroupImage) -> Rejected:
    return Rejected(
        RejectionCode.ILLEGAL_GENERATION,
        f"generation {generation_id} is ahead of the group's, which is {image.generation_id}; "
        "drop all tasks and rejoin",
    )
