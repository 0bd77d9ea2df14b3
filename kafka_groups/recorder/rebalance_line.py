"""Makes the `rebalance/1` line of one generation. The line has the members with their assignments, in the order in
which the leader received the members. No I/O.

Rules: members stay in the order in which the broker stored them. The broker's order is also the order in which the
leader received the members. The record of the generation contains the member id of the leader. If a leader of this
project led the generation, the line has the field `led_by`. A leader of this project and its standbys are left out of
the line, because they are not members of the application. A leader computes a probing deadline as the time of the
rebalance plus `probing.rebalance.interval.ms`. So if a member carries a probing deadline, the time of the rebalance is
the deadline minus `probing.rebalance.interval.ms`. If no member carries a probing deadline, the time of the rebalance
is the time at which the broker wrote the record.
Source: `GroupMetadataValue`, `StreamsPartitionAssignor.assign`.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from assignor.configs import AssignmentConfigs
from assignor.errors import AssignorFault
from assignor.names.short_names import InstanceNames
from assignor.pipeline.snapshot import Member, RebalanceSnapshot
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.protocol.group_metadata import MemberMetadata
from assignor.protocol.subscription_info import decode_member
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.recording.rebalance import RecordedOutput, RecordedTopic
from assignor.recording.written import rebalance_document
from assignor.task_assignors.base import TaskAssignor
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode, ProcessId
from kafka_groups.leader.led_rebalance import is_leader_of_ours
from kafka_groups.rebalance_reports import OVERTAKEN, interrupted_document
from kafka_groups.recorder.generations import ObservedRebalance
from rebalance_analysis.history import PastRebalance, TriggerKind
from rebalance_analysis.history.past_rebalance import SeenRebalance, see
from rebalance_analysis.presentation.rebalances import triggers_text
from rebalance_analysis.rerun import run

LED_BY_OWN_LEADER = "assignor"
INTERRUPTED_SUFFIX = "-interrupted"
"""If a generation never got an assignment, the id of its line ends with this suffix."""


@dataclass(frozen=True, slots=True)
class DecodedRebalance:
    """A generation with its decoded fields. `members`: the members of the application. A leader of this project and its
    standbys are left out. `leader_process_id`: the process id of the leader; None if the leader is not a member of the
    application.

    `led_by`: the name of the leader, as in the field `led_by` of rebalance/1; None if the leader may have been Kafka
    Streams 4.3.1. `probing_rebalance_at_ms`: the earliest probing deadline that a member carries; None if no member
    carries a deadline.
    """

    rebalance: ObservedRebalance
    members: tuple[MemberMetadata, ...]
    leader_process_id: ProcessId | None
    led_by: str | None
    probing_rebalance_at_ms: int | None
    followup_rebalance: bool
    error_code: int
    has_future_members: bool

    def now_ms(self, configs: AssignmentConfigs) -> int:
        """Returns the time at which the leader placed the tasks, in milliseconds since the epoch."""
        if self.probing_rebalance_at_ms is None:
            return self.rebalance.written_ms
        return max(self.probing_rebalance_at_ms - configs.probing_rebalance_interval_ms, 0)


def decoded_rebalance(rebalance: ObservedRebalance) -> DecodedRebalance:
    """Decodes the members of a generation. Raises DecodeError."""
    value = rebalance.value
    infos = {member.member_id: decode_member(member.subscription).info for member in value.members}
    led_by, leader_process_id = None, None
    members = value.members
    leader = next((member for member in members if member.member_id == value.leader), None)
    if leader is not None:
        info = infos[leader.member_id]
        if _is_ours(rebalance.group, leader):
            led_by = LED_BY_OWN_LEADER
            members = tuple(member for member in members if not _is_ours(rebalance.group, member))
        else:
            leader_process_id = info.process_id
            if info.latest_supported_version < LATEST_SUPPORTED_VERSION:
                led_by = f"a Kafka Streams of subscription version {info.latest_supported_version}"
    assigned = [decode_assignment_info(decode_assignment(member.assignment).user_data or b"") for member in members]
    deadlines = [info.next_rebalance_ms for info in assigned if 0 < info.next_rebalance_ms < JAVA_LONG_MAX]
    return DecodedRebalance(
        rebalance=rebalance,
        members=members,
        leader_process_id=leader_process_id,
        led_by=led_by,
        probing_rebalance_at_ms=min(deadlines, default=None),
        followup_rebalance=any(info.next_rebalance_ms == 0 for info in assigned),
        error_code=max((info.err_code for info in assigned), default=0),
        has_future_members=any(infos[member.member_id].is_future for member in members),
    )


def snapshot_of(decoded: DecodedRebalance, definition: RebalanceSnapshot) -> RebalanceSnapshot:
    """Returns a copy of the group's definition that has the members of the rebalance. The copy has no view of the
    cluster.
    """
    members = {
        member.member_id: Member(member.subscription, member.client_id, member.group_instance_id)
        for member in decoded.members
    }
    return replace(definition, members=members, leader_process_id=decoded.leader_process_id)


def recorded_output(
    decoded: DecodedRebalance, internal_topics: Mapping[str, int], created: Iterable[str] | None
) -> RecordedOutput:
    """Returns the output of the leader. `internal_topics`: the number of partitions of each internal topic that exists
    after the rebalance. `created`: the topics that the rebalance created; None if they are not known.
    """
    made_ready = decoded.error_code == AssignorErrorCode.NONE
    created_topics = None
    if created is not None:
        created_topics = {topic: RecordedTopic(internal_topics[topic], None) for topic in sorted(created)}
    return RecordedOutput(
        assignments={member.member_id: member.assignment for member in decoded.members},
        internal_topics=dict(sorted(internal_topics.items())) if made_ready else {},
        created_topics=created_topics if made_ready else None,
        probing_rebalance_at_ms=decoded.probing_rebalance_at_ms,
        followup_rebalance=decoded.followup_rebalance,
    )


def recorded_document(
    decoded: DecodedRebalance, snapshot: RebalanceSnapshot, output: RecordedOutput, now_ms: int, note: str
) -> dict[str, object]:
    """Returns the document of the rebalance/1 line. `snapshot`: the input of the rebalance, with the view of the
    cluster.
    """
    document = rebalance_document(
        id=decoded.rebalance.id,
        group_id=decoded.rebalance.group,
        generation_id=decoded.rebalance.value.generation,
        now_ms=now_ms,
        source="kafka",
        snapshot=snapshot,
    )
    document["output"] = _output_document(output)
    if decoded.led_by is not None:
        document["led_by"] = decoded.led_by
    document["note"] = note
    return document


def interrupted_documents(rebalance: ObservedRebalance, document: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Yields a line for each generation that never got an assignment and came directly before this rebalance.
    `document`: the line of this rebalance.
    """
    if rebalance.before is None:
        return
    why = OVERTAKEN
    if rebalance.leader_is_gone:
        why = f"{rebalance.before.leader}, which led generation {rebalance.before.generation}, is gone"
    for generation in rebalance.interrupted:
        id = f"{rebalance.group}.{generation}@{rebalance.partition}:{rebalance.offset}{INTERRUPTED_SUFFIX}"
        yield interrupted_document(id, generation, why, document)


