"""An assignor that moves fewer tasks than Kafka's assignors. A task moves only if the balance requires the move.

Kafka has no counterpart of this assignor. A user has to choose MinimalMovementTaskAssignor by its name.
MinimalMovementTaskAssignor uses Kafka's protocol: warm-ups, max.warmup.replicas, standbys, tags and probing rebalances.
A task never moves from a caught-up client to a client that is not caught up. The placement is as balanced as the
placement of Kafka's assignor. Only the targets of tasks differ from Kafka's targets. In each rebalance, Kafka's
HighAvailabilityTaskAssignor distributes all tasks anew over the sorted process ids. So in Kafka, a new client changes
the targets of nearly all tasks. With MinimalMovementTaskAssignor, only as many tasks move as the new client has to get.

Cross-rack traffic can decide between placements that move equally many tasks of equal total weight. The traffic is
compared only if min_traffic or balance_subtopology is configured and all racks are known. No task moves only to save
traffic, so the configured costs of traffic and non-overlap have no effect.

The assignor first decides the targets of active tasks (`targets.py`) and the targets of standbys
(`standby_targets.py`). Then the assignor uses the lags to decide which clients run the tasks until their targets are
caught up (`transition.py`). Last, the assignor places the stateless tasks, which can move immediately.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.minimal.apart import ApartPlacement
from assignor.task_assignors.minimal.copies import CAUGHT_UP, NOBODY, Copies, copies_before, stateful_weights
from assignor.task_assignors.minimal.pin_lookup import PinnedTasks
from assignor.task_assignors.minimal.spread import StandbySpread
from assignor.task_assignors.minimal.standby_targets import assign_standby_targets
from assignor.task_assignors.minimal.targets import TaskToPlace, place_evenly
from assignor.task_assignors.minimal.transition import MovementTransition
from assignor.task_assignors.racks.optimization import Foreign, RackTraffic
from assignor.task_assignors.task_movement import WarmUpBudget
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role, TaskId


class MinimalMovementTaskAssignor:
    name = "MinimalMovementTaskAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Raises InputError if there are no clients or threads, and IllegalStateError if a lag or the racks of a
        partition are missing.
        """
        configs = problem.configs
        state = WorkingState.of(problem, log)
        copies = copies_before(state, configs.acceptable_recovery_lag, configs.minimal_movement_task_weights)
        pins = PinnedTasks(configs.minimal_movement_pins, state.clients)
        traffic = RackTraffic.of(problem, state.processes)
        placing = _ActivePlacing(state, pins, traffic)
        placing.assign_stateful_targets(copies)
        counts = [len(active) for active in state.active]
        carried = [sum(copies.weight[task] for task in active) for active in state.active]
        standbys: Sequence[Sequence[int]] = [()] * len(state.tasks)
        if configs.num_standby_replicas > 0:
            spread = StandbySpread(state, configs.rack_aware_assignment_tags, pins)
            foreign = (
                [] if traffic is None else [traffic.foreign_partitions(task, Role.STANDBY) for task in state.tasks]
            )
            standbys = assign_standby_targets(state, copies, spread, configs.num_standby_replicas, foreign)
        probing = MovementTransition(state, copies, standbys).apply(WarmUpBudget(configs.max_warmup_replicas))
        stateless = placing.assign_stateless_tasks(problem, counts, carried)
        return state.placement(stateless, probing)


