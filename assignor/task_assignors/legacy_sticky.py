"""Two assignors that use previous owners and ignore lags: LegacySticky, and FallbackPrior, which is used if lags are
unknown.

LegacySticky and FallbackPrior consist of the steps in `StickyPlacement`, each with its own parameters. The order of
Java's collections breaks ties. Clients are in the order of the leader's map. Tasks and previous owners are in hash
order.

With a rack-aware strategy, LegacySticky swaps active tasks between clients to save traffic, and later swaps standbys.
FallbackPrior swaps no tasks, because Kafka's FallbackPrior gets no RackAwareTaskAssignor.
Source: `LegacyStickyTaskAssignor` (`StickyTaskAssignor` before 3.8), `FallbackPriorTaskAssignor`.
"""

from collections.abc import Callable, Iterable, Sequence

from assignor.errors import IllegalStateError
from assignor.java.hash_codes import process_hash, task_hash
from assignor.java.hash_map import JavaHashMap
from assignor.java.order import JavaHashSet, hash_set_copy_order, hash_set_order
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementProblem
from assignor.task_assignors.client_queue import EMPTY, Client, ClientQueue, StandbyCandidates, roomiest
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.racks.optimization import (
    STATELESS_COSTS,
    Costs,
    RackTraffic,
    Standbys,
    TaskMove,
    optimize_active_tasks,
    optimize_standby_tasks,
    with_ids,
)
from assignor.task_assignors.task_pairs import TaskPairs
from assignor.types import ProcessId, Role, TaskId

DEFAULT_COSTS = Costs(traffic=1, non_overlap=10)
"""Default rack-aware costs of stateful tasks: a move to another client costs more than a cross-rack read."""


