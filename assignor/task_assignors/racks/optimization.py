"""Swaps tasks between clients so that fewer partitions are read across racks. No client's number of tasks changes.

A copy of a task on a client costs `traffic cost` for each partition without a replica on the client's rack. If the
client does not have the copy already, `non-overlap cost` is added. All stateful active tasks are optimized together,
and all stateless tasks are optimized together. Standbys are swapped only between two clients on different racks, and
only if the standby assignor allows the swap. The search goes over all pairs of clients, one after the other, in at most
four rounds.

Source: `RackAwareTaskAssignor.optimizeActiveTasks`, `optimizeStandbyTasks`, `canEnableRackAwareAssignor`,
`validateClientRack`, `getCost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, Protocol

from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError
from assignor.java.hash_codes import int32, topic_partition_hash
from assignor.java.order import hash_set_order
from assignor.task_assignors.base import PlacementProblem, RackInformation
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.task_assignors.racks.task_graph import Row, TaskGraph, first_owners, shares
from assignor.types import ProcessId, Role, TaskId, TopicPartition

Foreign = tuple[int, ...]
"""For each client, the number of a task's partitions that have no replica on the client's rack."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a placement. `traffic`: the cost of each partition that is read across racks. `non_overlap`: the
    cost of each copy that moves.
    """

    traffic: int
    non_overlap: int

    def with_configs(self, configs: AssignmentConfigs) -> Costs:
        """Returns these costs, or the configs `rack.aware.assignment.traffic_cost` and
        `rack.aware.assignment.non_overlap_cost` if they are set.
        """
        traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
        return Costs(
            self.traffic if traffic is None else traffic, self.non_overlap if non_overlap is None else non_overlap
        )

    def of(self, foreign_partitions: int, has_copy: bool) -> int:
        """Returns the cost of a copy on a client. The cost wraps to 32 bits as Java's int does."""
        return int32(foreign_partitions * self.traffic + (0 if has_copy else self.non_overlap))


STATELESS_COSTS = Costs(traffic=1, non_overlap=0)
"""The costs of stateless tasks. No config changes the costs of stateless tasks, because a task without state can move
at any time.
"""


@dataclass(slots=True)
class RackTraffic:
    """The cross-rack reads of tasks. `racks`: the rack of each client. Clients are numbered in the order of their
    process ids.
    """

    information: RackInformation
    racks: tuple[str, ...]
    _foreign: dict[tuple[TaskId, bool], Foreign] = field(default_factory=dict)
    _by_racks: dict[tuple[int, ...], Foreign] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: PlacementProblem, processes: Sequence[ProcessId]) -> RackTraffic | None:
        """Returns None if no strategy is configured, if a client has no rack, or if the racks of a partition are
        unknown. `processes`: sorted.
        """
        information = problem.racks
        if information is None or not problem.configs.rack_aware:
            return None
        racks = tuple([problem.clients[process].rack for process in processes])
        known = tuple([rack for rack in racks if rack is not None])
        if len(known) != len(racks) or not information.knows_sources():
            return None
        if problem.configs.num_standby_replicas != 0 and not information.knows_changelogs():
            return None
        return cls(information, known)

    def foreign_partitions(self, task: TaskId, role: Role) -> Foreign:
        """Counts the partitions that each client would read across racks: source partitions for an active copy,
        changelog partitions for a standby.

        Raises IllegalStateError for a task without partitions, or for a partition whose racks are unknown.
        """
        is_standby = role is Role.STANDBY
        found = self._foreign.get((task, is_standby))
        if found is None:
            found = self._foreign[task, is_standby] = self._count_foreign(task, is_standby)
        return found

    def _count_foreign(self, task: TaskId, is_standby: bool) -> Foreign:
        partitions = _partitions_of(self.information, task, is_standby)
        if not partitions:
            raise IllegalStateError(f"Task {task} has no TopicPartitions")
        replicas = [self.information.racks_of(partition) for partition in partitions]
        if None in replicas:
            raise self._not_known(partitions)
        by_rack: Mapping[str, int] = {
            rack: sum(rack not in racks for racks in replicas if racks is not None) for rack in set(self.racks)
        }
        foreign = tuple([by_rack[rack] for rack in self.racks])
        return self._by_racks.setdefault(foreign, foreign)

    def _not_known(self, partitions: Sequence[TopicPartition]) -> IllegalStateError:
        first = next(
            partition
            for partition in hash_set_order(partitions, topic_partition_hash)
            if self.information.racks_of(partition) is None
        )
        return IllegalStateError(
            f"TopicPartition {first} has no rack information. Maybe forgot to call canEnableRackAwareAssignor first"
        )