@dataclass(frozen=True, slots=True)
class _ActivePlacing:
    """Places active tasks, and logs their targets."""

    state: WorkingState
    pins: PinnedTasks
    traffic: RackTraffic | None

    def assign_stateful_targets(self, copies: Copies) -> None:
        state = self.state
        tasks = [
            TaskToPlace(
                task,
                copies.home[number],
                copies.level[number],
                copies.elsewhere[number],
                copies.weight[number],
                self.pins.allowed(task),
                self._foreign(task),
            )
            for number, task in enumerate(state.tasks)
        ]
        nothing = [0] * len(state.clients)
        owner, set_aside = self._placed(tasks, nothing, nothing)
        for number, client in enumerate(owner):
            state.assign_active(client, number)
            self._log_target(tasks[number], client, number in set_aside)

    def _foreign(self, task: TaskId) -> Foreign:
        return () if self.traffic is None else self.traffic.foreign_partitions(task, Role.ACTIVE)

    def assign_stateless_tasks(
        self, problem: PlacementProblem, counts: list[int], carried: list[int]
    ) -> list[list[TaskId]]:
        """Places the stateless tasks. Returns the tasks of each client. `counts[client]`: the number of stateful tasks
        whose target is the client. `carried[client]`: the weight of the stateful tasks whose target is the client.
        """
        state = self.state
        names = sorted(set(problem.tasks).difference(state.tasks))
        previous = {
            task: client
            for client in range(len(state.clients) - 1, -1, -1)
            for task in state.clients[client].previous_active
        }
        weights = stateful_weights(names, [1] * len(names), problem.configs.minimal_movement_task_weights)
        tasks = [
            TaskToPlace(
                task, previous.get(task, NOBODY), {}, CAUGHT_UP, weight, self.pins.allowed(task), self._foreign(task)
            )
            for task, weight in zip(names, weights, strict=True)
        ]
        owner, set_aside = self._placed(tasks, counts, carried)
        stateless: list[list[TaskId]] = [[] for _ in state.clients]
        for number, client in enumerate(owner):
            stateless[client].append(names[number])
            self._log_target(tasks[number], client, number in set_aside)
            state.log.append(Decision(DecisionKind.NO_STATE, names[number], Role.ACTIVE, state.processes[client]))
        return stateless

    def _placed(
        self, tasks: Sequence[TaskToPlace], present: list[int], carried: list[int]
    ) -> tuple[list[int], set[int]]:
        """Places the tasks of `apart` pins first, then all other tasks. Returns the client of each task, and the tasks
        with pins that no client can satisfy.
        """
        present, carried, capacity = list(present), list(carried), self.state.capacity
        rules = [self.pins.apart_rules(each.task) for each in tasks]
        apart = [number for number, of_task in enumerate(rules) if of_task]
        others = [number for number, of_task in enumerate(rules) if not of_task]
        owner = [NOBODY] * len(tasks)
        set_aside = {number for number, each in enumerate(tasks) if each.allowed.set_aside}
        if apart:
            total, threads = sum(present) + len(tasks), sum(capacity)
            placement = ApartPlacement([tasks[n] for n in apart], [rules[n] for n in apart], capacity, present)
            clients, failed = placement.placed(most=[-(-total * own // threads) for own in capacity])
            for number, client in zip(apart, clients, strict=True):
                owner[number] = client
                carried[client] += tasks[number].weight
            set_aside |= {apart[place] for place in failed}
        racks = () if self.traffic is None else self.traffic.racks
        clients = place_evenly([tasks[number] for number in others], capacity, present, carried, racks)
        for number, client in zip(others, clients, strict=True):
            owner[number] = client
        return owner, set_aside

    def _log_target(self, each: TaskToPlace, client: int, set_aside: bool) -> None:
        log, processes = self.state.log, self.state.processes
        if set_aside:
            log.append(Decision(DecisionKind.PIN_SET_ASIDE, each.task, Role.ACTIVE, processes[client]))
        other = None if each.home in (NOBODY, client) else processes[each.home]
        if each.home == NOBODY:
            kind = DecisionKind.TARGET_NEW
        elif each.home == client:
            kind = DecisionKind.TARGET_KEPT
        elif each.home in each.allowed.members:
            kind = DecisionKind.TARGET_MOVED
        else:
            kind = DecisionKind.TARGET_PINNED
        is_chosen = kind in (DecisionKind.TARGET_MOVED, DecisionKind.TARGET_NEW)
        foreign = each.foreign[client] if is_chosen and each.foreign else None
        log.append(Decision(kind, each.task, Role.ACTIVE, processes[client], other, detail=foreign))
