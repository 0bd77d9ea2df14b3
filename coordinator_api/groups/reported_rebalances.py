"""A rebalance that another leader led, as a POST reports it: one rebalance/1 document, checked whole.

Rules: the document is stored as it was sent, so that it is what its leader recorded. Everything in it that is shown or
run again later has to be readable now: every subscription and every assignment is decoded, and a refusal names its
path. The wire does not say which standby tasks are warm-ups; running the rebalance again does, when its assignor is
available here.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from assignor import pipeline
from assignor.errors import DecodeError, InputError
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from assignor.recording.fields import child
from assignor.recording.written import rebalance_input
from assignor.types import TaskId
from coordinator_api.errors import UnreadableBytes
from coordinator_api.group.events import ReportRebalance
from coordinator_api.group.rebalance_result import warm_ups_of
from coordinator_api.group.reporting import reported_end
from coordinator_api.group.subscriptions import read_subscription
from coordinator_api.groups.allowed_assignors import AllowedAssignors
from coordinator_api.groups.definitions import check_size
from coordinator_api.store.repository import Recording

LED_ELSEWHERE = "kafka"
"""The `source` of a rebalance of a group on a Kafka cluster, and the name of whoever leads that group."""


class ReportedRebalance(NamedTuple):
    event: ReportRebalance
    recording: Recording


def read_report(
    document: Mapping[str, object], group_id: str, max_partitions: int, allowed: AllowedAssignors
) -> ReportedRebalance:
    """Takes as long as a rebalance. Raises InputError with the path of what is wrong, UnreadableBytes."""
    recorded = parse_recorded_rebalance(document)
    _check(recorded, group_id)
    check_size(recorded.snapshot, max_partitions)
    assert recorded.output is not None, "checked"
    event = ReportRebalance(
        led_by=LED_ELSEWHERE,
        generation_id=recorded.generation_id,
        input_json=_definition(recorded),
        members=recorded.snapshot.members,
        assignments=recorded.output.assignments,
        warm_ups=_warm_ups(recorded, allowed),
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
        _check_subscription(member.subscription, f"{child('input.members', member_id)}.subscription")
    for member_id, assignment in recorded.output.assignments.items():
        _check_assignment(assignment, child("output.assignments", member_id))


def _check_subscription(subscription: bytes, where: str) -> None:
    try:
        read_subscription(subscription)
    except DecodeError as error:
        raise UnreadableBytes(error, where) from None
    except InputError as error:
        raise InputError(str(error), where) from None


def _check_assignment(assignment: bytes, where: str) -> None:
    try:
        user_data = decode_assignment(assignment).user_data
        if user_data:
            decode_assignment_info(user_data)
    except DecodeError as error:
        raise UnreadableBytes(error, where) from None


def _definition(recorded: RecordedRebalance) -> str:
    """What the leader knew, without members, in the spelling of a definition."""
    known = replace(recorded.snapshot, members={}, leader_process_id=None)
    return json.dumps(rebalance_input(known), sort_keys=True, separators=(",", ":"))


def _warm_ups(recorded: RecordedRebalance, allowed: AllowedAssignors) -> dict[str, tuple[TaskId, ...]]:
    assert recorded.output is not None, "checked"
    snapshot = recorded.snapshot
    try:
        placement = pipeline.assign(snapshot, recorded.now_ms, allowed.load(snapshot.assignor)).placement
    except Exception:  # an assignor that is not available here, or whatever it raises: show standbys
        return {}
    assignments = recorded.output.assignments
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
    stored = gzip.compress(json.dumps(document, separators=(",", ":")).encode("ascii"), mtime=0)
    return Recording(event.generation_id, recorded.now_ms, json.dumps(summary), stored)
