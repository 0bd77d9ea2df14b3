"""What each record makes of the state of a group.

`next_image(image, record)` is the only place where state changes, for a live group and for one that is replayed from
the store. Source: `GroupMetadataManager.replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assignor.errors import AssignorFault
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId
from coordinator_api.group.image import MAX_FENCED_MEMBER_IDS, GroupImage, LastRebalance, RebalanceCause
from coordinator_api.group.levers import Levers
from coordinator_api.group.members import ClassicGroupMember, ClassicGroupMembers, LastAssignment, LastJoin
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
from coordinator_api.group.states import GroupState, HoldEnd, KeptBecause, RebalanceReason

REPORTED_REVISION = 1
"""A group that is led elsewhere has one definition here. Each reported rebalance replaces its content."""


COVERED_BY_APPROVAL = (RebalanceReason.FOLLOWUP_REBALANCE, RebalanceReason.PROBING_REBALANCE)
"""What comes of a rebalance that was approved needs no approval of its own."""

GOES_ON_WARMING_UP = (RebalanceReason.FOLLOWUP_REBALANCE, RebalanceReason.PROBING_REBALANCE)
"""What comes of a rebalance by itself: warm-ups that have begun one already begin no other."""

COVERED_BY_DISCARD = (RebalanceReason.FOLLOWUP_REBALANCE,)
"""What comes of a rebalance that kept every task where it is, because another one was discarded, keeps them as well."""

CARRIED_OUT = (HoldEnd.APPROVED, HoldEnd.TIME_LIMIT, HoldEnd.HOLD_ENDED)


class IllegalTransition(AssignorFault):
    """A record does not fit the state of its group, or the state breaks a rule: a bug, or a damaged log.

    The message names the group and lists the last records that it took in.
    """


def next_image(image: GroupImage, record: CoordinatorRecord) -> GroupImage:
    """The state after `record`. Raises IllegalTransition."""
    match record:
        case DefinitionChanged(revision, input_json, origin):
            _expect(revision == image.revision + 1 or image.revision == 0, image, record)
            return _asked_anew(replace(image, revision=revision, input_json=input_json, origin=origin))
        case DrainChanged(draining):
            return replace(image, draining=draining)
        case HoldChanged() | RejoinGraceChanged() | PauseChanged():
            return replace(image, levers=_with_lever(image.levers, record))
        case PromotionChanged():  # who switches it on again asks for the warm-ups of now
            return replace(image, levers=_with_lever(image.levers, record), promoted={})
        case InstanceDrained(drained):
            drains = {**image.levers.drained, drained.target: drained}
            return _asked_anew(replace(image, levers=replace(image.levers, drained=drains)))
        case InstanceDrainEnded(target):
            _expect(target in image.levers.drained, image, record)
            left = {key: value for key, value in image.levers.drained.items() if key != target}
            return _asked_anew(replace(image, levers=replace(image.levers, drained=left)))
        case MemberSubscribed(member_id, join):
            known = image.members.get(member_id)
            if known is None:
                return _with_member(_asked_anew(image), ClassicGroupMember(member_id, join))
            return _with_member(image, replace(known, last_join=join, away_until_ms=None))
        case MemberReplaced():
            return _replaced(image, record)
        case MemberAway(member_id, until_ms):
            _expect(member_id in image.members, image, record)
            return _with_member(image, replace(image.members[member_id], away_until_ms=until_ms))
        case MemberRemoved(member_id):
            _expect(member_id in image.members, image, record)
            return _asked_anew(replace(image, members=image.members.without(member_id)))
        case RebalanceStarted() | GenerationStarted() | GroupEmptied() | RebalanceCompleted() | GroupDeleted():
            return _moved(image, record)
        case RebalanceHeld() | HeldRebalanceEnded() | RebalanceKept():
            return _waited(image, record)
        case ApprovalRestored(generation_id):
            return replace(image, approved_generation=generation_id)
        case WarmUpsPromoted(warm_ups):
            return replace(image, promoted=_together(image.promoted, warm_ups))
        case RebalanceLedElsewhere():
            return _led_elsewhere(image, record)
        case MemberReported():
            return _reported(image, record)
        case GroupRestored(state, generation_id, initial, cause, revision):
            return replace(
                image,
                state=state,
                generation_id=generation_id,
                initial=initial,
                cause=cause,
                rebalance_revision=revision,
            )
        case LastRebalanceRestored(last_rebalance):
            return replace(image, last_rebalance=last_rebalance)
        case MemberRestored(member):
            return _with_member(image, member)
        case AssignmentsPacked(assignments):
            return _given(image, record, assignments.parts)


def _asked_anew(image: GroupImage) -> GroupImage:
    """Nothing that was approved, discarded or promoted counts any more."""
    return replace(image, approved_generation=None, kept_because=None, promoted={})


def _together(
    promoted: Mapping[str, tuple[TaskId, ...]], more: Mapping[str, tuple[TaskId, ...]]
) -> dict[str, tuple[TaskId, ...]]:
    return {
        member_id: tuple(sorted({*promoted.get(member_id, ()), *more.get(member_id, ())}))
        for member_id in sorted(promoted.keys() | more.keys())
    }


def _with_lever(levers: Levers, record: HoldChanged | RejoinGraceChanged | PromotionChanged | PauseChanged) -> Levers:
    match record:
        case HoldChanged(hold):
            return replace(levers, hold=hold)
        case RejoinGraceChanged(rejoin_grace):
            return replace(levers, rejoin_grace=rejoin_grace)
        case PromotionChanged(promotion):
            return replace(levers, promotion=promotion)
        case PauseChanged(pause):
            return replace(levers, pause=pause)


def _moved(
    image: GroupImage, record: RebalanceStarted | GenerationStarted | GroupEmptied | RebalanceCompleted | GroupDeleted
) -> GroupImage:
    """The records that lead a group from one `GroupState` to another."""
    state = image.state
    preparing = state is GroupState.PREPARING_REBALANCE
    match record:
        case RebalanceStarted(cause, initial):
            _expect(not preparing and state is not GroupState.DEAD and image.led_by is None, image, record)
            _expect(initial == (state is GroupState.EMPTY), image, record)
            return replace(
                image,
                state=GroupState.PREPARING_REBALANCE,
                cause=cause,
                initial=initial,
                held=None,
                kept_because=image.kept_because if cause.reason in COVERED_BY_DISCARD else None,
                approved_generation=image.approved_generation if cause.reason in COVERED_BY_APPROVAL else None,
                promoted=image.promoted if cause.reason in GOES_ON_WARMING_UP else {},
            )
        case GenerationStarted(generation_id, revision):
            _expect(preparing and generation_id == image.generation_id + 1 and bool(image.members), image, record)
            return replace(
                image,
                state=GroupState.COMPLETING_REBALANCE,
                generation_id=generation_id,
                initial=False,
                rebalance_revision=revision,
            )
        case GroupEmptied(generation_id):
            _expect(preparing and generation_id == image.generation_id + 1 and not image.members, image, record)
            return replace(image, state=GroupState.EMPTY, generation_id=generation_id, initial=False, cause=None)
        case RebalanceCompleted():
            return _completed(image, record)
        case GroupDeleted():
            _expect(state is GroupState.EMPTY or image.led_by is not None, image, record)
            return replace(image, state=GroupState.DEAD, members=ClassicGroupMembers())


def _waited(image: GroupImage, record: RebalanceHeld | HeldRebalanceEnded | RebalanceKept) -> GroupImage:
    """The records between the computation of a rebalance and its completion."""
    _expect(record.generation_id == image.generation_id, image, record)
    if not isinstance(record, RebalanceKept):  # in a snapshot it may come later
        _expect(image.state is GroupState.COMPLETING_REBALANCE, image, record)
    match record:
        case RebalanceHeld(_, held):
            _expect(image.held is None and held.assignments.keys() == image.members.keys(), image, record)
            return replace(image, held=held)
        case HeldRebalanceEnded(generation_id, end):
            _expect(image.held is not None, image, record)
            approved = generation_id if end in CARRIED_OUT else None
            return replace(image, held=None, approved_generation=approved)
        case RebalanceKept(_, because):
            _expect(image.held is None and image.kept_because is None, image, record)
            return replace(image, kept_because=because)


def _replaced(image: GroupImage, record: MemberReplaced) -> GroupImage:
    old = image.members.get(record.old_member_id)
    _expect(old is not None and old.last_join.group_instance_id == record.group_instance_id, image, record)
    _expect(record.new_member_id not in image.members, image, record)
    assert old is not None
    fenced = (*old.fenced_member_ids, record.old_member_id)[-MAX_FENCED_MEMBER_IDS:]
    member = replace(old, member_id=record.new_member_id, fenced_member_ids=fenced)
    if image.state is GroupState.PREPARING_REBALANCE:  # else it begins a rebalance, or its assignment still holds
        image = _asked_anew(image)
    return replace(image, members=image.members.without(record.old_member_id).with_member(member))


def _completed(image: GroupImage, record: RebalanceCompleted) -> GroupImage:
    _expect(image.state is GroupState.COMPLETING_REBALANCE and image.held is None, image, record)
    _expect(record.generation_id == image.generation_id, image, record)
    _expect(record.assignments.keys() == image.members.keys(), image, record)
    parts, warm_ups = record.assignments.parts, record.warm_ups

    def assigned(member: ClassicGroupMember) -> ClassicGroupMember:
        key = member.member_id
        last = LastAssignment(record.generation_id, parts[key], tuple(warm_ups.get(key, ())))
        return ClassicGroupMember(key, member.last_join, last, member.fenced_member_ids, member.away_until_ms)

    members = image.members.assigned(assigned)
    kept = image.kept_because if image.kept_because is KeptBecause.DISCARDED else None
    last_rebalance = LastRebalance(
        record.generation_id, image.cause, image.rebalance_revision, record.end, record.basis
    )
    return replace(image, state=GroupState.STABLE, members=members, last_rebalance=last_rebalance, kept_because=kept)


def _led_elsewhere(image: GroupImage, record: RebalanceLedElsewhere) -> GroupImage:
    """The whole state is what this report says. Nothing of an earlier report is left."""
    new = image.state is GroupState.EMPTY and image.revision == 0
    _expect(new or (image.led_by is not None and record.generation_id > image.generation_id), image, record)
    cause = RebalanceCause(RebalanceReason.LED_ELSEWHERE)
    return GroupImage(
        state=GroupState.STABLE,
        generation_id=record.generation_id,
        revision=REPORTED_REVISION,
        input_json=record.input_json,
        cause=cause,
        rebalance_revision=REPORTED_REVISION,
        last_rebalance=LastRebalance(record.generation_id, cause, REPORTED_REVISION, record.end),
        led_by=record.led_by,
        reported_at_ms=record.reported_at_ms,
    )


def _reported(image: GroupImage, record: MemberReported) -> GroupImage:
    """Its timeouts are unknown here, and 0: the coordinator that leads the group keeps its session."""
    _expect(image.led_by is not None and record.member_id not in image.members, image, record)
    join = LastJoin(
        group_instance_id=record.member.group_instance_id,
        incarnation=None,
        client_id=record.member.client_id,
        session_timeout_ms=0,
        rebalance_timeout_ms=0,
        subscription=record.member.subscription,
        generation_id=image.generation_id,
    )
    assigned_generation = 0 if record.assignment is None else image.generation_id
    last_assignment = LastAssignment(assigned_generation, record.assignment, record.warm_ups)
    return _with_member(image, ClassicGroupMember(record.member_id, join, last_assignment))


def _given(image: GroupImage, record: AssignmentsPacked, parts: Mapping[str, AssignmentParts]) -> GroupImage:
    _expect(parts.keys() <= image.members.keys(), image, record)

    def given(member: ClassicGroupMember) -> ClassicGroupMember:
        assignment = parts.get(member.member_id)
        if assignment is None:
            return member
        last = member.last_assignment
        generation_id = last.generation_id if image.led_by is None else image.generation_id
        return replace(member, last_assignment=replace(last, generation_id=generation_id, assignment=assignment))

    return replace(image, members=image.members.assigned(given))


def _with_member(image: GroupImage, member: ClassicGroupMember) -> GroupImage:
    return replace(image, members=image.members.with_member(member))


def _expect(holds: bool, image: GroupImage, record: CoordinatorRecord) -> None:
    if not holds:
        raise IllegalTransition(f"{record!r} does not fit {image.state} at generation {image.generation_id}")
