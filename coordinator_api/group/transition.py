"""Handling one event: records are emitted one after the other, each decision sees the state the last one led to.

Nothing of it touches the group's durable state; the working image is thrown away and the same records lead the group to
the same image when they have been committed. Notes about liveness go to the group's own at once (see `liveness`); what
records mean for timers is tried out on a copy, to tell the caller when to come back.
"""

from __future__ import annotations

from coordinator_api.group.image import ClassicGroupMember, GroupImage, next_image
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.liveness import InitialDelay, Liveness, RejoinTimeout
from coordinator_api.group.outcome import Outcome, Rejected, Response
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.group.states import GroupState, RejectionCode


class GroupTransition:
    """`image`: the state after the records so far. `liveness`: the group's own, for notes."""

    def __init__(self, limits: GroupLimits, image: GroupImage, liveness: Liveness, now_ms: int) -> None:
        self.limits = limits
        self.image = image
        self.liveness = liveness
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self._preview: Liveness | None = None

    def emit(self, record: CoordinatorRecord) -> None:
        """One more record. Notes about liveness have to be made before the first one."""
        before = self.image
        self.image = next_image(before, record)
        if self._preview is None:
            self._preview = self.liveness.copy()
        self._preview.taken_in(record, before, self.image, self.now_ms)
        self.records.append(record)

    def wait(self, timer: InitialDelay | RejoinTimeout) -> None:
        """Note that the round that is being prepared waits (again)."""
        self.liveness.join_timer = timer
        if self._preview is not None:
            self._preview.join_timer = timer

    def refusal(self, member_id: str, group_instance_id: str | None) -> Rejected | None:
        """Why this member's request cannot be served; None when the member is known.

        Source: `ClassicGroup.validateMember`. Differs from Kafka: the earlier member ids of a static member are
        remembered, so that an older incarnation hears FENCED_INSTANCE_ID also when it does not name its instance id.
        """
        if self.image.state is GroupState.DEAD:
            return Rejected(RejectionCode.GROUP_ID_NOT_FOUND, "the group has been deleted")
        if group_instance_id is not None:
            static = self.image.static_member(group_instance_id)
            if static is None:
                return Rejected(
                    RejectionCode.UNKNOWN_MEMBER_ID, f"there is no member with group instance id {group_instance_id}"
                )
            if static.member_id != member_id:
                return _fenced(member_id)
        if member_id in self.image.members:
            return None
        if self.image.is_fenced(member_id):
            return _fenced(member_id)
        return Rejected(RejectionCode.UNKNOWN_MEMBER_ID, f"there is no member {member_id}; join without a member id")

    def lost_its_place(self, member: ClassicGroupMember) -> Rejected | None:
        """A static member that let a round go by: its tasks were given away as its old subscription stood."""
        if member.joined_generation >= self.image.generation_id:
            return None
        return Rejected(
            RejectionCode.ILLEGAL_GENERATION,
            f"member {member.member_id} did not rejoin for generation {self.image.generation_id}; "
            "drop all tasks and rejoin",
        )

    def outcome(self, response: Response) -> Outcome:
        """What was decided, without effects."""
        liveness = self._preview or self.liveness
        return Outcome(tuple(self.records), response, next_timer_ms=next_timer_ms(self.image, liveness))


def next_timer_ms(image: GroupImage, liveness: Liveness) -> int | None:
    """The earliest time at which something may be due, None for never."""
    if image.led_by is not None:
        return None
    due: list[int | None] = []
    if image.members:
        due.append(liveness.next_expiry_ms)
    if image.state is GroupState.PREPARING_REBALANCE and liveness.join_timer is not None:
        due.append(liveness.join_timer.due_ms)
    if image.state is GroupState.STABLE:
        due.append(liveness.fetch_due_ms)
        due.append(image.last_rebalance.probing_rebalance_at_ms if image.last_rebalance else None)
    return min((one for one in due if one is not None), default=None)


def _fenced(member_id: str) -> Rejected:
    return Rejected(RejectionCode.FENCED_INSTANCE_ID, f"a newer incarnation took the place of member {member_id}")
