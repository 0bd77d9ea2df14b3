"""The interface by which the pipeline runs every task assignor: a placement problem in, a placement out.

A task assignor knows tasks, clients and lags; it knows no topics, bytes or threads. Assignors are pure: the same
problem gives the same placement, and the reasons go to the log. An assignor of Kafka's public interface (KIP-924,
`assignor.assignment`) is run by this one, too. Source: `LegacyTaskAssignor`, `TaskAssignor.AssignmentError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from assignor.clients.task_lags import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.decisions import DecisionLog
from assignor.task_assignors.rack_information import RackInformation
from assignor.types import HostInfo, ProcessId, TaskId


@dataclass(frozen=True, slots=True)
class PlacementClient:
    """One process as a task assignor sees it. `capacity`: its threads; equal to the number of `consumers` when these
    are known. `host`: its `application.server`. `reported_tasks`: what each consumer said it has on disk, of those that
    have any. `active_owners`: the consumer that owns a partition of the task, where one does.
    """

    process_id: ProcessId
    capacity: int
    lags: TaskLags
    consumers: tuple[str, ...] = ()
    previous_active: frozenset[TaskId] = frozenset()
    previous_standby: frozenset[TaskId] = frozenset()
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    host: HostInfo | None = None
    reported_tasks: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    active_owners: Mapping[TaskId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementProblem:
    """Everything that decides a placement.

    `tasks`, `stateful_tasks` and `clients` are in the iteration order of the leader's Java collections: the sticky and
    the fallback assignor break ties by it. HighAvailabilityTaskAssignor sorts them. `stateful_tasks` have a changelog.
    `racks`: None when nothing is known of them; only a rack-aware strategy places by them. `store_names`: of each
    subtopology, also stores that are not logged; None when they are not known.
    """

    configs: AssignmentConfigs
    tasks: tuple[TaskId, ...]
    stateful_tasks: tuple[TaskId, ...]
    clients: Mapping[ProcessId, PlacementClient]
    racks: RackInformation | None = None
    store_names: Mapping[int, frozenset[str]] | None = None


@dataclass(frozen=True, slots=True)
class ClientPlacement:
    """`warm_ups`: those of `standby` that exist only until they have caught up.

    `active_order`, `standby_order`: in which Kafka's leader keeps them. Sorted when None; what an assignor of the
    public interface returns, it keeps in hash order.
    """

    active: frozenset[TaskId]
    standby: frozenset[TaskId]
    warm_ups: frozenset[TaskId] = frozenset()
    active_order: tuple[TaskId, ...] | None = None
    standby_order: tuple[TaskId, ...] | None = None

    def active_in_order(self) -> Sequence[TaskId]:
        return sorted(self.active) if self.active_order is None else self.active_order

    def standby_in_order(self) -> Sequence[TaskId]:
        return sorted(self.standby) if self.standby_order is None else self.standby_order


class AssignmentError(StrEnum):
    """What is wrong with a placement. Source: `TaskAssignor.AssignmentError` (KIP-924)."""

    NONE = "NONE"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    INVALID_STANDBY_TASK = "INVALID_STANDBY_TASK"
    MISSING_PROCESS_ID = "MISSING_PROCESS_ID"
    UNKNOWN_PROCESS_ID = "UNKNOWN_PROCESS_ID"
    UNKNOWN_TASK_ID = "UNKNOWN_TASK_ID"

    @property
    def is_fatal(self) -> bool:
        """Whether nothing can be made of the placement. With the others, Kafka's leader first computes the whole
        assignment, and fails then.
        """
        return self in (AssignmentError.UNKNOWN_PROCESS_ID, AssignmentError.UNKNOWN_TASK_ID)


@dataclass(frozen=True, slots=True)
class Placement:
    """`clients`: an entry for every client of the problem.

    `assignment_error`: what Kafka's own check found, when an assignor of the public interface placed; None when the
    placement is still to be checked. `followup_deadlines_ms`: when processes are to ask for the next rebalance.
    """

    probing_rebalance_needed: bool
    clients: Mapping[ProcessId, ClientPlacement]
    assignment_error: AssignmentError | None = None
    followup_deadlines_ms: Mapping[ProcessId, int] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        return self.assignment_error not in (None, AssignmentError.NONE)


class TaskAssignor(Protocol):
    """`name`: the name in configs and recordings."""

    name: str

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Places every task active exactly once. Appends its reasons to `log`. Raises KafkaError."""
        ...


@runtime_checkable
class PublicInterfaceAssignor(TaskAssignor, Protocol):
    """An assignor of the public interface as the pipeline runs it: it sees the racks of all partitions, lags may be
    unknown, and it hears of the result. Source: `StreamsPartitionAssignor.assignTasksToClients`.
    """

    def on_assignment_computed(
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: AssignmentError
    ) -> None:
        """By member. `assignment`: empty when the error is fatal."""
        ...
