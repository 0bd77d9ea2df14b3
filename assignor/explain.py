"""Explains for one rebalance why each task was placed on its client. The explanation lists the decisions that placed
the task, as data and as one line of text.

The explanations are made from the log of decisions (`task_assignors/decisions.py`) and from the lags in the input of
the task assignor. The code that makes a decision also writes the decision to the log. Kafka has no counterpart: its
leader does not record its reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from assignor.clients.client_state import is_caught_up
from assignor.names.short_names import ShortNames, called
from assignor.pipeline.snapshot import RebalanceResult
from assignor.recording.documents import document_of, document_of_fields
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, Role, TaskId

_TARGET_KINDS = frozenset(
    {
        DecisionKind.TARGET,
        DecisionKind.BALANCED,
        DecisionKind.TARGET_KEPT,
        DecisionKind.TARGET_MOVED,
        DecisionKind.TARGET_PINNED,
        DecisionKind.TARGET_NEW,
    }
)
"""The kinds of decisions that set the target of a task. If a task has several decisions of these kinds, the last
decision counts.
"""

CAUGHT_UP_SHOWN = 5
"""The text of an explanation names at most this number of caught-up clients. The field `caught_up` of an explanation
contains all caught-up clients.
"""


class ActiveOutcome(StrEnum):
    """The outcome of a rebalance for the active copy of a task. If several outcomes apply, the first of them in this
    class is used.
    """

    WAITING_FOR_REVOCATION = "waiting for revocation"
    WARM_UP = "warm-up"
    WARM_UP_BUDGET_SPENT = "warm-up budget spent"
    STARTED = "started"
    MOVED = "moved"
    KEPT = "kept"


class Copy(NamedTuple):
    """A copy of a task after the rebalance. `consumer`: the member id of the thread; None if tasks were not assigned to
    threads. `held_back`: True if `consumer` gets the task only after the task's owner has revoked it.
    """

    role: Role
    process: ProcessId
    consumer: str | None = None
    held_back: bool = False


class ClientLag(NamedTuple):
    """The lag of a client on a task. `lag`: a number of records; LATEST_OFFSET for a running active task."""

    process: ProcessId
    lag: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one task in one rebalance.

    `previous`: the processes on which the task was active; several only if members contradict each other. `target`: the
    process that should run the task when every client is caught up; None if the assignor has no targets. `caught_up`:
    the clients whose lag on the task is within acceptable.recovery.lag; empty for a stateless task. `steps`: the
    decisions about the task, in order. `text`: the whole explanation in one line.
    """

    task: TaskId
    stateful: bool
    outcome: ActiveOutcome
    copies: tuple[Copy, ...]
    previous: tuple[ProcessId, ...]
    target: ProcessId | None
    caught_up: tuple[ClientLag, ...]
    steps: tuple[Decision, ...]
    text: str


def explain_rebalance(result: RebalanceResult, task: TaskId | None = None) -> Iterator[Explanation]:
    """Yields one explanation for each task, in order. If `task` is given, yields only the explanation of `task`. Yields
    nothing if the rebalance placed no task.
    """
    if result.problem is not None and result.placement is not None:
        yield from explain_placement(result.problem, result.placement, result.decisions, task)


def explain_placement(
    problem: PlacementProblem, placement: Placement, decisions: Sequence[Decision], task: TaskId | None = None
) -> Iterator[Explanation]:
    """Yields the explanations of a placement, as `explain_rebalance` does for a rebalance. The explanations of a
    placement name no threads, because a placement has no threads.
    """
    steps: dict[TaskId, list[Decision]] = {}
    for decision in decisions:
        if task is None or decision.task == task:
            steps.setdefault(decision.task, []).append(decision)
    copies = _copies(placement, task)
    previous = _previous_active(problem, task)
    caught_up = _CaughtUp(problem)
    stateful = frozenset(problem.stateful_tasks)
    names = _Names(problem)
    for each in sorted(problem.tasks):
        if task is not None and each != task:
            continue
        is_stateful, decided = each in stateful, tuple(steps.get(each, ()))
        placed = tuple(_with_thread(copy, decided) for copy in copies.get(each, []))
        owners = tuple(sorted(previous.get(each, ())))
        clients = caught_up.clients(each) if is_stateful else ()
        outcome = _outcome(placed, owners, decided)
        where = ", ".join(_copy_text(copy, names) for copy in placed) or "nowhere"
        why = _why(clients if is_stateful else None, decided, names)
        text = f"{each} {outcome}: {where}{f' – {why}' if why else ''}"
        yield Explanation(each, is_stateful, outcome, placed, owners, _target(decided), clients, decided, text)


