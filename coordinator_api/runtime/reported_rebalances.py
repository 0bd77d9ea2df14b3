"""Reads and checks the report of a rebalance by a leader outside this service. A report is a rebalance/1 document from
a POST.

The document is stored as it was sent, so that it equals the recording of the leader. The check decodes every
subscription and every assignment. Other code later shows the assignments, or runs the rebalance again. A refusal names
the path of the wrong field. Assignments do not show which standby tasks are warm-ups. To find the warm-ups, this module
runs the rebalance again if this process has the assignor.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from assignor import pipeline
from assignor.errors import DecodeError, InputError
from assignor.protocol.assignment_info import decode_assignment_info, read_tasks
from assignor.protocol.assignment_packing import share
from assignor.protocol.consumer_protocol import decode_assignment, user_data_of_head
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.protocol.subscription_info import decode_member
from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from assignor.recording.fields import child
from assignor.recording.written import rebalance_input
from assignor.types import TaskId
from coordinator_api.errors import UnreadableBytes
from coordinator_api.group.events import ReportRebalance
from coordinator_api.group.rebalance_result import warm_ups_of
from coordinator_api.group.reporting import reported_end
from coordinator_api.runtime.allowed_assignors import AllowedAssignors, allowed_here
from coordinator_api.runtime.definitions import DocumentBounds, check_names, check_size, check_subtopologies
from coordinator_api.store.recorded_documents import pack_whole_document
from coordinator_api.store.repository import Recording

_VERSION_BYTES = 4

LED_ELSEWHERE = "kafka"
"""The value of the field `source` in a report: a leader outside this service computed the rebalance. Commands and pages
also show the leader under this name.
"""


class ReportedRebalance(NamedTuple):
    event: ReportRebalance
    recording: Recording


def read_report(document: dict[str, object], group_id: str, bounds: DocumentBounds) -> ReportedRebalance:
    """Reads a report. The function runs in a worker process, because it may take as long as a rebalance. Raises
    UnreadableBytes. Raises InputError that names the path of the fault.
    """
    check_subtopologies(document.get("input"), "input.", bounds.max_subtopologies)
    recorded = parse_recorded_rebalance(document)
    check_names(recorded.snapshot, "input")
    check_size(recorded.snapshot, bounds.max_partitions)
    _check(recorded, group_id)
    assert recorded.output is not None, "checked"
    event = ReportRebalance(
        led_by=LED_ELSEWHERE,
        generation_id=recorded.generation_id,
        input_json=_definition(recorded),
        members=recorded.snapshot.members,
        assignments=share(recorded.output.assignments),
        warm_ups=_warm_ups(recorded, allowed_here(bounds.assignor_classes)),
        followup_rebalance=recorded.output.followup_rebalance,
        probing_rebalance_at_ms=recorded.output.probing_rebalance_at_ms,
        error=recorded.output.error,
    )
    return ReportedRebalance(event, _recording(document, recorded, event))


def _check(recorded: RecordedRebalance, group_id: str) -> None:
    if recorded.group_id != group_id:
        raise InputError(f"is {recorded.group_id!r}, and the address names {group_id!r}", "group_id")
    if recorded.source != LED_ELSEWHERE:
        raise InputError(f"must be {LED_ELSEWHERE}: only rebalances that were led elsewhere are reported", "source")
    if recorded.generation_id < 1:
        raise InputError("a rebalance has a generation of at least 1", "generation_id")
    if not recorded.snapshot.members:
        raise InputError("a rebalance has at least one member", "input.members")
    if recorded.output is None:
        raise InputError("is missing: a reported rebalance says what was decided", "output")
    strangers = recorded.output.assignments.keys() - recorded.snapshot.members.keys()
    if strangers:
        raise InputError("is not a member of input.members", child("output.assignments", min(strangers)))
    for member_id, member in recorded.snapshot.members.items():
        try:
            decode_member(member.subscription)
        except DecodeError as error:
            raise UnreadableBytes(error, f"{child('input.members', member_id)}.subscription") from None
    _check_assignments(share(recorded.output.assignments))


def _check_assignments(assignments: SharedAssignments) -> None:
    """Checks that all assignments can be decoded. The assignments share nearly all their bytes, and the check decodes
    shared bytes only once.
    """
    decoded: set[tuple[object, ...]] = set()
    for member_id, parts in assignments.parts.items():
        try:
            form = _form(parts)
            if form is not None and form in decoded:
                continue
            user_data = decode_assignment(bytes(parts)).user_data
            if user_data:
                decode_assignment_info(user_data)
            decoded.add(form or ())
        except DecodeError as error:
            raise UnreadableBytes(error, child("output.assignments", member_id)) from None


def _form(parts: AssignmentParts) -> tuple[object, ...] | None:
    """Returns a key. If one assignment with this key can be decoded, all assignments with the same key can be decoded.
    Raises DecodeError if the tasks of this assignment cannot be decoded.

    Returns None if the assignment shares no bytes, or if its length fields do not fit. If `_form` returns None, the
    whole assignment has to be decoded.
    """
    user_data = user_data_of_head(parts.head)
    if not parts.shared or user_data is None:
        return None
    start = user_data.reader.offset
    read_tasks(parts.head)
    version = parts.head[start : start + _VERSION_BYTES]
    return (id(parts.shared), version, len(parts.tail)) if user_data.length == parts.size - start else None


def _definition(recorded: RecordedRebalance) -> str:
    """Returns the leader's input without members, in the form of a definition."""
    known = replace(recorded.snapshot, members={}, leader_process_id=None)
    return json.dumps(rebalance_input(known), sort_keys=True, separators=(",", ":"))


def _warm_ups(recorded: RecordedRebalance, allowed: AllowedAssignors) -> dict[str, tuple[TaskId, ...]]:
    assert recorded.output is not None, "checked"
    snapshot = recorded.snapshot
    try:
        placement = pipeline.assign(snapshot, recorded.now_ms, allowed.load(snapshot.assignor)).placement
    # This process may lack the assignor, or the assignor may raise an error. Without a result of the assignor, warm-ups
    # are shown as standbys.
    except Exception:
        return {}
    assignments = share(recorded.output.assignments)
    subscriptions = {member_id: snapshot.members[member_id].subscription for member_id in assignments}
    return warm_ups_of(subscriptions, assignments, placement)


def _recording(document: Mapping[str, object], recorded: RecordedRebalance, event: ReportRebalance) -> Recording:
    end = reported_end(event)
    summary = {
        "generation_id": event.generation_id,
        "now_ms": recorded.now_ms,
        "reason": recorded.note or "led-elsewhere",
        "outcome": str(end.outcome),
        "members": len(event.members),
        "definition_revision": 1,
        "probing_rebalance_at_ms": event.probing_rebalance_at_ms,
        "followup_rebalance": event.followup_rebalance,
        "error": end.error,
        "led_by": event.led_by,
    }
    return Recording(event.generation_id, recorded.now_ms, json.dumps(summary), pack_whole_document(document))
