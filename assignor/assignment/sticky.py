"""The sticky assignor of Kafka's public interface: `task.assignor.class=...StickyTaskAssignor` (KIP-924).

StickyTaskAssignor has the steps of LegacyStickyTaskAssignor, with two differences. StickyTaskAssignor does not prefer
the client with more threads if two clients have the same load. To optimize for racks, StickyTaskAssignor uses
`rack_optimization.py`. Differs from Kafka: Kafka's order of standbys differs in each run, because Kafka uses a HashSet
of objects with identity hash codes. StickyTaskAssignor of this project places standbys in the order of a HashSet of
task ids.
Source: `StickyTaskAssignor` of `org.apache.kafka.streams.processor.assignment.assignors`.
"""

from collections.abc import Sequence

from assignor.assignment.application_state import ApplicationState
from assignor.assignment.rack_optimization import (
    PublicRackTraffic,
    RackAwareOptimizationParams,
    active_moves,
    move_copy,
    standby_moves,
)
from assignor.assignment.task_assignment import AssignedTask, KafkaStreamsAssignment, TaskAssignment
from assignor.assignment.task_assignor import CustomTaskAssignor
from assignor.java.hash_codes import int32, process_hash, task_hash
from assignor.java.order import JavaHashSet, hash_set_order
from assignor.task_assignors.base import PlacementProblem
from assignor.task_assignors.client_queue import Client
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.legacy_sticky import DEFAULT_COSTS, StickyPlacement
from assignor.task_assignors.racks.optimization import STATELESS_COSTS, TaskMove
from assignor.types import ProcessId, Role, TaskId


class StickyTaskAssignor(CustomTaskAssignor):
    """Keeps tasks on their clients as long as the load allows it. StickyTaskAssignor never requests a probing
    rebalance.

    `must_preserve_active_task_assignment`: True if every active task stays with its previous owner, even if this
    owner's load is high. If `must_preserve_active_task_assignment` is True, racks are ignored. One client then requests
    an immediate rebalance. Raises IllegalStateError if the clients have no threads.
    """

    name = "StickyTaskAssignor"

    def __init__(self, must_preserve_active_task_assignment: bool = False) -> None:
        self._must_preserve = must_preserve_active_task_assignment

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        placing = _PublicStickyPlacement(application_state.problem, application_state.log)
        placing.keep_previous_active(whatever_the_load=self._must_preserve)
        placing.give_to_previous_standby()
        placing.place_remaining_active()
        if not self._must_preserve:
            placing.save_traffic_of_active_in(application_state)
        placing.assign_standbys()
        if not self._must_preserve:
            placing.save_traffic_of_standbys_in(application_state)
        answer = placing.assignments()
        if self._must_preserve and answer:
            first = hash_set_order([each.process_id for each in answer], process_hash)[0]
            answer = [each.with_followup_rebalance(0) if each.process_id == first else each for each in answer]
        return TaskAssignment(answer)


class _PublicStickyPlacement(StickyPlacement):
    prefers_more_threads = False

    def __init__(self, problem: PlacementProblem, log: DecisionLog) -> None:
        super().__init__(problem, log)
        self._assigned: dict[ProcessId, KafkaStreamsAssignment] = {}

    def _ranks(self) -> Sequence[int]:
        """Returns the rank of each client. The ranks follow the order of the HashSet in which Kafka collects the
        clients.
        """
        order = hash_set_order([client.process_id for client in self._clients], process_hash)
        ranks = {process: rank for rank, process in enumerate(order)}
        return [ranks[client.process_id] for client in self._clients]

    def fair_share(self, client: Client) -> int:
        """Returns the fair share by the rule of the group's Kafka version. In Kafka 4.4, the fair share is the number
        of all tasks, times the client's fraction of all threads, rounded up. If a number overflows an int, the result
        is the same as in Java.
        """
        if not self._problem.configs.kafka_version.rules.rounds_active_share_up:
            return super().fair_share(client)
        share = int32(int32(len(self._problem.tasks) * client.capacity) + self._threads - 1)
        return share // self._threads if share >= 0 else -(-share // self._threads)  # Java rounds towards zero

    def _unassigned_in_set_order(self) -> list[TaskId]:
        """Returns the unassigned tasks in Kafka's order. Kafka copies the keys of a map of all tasks, and removes the
        assigned tasks from the copy one by one.
        """
        unassigned = JavaHashSet.copy_of(hash_set_order(self._problem.tasks, task_hash), task_hash)
        for task in self._previous_active:
            if task in unassigned and task not in self._unassigned:
                unassigned.discard(task)
        return list(unassigned)

    def _tasks_to_copy(self) -> list[TaskId]:
        with_changelog = frozenset(self._problem.stateful_tasks)
        tasks = hash_set_order(self._problem.tasks, task_hash)
        return hash_set_order([task for task in tasks if task in with_changelog], task_hash)

    def save_traffic_of_active_in(self, state: ApplicationState) -> None:
        holders = {client.process_id: client.active for client in self._clients}
        params = _params(state)
        stateful, stateless = params.for_stateful_tasks(), params.for_stateless_tasks()
        stateless = stateless.with_traffic_cost(STATELESS_COSTS.traffic)
        stateless = stateless.with_non_overlap_cost(STATELESS_COSTS.non_overlap)
        traffics = [PublicRackTraffic.of(each, holders, Role.ACTIVE) for each in (stateful, stateless)]
        moves = [move for each in traffics if each is not None for move in active_moves(each, holders)]
        self._move(moves, Role.ACTIVE)
        self.swap_active(moves)

    def save_traffic_of_standbys_in(self, state: ApplicationState) -> None:
        active = {client.process_id: client.active for client in self._clients}
        standby = {client.process_id: client.standby for client in self._clients}
        traffic = PublicRackTraffic.of(_params(state), standby, Role.STANDBY)
        if traffic is not None:
            moves = standby_moves(traffic, active, standby)
            self._move(moves, Role.STANDBY)
            self.swap_standbys(moves)

    def assignments(self) -> list[KafkaStreamsAssignment]:
        """Returns the assignment of each client. Its tasks were assigned and moved in the same order as in Kafka,
        because the order of a HashMap depends on it.
        """
        for client in self._clients:
            copies = [*map(AssignedTask.active, client.active), *map(AssignedTask.standby, client.standby)]
            assigned = self._assigned.get(client.process_id)
            if assigned is None:
                self._assigned[client.process_id] = KafkaStreamsAssignment(client.process_id, copies)
                continue
            for copy in copies:
                if copy.id not in assigned.tasks:
                    assigned.assign_task(copy)
        return list(self._assigned.values())

    def _move(self, moves: Sequence[TaskMove], role: Role) -> None:
        if moves:
            self.assignments()
        for move in moves:
            move_copy(move, role, self._assigned)


def _params(state: ApplicationState) -> RackAwareOptimizationParams:
    costs = DEFAULT_COSTS.with_configs(state.assignment_configs)
    return RackAwareOptimizationParams(state, costs.traffic, costs.non_overlap)
