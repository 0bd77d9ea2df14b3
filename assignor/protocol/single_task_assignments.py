"""Writes the assignments of members with one task of one partition, with one call for each.

Of thousands of threads most have one task or none. Such assignments differ in three numbers: all the bytes before,
between and after these are written once, by `AssignmentInfoEncoder` and `assignment_parts`, for a task with zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from assignor.protocol.assignment_info_encoder import AssignmentInfoEncoder
from assignor.protocol.consumer_protocol import assignment_parts
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId, TopicPartition

_NUMBER = 4
_SIZE = 4  # of the user data
_TASK_ID = 8  # subtopology and partition; the topology's name comes after it
_ONE = struct.pack(">i", 1)
_NO_TASK = TaskId(0, 0)
_NO_USER_DATA = AssignmentParts(b"")
_new = tuple.__new__  # what the call of AssignmentParts comes to

_Pack = Callable[[int, int, int], bytes]


class SingleTaskAssignments:
    """Of one rebalance. Both methods answer None for what only the encoder can write, or refuse with a reason."""

    __slots__ = ("_active", "_encoder", "_nothing", "_shared", "_standby", "_tail")

    def __init__(self, encoder: AssignmentInfoEncoder) -> None:
        self._encoder = encoder
        self._nothing = encoder.parts((), {})
        _, self._shared, self._tail = self._nothing
        self._active: dict[str, _Pack] = {}
        self._standby: dict[str, _Pack] = {}

    def active(self, task: TaskId, partition: TopicPartition) -> AssignmentParts | None:
        """`partition`: the only one of `task`. Raises TaskAssignmentError for a topic that is too long."""
        subtopology, task_number, name = task
        topic, number = partition
        if name:
            return None
        pack = self._active.get(topic) or self._active.setdefault(topic, self._pack_active(topic))
        try:
            return _new(AssignmentParts, (pack(number, subtopology, task_number), self._shared, self._tail))
        except struct.error:
            return None

    def standby(self, task: TaskId, partition: TopicPartition) -> AssignmentParts | None:
        """`partition`: the only one of `task`. Raises TaskAssignmentError for a topic that is too long."""
        subtopology, task_number, name = task
        topic, number = partition
        if name:
            return None
        pack = self._standby.get(topic) or self._standby.setdefault(topic, self._pack_standby(topic))
        try:
            return _new(AssignmentParts, (pack(subtopology, task_number, number), self._shared, self._tail))
        except struct.error:
            return None

    def _pack_active(self, topic: str) -> _Pack:
        partitions = (TopicPartition(topic, 0),)
        number_at = len(assignment_parts(partitions, _NO_USER_DATA).head) - _SIZE - _NUMBER
        info = self._encoder.parts((_NO_TASK,), {})
        head = assignment_parts(partitions, info).head
        task_at = len(head) - len(info.head) + len(self._nothing.head) - _NUMBER
        before, between, after = head[:number_at], head[number_at + _NUMBER : task_at], head[task_at + _TASK_ID :]
        form = struct.Struct(f">{len(before)}si{len(between)}sii{len(after)}s")

        def pack(number: int, subtopology: int, task_number: int) -> bytes:
            return form.pack(before, number, between, subtopology, task_number, after)

        return pack

    def _pack_standby(self, topic: str) -> _Pack:
        nothing = self._nothing
        row = self._encoder.standby(_NO_TASK, (TopicPartition(topic, 0),))
        info = AssignmentParts(nothing.head[:-_NUMBER] + _ONE + row, nothing.shared, nothing.tail)
        head = assignment_parts((), info).head
        task_at = len(head) - len(row)
        before, between = head[:task_at], head[task_at + _TASK_ID : -_NUMBER]
        form = struct.Struct(f">{len(before)}sii{len(between)}si")

        def pack(subtopology: int, task_number: int, number: int) -> bytes:
            return form.pack(before, subtopology, task_number, between, number)

        return pack
