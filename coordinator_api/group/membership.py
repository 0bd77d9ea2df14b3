"""What members do between joining and leaving: heartbeat, fetch the assignment, leave; and connections that break.

`hearing` says what a member hears and what is noted. Here is what follows from it: the follow-up rebalance starts once
all have their assignments. Source: `classicGroupLeaveToClassicGroup` for the rest.
"""

from __future__ import annotations

from coordinator_api.group.events import ConnectionLost, Heartbeat, Leave, ProcessHeartbeat
from coordinator_api.group.fencing import refuse_stranger
from coordinator_api.group.hearing import HeardEvent, answer, note
from coordinator_api.group.outcome import Accepted, Left, Rejected, Response
from coordinator_api.group.rebalancing import follow_up_when_acknowledged, go_on_when_all_joined, start_rebalance
from coordinator_api.group.records import MemberAway, MemberRemoved
from coordinator_api.group.rejoin_grace import away_until_ms
from coordinator_api.group.states import RebalanceReason, RemovalReason
from coordinator_api.group.transition import GroupTransition


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


def leave(step: GroupTransition, event: Leave) -> Response:
    """Differs from Kafka: static members leave just like dynamic ones, because a DELETE is always deliberate.

    With a rejoin grace the member's place waits for its process (`rejoin_grace`).
    """
    refused = refuse_stranger(step.image, event.member_id, event.group_instance_id)
    if refused is not None:
        return refused
    until_ms = away_until_ms(step.image, step.image.members[event.member_id], step.now_ms)
    if until_ms is not None:
        step.emit(MemberAway(event.member_id, until_ms))
        go_on_when_all_joined(step)
        return Left(event.member_id)
    step.emit(MemberRemoved(event.member_id, RemovalReason.LEFT))
    start_rebalance(step, RebalanceReason.MEMBER_LEFT)
    return Left(event.member_id)
