"""Formats the reason for the placement of a task as one clause about the decisive step. `assignor.explain` has a text
for every step. In a history, all tasks with the same reason share one clause.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from assignor.clients.client_state import is_caught_up
from assignor.explain import Explanation, rack_reason, reason_in_full, traffic_there
from assignor.names.short_names import ShortNames
from assignor.task_assignors.base import PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, Role, TaskId
from rebalance_analysis.history import TaskRebalance
from rebalance_analysis.presentation.moves import ChangeTitle, active_process, places
from rebalance_analysis.presentation.quantities import lag_text
from rebalance_analysis.presentation.rebalances import SEPARATOR, FactRow, led_by

LAG = "\0"
"""The placeholder for a number of records in the template of a reason."""

ROUND_ROBIN = "(round robin"
"""If a task was placed by round robin, the reason contains a remark that begins with this text. `with_terms_explained`
searches the reason for this text.
"""

_ROUND_ROBIN_EXPLAINED = (
    "round robin: in each rebalance, HighAvailabilityTaskAssignor deals the tasks with state out anew, one to each "
    "instance in turn, in the order of process ids"
)

NameProcess = Callable[[ProcessId | None], str]


class ShortReason(NamedTuple):
    """A reason as one clause. `template`: the clause, with the placeholder LAG in place of each number. If the reasons
    of two tasks differ only in numbers, the tasks can share a row. `lags`: the numbers that the placeholders stand for.
    """

    template: str
    lags: tuple[int, ...] = ()

    def __str__(self) -> str:
        return with_lags(self.template, [self.lags])


def with_lags(template: str, lags: Sequence[tuple[int, ...]]) -> str:
    """Fills the numbers into the template of a reason. `lags`: the numbers of each task that has this reason. Numbers
    that differ are shown as a range.
    """
    parts = template.split(LAG)
    text = parts[0]
    for column, part in enumerate(parts[1:]):
        found = [each[column] for each in lags]
        low, high = min(found), max(found)
        text += f"{low:,}{part}" if low == high else f"{low:,} to {high:,}{part}"
    return text


def full_reason(each: TaskRebalance, names: ShortNames) -> str | None:
    """Returns the reason with every step, as text; None if there is no reason."""
    if each.explanation is None or each.problem is None:
        return each.reason
    return reason_in_full(each.explanation, each.problem, names) or None


def reason_sentences(each: TaskRebalance, names: ShortNames) -> list[str]:
    """Returns a sentence for each step of the reason; empty if the rebalance did not place the task. The name of an
    instance at the begin of a sentence keeps its small letter.
    """
    reason = full_reason(each, names)
    begins = () if each.problem is None else tuple(f"{names.short(process)} " for process in each.problem.clients)
    return [
        f"{part}." if part.startswith(begins) else f"{part[:1].upper()}{part[1:]}."
        for part in ([] if reason is None else reason.split("; "))
    ]


def decided_elsewhere(each: TaskRebalance) -> str:
    return f"another leader decided so{led_by(each.facts)}; this program would not have"


def reason_for(each: TaskRebalance, change: ChangeTitle, names: ShortNames) -> ShortReason:
    """Returns the reason for the change of a task as one clause; empty if the assignor recorded no step for it."""
    explanation, problem = each.explanation, each.problem
    if each.differs:
        return ShortReason(decided_elsewhere(each))
    if explanation is None or problem is None or change is ChangeTitle.STAYS:
        return ShortReason("")
    if change is ChangeTitle.HANDED_OVER and active_process(each.before) == active_process(each.copies):
        return ShortReason("its owner has given it up")
    if change is ChangeTitle.THREAD:
        return ShortReason("the tasks of an instance are balanced over its threads")
    of_standbys = change in (ChangeTitle.STANDBYS, ChangeTitle.WARM_UP, ChangeTitle.NO_WARM_UP)
    if of_standbys and explanation.target in (None, active_process(each.copies)):
        before, now = places(each.before), places(each.copies)
        gone = {process for _, process in before} - {process for _, process in now}
        new = frozenset(process for _, process in now - before)
        return ShortReason(standby_reason(explanation, new, names.short) or _lost(each, gone, names))
    return short_reason(explanation, problem, names.short) or ShortReason("")


def _lost(each: TaskRebalance, gone: set[ProcessId], names: ShortNames) -> str:
    """Returns the reason why processes have lost their copies of a task; empty if the reason is not known. `gone`: the
    processes that lost their copies.
    """
    clients = {} if each.problem is None else each.problem.clients
    steps = () if each.explanation is None else each.explanation.steps
    left = sorted(names.short(process) for process in gone if process not in clients)
    if left:
        return f"{' and '.join(left)}, which had a copy, {'is' if len(left) == 1 else 'are'} gone"
    waiting = {step.process for step in steps if step.kind is DecisionKind.WARM_UP_BUDGET_SPENT}
    wait = sorted(names.short(process) for process in gone & waiting)
    return f"others warm up first (max.warmup.replicas): {' and '.join(wait)} waits for its turn" if wait else ""


def with_terms_explained(rows: Iterable[FactRow]) -> Iterator[FactRow]:
    """Yields the rows. If a row has the term "round robin", yields a row at the end that explains this term."""
    explains_round_robin = False
    for row in rows:
        explains_round_robin |= ROUND_ROBIN in row.text
        yield row
    if explains_round_robin:
        yield SEPARATOR
        yield FactRow(_ROUND_ROBIN_EXPLAINED)


def short_reason(explanation: Explanation, problem: PlacementProblem, name: NameProcess) -> ShortReason | None:
    """Returns the reason why the active copy is on its process; None if the assignor recorded no reason."""
    steps = {step.kind: step for step in explanation.steps if step.role is Role.ACTIVE and step.process is not None}
    reason = _Reason(explanation, problem, name)
    belongs = reason.belonging(steps)
    runs = reason.running(steps)
    clauses = [clause for clause in (belongs, runs) if clause]
    return reason.made(", ".join(clauses)) if clauses else None


def standby_reason(explanation: Explanation, hosts: frozenset[ProcessId], name: NameProcess) -> str | None:
    """Returns the reason why processes got a new standby or warm-up of a task; None if the reason is not known.
    `hosts`: the processes that got a new copy.
    """
    warming = sorted(
        name(step.process)
        for step in explanation.steps
        if step.kind is DecisionKind.WARM_UP and step.role is Role.STANDBY and step.process in hosts
    )
    if warming:
        return f"{' and '.join(warming)} restores its state, to have a standby of it"
    found = sorted(
        name(step.process)
        for step in explanation.steps
        if step.role is Role.STANDBY and step.process in hosts and step.kind in _STANDBY_TARGETS
    )
    return f"a standby of it belongs on {' and '.join(dict.fromkeys(found))}" if found else None


def missing_standbys(explanation: Explanation) -> int:
    """Returns the number of configured standbys (num.standby.replicas) that were not placed. A standby is not placed if
    no client is left for another copy of the task.
    """
    return sum(step.detail or 0 for step in explanation.steps if step.kind is DecisionKind.NO_STANDBY_HOST)


_STANDBY_TARGETS = frozenset(
    {
        DecisionKind.TARGET,
        DecisionKind.RACK_MOVED,
        DecisionKind.TARGET_NEW,
        DecisionKind.TARGET_MOVED,
        DecisionKind.TARGET_PINNED,
    }
)


_NAMES_ITS_TARGET = frozenset(
    {
        DecisionKind.DRAIN_WAITS,
        DecisionKind.DRAIN_MOVES,
        DecisionKind.KEPT_OWNED,
        DecisionKind.AWAY_PASSED_OVER,
        DecisionKind.AWAY_KEEPS,
    }
)


class _Reason:
    """Makes the clauses of the reason for the placement of one task."""

    def __init__(self, explanation: Explanation, problem: PlacementProblem, name: NameProcess) -> None:
        self._task: TaskId = explanation.task
        self._previous = explanation.previous
        self._of_target = {step.kind for step in explanation.steps if step.process == explanation.target}
        self._target = explanation.target
        self._problem = problem
        self._name = name

    def made(self, text: str) -> ShortReason:
        """Makes a ShortReason from a text. In the text, a NUL character stands before and after each lag. In the
        template of the reason, placeholders replace the lags. The field `lags` of the reason has the lags.
        """
        parts = text.split(LAG)
        return ShortReason(LAG.join(parts[::2]), tuple(int(number) for number in parts[1::2]))

    def belonging(self, steps: Mapping[DecisionKind, Decision]) -> str:
        """Returns the clause about the process that will run the task when all processes have caught up."""
        moved = steps.get(DecisionKind.RACK_MOVED)
        if moved is not None:
            return f"it belongs on {self._name(moved.process)}, {rack_reason(moved, self._problem)}"
        for kind, clause in _BELONGS:
            step = steps.get(kind)
            if step is not None:
                traffic = traffic_there(step) if kind in _CHOSEN else ""
                return clause.format(process=self._name(step.process), other=self._name(step.other)) + traffic
        return ""

    def running(self, steps: Mapping[DecisionKind, Decision]) -> str:
        """Returns the clause about the process that runs the task for now, until another process has caught up."""
        for kind, words in _RUNS:
            step = steps.get(kind)
            if step is not None:
                text = words.format(
                    process=self._name(step.process),
                    other=self._name(step.other),
                    taker=self._with_lag(step.process),
                    other_lag=self._in_brackets(step.other),
                    next=self._next(step),
                    why_kept=self._why_kept(step),
                    runs="keeps it" if step.process in self._previous else "runs it",
                    takes_over="keeps it" if step.process in self._previous else "has a standby and takes over",
                )
                is_all = step.process == self._target or step.kind in _NAMES_ITS_TARGET
                return text if is_all else f"{text}{self._meanwhile()}"
        return ""

    def _next(self, step: Decision) -> str:
        if step.other == self._target and DecisionKind.WARM_UP_BUDGET_SPENT in self._of_target:
            return f"{self._with_lag(step.other)} has had its turn to warm up (max.warmup.replicas)"
        return f"{self._with_lag(step.other)} has caught up"

    def _why_kept(self, step: Decision) -> str:
        if step.process in self._previous:
            return f"{self._name(step.process)} runs it already"
        lag = self._lag(step.process)
        if lag is not None and is_caught_up(lag, self._problem.configs.acceptable_recovery_lag):
            return f"{self._name(step.process)} is caught up{self._in_brackets(step.process)}"
        return f"nobody is more caught up{self._in_brackets(step.process)}"

    def _meanwhile(self) -> str:
        if DecisionKind.WARM_UP in self._of_target:
            return f" while {self._name(self._target)} warms up"
        if DecisionKind.WARM_UP_BUDGET_SPENT in self._of_target:
            return f", and {self._name(self._target)} waits for its turn to warm up (max.warmup.replicas)"
        return ""

    def _with_lag(self, process: ProcessId | None) -> str:
        return f"{self._name(process)}{self._in_brackets(process)}"

    def _in_brackets(self, process: ProcessId | None) -> str:
        lag = self._lag(process)
        if lag is None or lag == LATEST_OFFSET:
            return ""
        return f" ({lag_text(lag)})" if lag == UNKNOWN_OFFSET_SUM else f" (lag {LAG}{lag}{LAG})"

    def _lag(self, process: ProcessId | None) -> int | None:
        client = None if process is None else self._problem.clients.get(process)
        return None if client is None or self._task not in client.lags else client.lags.lag_for(self._task)


_BELONGS: tuple[tuple[DecisionKind, str], ...] = (
    (DecisionKind.STATELESS, "it has no state, and {process} has the lowest load per thread"),
    (DecisionKind.PIN_SET_ASIDE, "no instance can keep its pins, and {process} gets it anyway"),
    (DecisionKind.TARGET_PINNED, "a pin keeps it off {other}, so it belongs on {process}"),
    (DecisionKind.TARGET_MOVED, "{other} has more than its share, so it belongs on {process}"),
    (DecisionKind.TARGET_KEPT, "it belongs on {process}, which has it and no more than its share"),
    (DecisionKind.TARGET_NEW, "no caught-up instance runs it, so it belongs on {process}"),
    (DecisionKind.BALANCED, f"it belongs on {{process}} {ROUND_ROBIN}, balanced over threads)"),
    (DecisionKind.TARGET, f"it belongs on {{process}} {ROUND_ROBIN})"),
    (DecisionKind.PREVIOUS_ACTIVE, "{process} had it active"),
    (DecisionKind.PREVIOUS_STANDBY, "{process} had a standby of it"),
    (DecisionKind.LEAST_LOADED, "{process} has the most room for it"),
)
"""The texts of `_Reason.belonging` for each kind of decision. If the assignor made decisions of several kinds, the
first kind in this list is used.
"""

_RUNS: tuple[tuple[DecisionKind, str], ...] = (
    (DecisionKind.AWAY_KEEPS, "but it waits for {process}, which is away"),
    (DecisionKind.AWAY_PASSED_OVER, "but {taker} runs it, because {other} is away"),
    (DecisionKind.KEPT_OWNED, "{process} runs it, and this rebalance moves nothing that runs"),
    (DecisionKind.DRAIN_WAITS, "but {process} is drained and runs it until {next}"),
    (DecisionKind.DRAIN_MOVES, "and {taker} takes it over from {other}, which is drained"),
    (DecisionKind.KEPT, "and {why_kept}"),
    (DecisionKind.SWAPPED, "but {other} is behind{other_lag}: {taker} {takes_over}"),
    (DecisionKind.MOVED_TO_CAUGHT_UP, "but {other} is behind{other_lag}: {taker} {runs}"),
    (DecisionKind.MOVED_TO_MOST_CAUGHT_UP, "but {other} is behind{other_lag}: {taker}, the most caught up, {runs}"),
    (DecisionKind.HANDED_OVER, "and {taker} is caught up"),
    (DecisionKind.WAITS, "but {other}{other_lag} has to catch up first"),
)
"""The texts of `_Reason.running` for each kind of decision. If the assignor made decisions of several kinds, the first
kind in this list is used.
"""

_CHOSEN = (DecisionKind.TARGET_MOVED, DecisionKind.TARGET_NEW)
