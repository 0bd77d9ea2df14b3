"""The durable state of one group as one immutable value, and what each record makes of it.

`next_image(image, record)` is the only place where state changes, for live groups and for replayed ones alike. A record
that does not fit the state raises `IllegalTransition`. Source: `ClassicGroup`, `ClassicGroupMember`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from assignor.types import TaskId
from coordinator_api.group.records import (
    CoordinatorRecord,
    DefinitionChanged,
    DrainChanged,
    GenerationStarted,
    GroupDeleted,
    GroupEmptied,
    GroupRestored,
    LastRebalanceRestored,
    MemberRemoved,
    MemberReplaced,
    MemberReported,
    MemberRestored,
    MemberSubscribed,
    RebalanceCompleted,
    RebalanceLedElsewhere,
    RebalanceStarted,
)
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason

MAX_FENCED_MEMBER_IDS = 8
"""How many earlier member ids of a static member are remembered as fenced; older ones become unknown."""


REPORTED_REVISION = 1
"""A group that is led elsewhere has one definition here, which each reported round brings along."""


class IllegalTransition(Exception):
    """The state machine was asked for, or found itself in, something that cannot be: a bug, told with its story."""


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """`joined_generation`: of the round `subscription` was sent for. `assigned_generation`: of `assignment`, or 0."""

    member_id: str
    group_instance_id: str | None
    incarnation: int | None
    client_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    joined_generation: int
    assigned_generation: int = 0
    assignment: bytes | None = None
    warm_ups: tuple[TaskId, ...] = ()
    fenced_member_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LastRebalance:
    """How the last completed round ended; see `RebalanceCompleted`. `detail`: of its reason, see `RebalanceStarted`."""

    generation_id: int
    reason: RebalanceReason | None
    outcome: RebalanceOutcome
    followup_rebalance: bool
    probing_rebalance_at_ms: int | None
    error: str | None
    error_code: int
    fingerprint: str
    definition_revision: int
    detail: str | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()

    def awaits_topics(self) -> bool:
        """Whether the next round starts by itself, once the source topics that it missed are there."""
        return self.outcome is RebalanceOutcome.ERROR and bool(self.missing_topics)


@dataclass(frozen=True, slots=True)
class GroupImage:
    """`revision` 0 and `input_json` None: not declared yet. `members` in the order in which they joined, never mutated.

    `initial`: the round that is prepared began in Empty. `reason`, `detail` and `rebalance_revision`: of the current
    round. `led_by`: who leads the group, None when it is led here; one that is led elsewhere is what its last reported
    round says, at `reported_at_ms`, and nothing else ever happens to it.
    """

    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    revision: int = 0
    input_json: str | None = None
    draining: bool = False
    initial: bool = False
    reason: RebalanceReason | None = None
    rebalance_revision: int = 0
    members: Mapping[str, ClassicGroupMember] = field(default_factory=dict)
    last_rebalance: LastRebalance | None = None
    detail: str | None = None
    led_by: str | None = None
    reported_at_ms: int | None = None

    def has_joined(self, member: ClassicGroupMember) -> bool:
        """While a round is prepared: whether the member has sent its subscription for it."""
        return member.joined_generation > self.generation_id

    def takes_part(self, member: ClassicGroupMember) -> bool:
        """Outside of preparing: whether the member sent its subscription for the current generation.

        Only a static member that let the rebalance timeout pass does not.
        """
        return member.joined_generation >= self.generation_id

    def all_joined(self) -> bool:
        return all(self.has_joined(member) for member in self.members.values())

    def static_member(self, group_instance_id: str) -> ClassicGroupMember | None:
        for member in self.members.values():
            if member.group_instance_id == group_instance_id:
                return member
        return None

    def is_fenced(self, member_id: str) -> bool:
        """Whether a newer incarnation of a static member took the place of this member id."""
        return any(member_id in member.fenced_member_ids for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """The longest of all members', 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def session_timeout_ms(self) -> int:
        """The longest of all members', 0 without members."""
        return max((member.session_timeout_ms for member in self.members.values()), default=0)