def _partitions_of(information: RackInformation, task: TaskId, is_standby: bool) -> tuple[TopicPartition, ...]:
    by_task = information.changelog_partitions if is_standby else information.task_partitions
    return by_task.get(task, ())


MIN_TRAFFIC = "min_traffic"
BALANCE_SUBTOPOLOGY = "balance_subtopology"
STANDBY_ROUNDS = 4
"""Source: `RackAwareTaskAssignor.STANDBY_OPTIMIZER_MAX_ITERATION`."""


class RackMove(NamedTuple):
    """A move of a task between clients. `task`: the index of the task in the list of tasks. `source`, `destination`:
    the numbers of the two clients. `saved`: the number of cross-rack reads that the move saves. The number is 0 or
    negative if the task only makes room for another task.
    """

    task: int
    source: int
    destination: int
    saved: int


class TaskMove(NamedTuple):
    """A `RackMove` with the ids of the task and the processes instead of numbers."""

    task: TaskId
    source: ProcessId
    destination: ProcessId
    saved: int

    def as_decision(self, role: Role) -> Decision:
        return Decision(DecisionKind.RACK_MOVED, self.task, role, self.destination, self.source, detail=self.saved)


def with_ids(moves: Iterable[RackMove], tasks: Sequence[TaskId], processes: Sequence[ProcessId]) -> list[TaskMove]:
    return [
        TaskMove(tasks[task], processes[source], processes[destination], saved)
        for task, source, destination, saved in moves
    ]


class Traffic(Protocol):
    """The cross-rack reads of tasks: `RackTraffic`, or `PublicRackTraffic` for assignors of the public interface."""

    @property
    def racks(self) -> Sequence[str]:
        """The rack of each client."""
        ...

    def foreign_partitions(self, task: TaskId, role: Role) -> Foreign: ...


def optimize_active_tasks(
    traffic: Traffic, tasks: Sequence[TaskId], owner: Sequence[int], costs: Costs, strategy: str
) -> list[RackMove]:
    """Returns the moves that lead to the cheapest placement. `tasks`: sorted. `owner[n]`: the client of tasks[n].
    Raises IllegalStateError as `RackTraffic.foreign_partitions` does.
    """
    if not tasks:
        return []
    foreign = [traffic.foreign_partitions(task, Role.ACTIVE) for task in tasks]
    rows = _rows(foreign, owner, costs)
    return _moves(owner, _cheapest(tasks, owner, rows, len(traffic.racks), strategy), foreign)


def _cheapest(
    tasks: Sequence[TaskId], owner: Sequence[int], rows: Sequence[Row], clients: int, strategy: str
) -> list[int]:
    """Returns the client of each task in the cheapest placement."""
    if strategy == BALANCE_SUBTOPOLOGY:
        groups = _by_subtopology(tasks)
        counts = [0] * clients
        for client in owner:
            counts[client] += 1
        capacity = shares(counts, [len(group) for group in groups])
        graph = TaskGraph(first_owners(groups, counts, capacity), groups, rows, clients, capacity)
    else:
        graph = TaskGraph(list(owner), (range(len(tasks)),), rows, clients)
    graph.solve()
    return graph.owner


def _by_subtopology(tasks: Sequence[TaskId]) -> list[range]:
    groups: list[range] = []
    for _, members in groupby(tasks, lambda task: task.subtopology):
        start = groups[-1].stop if groups else 0
        groups.append(range(start, start + len(list(members))))
    return groups


def _rows(foreign: Sequence[Foreign], owner: Sequence[int], costs: Costs) -> list[Row]:
    """Returns, for each task, a tuple with the cost of the task on each client. Tasks with the same `foreign` object
    and the same owner share one tuple. `TaskGraph` groups tasks by the identity of these tuples.
    """
    rows: dict[tuple[int, int], Row] = {}
    found: list[Row] = []
    for partitions, has_it in zip(foreign, owner, strict=True):
        key = (id(partitions), has_it if costs.non_overlap else -1)
        row = rows.get(key)
        if row is None:
            row = rows[key] = tuple([costs.of(count, client == has_it) for client, count in enumerate(partitions)])
        found.append(row)
    return found


def _moves(before: Sequence[int], after: Sequence[int], foreign: Sequence[Foreign]) -> list[RackMove]:
    return [
        RackMove(task, source, destination, foreign[task][source] - foreign[task][destination])
        for task, (source, destination) in enumerate(zip(before, after, strict=True))
        if source != destination
    ]


