"""Handles heartbeats and fetches: checks their senders, answers them, and updates sessions.

Heartbeats and fetches are answered immediately from the last committed state, because they do not change the durable
state. All other events of the group wait for the store. Heartbeats and fetches restart the session timeout when they
arrive. Heartbeats and fetches update the group's `Liveness`, which belongs to the working state. The working state may
be newer than the committed state. If a member was just removed from the working state, its request updates no session.
If the leader asked for a follow-up rebalance, the rebalance is due after all members have acknowledged their
assignments.

These rules fence or refuse members in joins, heartbeats and fetches:

- If a restart of a static member has replaced a member id, requests with this id get `FENCED_INSTANCE_ID`. The group
  remembers the last `MAX_FENCED_MEMBER_IDS` replaced ids of each member. Because of the remembered ids, an older
  incarnation is fenced even if its request does not name its instance id. Differs from Kafka: Kafka's coordinator
  remembers no fenced member ids.
- An absent member gets `UNKNOWN_MEMBER_ID`, until its process joins again.
- If a static member missed a rebalance, it has lost its tasks and gets `ILLEGAL_GENERATION`.

Source: `classicGroupHeartbeatToClassicGroup`, `classicGroupSyncToClassicGroup`, `ClassicGroup.validateMember`; KIP-345.
"""

import hashlib
import json
from collections.abc import Mapping

from coordinator_api.group import events, outcome
from coordinator_api.group.events import FetchAssignment, Heartbeat, HeartbeatOrFetch, ProcessHeartbeat
from coordinator_api.group.health_rules import failed_rebalance_text
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.liveness import Liveness
from coordinator_api.group.states import GroupState, RebalanceOutcome, RejectionCode

DIGEST_BYTES = 12


def answer(image: GroupImage, event: HeartbeatOrFetch) -> outcome.Response:
    """Returns the answer to `event` in the state `image`."""
    match event:
        case Heartbeat():
            return _heartbeat(image, event)
        case ProcessHeartbeat():
            return _process_heartbeat(image, event.members)
        case FetchAssignment():
            return _assignment(image, event)


def respond(
    liveness: Liveness, working: GroupImage, image: GroupImage, event: HeartbeatOrFetch, now_ms: int
) -> outcome.ImmediateResponse:
    """Answer the heartbeat or fetch from the state `image`. If the event is not a recheck, the call also restarts the
    session timeouts of the members whose requests are accepted. `working`: the working state, which may be newer than
    `image`. `liveness`: the sessions of the working state.
    """
    answered = answer(image, event)
    if isinstance(answered, outcome.Rejected):
        return outcome.ImmediateResponse(answered)
    # usually no connection is broken, so this cheap test comes first
    network_was_down = bool(liveness.connections.lost) and liveness.connections.most_are_lost
    _note(liveness, working, event, answered, now_ms)
    network_is_back = network_was_down and not liveness.connections.most_are_lost
    return outcome.ImmediateResponse(answered, network_is_back or followup_is_due(working, liveness))


def connection_lost(step: outcome.GroupTransition, event: events.ConnectionLost) -> outcome.Response:
    """Record the broken connection in the group's `Liveness`. The members on the connection stay in the group. After
    the grace, `joining.expire_sessions` removes the members that did not come back.
    """
    step.liveness.connection_lost(event.connection_id, event.held_elsewhere, step.now_ms)
    return outcome.Accepted()


def followup_is_due(image: GroupImage, liveness: Liveness) -> bool:
    """Returns True if the last rebalance asked for a follow-up, and all participating members have their assignments.

    A follow-up has to wait until all members have fetched their assignments, because a member revokes tasks only after
    this fetch.
    Differs from Kafka: in Kafka, members that still wait for tasks have to request the follow-up. Members of this group
    may also request the follow-up. However, no request is needed, because the group starts the follow-up by itself.
    """
    end = image.present_end
    return end is not None and end.outcome is RebalanceOutcome.FOLLOW_UP and not liveness.unfetched


