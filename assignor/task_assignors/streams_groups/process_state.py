"""What a process and each of its members have been given so far.

A load is tasks per member. The member that is given a task without being asked for by name is the first of a heap of
members by their tasks. The heap is kept until a task is given to a member by name; who comes first among equals depends
on how it was built, so it is rebuilt when Kafka rebuilds it.
Source: `ProcessState` of `org.apache.kafka.coordinator.group.streams.assignor`.
"""

from __future__ import annotations

from collections.abc import Iterable

from assignor.java.hash_map import JavaHashMap
from assignor.java.priority_queue import JavaPriorityQueue
from assignor.types import TaskId


class ProcessState:
    """`members`: their ids, in the order in which the group names them; at least one."""

    def __init__(self, process_id: str, members: Iterable[str]) -> None:
        self.process_id = process_id
        self.tasks_of: JavaHashMap[str, int] = JavaHashMap((member, 0) for member in members)
        """How many tasks each member has, walked as Java does."""
        self.load = 0.0
        self.active: dict[str, list[TaskId]] = {member: [] for member in self.tasks_of}
        self.standby: dict[str, list[TaskId]] = {member: [] for member in self.tasks_of}
        self._count = 0
        self._tasks: set[TaskId] = set()
        self._by_tasks: JavaPriorityQueue[str] | None = None

    def has_task(self, task: TaskId) -> bool:
        return task in self._tasks

    def add(self, member: str, task: TaskId, is_active: bool) -> int:
        """Returns how many tasks the member has now."""
        self._by_tasks = None
        return self._add(member, task, is_active)

    def add_to_least_loaded(self, task: TaskId, is_active: bool) -> tuple[str, int]:
        """Returns the member, and how many tasks it has now."""
        if len(self.tasks_of) == 1:
            member = next(iter(self.tasks_of))
            return member, self._add(member, task, is_active)
        if self._by_tasks is None:
            self._by_tasks = JavaPriorityQueue(self.tasks_of.__getitem__, self.tasks_of)
        polled = self._by_tasks.poll()
        assert polled is not None, "a process has members"
        count = self._add(polled, task, is_active)
        self._by_tasks.offer(polled)
        return polled, count

    def _add(self, member: str, task: TaskId, is_active: bool) -> int:
        (self.active if is_active else self.standby)[member].append(task)
        self._tasks.add(task)
        self._count += 1
        self.load = self._count / len(self.tasks_of)
        count = self.tasks_of[member] + 1
        self.tasks_of[member] = count
        return count
