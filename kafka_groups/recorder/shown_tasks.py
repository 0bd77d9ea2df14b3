"""What a group's members reveal of its topology: the topics they read, tasks with their partitions, stateful tasks.
Pure.

The n-th partition of an assignment belongs to the n-th active task of its AssignmentInfo; standby tasks list their
partitions themselves. What earlier generations revealed still counts, until the members subscribe to other topics.
"""

from __future__ import annotations

from collections.abc import Iterable

from assignor.errors import DecodeError
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.protocol.group_metadata import MemberMetadata
from assignor.protocol.subscription_info import decode_member
from assignor.types import TaskId, TopicPartition


class ShownTasks:
    """Collected over all generations so far. `subscribed`: topics of any member of the last one."""

    def __init__(self) -> None:
        self.subscribed: frozenset[str] = frozenset()
        self.assigned: dict[TaskId, set[TopicPartition]] = {}
        self.stateful: set[TaskId] = set()

    def add(self, members: Iterable[MemberMetadata]) -> None:
        """Take in one generation. Raises DecodeError."""
        members = tuple(members)
        sent = [decode_member(member.subscription) for member in members]
        subscribed = frozenset(topic for each in sent for topic in each.subscription.topics)
        if subscribed != self.subscribed:
            self.forget()
            self.subscribed = subscribed
        for each in sent:
            self.stateful.update(each.info.task_offset_sums)
        for member in members:
            self._add_assignment(member)

    def forget(self) -> None:
        self.assigned.clear()
        self.stateful.clear()

    def _add_assignment(self, member: MemberMetadata) -> None:
        assignment = decode_assignment(member.assignment)
        info = decode_assignment_info(assignment.user_data or b"")
        if len(info.active_tasks) != len(assignment.partitions):
            raise DecodeError(
                f"assignment of {member.member_id}",
                f"{len(info.active_tasks)} active tasks for {len(assignment.partitions)} partitions",
                0,
            )
        for task, partition in zip(info.active_tasks, assignment.partitions, strict=True):
            self.assigned.setdefault(task, set()).add(partition)
        for task, partitions in info.standby_tasks.items():
            self.assigned.setdefault(task, set()).update(partitions)