def member_or_refusal(
    image: GroupImage, member_id: str, group_instance_id: str | None
) -> ClassicGroupMember | outcome.Rejected:
    """Returns the member that sent a request. Returns a refusal if the group has no member of this id. Returns a
    refusal if the instance id belongs to another member id.
    """
    if image.state is GroupState.DEAD:
        return outcome.GROUP_DELETED
    if group_instance_id is not None:
        static = image.members.with_instance(group_instance_id)
        if static is None:
            return outcome.Rejected(
                RejectionCode.UNKNOWN_MEMBER_ID,
                f"there is no member with group instance id {group_instance_id}; join without a member id",
            )
        if static.member_id != member_id:
            return _fenced(member_id)
    member = image.members.get(member_id)
    if member is not None:
        return refuse_absent(member) or member
    if image.members.has_fenced(member_id):
        return _fenced(member_id)
    return outcome.Rejected(
        RejectionCode.UNKNOWN_MEMBER_ID, f"there is no member {member_id}; join without a member id"
    )


def refuse_absent(member: ClassicGroupMember) -> outcome.Rejected | None:
    """Returns a refusal if the member is away; else None. An absent member has left the group, so its process should
    send no requests.
    """
    if not member.is_away:
        return None
    return outcome.Rejected(
        RejectionCode.UNKNOWN_MEMBER_ID,
        f"member {member.member_id} has left, and its place is kept; join without a member id",
    )


def refuse_after_missed_rebalance(image: GroupImage, member: ClassicGroupMember) -> outcome.Rejected | None:
    """Returns a refusal if the static member missed the current generation, because its tasks may now belong to other
    members; else None.
    """
    if image.takes_part(member):
        return None
    return outcome.Rejected(
        RejectionCode.ILLEGAL_GENERATION,
        f"member {member.member_id} did not rejoin for generation {image.generation_id}; drop all tasks and rejoin",
    )


def _fenced(member_id: str) -> outcome.Rejected:
    return outcome.Rejected(
        RejectionCode.FENCED_INSTANCE_ID, f"a newer incarnation took the place of member {member_id}; stop this one"
    )


def _note(
    liveness: Liveness, working: GroupImage, event: HeartbeatOrFetch, answered: outcome.Response, now_ms: int
) -> None:
    """Update the sessions of the members that sent `event`. `answered`: the answer to `event`."""
    match event:
        case Heartbeat():
            assert isinstance(answered, outcome.HeartbeatAnswered)
            _note_heartbeat(liveness, working, event, answered, now_ms, None)
        case ProcessHeartbeat(is_recheck=False):
            assert isinstance(answered, outcome.ProcessHeartbeatAnswered)
            for member_id, heartbeat in event.members.items():
                news = answered.members[member_id]
                if not isinstance(news, outcome.Rejected):
                    _note_heartbeat(liveness, working, heartbeat, answered, now_ms, event.connection_id)
                elif news.code is RejectionCode.ILLEGAL_GENERATION:
                    # This static member missed a rebalance, so its session is not extended. The member's process is
                    # alive on the new connection, so the loss of an earlier connection must not end the session.
                    refused = working.members.get(member_id)
                    if refused is not None and not refused.is_away and event.connection_id is not None:
                        liveness.belongs_to(member_id, event.connection_id, now_ms)
        case FetchAssignment():
            member = working.members.get(event.member_id)
            if member is None or member.is_away:
                return
            if not event.is_recheck:
                liveness.request_arrived(member, now_ms)
            if isinstance(answered, outcome.AssignmentReady):
                liveness.acknowledged(event.member_id, answered.generation_id)


_Answered = outcome.HeartbeatAnswered | outcome.ProcessHeartbeatAnswered


def _note_heartbeat(
    liveness: Liveness, image: GroupImage, event: Heartbeat, answered: _Answered, now_ms: int, connection_id: int | None
) -> None:
    member = image.members.get(event.member_id)
    if member is None or member.away_until_ms is not None:
        return
    session = liveness.sessions[member.member_id]
    offsets = session.offsets.after_heartbeat(event.task_offset_sums, now_ms)
    flow = session.flow.after_heartbeat(event.task_flows, now_ms)
    liveness.request_arrived(member, now_ms, connection_id, offsets, flow)
    if answered.state is GroupState.STABLE and event.generation_id == answered.generation_id:
        liveness.acknowledged(event.member_id, event.generation_id)


def _heartbeat(image: GroupImage, event: Heartbeat) -> outcome.HeartbeatAnswered | outcome.Rejected:
    """Returns whether the member has to rejoin, fetch or stop.

    Differs from Kafka: a member may send an older generation if it takes part in the current generation. The member may
    not have fetched its assignment yet. After its rejoin, a member is not asked to rejoin again. In Kafka, a member
    waits for the answer to its JoinGroup.
    """
    member = _member(image, event)
    if isinstance(member, outcome.Rejected):
        return member
    return outcome.HeartbeatAnswered(
        image.state, _has_to_rejoin(image, member), image.draining, image.generation_id, image.levers.pause is not None
    )


