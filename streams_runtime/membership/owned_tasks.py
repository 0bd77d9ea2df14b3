"""The active tasks that a member holds, and what it has to do to hold those of a new assignment.

Source: KIP-429; `ConsumerCoordinator.onJoinComplete`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.types import TaskId
from streams_runtime.membership.member_subscription import ReceivedAssignment
from streams_runtime.membership.task_holder import AssignTasks, Order, Partitions, RevokeTasks


@dataclass(frozen=True, slots=True)
class OwnedTasks:
    """`generation_id`: of the assignment that gave them, None when the member holds none by an assignment."""

    generation_id: int | None = None
    partitions: Partitions = frozenset()
    tasks: Mapping[TaskId, Partitions] = field(default_factory=dict)

    @classmethod
    def of(cls, received: ReceivedAssignment) -> OwnedTasks:
        """Once the holder holds what was received."""
        return cls(received.held.generation_id, received.partitions, received.held.active)

    def revoked_by(self, received: ReceivedAssignment) -> Partitions:
        """What the member has and is no longer given."""
        return self.partitions - received.partitions

    def orders_to_hold(self, received: ReceivedAssignment) -> tuple[Order, ...]:
        """Give up what is no longer assigned, then hold the rest."""
        assign = AssignTasks(received.held)
        revoked = self.revoked_by(received)
        if not revoked:
            return (assign,)
        return RevokeTasks(frozenset(task for task, of_task in self.tasks.items() if of_task & revoked)), assign
