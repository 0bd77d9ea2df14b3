"""Recorded rounds by id, and what their members say."""

from dataclasses import replace
from typing import Any

from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.protocol.consumer_protocol import Subscription, decode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, decode_subscription_info
from assignor.recording import RecordedPlacement, RecordedRebalance, parse_recorded_placement, parse_recorded_rebalance
from assignor.task_assignors.base import PlacementProblem
from assignor.types import ProcessId
from rebalance_analysis.rerun import RerunRebalance, run_recorded
from rebalance_analysis.what_if import Changes, changed
from tests.known import known
from tests.recorded import document

A = ProcessId.parse("83dd50fb-96f0-4129-9cdd-bb1ad378ad89")
B = ProcessId.parse("402a4ca9-c05e-4748-aede-b1b9daab5ea4")
C = ProcessId.parse("52a2381e-f324-4911-a95a-e99ec1c20cf4")
"""The instances of the recording wcflow: a and b in its rounds 1 to 10, c since the third."""


def recorded(id: str) -> RecordedRebalance:
    return parse_recorded_rebalance(document(f"recordings/{id.partition('.')[0]}.jsonl.gz", id))


def recorded_with(id: str, **fields: Any) -> RecordedRebalance:
    """The recorded rebalance with other fields of its snapshot."""
    line = recorded(id)
    return replace(line, snapshot=replace(line.snapshot, **fields))


def recorded_placement(id: str, file: str = "placements.jsonl.gz") -> RecordedPlacement:
    return parse_recorded_placement(document(file, id))


def what_if(id: str, changes: Changes) -> RebalanceSnapshot:
    return changed(recorded(id), changes).snapshot


def said(snapshot: RebalanceSnapshot) -> dict[str, tuple[Subscription, SubscriptionInfo]]:
    """What every member says, in the order received."""
    read = {member_id: decode_subscription(member.subscription) for member_id, member in snapshot.members.items()}
    return {member_id: (each, decode_subscription_info(each.user_data or b"")) for member_id, each in read.items()}


def members_of(snapshot: RebalanceSnapshot, process: ProcessId) -> list[str]:
    return [member_id for member_id, (_, info) in said(snapshot).items() if info.process_id == process]


def problem_of(snapshot: RerunRebalance) -> PlacementProblem:
    problem = snapshot.result.problem
    return known(problem)


def run_snapshot(id: str, changes: Changes) -> RerunRebalance:
    ran = run_recorded(changed(recorded(id), changes))
    assert isinstance(ran, RerunRebalance)
    return ran
