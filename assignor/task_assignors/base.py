"""The interface of every task assignor: a placement problem in, a placement out.

A task assignor knows tasks, clients and lags; it knows no topics, bytes or threads. Assignors are pure: the same
problem gives the same placement, and the reasons go to the log. Source: `TaskAssignor` and `LegacyTaskAssignor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from assignor.clients.task_lags import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.decisions import DecisionLog
from assignor.task_assignors.rack_information import RackInformation
from assignor.types import ProcessId, TaskId


@dataclass(frozen=True, slots=True)
class PlacementClient:
    """One process as a task assignor sees it. `capacity`: its threads; equal to the number of `consumers` when these
    are known.
    """

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
    """Everything that decides a placement.

    `tasks`, `stateful_tasks` and `clients` are in the iteration order of the leader's Java collections: the sticky and
    the fallback assignor break ties by it. HighAvailabilityTaskAssignor sorts them. `racks`: None when nothing is
    known of them; only a rack-aware strategy places by them.
    """

    configs: AssignmentConfigs
    tasks: tuple[TaskId, ...]
    stateful_tasks: tuple[TaskId, ...]
    clients: Mapping[ProcessId, PlacementClient]
    racks: RackInformation | None = None


@dataclass(frozen=True, slots=True)
class ClientPlacement:
    """`warm_ups`: those of `standby` that exist only until they have caught up."""

    active: frozenset[TaskId]
    standby: frozenset[TaskId]
    warm_ups: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class Placement:
    """`clients`: an entry for every client of the problem."""

    probing_rebalance_needed: bool
    clients: Mapping[ProcessId, ClientPlacement]


class TaskAssignor(Protocol):
    """`name`: the name in configs and recordings."""

    name: str

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Places every task active exactly once. Appends its reasons to `log`. Raises KafkaError."""
        ...
