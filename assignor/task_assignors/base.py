"""The one interface every task assignor answers to: a placement problem in, a placement out.

A task assignor knows tasks, clients and lags; it knows no topics, bytes or threads. Source: `TaskAssignor` and
`LegacyTaskAssignor`. Assignors are pure: the same problem gives the same placement, and the reasons go to the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from assignor.clients.task_lags import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.decisions import DecisionLog
from assignor.types import ProcessId, TaskId


@dataclass(frozen=True, slots=True)
class PlacementClient:
    """One process as the assignor sees it. `capacity`: its threads, also the number of `consumers` when known."""

    process_id: ProcessId
    capacity: int
    lags: TaskLags
    consumers: tuple[str, ...] = ()
    previous_active: frozenset[TaskId] = frozenset()
    previous_standby: frozenset[TaskId] = frozenset()
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PlacementProblem:
    """All that decides a placement.

    `tasks`, `stateful_tasks` and `clients` are in the iteration order of the leader's Java collections: the sticky and
    fallback assignors break ties by it. HighAvailability sorts and does not care.
    """

    configs: AssignmentConfigs
    tasks: tuple[TaskId, ...]
    stateful_tasks: tuple[TaskId, ...]
    clients: Mapping[ProcessId, PlacementClient]


@dataclass(frozen=True, slots=True)
class ClientPlacement:
    """`warm_ups` are those of `standby` that are only there until they have caught up."""

    active: frozenset[TaskId]
    standby: frozenset[TaskId]
    warm_ups: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class Placement:
    """`clients` has an entry for every client of the problem."""

    probing_rebalance_needed: bool
    clients: Mapping[ProcessId, ClientPlacement]


class TaskAssignor(Protocol):
    """`name` is how configs and recordings call it."""

    name: str

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Place every task exactly once active. Appends its reasons to `log`. Raises KafkaError."""
        ...