def _output_document(output: RecordedOutput) -> dict[str, object]:
    document: dict[str, object] = {
        "assignments": {
            member_id: base64.b64encode(raw).decode("ascii") for member_id, raw in output.assignments.items()
        },
        "internal_topics": dict(output.internal_topics),
        "probing_rebalance_at_ms": output.probing_rebalance_at_ms,
        "followup_rebalance": output.followup_rebalance,
        "error": None,
    }
    if output.created_topics is not None:
        document["created_topics"] = {
            topic: {"partitions": created.partitions} for topic, created in output.created_topics.items()
        }
    return document


def _is_ours(group: str, member: MemberMetadata) -> bool:
    return is_leader_of_ours(group, member.group_instance_id, member.subscription)


class RebalanceSummary(NamedTuple):
    """A summary of the moves and the cause of a rebalance. The progress line and the field `note` of the recorded line
    show this summary.

    `moved`: the moves, for example `6 tasks move`. `why`: the cause, for example `a joined with 2 threads`. A field is
    empty if its content is not known.
    """

    moved: str = ""
    why: str = ""

    def text(self) -> str:
        return "; because ".join(part for part in self if part)


class LineComparison:
    """Compares each line of a group with the group's previous line."""

    def __init__(self, task_assignor: TaskAssignor | None = None) -> None:
        self._load = None if task_assignor is None else lambda _name: task_assignor
        self._before: SeenRebalance | None = None

    def compare_with_last(self, document: Mapping[str, Any]) -> RebalanceSummary:
        """Compares this line with the previous line of the group, and returns a summary. The summary is empty if the
        assignor cannot be run again with the input of this line.
        """
        try:
            ran = run(document, self._load)
            now = see(PastRebalance(document["generation_id"], ran), self._before)
        except AssignorFault:
            self._before = None
            return RebalanceSummary()
        before, self._before = self._before, now
        active = now.placed.active()
        if before is None:
            return RebalanceSummary(f"{len(active):,} active tasks")
        had = before.placed.active()
        moved = _moves(sum(1 for task, process in active.items() if had.get(task, process) != process))
        if now.facts.triggers[0].kind is TriggerKind.REJOINED:
            return RebalanceSummary(moved)
        names = InstanceNames({**before.instances(), **now.instances()})
        return RebalanceSummary(moved, triggers_text(now.facts.triggers, names, None))


def _moves(count: int) -> str:
    return {0: "no task moves", 1: "1 task moves"}.get(count, f"{count:,} tasks move")
