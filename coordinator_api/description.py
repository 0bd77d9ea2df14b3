"""A group as an operator wants to see it: state, members, every copy of every task with its lag, and what comes next.

Computed from immutable values, so a large group can be described in a thread while it goes on. A copy's lag is what the
leader would say now: end offsets of the definition minus what the member last reported, by heartbeat or subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assignor.clients.end_offsets import EndOffsets, end_offset_sums
from assignor.clients.task_lags import compute_task_lags
from assignor.errors import DecodeError
from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.recording import dotted_configs
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.topology import Subtopology
from assignor.types import Role, TaskId, TopicPartition
from coordinator_api.definitions import read_input
from coordinator_api.group.image import GroupImage, GroupMember
from coordinator_api.group.states import GroupState
from coordinator_api.round_runner import read_subscription


@dataclass(frozen=True, slots=True)
class Sight:
    """What is looked at: the group's state and, by member, the offset sums of its last heartbeat."""

    group_id: str
    image: GroupImage
    reported: Mapping[str, Mapping[TaskId, int]]


def list_entry(group_id: str, image: GroupImage) -> dict[str, object]:
    """One line of the list of groups."""
    return {
        "group_id": group_id,
        "state": str(image.state),
        "generation_id": image.generation_id,
        "members": len(image.members),
        "draining": image.draining,
        "probing_rebalance_at_ms": _probing_rebalance_at_ms(image),
    }


def describe(sight: Sight) -> dict[str, object]:
    """The whole group as JSON. Takes time in proportion to the tasks of the group."""
    image = sight.image
    assert image.input_json is not None, "only declared groups are described"
    definition = read_input(image.input_json)
    changelogs = _Changelogs(definition)
    members: list[dict[str, object]] = []
    tasks: list[tuple[TaskId, dict[str, object]]] = []
    for member in image.members.values():
        info = _assignment_info(member)
        subscription = read_subscription(member.subscription)
        copies = list(_copies(member, info))
        offset_sums = {**subscription.task_offset_sums, **sight.reported.get(member.member_id, {})}
        lags = changelogs.lags([task for task, _ in copies], offset_sums)
        process_id = str(subscription.process_id)
        members.append(_member(member, process_id, dict(subscription.client_tags), copies))
        for task, role in copies:
            place = {"task": str(task), "role": str(role), "member_id": member.member_id, "process_id": process_id}
            tasks.append((task, {**place, "lag": lags.get(task)}))
    tasks.sort(key=lambda entry: (entry[0].subtopology, entry[0].partition, str(entry[1]["role"])))
    return {
        **list_entry(sight.group_id, image),
        "revision": image.revision,
        "application_id": definition.application_id,
        "assignor": definition.assignor,
        "configs": dotted_configs(definition.configs),
        "last_rebalance": _last_rebalance(image),
        "members": members,
        "tasks": [entry for _, entry in tasks],
    }


def _last_rebalance(image: GroupImage) -> dict[str, object] | None:
    last = image.last_round
    if last is None:
        return None
    return {
        "generation_id": last.generation_id,
        "reason": None if last.reason is None else str(last.reason),
        "outcome": str(last.outcome),
        "error": last.error,
        "error_code": last.error_code,
        "revision": last.definition_revision,
    }


def _probing_rebalance_at_ms(image: GroupImage) -> int | None:
    if image.state is not GroupState.STABLE or image.last_round is None:
        return None
    return image.last_round.probing_rebalance_at_ms


def _member(
    member: GroupMember, process_id: str, client_tags: dict[str, str], copies: list[tuple[TaskId, Role]]
) -> dict[str, object]:
    def held(role: Role) -> list[str]:
        return [str(task) for task, its_role in copies if its_role is role]

    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "group_instance_id": member.group_instance_id,
        "incarnation": member.incarnation,
        "process_id": process_id,
        "client_tags": client_tags,
        "generation_id": member.assigned_generation,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "active": held(Role.ACTIVE),
        "standby": held(Role.STANDBY),
        "warm_up": held(Role.WARM_UP),
    }


def _assignment_info(member: GroupMember) -> AssignmentInfo | None:
    if member.assignment is None:
        return None
    try:
        user_data = decode_assignment(member.assignment).user_data
        return decode_assignment_info(user_data) if user_data else None
    except DecodeError:
        return None  # version probing answers a future member in a version of its own


def _copies(member: GroupMember, info: AssignmentInfo | None) -> Iterator[tuple[TaskId, Role]]:
    if info is None:
        return
    # a task comes once for each of its partitions
    for task in sorted(dict.fromkeys(info.active_tasks), key=_by_number):
        yield task, Role.ACTIVE
    for task in sorted(info.standby_tasks, key=_by_number):
        yield task, Role.WARM_UP if task in member.warm_ups else Role.STANDBY


def _by_number(task: TaskId) -> tuple[int, int]:
    return task.subtopology, task.partition


class _Changelogs:
    """End-offset sums by the definition. A changelog that does not exist yet is empty, as for the leader."""

    def __init__(self, definition: RebalanceSnapshot) -> None:
        self._definition = definition
        self._subtopologies: Mapping[int, Subtopology] = {each.id: each for each in definition.topology.subtopologies}
        self._offsets = EndOffsets(
            definition.changelog_end_offsets, definition.committed_offsets, definition.failures
        )

    def lags(self, tasks: list[TaskId], offset_sums: Mapping[TaskId, int]) -> Mapping[TaskId, int]:
        """Of the stateful ones of `tasks`: records behind, LATEST_OFFSET for a running active, see `TaskLags`."""
        stateful = [task for task in tasks if self._partitions(task) is not None]
        source_based = frozenset(
            partition for task in stateful for partition in self._partitions(task) or () if self._is_source(partition)
        )
        ends = end_offset_sums(stateful, lambda task: self._partitions(task) or (), source_based, self._offsets)
        lags = compute_task_lags(offset_sums, ends.by_task)
        return {task: lags.lag_for(task) for task in stateful}

    def _partitions(self, task: TaskId) -> tuple[TopicPartition, ...] | None:
        """The changelog partitions that exist; None for a stateless task."""
        subtopology = self._subtopologies.get(task.subtopology)
        topics = [
            store.changelog_topic or store.source_topic_as_changelog
            for store in (subtopology.stores if subtopology is not None else ())
        ]
        logged = [topic for topic in topics if topic is not None]
        if not logged:
            return None
        existing = self._definition.existing_internal_topics
        return tuple(
            TopicPartition(topic, task.partition)
            for topic in dict.fromkeys(logged)
            if topic in existing or self._is_source(TopicPartition(topic, task.partition))
        )

    def _is_source(self, partition: TopicPartition) -> bool:
        return any(partition.topic in each.source_topics for each in self._subtopologies.values())
