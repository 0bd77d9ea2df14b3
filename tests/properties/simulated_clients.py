"""A group of clients over many rebalances, without threads or bytes: what they hold now is what they report next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import Placement, PlacementClient, PlacementProblem, RackInformation, TaskAssignor
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor
from assignor.types import LATEST_OFFSET, ProcessId, TaskId

END = 150_000
"""End offset of every stateful task, and so the lag of a client that has nothing of it."""

CatchUp = Callable[[TaskId, int], int]
"""The lag of a standby at the next rebalance, from its lag at this one."""


def at_once(task: TaskId, lag: int) -> int:
    """A standby is caught up by the next rebalance, as in Kafka's convergence tests."""
    return 0


@dataclass(slots=True)
class SimulatedClients:
    """`lags`: what each client in the group would report. Those of a client that left are kept: it may come back.
    `running`: the stateless tasks it has active. `racks`: of the clients, and `read` where partitions are, for whoever
    asks about racks.
    """

    configs: AssignmentConfigs
    stateful: tuple[TaskId, ...]
    stateless: tuple[TaskId, ...] = ()
    capacity: dict[ProcessId, int] = field(default_factory=dict)
    tags: dict[ProcessId, Mapping[str, str]] = field(default_factory=dict)
    lags: dict[ProcessId, dict[TaskId, int]] = field(default_factory=dict)
    running: dict[ProcessId, frozenset[TaskId]] = field(default_factory=dict)
    racks: dict[ProcessId, str] = field(default_factory=dict)
    read: RackInformation | None = None
    assignor: TaskAssignor = field(default_factory=HighAvailabilityTaskAssignor)

    def join(self, process: ProcessId, capacity: int = 1, tags: Mapping[str, str] | None = None) -> None:
        self.capacity[process] = capacity
        self.tags[process] = tags or {}
        self.lags.setdefault(process, {})

    def leave(self, process: ProcessId) -> None:
        """What ran there is a closed state directory now."""
        del self.capacity[process]
        self.running.pop(process, None)
        lags = self.lags[process]
        self.lags[process] = {task: 0 if lag == LATEST_OFFSET else lag for task, lag in lags.items()}

    def problem(self) -> PlacementProblem:
        end_offsets = dict.fromkeys(self.stateful, END)
        return PlacementProblem(
            self.configs,
            self.stateful + self.stateless,
            self.stateful,
            {
                process: PlacementClient(
                    process,
                    self.capacity[process],
                    TaskLags(self.lags[process], end_offsets),
                    previous_active=self.running.get(process, frozenset()),
                    tags=self.tags[process],
                    rack=self.racks.get(process),
                )
                for process in self.capacity
            },
            self.read,
        )

    def rebalance(self, catch_up: CatchUp = at_once) -> Placement:
        """One round; afterwards actives run and standbys have caught up as far as `catch_up` says."""
        placement = self.assignor.assign(self.problem(), DecisionLog())
        self.hold(placement, catch_up)
        return placement

    def hold(self, placement: Placement, catch_up: CatchUp = at_once) -> None:
        stateful = frozenset(self.stateful)
        for process, client in placement.clients.items():
            before = self.lags[process]
            reached = {task: catch_up(task, max(before.get(task, END), 0)) for task in client.standby}
            self.lags[process] = {**dict.fromkeys(client.active & stateful, LATEST_OFFSET), **reached}
            self.running[process] = client.active - stateful

    def rounds_until_stable(self, limit: int) -> int | None:
        """How many rounds until one asks for no probing rebalance, that one included; None when there are more."""
        for number in range(1, limit + 1):
            if not self.rebalance().probing_rebalance_needed:
                return number
        return None

    def with_all_caught_up(self) -> SimulatedClients:
        """The same group where every client has the state of every task."""
        return replace(self, lags={process: dict.fromkeys(self.stateful, 0) for process in self.lags})