def reason_in_full(explanation: Explanation, problem: PlacementProblem, names: ShortNames) -> str:
    """Returns all steps of the explanation as text, with the process names of `names`. The text is empty if no decision
    was logged.
    """
    return _why(explanation.caught_up if explanation.stateful else None, explanation.steps, _Names(problem, names))


def explanation_document(explanation: Explanation) -> dict[str, object]:
    """Returns the explanation as JSON, for `output.explanations` of rebalance/1 and for `--format json`."""
    return {
        **document_of_fields(explanation, "task", "stateful", "outcome", "copies", "previous", "target", "caught_up"),
        "steps": [_step_document(step) for step in explanation.steps],
        "text": explanation.text,
    }


def _step_document(step: Decision) -> dict[str, object]:
    fields = zip(step._fields, step, strict=True)
    return {name: document_of(value) for name, value in fields if name != "task" and value is not None}


def _target(steps: Sequence[Decision]) -> ProcessId | None:
    """Returns the target of the active copy. A RACK_MOVED decision changes the target only if the task already has a
    target. Assignors without targets log RACK_MOVED as well.
    """
    target: ProcessId | None = None
    for step in steps:
        is_target = step.kind in _TARGET_KINDS or (step.kind is DecisionKind.RACK_MOVED and target is not None)
        if step.role is Role.ACTIVE and is_target:
            target = step.process
    return target


def _outcome(copies: Sequence[Copy], previous: Sequence[ProcessId], steps: Sequence[Decision]) -> ActiveOutcome:
    kinds = {step.kind for step in steps}
    active = next((copy for copy in copies if copy.role is Role.ACTIVE), None)
    if active is not None and active.held_back:
        return ActiveOutcome.WAITING_FOR_REVOCATION
    if DecisionKind.WARM_UP in kinds:
        return ActiveOutcome.WARM_UP
    if DecisionKind.WARM_UP_BUDGET_SPENT in kinds:
        return ActiveOutcome.WARM_UP_BUDGET_SPENT
    if not previous:
        return ActiveOutcome.STARTED
    return ActiveOutcome.KEPT if active is not None and active.process in previous else ActiveOutcome.MOVED


def _copies(placement: Placement, task: TaskId | None) -> dict[TaskId, list[Copy]]:
    copies: dict[TaskId, list[Copy]] = {}
    for process, client in sorted(placement.clients.items()):
        for each in client.active if task is None else client.active & {task}:
            copies.setdefault(each, []).insert(0, Copy(Role.ACTIVE, process))
        for each in client.standby if task is None else client.standby & {task}:
            role = Role.WARM_UP if each in client.warm_ups else Role.STANDBY
            copies.setdefault(each, []).append(Copy(role, process))
    return copies


def _with_thread(copy: Copy, steps: Sequence[Decision]) -> Copy:
    held_back = False
    consumer: str | None = None
    for step in steps:
        if step.process != copy.process:
            continue
        if step.kind in (DecisionKind.THREAD_PREVIOUS_OWNER, DecisionKind.THREAD_BALANCED):
            consumer = step.consumer
        elif step.kind is DecisionKind.WAITING_FOR_REVOCATION and copy.role is Role.ACTIVE:
            held_back = True
    return copy._replace(consumer=consumer, held_back=held_back)


def _previous_active(problem: PlacementProblem, task: TaskId | None) -> dict[TaskId, list[ProcessId]]:
    previous: dict[TaskId, list[ProcessId]] = {}
    for process, client in problem.clients.items():
        for each in client.previous_active if task is None else client.previous_active & {task}:
            previous.setdefault(each, []).append(process)
    return previous


