"""Groups with an outside leader: the leader is not this service, but a JVM or a process that runs `assignor lead`. The
coordinator stores and shows the reports of leaders outside this service.

The first report creates a group with an outside leader, and the last report is the state of the group. A leader may
send a report twice. A second report of the present generation is accepted and changes nothing. A report of an older
generation is refused. The coordinator has no session timeouts for groups with an outside leader, because only the
leader knows which members are alive. At this coordinator, members cannot join a group that has an outside leader. A
group that this coordinator leads accepts no reports. A group must have only one leader, because two leaders could give
the same task to two members.
"""

from assignor.protocol.assignment_packing import share
from assignor.types import AssignorErrorCode
from coordinator_api.group import events
from coordinator_api.group.events import Event, HeartbeatOrFetch
from coordinator_api.group.image import GroupImage, RebalanceEnd, packed_assignments
from coordinator_api.group.outcome import GroupTransition, RebalanceReported, Rejected, Response
from coordinator_api.group.records import AssignmentsPacked, MemberReported, RebalanceLedElsewhere
from coordinator_api.group.states import GroupState, RebalanceOutcome, RejectionCode
from coordinator_api.group.subscriptions import assignment_error

_ALLOWED_IF_LED_ELSEWHERE = (
    events.AssignmentComputed,
    events.ConnectionLost,
    events.DeleteGroup,
    events.Recovered,
    events.ReportRebalance,
    events.Tick,
    events.TopicsSeen,
)


def refuse_led_elsewhere(image: GroupImage, event: Event | HeartbeatOrFetch) -> Rejected | None:
    """Returns a refusal if the group has an outside leader and only this leader can handle `event`; else None."""
    led_by = image.led_by
    if led_by is None or image.state is GroupState.DEAD or isinstance(event, _ALLOWED_IF_LED_ELSEWHERE):
        return None
    return Rejected(
        RejectionCode.NOT_COORDINATOR,
        f"the group is led by {led_by}; this coordinator only shows the group, and members must join it there; "
        "to lead a group of this name here, DELETE it first, or take another name",
    )


def report(step: GroupTransition, event: events.ReportRebalance) -> Response:
    """Record a rebalance that a leader outside this service ran."""
    image = step.image
    if image.state is GroupState.DEAD:
        return Rejected(RejectionCode.GROUP_ID_NOT_FOUND, "the group has been deleted; report it again")
    if image.led_by is None and image.input_json is not None:
        return Rejected(
            RejectionCode.INCONSISTENT_GROUP_PROTOCOL,
            f"this coordinator leads the group itself, so {event.led_by} cannot lead a rebalance of it; "
            "report to another coordinator, or DELETE the group here first",
        )
    if image.led_by is not None and event.generation_id == image.generation_id:
        return RebalanceReported(event.generation_id, created=False)
    if image.led_by is not None and event.generation_id < image.generation_id:
        return Rejected(
            RejectionCode.ILLEGAL_GENERATION,
            f"generation {image.generation_id} has been reported, which is newer than {event.generation_id}; "
            "if the group started from scratch on its cluster, DELETE it here first",
        )
    if event.no_room is not None:
        return Rejected(RejectionCode.POLICY_VIOLATION, event.no_room)
    step.emit(
        RebalanceLedElsewhere(event.led_by, event.generation_id, step.now_ms, event.input_json, reported_end(event))
    )
    for member_id, member in event.members.items():
        step.emit(MemberReported(member_id, member, None, event.warm_ups.get(member_id, ())))
    if event.assignments:
        step.emit(AssignmentsPacked(packed_assignments(share(event.assignments))))
    return RebalanceReported(event.generation_id, created=True)


def reported_end(event: events.ReportRebalance) -> RebalanceEnd:
    """Returns the outcome and the error of the reported rebalance.

    The field `error` of the report is the error that the leader would have thrown. If the report has no `error`, the
    result contains the name of the error code that the leader sent to its members.
    """
    outcome, error, error_code = RebalanceOutcome.STABLE, event.error, 0
    if error is None:
        assignments = share(event.assignments).parts.values()
        error_code = next(filter(None, map(assignment_error, assignments)), 0)
        if error_code:
            known = error_code in AssignorErrorCode.__members__.values()
            error = AssignorErrorCode(error_code).name if known else f"assignor error {error_code}"
    if error is not None:
        outcome = RebalanceOutcome.ERROR
    elif event.followup_rebalance:
        outcome = RebalanceOutcome.FOLLOW_UP
    elif event.probing_rebalance_at_ms is not None:
        outcome = RebalanceOutcome.PROBING
    return RebalanceEnd(outcome, event.followup_rebalance, event.probing_rebalance_at_ms, error, error_code)
