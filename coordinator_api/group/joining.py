"""Joins: a new member, a member that rejoins, a static member whose next incarnation takes over.

A join answers at once; it never waits for the round (members learn of it by heartbeats and fetch what it gives). So a
join that is sent again because its answer was lost must change nothing: the same bytes for the same round are the same
join. Members flip the unique field of their subscription to say that a rejoin is meant. Source: `classicGroupJoin...`
and `updateStaticMemberThenRebalanceOrCompleteJoin` in `GroupMetadataManager`; KIP-345 for static members.
"""

from __future__ import annotations

from coordinator_api.group.events import Join
from coordinator_api.group.image import ClassicGroupMember
from coordinator_api.group.outcome import JoinAnswered, Rejected, Response
from coordinator_api.group.rebalancing import prepare
from coordinator_api.group.records import MemberReplaced, MemberSubscribed
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RejectionCode
from coordinator_api.group.subscriptions import claims_tasks, static_identity
from coordinator_api.group.transition import GroupTransition


def join(step: GroupTransition, event: Join) -> Response:
    refused = _unacceptable(step, event)
    if refused is not None:
        return refused
    if event.member_id is not None:
        refused = step.refusal(event.member_id, event.group_instance_id)
        return refused or _rejoin(step, event, step.image.members[event.member_id])
    static = step.image.static_member(event.group_instance_id) if event.group_instance_id is not None else None
    if static is None:
        return _join_as_new_member(step, event)
    return _join_as_incarnation(step, event, static)


def _unacceptable(step: GroupTransition, event: Join) -> Rejected | None:
    image, limits = step.image, step.limits
    if image.state is GroupState.DEAD or image.input_json is None:
        return Rejected(RejectionCode.GROUP_ID_NOT_FOUND, "the group has not been declared, or has been deleted")
    if not limits.min_session_timeout_ms <= event.session_timeout_ms <= limits.max_session_timeout_ms:
        return Rejected(
            RejectionCode.INVALID_SESSION_TIMEOUT,
            f"session_timeout_ms must be from {limits.min_session_timeout_ms} to {limits.max_session_timeout_ms}, "
            f"not {event.session_timeout_ms}",
        )
    if event.rebalance_timeout_ms < 1:
        return Rejected(RejectionCode.INVALID_REQUEST, "rebalance_timeout_ms must be at least 1")
    if event.member_id is None and (event.new_member_id in image.members or image.is_fenced(event.new_member_id)):
        return Rejected(RejectionCode.INVALID_REQUEST, f"the proposed member id {event.new_member_id} is in use")
    return None


def _join_as_new_member(step: GroupTransition, event: Join) -> Response:
    """Differs from Kafka: while a round is prepared all members count, so a newcomer cannot push out a slow member."""
    if len(step.image.members) >= step.limits.max_size:
        return Rejected(
            RejectionCode.GROUP_MAX_SIZE_REACHED, f"the group has {step.limits.max_size} members, the most it may have"
        )
    generation_id = step.image.generation_id + 1
    step.emit(_subscribed(event, event.new_member_id, event.group_instance_id, event.incarnation, generation_id))
    prepare(step, RebalanceReason.MEMBER_JOINED)
    return JoinAnswered(event.new_member_id, generation_id, step.image.state, created=True)


def _rejoin(step: GroupTransition, event: Join, member: ClassicGroupMember) -> Response:
    """A known member. The same subscription as before is a repeated request, unless a round waits for it."""
    refused = _not_taken_back(step, event, member)
    if refused is not None:
        return refused
    step.liveness.heard_from(member, step.now_ms)
    image = step.image
    preparing = image.state is GroupState.PREPARING_REBALANCE
    repeated = event.subscription == member.subscription and (not preparing or image.has_joined(member))
    generation_id = image.generation_id + 1 if preparing or not repeated else image.generation_id
    incarnation = member.incarnation if event.incarnation is None else event.incarnation
    record = _subscribed(event, member.member_id, member.group_instance_id, incarnation, generation_id)
    if not repeated or record != _last_subscribed(member):
        step.emit(record)
    if not repeated:
        prepare(step, RebalanceReason.SUBSCRIPTION_CHANGED)
    return JoinAnswered(member.member_id, generation_id, step.image.state, created=False)


def _join_as_incarnation(step: GroupTransition, event: Join, old: ClassicGroupMember) -> Response:
    """A static member without member id: it was started anew, or repeats a join whose answer was lost.

    The newer incarnation takes over the older one's place and assignment; when the group is stable and the member is
    still the same in the same place, no round is needed. Differs from Kafka: an `incarnation` that is lower than the
    known one is refused, one that is equal with equal bytes is a repeated request; and a member that changed what a
    round decides by (process, tags, topics, versions) starts one, where Kafka keeps the old assignment for it.
    """
    refused = _not_taken_back(step, event, old)
    if refused is not None:
        return refused
    same_incarnation = event.incarnation is not None and event.incarnation == old.incarnation
    if same_incarnation and event.subscription == old.subscription:
        return _rejoin(step, event, old)
    assert old.group_instance_id is not None
    as_it_was = _assignment_still_holds(step, event, old)
    generation_id = step.image.generation_id if as_it_was else step.image.generation_id + 1
    incarnation = old.incarnation if event.incarnation is None else event.incarnation
    step.emit(MemberReplaced(old.group_instance_id, old.member_id, event.new_member_id))
    step.emit(_subscribed(event, event.new_member_id, old.group_instance_id, incarnation, generation_id))
    if not as_it_was:
        prepare(step, RebalanceReason.STATIC_MEMBER_REPLACED)
    return JoinAnswered(event.new_member_id, generation_id, step.image.state, created=True)


def _assignment_still_holds(step: GroupTransition, event: Join, old: ClassicGroupMember) -> bool:
    """Whether a static member that came back can go on with the assignment its place has.

    Not when the last round waits for a follow-up (this is its first rejoin) or failed (a join tries again).
    """
    image = step.image
    if image.state is not GroupState.STABLE or image.last_rebalance is None:
        return False
    if image.last_rebalance.outcome in (RebalanceOutcome.FOLLOW_UP, RebalanceOutcome.ERROR):
        return False
    return static_identity(event.subscription) == static_identity(old.subscription)


def _not_taken_back(step: GroupTransition, event: Join, member: ClassicGroupMember) -> Rejected | None:
    """An older incarnation, or a static member that let a round go by and comes with tasks it ran before.

    Differs from Kafka: there JoinGroup takes the latter and only its heartbeats are refused; but the round may have
    given those tasks to another, and nobody is to run them twice.
    """
    known = member.incarnation
    if event.incarnation is not None and known is not None and event.incarnation < known:
        return Rejected(
            RejectionCode.FENCED_INSTANCE_ID,
            f"incarnation {known} of {member.group_instance_id} has joined, which is newer than {event.incarnation}",
        )
    return step.lost_its_place(member) if claims_tasks(event.subscription) else None


def _subscribed(
    event: Join, member_id: str, group_instance_id: str | None, incarnation: int | None, generation_id: int
) -> MemberSubscribed:
    return MemberSubscribed(
        member_id=member_id,
        group_instance_id=group_instance_id,
        incarnation=incarnation,
        client_id=event.client_id,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        subscription=event.subscription,
        joined_generation=generation_id,
    )


def _last_subscribed(member: ClassicGroupMember) -> MemberSubscribed:
    return MemberSubscribed(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        incarnation=member.incarnation,
        client_id=member.client_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscription=member.subscription,
        joined_generation=member.joined_generation,
    )