class _CaughtUp:
    """Finds the caught-up clients of tasks. Most clients report only a few tasks, so the reported lags are collected
    once, client by client.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        self._acceptable = problem.configs.acceptable_recovery_lag
        self._problem = problem
        self._reporting: dict[TaskId, list[ClientLag]] = {}
        for process, client in sorted(problem.clients.items()):
            for task, lag in client.lags.reported.items():
                self._reporting.setdefault(task, []).append(ClientLag(process, lag))

    def clients(self, task: TaskId) -> tuple[ClientLag, ...]:
        default = next((client.lags.unreported.get(task) for client in self._problem.clients.values()), None)
        if default is not None and is_caught_up(default, self._acceptable):
            known = {client.process: client.lag for client in self._reporting.get(task, ())}
            everyone = (ClientLag(process, known.get(process, default)) for process in sorted(self._problem.clients))
            return tuple(client for client in everyone if is_caught_up(client.lag, self._acceptable))
        reporting = self._reporting.get(task, ())
        return tuple(client for client in reporting if is_caught_up(client.lag, self._acceptable))


def _why(caught_up: Sequence[ClientLag] | None, steps: Sequence[Decision], names: _Names) -> str:
    known = [] if caught_up is None else [_caught_up_text(caught_up, names)]
    return "; ".join([*known, *(_step_text(step, names) for step in steps)])


def _caught_up_text(caught_up: Sequence[ClientLag], names: _Names) -> str:
    shown = [f"{names.process(client.process)}{_lag_phrase(client.lag)}" for client in caught_up[:CAUGHT_UP_SHOWN]]
    if len(caught_up) > CAUGHT_UP_SHOWN:
        shown.append(f"and {len(caught_up) - CAUGHT_UP_SHOWN} more")
    return f"caught up: {', '.join(shown) or 'nobody'}"


def _copy_text(copy: Copy, names: _Names) -> str:
    thread = "" if copy.consumer is None else f" ({called(copy.consumer)})"
    return f"{copy.role} on {names.process(copy.process)}{thread}{', not handed out yet' if copy.held_back else ''}"


_PHRASES: Mapping[DecisionKind, str] = {
    DecisionKind.TARGET: "{role} belongs on {process} by round robin",
    DecisionKind.BALANCED: "balanced over threads: {role} goes from {other} to {process}",
    DecisionKind.RACK_MOVED: "{role} moves from {other} to {process}",
    DecisionKind.NO_STANDBY_HOST: "{detail} standby replicas find no client",
    DecisionKind.KEPT: "{role} {stays with} {process}{lag}, nobody is more caught up",
    DecisionKind.SWAPPED: "{process}{lag} is caught up and becomes active, {other}{other_lag} its standby",
    DecisionKind.MOVED_TO_CAUGHT_UP: "{role} {stays with} caught-up {process}{lag} instead of {other}{other_lag}",
    DecisionKind.MOVED_TO_MOST_CAUGHT_UP: (
        "{role} {stays with} most caught-up {process}{lag} instead of {other}{other_lag}"
    ),
    DecisionKind.WARM_UP: "{process}{lag} warms up meanwhile",
    DecisionKind.WARM_UP_BUDGET_SPENT: "{process}{lag} has to wait: max.warmup.replicas is used up",
    DecisionKind.NOWHERE_TO_MOVE: "{role} {stays with} {process}{lag}, every better client already has a copy",
    DecisionKind.STATELESS: "stateless, {process} has the lowest load per thread",
    DecisionKind.TARGET_KEPT: "{role} belongs on {process}, which has it and no more than its share",
    DecisionKind.TARGET_MOVED: "{other} has more than its share: {role} should go to {process}",
    DecisionKind.TARGET_PINNED: "a pin keeps it off {other}: {role} should go to {process}",
    DecisionKind.TARGET_NEW: "no caught-up client runs it: {role} belongs on {process}",
    DecisionKind.PIN_SET_ASIDE: "no client can keep its pins; {process} gets the {role} anyway",
    DecisionKind.HANDED_OVER: "{role} goes from {other}{other_lag} to {process}{lag}",
    DecisionKind.WAITS: "{role} stays with {process}{lag} until {other}{other_lag} has caught up",
    DecisionKind.NO_STATE: "it has no state to wait for",
    DecisionKind.PREVIOUS_ACTIVE: "{process} had it active",
    DecisionKind.PREVIOUS_STANDBY: "{process} had a standby",
    DecisionKind.LEAST_LOADED: "{process} has the most room for the {role}",
    DecisionKind.DRAIN_SET_ASIDE: "every instance is drained, so none is: somebody has to run it",
    DecisionKind.DRAIN_MOVES: "{other} is drained: it goes to {process}{lag}",
    DecisionKind.DRAIN_WAITS: "{process} is drained, and runs it until {other}{other_lag} has caught up",
    DecisionKind.KEPT_OWNED: "{process} runs it, and this rebalance moves nothing that runs",
    DecisionKind.AWAY_PASSED_OVER: "{other} is away and gets nothing new: {role} {stays with} {process}{lag}",
    DecisionKind.AWAY_KEEPS: "{process} is away, and what it had waits for it: {role} does not go to {other}",
    DecisionKind.THREAD_PREVIOUS_OWNER: "of the threads, {consumer} had the {role}",
    DecisionKind.THREAD_BALANCED: "balanced over threads: {consumer} had room for the {role}",
    DecisionKind.WAITING_FOR_REVOCATION: "{consumer} waits until {other_consumer} gives it up",
    DecisionKind.TEMPORARY_STANDBY: "{consumer} keeps its state open as a standby until then",
}


def _phrase(step: Decision, problem: PlacementProblem) -> str:
    if step.kind is DecisionKind.TARGET and step.role is not Role.ACTIVE:
        return "{role} is meant for {process}"
    if step.kind is DecisionKind.TARGET_NEW and step.role is not Role.ACTIVE:
        return "one more {role} is wanted: it belongs on {process}"
    if step.kind in (DecisionKind.TARGET_NEW, DecisionKind.TARGET_MOVED):
        return f"{_PHRASES[step.kind]}{traffic_there(step)}"
    if step.kind is DecisionKind.KEPT and _is_caught_up(problem, step):
        return "{role} {stays with} {process}{lag}, which is caught up"
    if step.kind is DecisionKind.NO_STANDBY_HOST and step.detail == 1:
        return "1 standby replica finds no client"
    if step.kind is DecisionKind.RACK_MOVED:
        return f"{_PHRASES[step.kind]}, {rack_reason(step, problem)}"
    if step.kind is DecisionKind.LEAST_LOADED and step.other is not None:
        return "{process} has the most room for the {role}; {other}, which had it, is full"
    return _PHRASES[step.kind]


def rack_reason(step: Decision, problem: PlacementProblem) -> str:
    """Returns the reason why a rack-aware strategy has moved a copy. A rack-aware strategy only swaps copies, so each
    client keeps its number of tasks. When one copy moves to save traffic, another copy moves in return, usually to make
    room.
    """
    saved = step.detail or 0
    if saved > 0:
        return f"because it saves reading {saved} partition{'s' if saved > 1 else ''} across racks"
    if problem.configs.rack_aware_assignment_strategy == "balance_subtopology" and step.role is Role.ACTIVE:
        return "to spread its subtopology, or to make room for a task that is read across racks otherwise"
    return "to make room for a task that is read across racks otherwise"


def traffic_there(step: Decision) -> str:
    """Returns text about the cross-rack reads of the client that MinimalMovementTaskAssignor chose. The text is empty
    without a rack-aware strategy.
    """
    if step.detail is None:
        return ""
    return f", which reads {step.detail or 'no'} partition{'' if step.detail == 1 else 's'} of it across racks"


def _is_caught_up(problem: PlacementProblem, step: Decision) -> bool:
    client = None if step.process is None else problem.clients.get(step.process)
    if client is None or step.task not in client.lags:
        return False
    return is_caught_up(client.lags.lag_for(step.task), problem.configs.acceptable_recovery_lag)


def _had_it(problem: PlacementProblem, step: Decision) -> bool:
    """True if the process of the decision already had the copy. The text of a decision contains "stays with" if the
    process already had the copy, otherwise "goes to".
    """
    client = None if step.process is None else problem.clients.get(step.process)
    if client is None:
        return False
    return step.task in (client.previous_active if step.role is Role.ACTIVE else client.previous_standby)


def _step_text(step: Decision, names: _Names) -> str:
    phrase = _phrase(step, names.problem)
    stays = "stays with" if _had_it(names.problem, step) else "goes to"
    return phrase.replace("{stays with}", stays).format(
        role=step.role,
        process=names.process(step.process),
        other=names.process(step.other),
        consumer=names.consumer(step.consumer),
        other_consumer=names.consumer(step.other_consumer) or "its owner",
        detail=step.detail,
        lag=_lag_text(names.problem, step.process, step.task),
        other_lag=_lag_text(names.problem, step.other, step.task),
    )


class _Names:
    """A placement problem, and the names of its processes in the text of explanations."""

    def __init__(self, problem: PlacementProblem, names: ShortNames | None = None) -> None:
        self.problem = problem
        self._names = names
        self.process = (ShortNames(problem.clients) if names is None else names).short

    def consumer(self, member: str | None) -> str:
        """Returns the name of the instance and its thread, such as `orders thread 2`. Returns the member id if no names
        are given, and if the client id does not have the number of the thread.
        """
        if self._names is not None:
            clients = self.problem.clients.items()
            process = next((process for process, client in clients if member in client.consumers), None)
            thread = self._names.thread(process, member)
            if thread.startswith("thread "):
                return f"{self.process(process)} {thread}"
        return called(member)


def _lag_text(problem: PlacementProblem, process: ProcessId | None, task: TaskId) -> str:
    client = None if process is None else problem.clients.get(process)
    if client is None or task not in client.lags:
        return ""
    return _lag_phrase(client.lags.lag_for(task))


def _lag_phrase(lag: int) -> str:
    if lag == LATEST_OFFSET:
        return " (running it)"
    return " (lag unknown)" if lag == UNKNOWN_OFFSET_SUM else f" (lag {lag})"
