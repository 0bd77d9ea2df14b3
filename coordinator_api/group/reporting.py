"""Groups that are led elsewhere, by a JVM or by `assignor lead`: shown and kept here, round by round, never led here.

Rules: such a group begins with its first reported round and is what its last one says. A generation that is known is
answered as done, so a report can be sent again; one that is older is refused. Nothing times out: who is alive is known
where the group is led. Members cannot be served here, since two leaders would give the same task to two members; and a
group that is led here takes no reports.
"""

from __future__ import annotations

from typing import NamedTuple

from assignor.types import AssignorErrorCode
from coordinator_api.group.events import (
    AssignmentComputed,
    DeleteGroup,
    Event,
    RebalanceFailed,
    Recovered,
    ReportRebalance,
    Tick,
    TopicsSeen,
)
from coordinator_api.group.outcome import RebalanceReported, Rejected, Response
from coordinator_api.group.records import MemberReported, RebalanceLedElsewhere
from coordinator_api.group.states import GroupState, RebalanceOutcome, RejectionCode
from coordinator_api.group.subscriptions import assignment_error
from coordinator_api.group.transition import GroupTransition

_NOT_OF_MEMBERS = (AssignmentComputed, DeleteGroup, RebalanceFailed, Recovered, ReportRebalance, Tick, TopicsSeen)


def led_elsewhere(step: GroupTransition, event: Event) -> Rejected | None:
    """Why nothing that a member or an operator asks for can be done to a group that is led elsewhere."""
    led_by = step.image.led_by
    if led_by is None or step.image.state is GroupState.DEAD or isinstance(event, _NOT_OF_MEMBERS):
        return None
    return Rejected(
        RejectionCode.NOT_COORDINATOR,
        f"the group is led by {led_by} and only shown here: its members join there; "
        "to lead a group of this name here, DELETE it first, or take another name",
    )


def report(step: GroupTransition, event: ReportRebalance) -> Response:
    image = step.image
    if image.state is GroupState.DEAD:
        return Rejected(RejectionCode.GROUP_ID_NOT_FOUND, "the group has been deleted")
    if image.led_by is None and image.input_json is not None:
        return Rejected(
            RejectionCode.INCONSISTENT_GROUP_PROTOCOL,
            f"this coordinator leads the group itself, so no round of it is led by {event.led_by}; "
            "report to another coordinator, or DELETE the group here first",
        )
    if image.led_by is not None and event.generation_id == image.generation_id:
        return RebalanceReported(event.generation_id, created=False)
    if image.led_by is not None and event.generation_id < image.generation_id:
        return Rejected(
            RejectionCode.ILLEGAL_GENERATION,
            f"generation {image.generation_id} has been reported, which is newer than {event.generation_id}; "
            "if the group began anew on its cluster, DELETE it here first",
        )
    _take_in(step, event)
    return RebalanceReported(event.generation_id, created=True)


class ReportedOutcome(NamedTuple):
    """`error`: what the leader would have thrown, or the name of the code that it sent; None when nothing failed."""

    outcome: RebalanceOutcome
    error: str | None
    error_code: int


def outcome_of(event: ReportRebalance) -> ReportedOutcome:
    """How the round ended, by what was reported of it."""
    if event.error is not None:
        return ReportedOutcome(RebalanceOutcome.ERROR, event.error, 0)
    code = next(filter(None, map(assignment_error, event.assignments.values())), 0)
    if code:
        known = code in AssignorErrorCode.__members__.values()
        return ReportedOutcome(
            RebalanceOutcome.ERROR, AssignorErrorCode(code).name if known else f"assignor error {code}", code
        )
    if event.followup_rebalance:
        return ReportedOutcome(RebalanceOutcome.FOLLOW_UP, None, 0)
    ended = RebalanceOutcome.STABLE if event.probing_rebalance_at_ms is None else RebalanceOutcome.PROBING
    return ReportedOutcome(ended, None, 0)


def _take_in(step: GroupTransition, event: ReportRebalance) -> None:
    outcome, error, error_code = outcome_of(event)
    step.emit(
        RebalanceLedElsewhere(
            led_by=event.led_by,
            generation_id=event.generation_id,
            reported_at_ms=step.now_ms,
            input_json=event.input_json,
            outcome=outcome,
            followup_rebalance=event.followup_rebalance,
            probing_rebalance_at_ms=event.probing_rebalance_at_ms,
            error=error,
            error_code=error_code,
        )
    )
    for member_id, member in event.members.items():
        step.emit(
            MemberReported(
                member_id,
                member.group_instance_id,
                member.client_id,
                member.subscription,
                event.assignments.get(member_id),
                event.warm_ups.get(member_id, ()),
            )
        )
