"""The records of a group. The state of a group is the result of replaying its records. Only records change the state.

A record is one change of the group, and the order of the records matters. `Group.handle` computes records,
`Group.apply` applies the records, and the caller commits the records in one transaction. `record_codec` writes each
record as a JSON object. The JSON has the names of the class and its fields, so names of classes and fields never
change. Source: `GroupCoordinatorRecordHelpers`. Differs from Kafka: in Kafka one record contains a whole group. In this
project, a record is one change. The module `snapshot` makes the shortest list of records from which a replay rebuilds
the same state. Only snapshots contain the `...Restored` records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

from assignor.errors import AssignorFault
from assignor.pipeline.snapshot import Member
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId
from coordinator_api.group.events import LastJoin, MemberFailure
from coordinator_api.group.group_levers import Lever, LeverName, OperatorDecision
from coordinator_api.group.image import (
    MAX_FENCED_MEMBER_IDS,
    ClassicGroupMember,
    ClassicGroupMembers,
    DefinitionOrigin,
    GroupImage,
    HeldRebalance,
    InstanceEnd,
    LastAssignment,
    LastRebalance,
    PackedAssignments,
    RebalanceBasis,
    RebalanceCause,
    RebalanceEnd,
)
from coordinator_api.group.liveness import Liveness
from coordinator_api.group.states import GroupState, HoldEnd, KeptBecause, RebalanceReason, RemovalReason

FOLLOWS_BY_ITSELF = (RebalanceReason.FOLLOWUP_REBALANCE, RebalanceReason.PROBING_REBALANCE)
"""The reasons of rebalances that follow from an earlier rebalance. The approval of the earlier rebalance covers the
rebalances that follow from it. A warm-up triggers at most one early rebalance. After a rebalance with any other reason,
the warm-up may trigger another early rebalance.
"""

CARRIED_OUT = (HoldEnd.APPROVED, HoldEnd.TIME_LIMIT, HoldEnd.HOLD_ENDED)
"""If a wait for approval ends with one of these outcomes, the held rebalance is carried out."""

REPORTED_REVISION = 1
"""The definition revision of a group whose leader is outside this service. The revision of a group with an outside
leader never changes, even when a reported rebalance replaces the definition.
"""

NOT_IN_HISTORY = ("input_json", "fingerprint", "message")
"""The history of a group does not show these fields of records, because these fields contain documents, hashes and the
texts of errors. The history shows ids and reasons of any length.
"""


class IllegalTransition(AssignorFault):
    """A record does not fit the state of its group, or the state breaks an invariant. The cause is a bug, or damage in
    the group's log of records.

    The message names the group and lists the last records that the group applied.
    """


class CoordinatorRecord(ABC):
    """One change of a group. Only `apply` changes the state, both for new events and in a replay from the store.

    Source: `GroupMetadataManager.replay`.
    """

    __slots__ = ()

    types: ClassVar[dict[str, type[CoordinatorRecord]]] = {}
    """The types of records, by their stored names."""

    def __init_subclass__(cls) -> None:
        # `dataclass(slots=True)` creates each class a second time, so this entry is written twice: the second class
        # replaces the first class
        CoordinatorRecord.types[cls.__name__] = cls

    @abstractmethod
    def apply(self, image: GroupImage) -> GroupImage:
        """Returns the state after this record. Raises IllegalTransition."""

    def as_text(self) -> str:
        """Returns the name of the record and its values, for the history of its group."""
        return " ".join((type(self).__name__, *_shown_values(self)))

    def update_liveness(self, liveness: Liveness, before: GroupImage, after: GroupImage, now_ms: int) -> None:  # noqa: B027
        """Update the sessions and timers after the state changed from `before` to `after`. Most records update no
        session and no timer.
        """

    def begun_generation(self) -> int | None:
        """Returns a generation that has certainly begun at the time of this record; None if the record names no
        generation.
        """
        named: int | None = getattr(self, "generation_id", None)
        return named

    def known_member(self) -> str | None:
        """Returns the id of the member that this record names. Returns None if the record names no member that may have
        tasks of the group.
        """
        return None

    def _expect(self, holds: bool, image: GroupImage) -> None:
        if not holds:
            raise IllegalTransition(f"{self!r} does not fit {image.state} at generation {image.generation_id}")


def _shown_values(changed: Any) -> Iterator[str]:
    """Returns the numbers and texts in the fields of a record and of its nested dataclasses. A field with its default
    value is not included.
    """
    for each in fields(changed):
        value = getattr(changed, each.name)
        if is_dataclass(value):
            yield from _shown_values(value)
        elif isinstance(value, str | int) and value != each.default and each.name not in NOT_IN_HISTORY:
            yield f"{each.name}={value}"


@dataclass(frozen=True, slots=True)
class DefinitionChanged(CoordinatorRecord):
    """The definition of the group was created or changed. `revision`: the number of the definition. The numbers of a
    group's definitions begin at 1.
    """

    revision: int
    input_json: str
    origin: DefinitionOrigin = field(default_factory=DefinitionOrigin)

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(self.revision == image.revision + 1 or image.revision == 0, image)
        changed = replace(image, revision=self.revision, input_json=self.input_json, origin=self.origin)
        return changed.with_nothing_approved()


@dataclass(frozen=True, slots=True)
class DrainChanged(CoordinatorRecord):
    """The drain of the group began or ended. `draining`: True if the drain began. While the group is drained, the
    answers to heartbeats ask members to stop.
    """

    draining: bool

    def apply(self, image: GroupImage) -> GroupImage:
        return replace(image, draining=self.draining)


@dataclass(frozen=True, slots=True)
class LeverChanged(CoordinatorRecord):
    """A lever was set or switched off. `is_on`: True if the lever was set. A drain also ends by itself when its
    instance or member is gone.
    """

    lever: Lever
    is_on: bool

    def apply(self, image: GroupImage) -> GroupImage:
        name = self.lever.name
        after = replace(image, levers=image.levers.changed(self.lever, self.is_on))
        if name is LeverName.DRAIN:
            self._expect(self.is_on or self.lever.target in image.levers.drained, image)
            return after.with_nothing_approved()
        # switching promotion on again allows another early rebalance for the present warm-ups
        if name is LeverName.PROMOTION:
            return replace(after, promoted={})
        return after


@dataclass(frozen=True, slots=True)
class MemberSubscribed(CoordinatorRecord):
    """A new member joined, or a known member sent a new subscription."""

    member_id: str
    join: LastJoin

    def apply(self, image: GroupImage) -> GroupImage:
        known = image.members.get(self.member_id)
        if image.ends and (known is None or known.is_away):
            image = replace(image, ends=image.ends_with_successor(self.join.subscription))
        if known is None:
            return image.with_nothing_approved().with_member(ClassicGroupMember(self.member_id, self.join))
        return image.with_member(replace(known, last_join=self.join, away_until_ms=None))

    def as_text(self) -> str:
        return f"MemberSubscribed member_id={self.member_id} generation_id={self.join.generation_id}"

    def update_liveness(self, liveness: Liveness, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        liveness.member_subscribed(after.members[self.member_id], before, after, now_ms)

    def begun_generation(self) -> int | None:
        """The join's own generation may not have begun yet, so the previous generation is returned."""
        return self.join.generation_id - 1

    def known_member(self) -> str | None:
        return self.member_id