def _process_heartbeat(image: GroupImage, members: Mapping[str, Heartbeat]) -> outcome.ProcessHeartbeatAnswered:
    """Returns the answers to the members. The answer to a member contains the generation of the assignment that the
    member can fetch.
    """
    answers: dict[str, outcome.MemberNews | outcome.Rejected] = {}
    for member_id, event in members.items():
        member = _member(image, event)
        if isinstance(member, outcome.Rejected):
            answers[member_id] = member
        else:
            to_fetch = 0 if _awaits_result(image, member) else member.last_assignment.generation_id
            answers[member_id] = outcome.MemberNews(_has_to_rejoin(image, member), image.draining, to_fetch)
    paused = image.levers.pause is not None
    news = _digest(image.generation_id, answers, paused)
    return outcome.ProcessHeartbeatAnswered(image.state, image.generation_id, answers, news, paused)


def _member(image: GroupImage, event: Heartbeat) -> ClassicGroupMember | outcome.Rejected:
    member = _taking_part(image, event)
    if isinstance(member, outcome.Rejected):
        return member
    if event.generation_id > max(member.last_join.generation_id, image.generation_id):
        return _ahead(event.generation_id, image)
    return member


def _taking_part(image: GroupImage, event: Heartbeat | FetchAssignment) -> ClassicGroupMember | outcome.Rejected:
    member = member_or_refusal(image, event.member_id, event.group_instance_id)
    return member if isinstance(member, outcome.Rejected) else refuse_after_missed_rebalance(image, member) or member


def _has_to_rejoin(image: GroupImage, member: ClassicGroupMember) -> bool:
    return image.state is GroupState.PREPARING_REBALANCE and not image.has_joined(member)


def _awaits_result(image: GroupImage, member: ClassicGroupMember) -> bool:
    """Returns whether the member has rejoined for a rebalance that is not complete yet.

    A member that has rejoined must not get its older assignment. The rebalance may give the tasks of this older
    assignment to other members. Before the member rejoins, it may fetch its last assignment again.
    """
    return image.state is GroupState.COMPLETING_REBALANCE or image.has_joined(member)


def _digest(generation_id: int, answers: Mapping[str, outcome.MemberNews | outcome.Rejected], paused: bool) -> str:
    """Returns a digest of the answers. Equal answers give equal digests in all processes of the service."""
    spelled = [
        (member_id, str(news.code))
        if isinstance(news, outcome.Rejected)
        else (member_id, news.rejoin, news.stop, news.assignment_generation)
        for member_id, news in sorted(answers.items())
    ]
    text = json.dumps((generation_id, spelled, paused), separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _assignment(
    image: GroupImage, event: FetchAssignment
) -> outcome.AssignmentReady | outcome.AssignmentPending | outcome.Rejected:
    """Returns the member's assignment. If the member has rejoined for a rebalance, its assignment is pending until the
    rebalance completes.
    """
    member = _taking_part(image, event)
    if isinstance(member, outcome.Rejected):
        return member
    if event.min_generation > image.generation_id + 1:
        return _ahead(event.min_generation, image)
    if _awaits_result(image, member):
        return outcome.AssignmentPending()
    last = member.last_assignment
    if last.assignment is not None and last.generation_id >= event.min_generation:
        error = failed_rebalance_text(image)
        return outcome.AssignmentReady(last.generation_id, last.assignment, _followup_comes(image), error)
    if image.state is GroupState.PREPARING_REBALANCE:
        return outcome.Rejected(
            RejectionCode.REBALANCE_IN_PROGRESS,
            f"generation {event.min_generation} was abandoned or is still being prepared; rejoin, then fetch",
        )
    return outcome.AssignmentPending()


def _followup_comes(image: GroupImage) -> bool:
    last = image.last_rebalance
    return last is not None and (last.end.outcome is RebalanceOutcome.FOLLOW_UP or last.awaits_topics())


def _ahead(generation_id: int, image: GroupImage) -> outcome.Rejected:
    return outcome.Rejected(
        RejectionCode.ILLEGAL_GENERATION,
        f"generation {generation_id} is ahead of the group's, which is {image.generation_id}; "
        "drop all tasks and rejoin",
    )
