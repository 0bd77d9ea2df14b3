"""Drains instances without a pause in processing: a task moves when its new owner has caught up.

The wrapped assignor places all tasks on the clients that are not drained. If the new owner of a stateful task has not
caught up, the task stays on the drained client that runs it. The new owner restores the task's state as a warm-up. When
the new owner has caught up, a probing rebalance moves the task. Tasks whose new owner has caught up, and stateless
tasks, move immediately. At most max.warmup.replicas warm-ups restore at a time, including the warm-ups of the wrapped
assignor. Warm-ups in progress come first. Next come the new warm-ups for tasks of drained clients, because an
operator waits for the end of the drain.
"""

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
"""If a task stays on a drained client for now, the wrapped assignor's decisions of these kinds are still true."""


_WarmUp = tuple[ProcessId, TaskId]


@dataclass(eq=False)
class DrainingAssignor:
    """Wraps an assignor, and moves the tasks of drained processes and members away. `processes`: the drained processes.
    `members`: the drained members. `away`: the processes that get no new tasks.
    """

    _assignor: TaskAssignor
    _processes: frozenset[ProcessId]
    _members: frozenset[str]
    _away: frozenset[ProcessId]

    def __post_init__(self) -> None:
        self.name = self._assignor.name

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Places the tasks on the clients that are not drained. If every client is drained or away, the drain is
        ignored, because some client has to run the tasks.
        """
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
            return placed  # `validate_placement` raises an error for this placement
        return _Draining(problem, left, frozenset(present), placed, inner_log).placement(log)

    def _clients_left(self, problem: PlacementProblem) -> dict[ProcessId, PlacementClient]:
        """Returns the clients that are not drained. Removes the drained threads of the returned clients."""
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
    """A placement with drained clients. `left`: the clients that are not drained. `present`: the clients that are
    neither drained nor away. `placed`: the placement of the wrapped assignor. `log`: the decisions of the wrapped
    assignor.
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
                continue  # an assignor of the public interface may leave a task unassigned
            if task not in self._stateful or self._is_caught_up(owner, task):
                self._log_decision(DecisionKind.DRAIN_MOVES, task, owner, runner)
                continue
            # an assignor that ignores lags may have ignored a caught-up client
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
        """Returns the running tasks of drained clients, each with its client. If several drained clients report a task,
        the result contains the first caught-up client, or else the first client that reports the task.
        """
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
        """Keeps tasks on drained clients until their next owners have caught up. `waits`: for each waiting task, the
        drained client that runs the task, and the next owner of the task.
        """
        if not waits:
            return
        for task, runner, _ in waits:
            for process in self.left:
                if task in copies.warm_ups[process]:
                    copies.drop_standby(process, task)  # of a waiting task, only the next owner may have a warm-up
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
        """Returns the warm-ups that may restore now, at most max.warmup.replicas. Warm-ups in progress come first.
        New warm-ups in `wanted` come before new warm-ups in `others`. `wanted`: the warm-ups for running tasks of
        drained clients. `others`: all other warm-ups.
        """
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
        """Returns the wrapped assignor's decisions that are still true."""
        kept = DecisionLog()
        for step in self.log:
            if step.task in self.redecided and step.role is Role.ACTIVE and step.kind not in _WHERE_IT_BELONGS:
                continue
            warms_up = step.process is not None and step.task in copies.warm_ups.get(step.process, ())
            if step.kind is DecisionKind.WARM_UP and not warms_up:
                step = step._replace(kind=DecisionKind.WARM_UP_BUDGET_SPENT)
            kept.append(step)
        return kept