class StickyPlacement:
    """A placement that is built step by step. Each method places some of the tasks. Raises IllegalStateError if the
    clients have no threads.

    Differs from Kafka in two points. A client without threads raises an error immediately, while Kafka throws only when
    it first compares the client. This class allows any number of tasks, while Kafka's count of pairs overflows for more
    than 46,341 tasks.
    """

    prefers_more_threads = True
    """True if the client with more threads is chosen when two clients have the same load."""

    def __init__(self, problem: PlacementProblem, log: DecisionLog) -> None:
        self._problem = problem
        self._log = log
        self._clients = [
            Client(number, client.process_id, client.capacity, self.prefers_more_threads)
            for number, client in enumerate(problem.clients.values())
        ]
        capacity = sum(client.capacity for client in self._clients)
        if capacity == 0:
            raise IllegalStateError("`totalCapacity` should never be zero.")
        if any(client.capacity <= 0 for client in self._clients):
            raise IllegalStateError("Capacity of this ClientState must be greater than 0.")
        self._threads = capacity
        self._fair_shares = [self.fair_share(client) for client in self._clients]
        self._pairs = TaskPairs(len(self._clients))
        self._by_room = ClientQueue(self._clients, self._ranks())
        self._standby_candidates = StandbyCandidates(self._clients)
        self._by_process = {client.process_id: client for client in self._clients}
        self._unassigned = dict.fromkeys(problem.tasks)
        self._copied_for: TaskId | None = None  # the task whose previous standbys are in `_copied`
        self._copied: list[Client] = []
        self._traffic: RackTraffic | None = None
        self._map_previous()

    def _ranks(self) -> Sequence[int]:
        """Returns the rank of each client, by client number. If clients are equally suitable, the client with the
        lowest rank is chosen.
        """
        return range(len(self._clients))

    def fair_share(self, client: Client) -> int:
        """Returns the number of tasks per thread, rounded down, times the client's number of threads. At most this many
        active tasks stay on the client.
        """
        return client.capacity * (len(self._problem.tasks) // self._threads)

    def _has_room(self, client: Client) -> bool:
        return len(client.active) < self._fair_shares[client.number]

    def _map_previous(self) -> None:
        """Maps tasks to their previous owners and standbys. If two clients report a task as active, the later client
        counts as the owner of the task. The map of previous owners is in Java's order.
        """
        active: list[tuple[TaskId, Client]] = []
        standby: dict[TaskId, list[ProcessId]] = {}
        for client in self._problem.clients.values():
            active.extend((task, self._by_process[client.process_id]) for task in sorted(client.previous_active))
            for task in client.previous_standby:
                standby.setdefault(task, []).append(client.process_id)
        self._previous_active = JavaHashMap(active, hash_of=task_hash)
        self._previous_standby = {
            task: process_ids if len(process_ids) == 1 else hash_set_order(process_ids, process_hash)
            for task, process_ids in standby.items()
        }

    def keep_previous_active(self, whatever_the_load: bool = False) -> None:
        """Keeps tasks on the clients that ran them. A client keeps at most its fair share of active tasks. If
        `whatever_the_load` is True, every task stays on the client that ran the task.
        """
        for task, client in self._previous_active.items():
            if task in self._unassigned and (whatever_the_load or self._has_room(client)):
                self._assign_active(task, client, DecisionKind.PREVIOUS_ACTIVE)

    def give_to_previous_standby(self) -> None:
        """Gives each unassigned task to the first client that had a standby of the task and has fewer active tasks than
        its fair share.
        """
        if not self._previous_standby:
            return
        for task in self._unassigned_in_set_order():
            for client in map(self._by_process.__getitem__, self._previous_standby.get(task, ())):
                if self._has_room(client):
                    self._assign_active(task, client, DecisionKind.PREVIOUS_STANDBY)
                    break

    def place_remaining_active(self) -> None:
        """Places the remaining active tasks, in the order of their ids. A remaining task goes to its previous owner, or
        else to a client that had a standby of the task. A client is passed over if it is full and another client has
        more room. If no previous client can get the task, the task goes to the client with the most room.
        """
        for task in sorted(self._unassigned):
            client, kind, passed_over = self._find_client(task, self._roomiest_of_all)
            self._assign_active(task, client, kind, passed_over)

    def assign_standbys(self) -> None:
        """Places the standbys by the rule of `place_remaining_active`, but prefers clients on which the task forms new
        pairs with other tasks. A task gets all its standbys before the next task gets any.
        """
        wanted = self._problem.configs.num_standby_replicas
        for task in self._tasks_to_copy():
            for placed in range(wanted):
                if self._pairs.holder_count(task) == len(self._clients):
                    self._log.append(Decision(DecisionKind.NO_STANDBY_HOST, task, Role.STANDBY, detail=wanted - placed))
                    break
                client, kind, passed_over = self._find_client(task, self._roomiest_standby_candidate)
                self._pairs.add(task, client.number)
                client.assign_standby(task)
                self._log.append(_decision(kind, task, Role.STANDBY, client, passed_over))

    def _tasks_to_copy(self) -> Sequence[TaskId]:
        return self._problem.stateful_tasks

    def save_traffic_of_active(self) -> None:
        """Swaps stateful tasks, then stateless tasks, between clients to save cross-rack traffic. Without a rack-aware
        strategy, or if racks are unknown, no task is swapped.
        """
        problem = self._problem
        by_process = sorted(self._clients, key=lambda client: client.process_id)
        processes = [client.process_id for client in by_process]
        self._traffic = RackTraffic.of(problem, processes)
        if self._traffic is None:
            return
        stateful = sorted(problem.stateful_tasks)
        stateless = sorted(set(problem.tasks).difference(stateful))
        owners = {task: number for number, client in enumerate(by_process) for task in client.active}
        strategy = problem.configs.rack_aware_assignment_strategy
        moves: list[TaskMove] = []
        for tasks, costs in ((stateful, DEFAULT_COSTS.with_configs(problem.configs)), (stateless, STATELESS_COSTS)):
            owner = [owners[task] for task in tasks]
            moves += with_ids(optimize_active_tasks(self._traffic, tasks, owner, costs, strategy), tasks, processes)
        self.swap_active(moves)

    def save_traffic_of_standbys(self) -> None:
        """Swaps standbys to save cross-rack traffic. Call this method after `save_traffic_of_active` and
        `assign_standbys`.
        """
        configs = self._problem.configs
        if self._traffic is None or configs.num_standby_replicas <= 0:
            return
        tasks = sorted(self._problem.stateful_tasks)
        numbers = {task: number for number, task in enumerate(tasks)}
        by_process = sorted(self._clients, key=lambda client: client.process_id)
        standbys = Standbys(
            tasks,
            [{numbers[task] for task in client.active if task in numbers} for client in by_process],
            [{numbers[task] for task in client.standby} for client in by_process],
        )
        moves = optimize_standby_tasks(self._traffic, standbys, DEFAULT_COSTS.with_configs(configs))
        self.swap_standbys(with_ids(moves, tasks, [client.process_id for client in by_process]))

    def swap_active(self, moves: Iterable[TaskMove]) -> None:
        """Carries out swaps of active tasks. Call this method before any standby is placed. As in Kafka, no pair of
        tasks is recorded if a swap creates it.
        """
        moved: dict[TaskId, int] = {}
        for move in moves:
            destination = self._by_process[move.destination]
            del self._by_process[move.source].active[move.task]
            destination.active[move.task] = None
            moved[move.task] = destination.number
            self._log.append(move.as_decision(Role.ACTIVE))
        self._pairs.swap_active(moved)

    def swap_standbys(self, moves: Iterable[TaskMove]) -> None:
        """Carries out swaps of standbys. Call this method after all standbys are placed."""
        for move in moves:
            del self._by_process[move.source].standby[move.task]
            self._by_process[move.destination].standby[move.task] = None
            self._log.append(move.as_decision(Role.STANDBY))

    def result(self, probing_rebalance_needed: bool) -> Placement:
        clients = {
            client.process_id: ClientPlacement(frozenset(client.active), frozenset(client.standby))
            for client in self._clients
        }
        return Placement(probing_rebalance_needed, clients)

    def _unassigned_in_set_order(self) -> list[TaskId]:
        """Returns the unassigned tasks in Kafka's order. Kafka copies the set of all tasks and removes the assigned
        tasks. If a bucket is crowded (`java/order.py`), removals change the order of the other tasks in the bucket.
        """
        unassigned = JavaHashSet.copy_of(self._problem.tasks, task_hash)
        assigned = [task for task in self._previous_active if task in unassigned and task not in self._unassigned]
        unassigned.remove_all(JavaHashSet(assigned, hash_of=task_hash))
        return list(unassigned)

    def _assign_active(
        self, task: TaskId, client: Client, kind: DecisionKind, passed_over: Client | None = None
    ) -> None:
        del self._unassigned[task]
        self._pairs.add(task, client.number)
        client.assign_active(task)
        self._log.append(_decision(kind, task, Role.ACTIVE, client, passed_over))

    def _find_client(
        self, task: TaskId, least_loaded: Callable[[TaskId], Client]
    ) -> tuple[Client, DecisionKind, Client | None]:
        """Returns the client for one more copy of `task`, and the kind of the decision. Also returns the previous
        client that was passed over because of its load, or None if no previous client was passed over.
        """
        if len(self._clients) - self._pairs.holder_count(task) == 1:
            return least_loaded(task), DecisionKind.LEAST_LOADED, None
        owner = self._previous_active.get(task)
        if owner is not None and self._pairs.holds(task, owner.number):
            owner = None
        if owner is not None and not self._should_balance(owner):
            return owner, DecisionKind.PREVIOUS_ACTIVE, None
        standby = self._roomiest_previous_standby(task)
        if standby is not None and not self._should_balance(standby):
            return standby, DecisionKind.PREVIOUS_STANDBY, owner
        return least_loaded(task), DecisionKind.LEAST_LOADED, owner or standby

    def _should_balance(self, client: Client) -> bool:
        """True if `client` is full and another client has more room."""
        return client.task_count >= client.capacity and self._roomiest_of_all().room < client.room

    def _roomiest_of_all(self, _: TaskId | None = None) -> Client:
        """Returns the client with the most room. Pairs are not checked: the task has no copies yet, so each of its
        pairs is new.
        """
        client = self._by_room.first()
        assert client is not None, "no clients"
        return client

    def _roomiest_standby_candidate(self, task: TaskId) -> Client:
        client = self._standby_candidates.first(
            self._pairs.holders(task), prefers=lambda client: self._brings_new_pair(task, client)
        )
        assert client is not None, "no client is without the task"
        return client

    def _roomiest_previous_standby(self, task: TaskId) -> Client | None:
        previous = self._previous_standby.get(task)
        if previous is None:
            return None
        if task != self._copied_for:
            self._copied_for, self._copied = task, self._in_copied_set_order(previous)
        return roomiest(
            (client for client in self._copied if not self._pairs.holds(task, client.number)),
            prefers=lambda client: self._brings_new_pair(task, client),
        )

    def _in_copied_set_order(self, previous: list[ProcessId]) -> list[Client]:
        """Returns the previous standbys in the order in which Kafka searches them. Kafka first copies its set of
        previous standbys, and then searches the copy. The copy of a HashSet can have a different order than the copied
        set.
        """
        order = previous if len(previous) == 1 else hash_set_copy_order(previous, process_hash)
        return [self._by_process[process_id] for process_id in order]

    def _brings_new_pair(self, task: TaskId, client: Client) -> bool:
        """True if the task would form a new pair on the client. The result is also True if the client is empty, because
        Kafka chooses an empty client without a check of pairs.
        """
        return client.room == EMPTY or self._pairs.has_new_pair(task, client.number)


def _decision(kind: DecisionKind, task: TaskId, role: Role, client: Client, passed_over: Client | None) -> Decision:
    return Decision(kind, task, role, client.process_id, passed_over.process_id if passed_over is not None else None)


class LegacyStickyTaskAssignor:
    """Keeps tasks on their clients as long as the load allows it. LegacyStickyTaskAssignor never requests a probing
    rebalance.

    1. Active tasks stay with their previous owner, up to the owner's fair share (tasks per thread, rounded down).
    2. If a task is not placed yet, it goes to a client that had a standby of the task, up to the client's fair share.
    3. The remaining active tasks are placed as by `place_remaining_active`.
    4. Standbys are placed by the rule of step 3. Clients on which the task forms new pairs are preferred.

    With a rack-aware strategy, tasks are swapped to save traffic after step 3 and after step 4. Raises
    IllegalStateError if the clients have no threads, or if the racks of a partition are missing.
    """

    name = "LegacyStickyTaskAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        placement = StickyPlacement(problem, log)
        placement.keep_previous_active()
        placement.give_to_previous_standby()
        placement.place_remaining_active()
        placement.save_traffic_of_active()
        placement.assign_standbys()
        placement.save_traffic_of_standbys()
        return placement.result(probing_rebalance_needed=False)


class FallbackPriorTaskAssignor:
    """The assignor that the leader uses when lags cannot be computed.

    Every active task stays with its previous owner, even if the owner's load is high. Standbys, and active tasks
    without a previous owner, are placed as by LegacyStickyTaskAssignor. FallbackPriorTaskAssignor always requests a
    probing rebalance, because lags may be known in the probing rebalance. Raises IllegalStateError if the clients have
    no threads.
    """

    name = "FallbackPriorTaskAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        placement = StickyPlacement(problem, log)
        placement.keep_previous_active(whatever_the_load=True)
        placement.give_to_previous_standby()
        placement.place_remaining_active()
        placement.assign_standbys()
        return placement.result(probing_rebalance_needed=True)
