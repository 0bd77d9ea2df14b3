"""What a member does with its tasks, behind one small interface.

The group protocol (`group_member`) decides when tasks come and go; a `TaskHolder` does the work on them. The member's
thread makes the calls one at a time, in Kafka's order: first revoked, then assigned. `offset_sums` may also be called
by its heartbeat thread, and `close` by whoever ends the member. Source: `StreamsRebalanceListener`, `TaskManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from assignor.types import HostInfo, TaskId, TopicPartition

Partitions = frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class PartitionHosts:
    """Which instances answer queries for which input partitions, from active and from standby copies (KIP-535)."""

    active: Mapping[HostInfo, Partitions] = field(default_factory=dict)
    standby: Mapping[HostInfo, Partitions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Everything that one member holds under one generation.

    Standbys include warm-ups, because a member cannot tell them apart. `hosts`: of the whole group, not of this member.
    """

    member_id: str
    generation_id: int
    active: Mapping[TaskId, Partitions] = field(default_factory=dict)
    standby: Mapping[TaskId, Partitions] = field(default_factory=dict)
    hosts: PartitionHosts = field(default_factory=PartitionHosts)


class TaskHolder(Protocol):
    """A call that raises ends the member: its tasks are lost, and it leaves the group."""

    def rebalance_started(self) -> None:
        """A subscription is about to be sent: take over state on disk that no other thread of this process reports."""
        ...

    def offset_sums(self) -> Mapping[TaskId, int]:
        """By task that this thread reports: LATEST_OFFSET for a running active one, else the sum of its changelog
        offsets."""
        ...

    def revoke(self, tasks: frozenset[TaskId]) -> None:
        """Stop working on these active tasks. When this returns, the group may give them to others."""
        ...

    def assign(self, held: HeldTasks) -> None:
        """Hold exactly these tasks from now on. Active tasks that are new start here."""
        ...

    def lost(self, reason: str) -> None:
        """Drop everything at once: the group has taken the tasks away, and others may have them already."""
        ...

    def close(self) -> None:
        """Close all tasks in good order. The member leaves the group afterwards."""
        ...