def next_image(image: GroupImage, record: CoordinatorRecord) -> GroupImage:
    """The state after `record`. Raises IllegalTransition."""
    match record:
        case DefinitionChanged(revision, input_json):
            _expect(revision == image.revision + 1 or image.revision == 0, image, record)
            return replace(image, revision=revision, input_json=input_json)
        case DrainChanged(draining):
            return replace(image, draining=draining)
        case MemberSubscribed():
            return _subscribed(image, record)
        case MemberReplaced():
            return _replaced(image, record)
        case MemberRemoved(member_id):
            _expect(member_id in image.members, image, record)
            return replace(image, members={key: one for key, one in image.members.items() if key != member_id})
        case GroupRestored() | LastRebalanceRestored() | MemberRestored():
            return _restored(image, record)
        case RebalanceLedElsewhere() | MemberReported():
            return _reported(image, record)
        case _:
            return _moved(image, record)


def _moved(
    image: GroupImage, record: RebalanceStarted | GenerationStarted | GroupEmptied | RebalanceCompleted | GroupDeleted
) -> GroupImage:
    """The records that lead from one state of the group to another."""
    state = image.state
    preparing = state is GroupState.PREPARING_REBALANCE
    match record:
        case RebalanceStarted(reason, initial, detail):
            _expect(not preparing and state is not GroupState.DEAD and image.led_by is None, image, record)
            _expect(initial == (state is GroupState.EMPTY), image, record)
            return replace(image, state=GroupState.PREPARING_REBALANCE, reason=reason, detail=detail, initial=initial)
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
            return replace(
                image, state=GroupState.EMPTY, generation_id=generation_id, initial=False, reason=None, detail=None
            )
        case RebalanceCompleted():
            return _completed(image, record)
        case GroupDeleted():
            _expect(state is GroupState.EMPTY or image.led_by is not None, image, record)
            return replace(image, state=GroupState.DEAD, members={})


def _subscribed(image: GroupImage, record: MemberSubscribed) -> GroupImage:
    old = image.members.get(record.member_id)
    member = ClassicGroupMember(
        member_id=record.member_id,
        group_instance_id=record.group_instance_id,
        incarnation=record.incarnation,
        client_id=record.client_id,
        session_timeout_ms=record.session_timeout_ms,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        subscription=record.subscription,
        joined_generation=record.joined_generation,
        assigned_generation=old.assigned_generation if old else 0,
        assignment=old.assignment if old else None,
        warm_ups=old.warm_ups if old else (),
        fenced_member_ids=old.fenced_member_ids if old else (),
    )
    return replace(image, members={**image.members, record.member_id: member})


def _replaced(image: GroupImage, record: MemberReplaced) -> GroupImage:
    old = image.members.get(record.old_member_id)
    _expect(old is not None and old.group_instance_id == record.group_instance_id, image, record)
    _expect(record.new_member_id not in image.members, image, record)
    assert old is not None
    fenced = (*old.fenced_member_ids, record.old_member_id)[-MAX_FENCED_MEMBER_IDS:]
    member = replace(old, member_id=record.new_member_id, fenced_member_ids=fenced)
    others = {key: one for key, one in image.members.items() if key != record.old_member_id}
    return replace(image, members={**others, record.new_member_id: member})


def _completed(image: GroupImage, record: RebalanceCompleted) -> GroupImage:
    _expect(image.state is GroupState.COMPLETING_REBALANCE, image, record)
    _expect(record.generation_id == image.generation_id, image, record)
    _expect(record.assignments.keys() == image.members.keys(), image, record)
    members = {
        member_id: replace(
            member,
            assigned_generation=record.generation_id,
            assignment=record.assignments[member_id],
            warm_ups=tuple(record.warm_ups.get(member_id, ())),
        )
        for member_id, member in image.members.items()
    }
    last_rebalance = LastRebalance(
        generation_id=record.generation_id,
        reason=image.reason,
        outcome=record.outcome,
        followup_rebalance=record.followup_rebalance,
        probing_rebalance_at_ms=record.probing_rebalance_at_ms,
        error=record.error,
        error_code=record.error_code,
        fingerprint=record.fingerprint,
        definition_revision=image.rebalance_revision,
        detail=image.detail,
        topics=record.topics,
        missing_topics=record.missing_topics,
    )
    return replace(image, state=GroupState.STABLE, members=members, last_rebalance=last_rebalance)