class Standbys:
    """The copies of all clients. Each swap of standbys depends on these copies, and changes them. Tasks are numbered in
    sorted order. Clients are numbered in the order of their process ids, or in the leader's order.
    `optimize_standby_tasks` needs `ranks` if clients are numbered in the leader's order.

    `active[client]`: the numbers of the client's active tasks. `standby[client]`: the numbers of the tasks of which the
    client has a standby. Swaps change the field `standby`.
    """

    def __init__(self, tasks: Sequence[TaskId], active: Sequence[set[int]], standby: Sequence[set[int]]) -> None:
        self.tasks = tasks
        self.active = active
        self.standby = standby

    def movable(self, source: int, destination: int) -> set[int]:
        return self.standby[source] - self.standby[destination] - self.active[destination]


CanMove = Callable[[int, int, int], bool]
"""A function of `(task, source, destination)`: True if rules other than racks allow the standby to move."""


def optimize_standby_tasks(
    traffic: Traffic,
    standbys: Standbys,
    costs: Costs,
    can_move: CanMove | None = None,
    ranks: Sequence[int] | None = None,
    strategy: str = MIN_TRAFFIC,
) -> list[RackMove]:
    """Swaps standbys, and returns the moves. `can_move`: the rule, other than racks, that restricts moves of standbys;
    None if only racks restrict moves. `ranks`: the rank of each client by process id; None if clients are numbered by
    process id. `strategy`: the rack-aware strategy that is applied to each pair of clients. Raises IllegalStateError as
    `RackTraffic.foreign_partitions` does.
    """
    held = sorted(set().union(*standbys.standby))
    foreign = {task: traffic.foreign_partitions(standbys.tasks[task], Role.STANDBY) for task in held}
    racks = traffic.racks
    clients = range(len(racks))
    moves: list[RackMove] = []
    changes = 0
    changed_at = [0] * len(racks)  # the number of the last swap that changed each client
    compared: dict[tuple[int, int], int] = {}
    for _ in range(STANDBY_ROUNDS):
        changes_before = changes
        for first in clients:
            for second in range(first + 1, len(racks)):
                if racks[first] == racks[second]:
                    continue
                # Skip the pair if neither client has changed since the pair was last compared. If `can_move` is not
                # None, no pair is skipped, because this rule may depend on the copies of other clients.
                if can_move is None and compared.get((first, second), -1) >= max(changed_at[first], changed_at[second]):
                    continue
                pair = (first, second) if ranks is None or ranks[first] < ranks[second] else (second, first)
                swapped = _swap(standbys, foreign, pair, costs, can_move, strategy)
                if swapped:
                    changes += 1
                    changed_at[first] = changed_at[second] = changes
                    moves += swapped
                compared[first, second] = changes - bool(swapped)
        if changes == changes_before:
            break
    return moves


def _swap(
    standbys: Standbys,
    foreign: dict[int, Foreign],
    pair: tuple[int, int],
    costs: Costs,
    can_move: CanMove | None,
    strategy: str,
) -> list[RackMove]:
    first, second = pair
    tasks: list[int] = []
    for source, destination in ((first, second), (second, first)):
        movable = standbys.movable(source, destination)
        if can_move is not None:
            movable = {task for task in movable if can_move(task, source, destination)}
        if not movable:
            return []
        tasks += movable
    tasks.sort()
    owner = [int(task in standbys.standby[second]) for task in tasks]
    known: dict[tuple[int, int], Foreign] = {}
    of_pair = [known.setdefault(two, two) for two in [(foreign[task][first], foreign[task][second]) for task in tasks]]
    rows = _rows(of_pair, owner, costs)
    if strategy != BALANCE_SUBTOPOLOGY and not _pays(rows, owner):
        return []
    cheapest = _cheapest([standbys.tasks[task] for task in tasks], owner, rows, 2, strategy)
    moves = [
        RackMove(tasks[move.task], (first, second)[move.source], (first, second)[move.destination], move.saved)
        for move in _moves(owner, cheapest, of_pair)
    ]
    for move in moves:
        standbys.standby[move.source].remove(move.task)
    for move in moves:
        standbys.standby[move.destination].add(move.task)
    return moves


def _pays(rows: Sequence[Row], owner: Sequence[int]) -> bool:
    """True if a swap of two tasks lowers the cost. A check of swaps is sufficient, because every cycle of moves between
    two clients consists of swaps.
    """
    dearer = [
        min(row[1 - client] + int32(-row[client]) for row, client in zip(rows, owner, strict=True) if client == source)
        for source in (0, 1)
    ]
    return sum(dearer) < 0
