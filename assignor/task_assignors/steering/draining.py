"""Empties instances without a pause: their tasks go at once where that costs nothing, and after a warm-up elsewhere.

The wrapped assignor places all tasks on the clients that are left. A stateful task whose new owner has not caught up
stays on the drained client that runs it; its new owner restores it meanwhile, as a warm-up. A probing rebalance then
hands it over. At most max.warmup.replicas warm-ups restore at a time, those of the wrapped assignor among them: first
those that have begun, then those of drained clients, because somebody waits for these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem, TaskAssignor
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.steering.changing_placement import ChangingPlacement, is_caught_up_on
from assignor.types import ProcessId, Role, TaskId

_WHERE_IT_BELONGS = frozenset(
    {
        DecisionKind.TARGET,
        DecisionKind.BALANCED,
        DecisionKind.RACK_MOVED,
        DecisionKind.TARGET_KEPT,
        DecisionKind.TARGET_MOVED,
        DecisionKind.TARGET_PINNED,
        DecisionKind.TARGET_NEW,
        DecisionKind.PIN_SET_ASIDE,
    }
)
"""What the wrapped assignor says of a task that is placed otherwise here, and is true all the same."""


_WarmUp = tuple[ProcessId, TaskId]


class DrainingAssignor:
    """`processes`, `members`: that are drained; `away`: processes that get nothing new."""

    def __init__(
        self,
        assignor: TaskAssignor,
        processes: frozenset[ProcessId],
        members: frozenset[str],
        away: frozenset[ProcessId],
    ) -> None:
        self.name = assignor.name
        self._assignor = assignor
        self._processes = processes
        self._members = members
        self._away = away

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """When every client is drained, or away, none is drained: somebody has to run the tasks."""
        left = self._clients_left(problem)
        present = left.keys() - self._away
        if not present:
            log.extend(Decision(DecisionKind.DRAIN_SET_ASIDE, task, Role.ACTIVE) for task in sorted(problem.tasks))
            return self._assignor.assign(problem, log)
        if left == problem.clients:
            return self._assignor.assign(problem, log)
        inner_log = DecisionLog()
        among_left = replace(problem, clients=left)
        placed = self._assignor.assign(among_left, inner_log)
        if placed.is_refused or placed.clients.keys() != left.keys():
            log.extend(inner_log)
            return placed  # the check of placements says what is wrong with it
        return _Draining(problem, left, frozenset(present), placed, inner_log).placement(log)

    def _clients_left(self, problem: PlacementProblem) -> dict[ProcessId, PlacementClient]:
        """Clients that are not drained, each with the threads that are not."""
        left: dict[ProcessId, PlacementClient] = {}
        for process, client in problem.clients.items():
            consumers = tuple(each for each in client.consumers if each not in self._members)
            if process in self._processes or (client.consumers and not consumers):
                continue
            drained_threads = len(client.consumers) - len(consumers)
            if drained_threads:
                client = replace(client, consumers=consumers, capacity=client.capacity - drained_threads)
            left[process] = client
        return left


@dataclass(slots=True)
class _Draining:
    """`left`: the clients that the wrapped assignor saw; `present`: those of them that are not away; `placed`, `log`:
    what it decided, and why.
    """

    problem: PlacementProblem
    left: Mapping[ProcessId, PlacementClient]
    present: frozenset[ProcessId]
    placed: Placement
    log: DecisionLog
    decided: DecisionLog = field(default_factory=DecisionLog)
    redecided: set[TaskId] = field(default_factory=set)

    def placement(self, log: DecisionLog) -> Placement:
        copies = ChangingPlacement.of(self.placed)
        waits: list[tuple[TaskId, ProcessId, ProcessId]] = []
        for task, runner in sorted(self._run_by_drained().items()):
            owner = copies.owner.get(task)
            if owner is None:
                continue  # an assignor of the public interface may leave a task to nobody
            if task not in self._stateful or self._is_caught_up(owner, task):
                self._log_decision(DecisionKind.DRAIN_MOVES, task, owner, runner)
                continue
            # assignors that do not look at lags may have passed it over
            ready = [process for process in self.present if self._is_caught_up(process, task)]
            if ready:
                self._hand_over(copies, task, copies.least_loaded(ready, self.left), runner)
            else:
                waits.append((task, runner, owner))
        self._wait(copies, waits)
        log.extend(self._decisions(copies))
        log.extend(self.decided)
        clients = copies.placed()
        empty = ClientPlacement(frozenset(), frozenset())
        return replace(
            self.placed,
            probing_rebalance_needed=self.placed.probing_rebalance_needed or bool(waits),
            clients={process: clients.get(process, empty) for process in self.problem.clients},
        )

    @property
    def _stateful(self) -> frozenset[TaskId]:
        return frozenset(self.problem.stateful_tasks)

    def _run_by_drained(self) -> dict[TaskId, ProcessId]:
        """Of several clients that say so, the one that has caught up; the first of these."""
        tasks = frozenset(self.problem.tasks)
        runners: dict[TaskId, list[ProcessId]] = {}
        for process in sorted(self.problem.clients.keys() - self.left.keys()):
            for task in self.problem.clients[process].previous_active & tasks:
                runners.setdefault(task, []).append(process)
        return {
            task: min(found, key=lambda process: (not self._is_caught_up(process, task), process))
            for task, found in runners.items()
        }

    def _is_caught_up(self, process: ProcessId, task: TaskId) -> bool:
        return is_caught_up_on(self.problem, process, task)

    def _hand_over(self, copies: ChangingPlacement, task: TaskId, ready: ProcessId, runner: ProcessId) -> None:
        owner = copies.owner[task]
        copies.swap_with_standby(task, ready)
        self.redecided.add(task)
        self._log_decision(DecisionKind.DRAIN_MOVES, task, ready, runner)
        self._log_decision(DecisionKind.MOVED_TO_CAUGHT_UP, task, ready, owner)

    def _wait(self, copies: ChangingPlacement, waits: list[tuple[TaskId, ProcessId, ProcessId]]) -> None:
        """`waits`: tasks with the drained client that runs each of them, and its next owner."""
        if not waits:
            return
        for task, runner, _ in waits:
            for process in self.left:
                if task in copies.warm_ups[process]:
                    copies.drop_standby(process, task)  # of a task that waits, only its next owner warms up
            copies.move_active(task, runner)
            self.redecided.add(task)
        others = [(process, task) for process in self.left for task in copies.warm_ups[process]]
        may_restore = self._first_in_turn([(owner, task) for task, _, owner in waits], others)
        for process, task in others:
            if (process, task) not in may_restore:
                copies.drop_standby(process, task)
        for task, runner, owner in waits:
            self._log_decision(DecisionKind.DRAIN_WAITS, task, runner, owner)
            if (owner, task) in may_restore:
                copies.standby[owner].add(task)
                copies.warm_ups[owner].add(task)
                self._log_decision(DecisionKind.WARM_UP, task, owner, runner)
            else:
                self._log_decision(DecisionKind.WARM_UP_BUDGET_SPENT, task, owner, runner)

    def _first_in_turn(self, wanted: Iterable[_WarmUp], others: Iterable[_WarmUp]) -> set[_WarmUp]:
        """`wanted`: for tasks of drained clients. Those that have begun go on."""
        clients = self.problem.clients
        turns = [
            (task not in clients[process].previous_standby, is_other, task, process)
            for is_other, warm_ups in enumerate((wanted, others))
            for process, task in warm_ups
        ]
        turns.sort()
        return {(process, task) for _, _, task, process in turns[: self.problem.configs.max_warmup_replicas]}

    def _log_decision(self, kind: DecisionKind, task: TaskId, process: ProcessId, other: ProcessId) -> None:
        self.decided.append(Decision(kind, task, Role.ACTIVE, process, other))

    def _decisions(self, copies: ChangingPlacement) -> DecisionLog:
        """What the wrapped assignor decided, as far as it still holds."""
        kept = DecisionLog()
        for step in self.log:
            if step.task in self.redecided and step.role is Role.ACTIVE and step.kind not in _WHERE_IT_BELONGS:
                continue
            warms_up = step.process is not None and step.task in copies.warm_ups.get(step.process, ())
            if step.kind is DecisionKind.WARM_UP and not warms_up:
                step = step._replace(kind=DecisionKind.WARM_UP_BUDGET_SPENT)
            kept.append(step)
        return kept