def _reported(image: GroupImage, record: RebalanceLedElsewhere | MemberReported) -> GroupImage:
    """Nothing of an earlier report is left over: the group is what the last one says."""
    if isinstance(record, MemberReported):
        _expect(image.led_by is not None and record.member_id not in image.members, image, record)
        member = ClassicGroupMember(
            member_id=record.member_id,
            group_instance_id=record.group_instance_id,
            incarnation=None,
            client_id=record.client_id,
            session_timeout_ms=0,
            rebalance_timeout_ms=0,
            subscription=record.subscription,
            joined_generation=image.generation_id,
            assigned_generation=0 if record.assignment is None else image.generation_id,
            assignment=record.assignment,
            warm_ups=record.warm_ups,
        )
        return replace(image, members={**image.members, record.member_id: member})
    new = image.state is GroupState.EMPTY and image.revision == 0
    _expect(new or (image.led_by is not None and record.generation_id > image.generation_id), image, record)
    last_rebalance = LastRebalance(
        generation_id=record.generation_id,
        reason=RebalanceReason.LED_ELSEWHERE,
        outcome=record.outcome,
        followup_rebalance=record.followup_rebalance,
        probing_rebalance_at_ms=record.probing_rebalance_at_ms,
        error=record.error,
        error_code=record.error_code,
        fingerprint="",
        definition_revision=REPORTED_REVISION,
    )
    return GroupImage(
        state=GroupState.STABLE,
        generation_id=record.generation_id,
        revision=REPORTED_REVISION,
        input_json=record.input_json,
        reason=RebalanceReason.LED_ELSEWHERE,
        rebalance_revision=REPORTED_REVISION,
        last_rebalance=last_rebalance,
        led_by=record.led_by,
        reported_at_ms=record.reported_at_ms,
    )


def _restored(image: GroupImage, record: GroupRestored | LastRebalanceRestored | MemberRestored) -> GroupImage:
    match record:
        case GroupRestored(state, generation_id, initial, reason, revision, detail):
            return replace(
                image,
                state=state,
                generation_id=generation_id,
                initial=initial,
                reason=reason,
                rebalance_revision=revision,
                detail=detail,
            )
        case LastRebalanceRestored():
            return replace(image, last_rebalance=LastRebalance(**_values(record)))
        case MemberRestored(member_id):
            return replace(image, members={**image.members, member_id: ClassicGroupMember(**_values(record))})


def _values(source: LastRebalanceRestored | MemberRestored | LastRebalance | ClassicGroupMember) -> dict[str, Any]:
    """The restored records have the same fields as the values they restore."""
    return {one.name: getattr(source, one.name) for one in fields(source)}


def snapshot_records(image: GroupImage) -> tuple[CoordinatorRecord, ...]:
    """The shortest list of records that leads from nothing to `image`."""
    if image.led_by is not None:
        return _report_records(image)
    found: list[CoordinatorRecord] = []
    if image.input_json is not None:
        found.append(DefinitionChanged(image.revision, image.input_json))
    if image.draining:
        found.append(DrainChanged(True))
    found.append(
        GroupRestored(
            image.state, image.generation_id, image.initial, image.reason, image.rebalance_revision, image.detail
        )
    )
    if image.last_rebalance is not None:
        found.append(LastRebalanceRestored(**_values(image.last_rebalance)))
    found.extend(MemberRestored(**_values(member)) for member in image.members.values())
    return tuple(found)


def _report_records(image: GroupImage) -> tuple[CoordinatorRecord, ...]:
    last = image.last_rebalance
    assert image.led_by is not None
    assert image.reported_at_ms is not None
    assert image.input_json is not None
    assert last is not None, "a group that is led elsewhere begins with a round"
    found: list[CoordinatorRecord] = [
        RebalanceLedElsewhere(
            led_by=image.led_by,
            generation_id=image.generation_id,
            reported_at_ms=image.reported_at_ms,
            input_json=image.input_json,
            outcome=last.outcome,
            followup_rebalance=last.followup_rebalance,
            probing_rebalance_at_ms=last.probing_rebalance_at_ms,
            error=last.error,
            error_code=last.error_code,
        )
    ]
    found.extend(
        MemberReported(
            one.member_id, one.group_instance_id, one.client_id, one.subscription, one.assignment, one.warm_ups
        )
        for one in image.members.values()
    )
    if image.state is GroupState.DEAD:
        found.append(GroupDeleted())
    return tuple(found)


def _expect(holds: bool, image: GroupImage, record: CoordinatorRecord) -> None:
    if not holds:
        raise IllegalTransition(f"{record!r} does not fit {image.state} at generation {image.generation_id}")
