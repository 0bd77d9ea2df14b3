"""What a member does with its tasks, behind one small interface: orders in, each answered when it has been carried out.

The group protocol (`member_machine`) decides when tasks come and go; a `TaskHolder` does the work on them. Orders come
one after the other in Kafka's order: first revoked, then assigned. Source: `StreamsRebalanceListener`, `TaskManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True, slots=True)
class StartRebalance:
    """A subscription is about to be sent: take over state on disk that no other thread of this process reports."""


@dataclass(frozen=True, slots=True)
class RevokeTasks:
    """Stop working on these active tasks. Once it is done, the group may give them to others. The others stay."""

    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class AssignTasks:
    """Hold exactly these tasks from now on. Active tasks that are new start here."""

    held: HeldTasks


@dataclass(frozen=True, slots=True)
class LoseTasks:
    """Drop every task at once. The group may already have given them to others."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseTasks:
    """Commit every task and give it up in good order. The member leaves the group afterwards."""


Order = StartRebalance | RevokeTasks | AssignTasks | LoseTasks | CloseTasks

Done = Callable[[BaseException | None], None]
"""Called once when the order has been carried out (None), or has failed. It returns soon."""


class TaskHolder(Protocol):
    """An order that fails ends the member: its tasks are lost, and it leaves the group."""

    def hand_over(self, order: Order, done: Done) -> None:
        """Take the order and return at once. Orders are carried out in the order of these calls."""
        ...

    def offset_sums(self) -> Mapping[TaskId, int]:
        """By task that this thread reports: LATEST_OFFSET for a running active one, else the sum of its changelog
        offsets. Any thread may call this; it never waits."""
        ...