@dataclass(frozen=True, slots=True)
class MemberReplaced(CoordinatorRecord):
    """A restarted static member got its earlier assignment, or an absent dynamic member came back. If a dynamic member
    came back, `group_instance_id` is None. The old member id is fenced.
    """

    group_instance_id: str | None
    old_member_id: str
    new_member_id: str

    def apply(self, image: GroupImage) -> GroupImage:
        old = image.members.get(self.old_member_id)
        self._expect(old is not None and old.last_join.group_instance_id == self.group_instance_id, image)
        self._expect(self.new_member_id not in image.members, image)
        assert old is not None
        fenced = (*old.fenced_member_ids, self.old_member_id)[-MAX_FENCED_MEMBER_IDS:]
        member = replace(old, member_id=self.new_member_id, fenced_member_ids=fenced)
        # in other states, a changed member starts a rebalance, which ends the approval
        if image.state is GroupState.PREPARING_REBALANCE:
            image = image.with_nothing_approved()
        return replace(image, members=image.members.without(self.old_member_id).with_member(member))

    def update_liveness(self, liveness: Liveness, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        liveness.replace_session(self.old_member_id, self.new_member_id, now_ms)
        liveness.await_fetches(after, now_ms)

    def known_member(self) -> str | None:
        return self.new_member_id


@dataclass(frozen=True, slots=True)
class MemberAway(CoordinatorRecord):
    """A member left. The group reserves the member's tasks for the member's process until `until_ms`.

    `at_ms`, `failure`: as in `MemberRemoved`.
    """

    member_id: str
    until_ms: int
    at_ms: int | None = None
    failure: MemberFailure | None = None

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(self.member_id in image.members, image)
        member = image.members[self.member_id]
        members = image.members.with_member(replace(member, away_until_ms=self.until_ms))
        if self.at_ms is None:
            return replace(image, members=members)
        ends = image.ends_after(member, self.at_ms, RemovalReason.LEFT, self.failure)
        return replace(image, members=members, ends=ends)

    def update_liveness(self, liveness: Liveness, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        liveness.end_session(self.member_id, now_ms)
        liveness.start_session(after.members[self.member_id], now_ms)


@dataclass(frozen=True, slots=True)
class MemberRemoved(CoordinatorRecord):
    """The member was removed from the group. The next rebalance gives the member's tasks to other members.

    `at_ms`: the time of the removal; None in records of earlier releases, which leave no entry in `GroupImage.ends`.
    `failure`: the error that the member reported when it left; None if it reported no error.
    """

    member_id: str
    reason: RemovalReason
    at_ms: int | None = None
    failure: MemberFailure | None = None

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(self.member_id in image.members, image)
        members, ends = image.members.without(self.member_id), image.ends
        # the end of an absent member was remembered when the member went away
        if self.at_ms is not None and self.reason is not RemovalReason.GRACE_ENDED:
            ends = image.ends_after(image.members[self.member_id], self.at_ms, self.reason, self.failure)
        return replace(image, members=members, ends=ends).with_nothing_approved()

    def update_liveness(self, liveness: Liveness, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        liveness.end_session(self.member_id, now_ms)


@dataclass(frozen=True, slots=True)
class RebalanceStarted(CoordinatorRecord):
    """The state becomes PreparingRebalance: all members have to rejoin. `initial`: True if the group was empty, so that
    the initial delay applies.
    """

    cause: RebalanceCause
    initial: bool

    def apply(self, image: GroupImage) -> GroupImage:
        begins = image.state not in (GroupState.PREPARING_REBALANCE, GroupState.DEAD) and image.led_by is None
        self._expect(begins and self.initial == (image.state is GroupState.EMPTY), image)
        follows = self.cause.reason in FOLLOWS_BY_ITSELF
        keeps = self.cause.reason is RebalanceReason.FOLLOWUP_REBALANCE
        return replace(
            image,
            state=GroupState.PREPARING_REBALANCE,
            cause=self.cause,
            initial=self.initial,
            held=None,
            kept_because=image.kept_because if keeps else None,
            approved_generation=image.approved_generation if follows else None,
            promoted=image.promoted if follows else {},
        )

    def update_liveness(self, liveness: Liveness, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        liveness.await_joins(after, now_ms)


@dataclass(frozen=True, slots=True)
class GenerationStarted(CoordinatorRecord):
    """The state becomes CompletingRebalance. From now on, the assignment of this generation is being computed.
    `definition_revision`: the revision of the used definition.
    """

    generation_id: int
    definition_revision: int

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(image.prepares_generation(self.generation_id) and bool(image.members), image)
        return replace(
            image,
            state=GroupState.COMPLETING_REBALANCE,
            generation_id=self.generation_id,
            initial=False,
            rebalance_revision=self.definition_revision,
        )


@dataclass(frozen=True, slots=True)
class GroupEmptied(CoordinatorRecord):
    """The state becomes Empty, because the last member has gone. As in Kafka, the group gets a new generation."""

    generation_id: int

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(image.prepares_generation(self.generation_id) and not image.members, image)
        return replace(image, state=GroupState.EMPTY, generation_id=self.generation_id, initial=False, cause=None)


@dataclass(frozen=True, slots=True)
class RebalanceCompleted(CoordinatorRecord):
    """The state becomes Stable, because the rebalance was completed.

    `assignments`: the ConsumerProtocolAssignment of every member. `warm_ups`: for each member, the warm-ups among its
    standby tasks. Members without warm-ups may be missing in `warm_ups`.
    """

    generation_id: int
    end: RebalanceEnd
    assignments: PackedAssignments
    warm_ups: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    basis: RebalanceBasis = field(default_factory=RebalanceBasis)

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(image.state is GroupState.COMPLETING_REBALANCE and image.held is None, image)
        self._expect(self.generation_id == image.generation_id, image)
        self._expect(self.assignments.keys() == image.members.keys(), image)
        parts, warm_ups = self.assignments.parts, self.warm_ups

        def assigned(member: ClassicGroupMember) -> ClassicGroupMember:
            key = member.member_id
            last = LastAssignment(self.generation_id, parts[key], tuple(warm_ups.get(key, ())))
            # the constructor is faster than `replace`, and this runs once for each of thousands of members
            return ClassicGroupMember(key, member.last_join, last, member.fenced_member_ids, member.away_until_ms)

        return replace(
            image,
            state=GroupState.STABLE,
            members=image.members.assigned(assigned),
            last_rebalance=LastRebalance(
                self.generation_id, image.cause, image.rebalance_revision, self.end, self.basis
            ),
            kept_because=image.kept_because if image.kept_because is KeptBecause.DISCARDED else None,
        )

    def update_liveness(self, liveness: Liveness, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        liveness.await_fetches(after, now_ms)


@dataclass(frozen=True, slots=True)
class RebalanceHeld(CoordinatorRecord):
    """The rebalance of this generation was computed and waits for approval. The state stays CompletingRebalance."""

    generation_id: int
    held: HeldRebalance

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(image.completes_generation(self.generation_id) and image.held is None, image)
        self._expect(self.held.assignments.keys() == image.members.keys(), image)
        return replace(image, held=self.held)


@dataclass(frozen=True, slots=True)
class HeldRebalanceEnded(CoordinatorRecord):
    """The wait for approval ended. If the rebalance is carried out, the next record completes the rebalance.
    `decision`: the caller that ended the wait, and the reason. The caller is None if the time limit or a new rebalance
    ended the wait.
    """

    generation_id: int
    end: HoldEnd
    decision: OperatorDecision

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(image.completes_generation(self.generation_id) and image.held is not None, image)
        return replace(image, held=None, approved_generation=self.generation_id if self.end in CARRIED_OUT else None)


@dataclass(frozen=True, slots=True)
class RebalanceKept(CoordinatorRecord):
    """The generation is computed again, without taking a task from a live owner."""

    generation_id: int
    because: KeptBecause

    def apply(self, image: GroupImage) -> GroupImage:
        """The state is not checked, because a snapshot may contain this record in any state of the group."""
        self._expect(self.generation_id == image.generation_id, image)
        self._expect(image.held is None and image.kept_because is None, image)
        return replace(image, kept_because=self.because)


@dataclass(frozen=True, slots=True)
class RebalanceLedElsewhere(CoordinatorRecord):
    """The state becomes Stable, because a leader outside this service ran a rebalance and reported it. A
    `MemberReported` record for each member follows this record.

    `led_by`: the leader of the group. `input_json`: the input of the reporting leader, which replaces the definition.
    """

    led_by: str
    generation_id: int
    reported_at_ms: int
    input_json: str
    end: RebalanceEnd

    def apply(self, image: GroupImage) -> GroupImage:
        """Returns a state that contains no value of an earlier report."""
        new = image.state is GroupState.EMPTY and image.revision == 0
        self._expect(new or (image.led_by is not None and self.generation_id > image.generation_id), image)
        cause = RebalanceCause(RebalanceReason.LED_ELSEWHERE)
        return GroupImage(
            state=GroupState.STABLE,
            generation_id=self.generation_id,
            revision=REPORTED_REVISION,
            input_json=self.input_json,
            cause=cause,
            rebalance_revision=REPORTED_REVISION,
            last_rebalance=LastRebalance(self.generation_id, cause, REPORTED_REVISION, self.end),
            led_by=self.led_by,
            reported_at_ms=self.reported_at_ms,
        )


@dataclass(frozen=True, slots=True)
class MemberReported(CoordinatorRecord):
    """A member of a reported rebalance. The `MemberReported` records have the order of the member list that the leader
    received.

    `assignment`: None if the member has no assignment, or if an `AssignmentsPacked` record with the assignment follows.
    """

    member_id: str
    member: Member
    assignment: AssignmentParts | None
    warm_ups: tuple[TaskId, ...]

    def apply(self, image: GroupImage) -> GroupImage:
        """Adds the member. The timeouts of the member are 0, because only the outside leader knows them and watches the
        member's session.
        """
        self._expect(image.led_by is not None and self.member_id not in image.members, image)
        join = LastJoin(
            group_instance_id=self.member.group_instance_id,
            incarnation=None,
            client_id=self.member.client_id,
            session_timeout_ms=0,
            rebalance_timeout_ms=0,
            subscription=self.member.subscription,
            generation_id=image.generation_id,
        )
        assigned_generation = 0 if self.assignment is None else image.generation_id
        last_assignment = LastAssignment(assigned_generation, self.assignment, self.warm_ups)
        return image.with_member(ClassicGroupMember(self.member_id, join, last_assignment))

    def known_member(self) -> str | None:
        return self.member_id


@dataclass(frozen=True, slots=True)
class GroupDeleted(CoordinatorRecord):
    """The state becomes Dead, because the group was deleted."""

    def apply(self, image: GroupImage) -> GroupImage:
        self._expect(image.state is GroupState.EMPTY or image.led_by is not None, image)
        return replace(image, state=GroupState.DEAD, members=ClassicGroupMembers())


@dataclass(frozen=True, slots=True)
class GroupRestored(CoordinatorRecord):
    """The state of the group in a snapshot. `definition_revision`: the definition revision that the current rebalance
    uses.
    """

    state: GroupState
    generation_id: int
    initial: bool
    cause: RebalanceCause | None
    definition_revision: int

    def apply(self, image: GroupImage) -> GroupImage:
        return replace(
            image,
            state=self.state,
            generation_id=self.generation_id,
            initial=self.initial,
            cause=self.cause,
            rebalance_revision=self.definition_revision,
        )


@dataclass(frozen=True, slots=True)
class LastRebalanceRestored(CoordinatorRecord):
    """The last completed rebalance of the group, in a snapshot."""

    last_rebalance: LastRebalance

    def apply(self, image: GroupImage) -> GroupImage:
        return replace(image, last_rebalance=self.last_rebalance)

    def begun_generation(self) -> int | None:
        return self.last_rebalance.generation_id


@dataclass(frozen=True, slots=True)
class EndsRestored(CoordinatorRecord):
    """The ended instances that the group remembers, in a snapshot, oldest first."""

    ends: tuple[InstanceEnd, ...]

    def apply(self, image: GroupImage) -> GroupImage:
        return replace(image, ends=self.ends)

    def as_text(self) -> str:
        return f"EndsRestored instances={len(self.ends)}"


@dataclass(frozen=True, slots=True)
class ApprovalRestored(CoordinatorRecord):
    """An approval in a snapshot. The follow-up and probing rebalances after the rebalance of this generation do not
    wait for approval.
    """

    generation_id: int

    def apply(self, image: GroupImage) -> GroupImage:
        return replace(image, approved_generation=self.generation_id)


@dataclass(frozen=True, slots=True)
class WarmUpsPromoted(CoordinatorRecord):
    """A rebalance begins early because the warm-ups of these members have caught up. A snapshot has at most one
    `WarmUpsPromoted` record, with all of `image.promoted`.
    """

    warm_ups: Mapping[str, tuple[TaskId, ...]]

    def apply(self, image: GroupImage) -> GroupImage:
        before, more = image.promoted, self.warm_ups
        together = {
            member_id: tuple(sorted({*before.get(member_id, ()), *more.get(member_id, ())}))
            for member_id in sorted(before.keys() | more.keys())
        }
        return replace(image, promoted=together)

    def as_text(self) -> str:
        named = (f"{member_id} {' '.join(map(str, tasks))}" for member_id, tasks in self.warm_ups.items())
        return f"WarmUpsPromoted {', '.join(named)}"


@dataclass(frozen=True, slots=True)
class MemberRestored(CoordinatorRecord):
    """One member with its whole state, in a snapshot. The `MemberRestored` records of a snapshot are in the order of
    joining.

    If the member's assignment shares bytes with other assignments, an `AssignmentsPacked` record has the assignment.
    """

    member: ClassicGroupMember

    def apply(self, image: GroupImage) -> GroupImage:
        return image.with_member(self.member)

    def update_liveness(self, liveness: Liveness, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        liveness.start_session(self.member, now_ms)

    def begun_generation(self) -> int | None:
        return self.member.last_assignment.generation_id

    def known_member(self) -> str | None:
        return self.member.member_id


@dataclass(frozen=True, slots=True)
class AssignmentsPacked(CoordinatorRecord):
    """The assignments of several members. The earlier records of these members contain no assignment. An
    `AssignmentsPacked` occurs in snapshots and in reports of leaders outside this service. The record stores only one
    copy of the bytes that the assignments share.
    """

    assignments: PackedAssignments

    def apply(self, image: GroupImage) -> GroupImage:
        parts = self.assignments.parts
        self._expect(parts.keys() <= image.members.keys(), image)

        def given(member: ClassicGroupMember) -> ClassicGroupMember:
            assignment = parts.get(member.member_id)
            if assignment is None:
                return member
            last = member.last_assignment
            generation_id = last.generation_id if image.led_by is None else image.generation_id
            return replace(member, last_assignment=replace(last, generation_id=generation_id, assignment=assignment))

        return replace(image, members=image.members.assigned(given))
