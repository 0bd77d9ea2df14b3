"""Computations for the page: a group's history, comparisons, and forecasts of changes.

Each function of this module runs in a worker process. The results are equal to the results of `assignor diff`,
`what-if` and `simulate`, because the commands call the same functions.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from assignor.clients.client_state import is_caught_up
from assignor.errors import AssignorFault
from assignor.names.short_names import InstanceNames
from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from assignor.types import UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from coordinator_api.http.computations import group_size, most_rounds, own_assignors
from coordinator_api.runtime.allowed_assignors import allowed_here
from coordinator_api.runtime.definitions import DocumentBounds, check_size
from coordinator_api.store.recorded_documents import expanded
from rebalance_analysis.history import (
    PastRebalance,
    TaskChange,
    TaskHistory,
    TaskRebalance,
    group_history,
    processes_in,
    task_history,
)
from rebalance_analysis.history.triggers import ProcessView
from rebalance_analysis.presentation.history_documents import history_document
from rebalance_analysis.presentation.history_rows import task_summary_rows
from rebalance_analysis.presentation.moves import copies_text, copy_row, waiting_text
from rebalance_analysis.presentation.reasons import full_reason, reason_sentences
from rebalance_analysis.presentation.rebalances import triggers_text
from rebalance_analysis.reading.task_owners import owner_moves, owners_in, tasks_of
from rebalance_analysis.rerun import LoadOwn, RerunRebalance, run_recorded
from rebalance_analysis.simulate import ForecastModel, forecast, forecast_document
from rebalance_analysis.what_if import changed, changes_from_document, difference, difference_document

Stored = tuple[int, bytes]
"""The generation of a recorded rebalance, and the rebalance in its stored form."""

MOST_CANDIDATES = 20
_UNCHANGED = frozenset({TaskChange.STAYED, TaskChange.ABSENT})


def history_of_group(
    group_id: str, stored: tuple[Stored, ...], before: Stored | None, classes: tuple[str, ...]
) -> dict[str, object]:
    """Returns the history of the rebalances, in the same form as `assignor explain`. In addition, each rebalance has a
    field `words` that describes its triggers in words.

    `stored`: the rebalances, oldest first. `before`: the rebalance before `stored`, for the comparison with the first
    rebalance of `stored`. None if there is no earlier rebalance. Raises InputError.
    """
    load = own_assignors(classes)
    history = group_history((_past(each, load) for each in stored), None if before is None else _past(before, load))
    names = InstanceNames(history.instances)
    document = history_document(group_id, history)
    rounds = document["rounds"]
    assert isinstance(rounds, list)
    for round_, each in zip(rounds, history.rebalances, strict=True):
        round_["words"] = triggers_text(each.facts.triggers, names, None)
    return document


def history_of_task(
    stored: Sequence[Stored], has_more: bool, task: TaskId, classes: tuple[str, ...]
) -> dict[str, object] | None:
    """Returns the history of one task in the last recorded rebalances, newest first. For each rebalance, the history
    has the copies of the task before and after, and the reasons for their places. Returns None if no rebalance has the
    task.

    `stored`: the rebalances, oldest first. `has_more`: True if older rebalances exist. If older rebalances exist, the
    result does not contain the first rebalance of `stored`. The second rebalance of `stored` is compared with this
    first rebalance. `classes`: the class paths of `AllowedAssignors`.
    """
    load, unreadable = own_assignors(classes), 0
    past: list[PastRebalance] = []
    for each in stored:
        try:
            past.append(_past(each, load))
        # this rebalance cannot be run again, for example because its assignor is no longer available
        except AssignorFault:
            unreadable += 1
    before = past.pop(0) if has_more and len(past) > 1 else None
    history = task_history(past, task, before)
    return _history_document(history, unreadable) if history.found else None


def compare_two(before: Stored, after: Stored, classes: tuple[str, ...]) -> dict[str, object]:
    """Compares two rebalances. The result has the moves as in `assignor diff`, the active owner of each task in each
    rebalance, and the names of members. The field `why` has a reason for each moved task: the reason why the later
    rebalance placed the task. The reason is None if the later rebalance did not place the task.

    Raises InputError or DecodeError.
    """
    first, second = _document(before[1]), _document(after[1])
    old, new = owners_in(first), owners_in(second)
    moves = list(owner_moves(old, new))
    later = parse_recorded_rebalance(second)
    processes = [processes_in(each.snapshot) for each in (parse_recorded_rebalance(first), later)]
    names = InstanceNames({process: view.name for each in processes for process, view in each.items()})
    history = group_history([PastRebalance(after[0], _ran(later, own_assignors(classes)))], every_task=True)
    moved = {str(move["task"]) for move in moves}
    tasks = [each for each in history.rebalances[0].task_rebalances if str(each.task) in moved]
    why = {str(each.task): full_reason(each, names) for each in tasks}
    return {
        "tasks": len(tasks_of(old, new)),
        "moves": moves,
        "before": _texts(old.active),
        "after": _texts(new.active),
        "names": {name: text for each in processes for name, text in _member_names(each, names).items()},
        "why": {str(move["task"]): why.get(str(move["task"])) for move in moves},
    }


def _member_names(processes: Mapping[ProcessId, ProcessView], names: InstanceNames) -> dict[str, str]:
    """Returns the name of the instance of each member, with the thread if the instance has several."""
    return {
        member: names.short(process) + (f", {names.thread(process, shown)}" if len(view.members) > 1 else "")
        for process, view in processes.items()
        for member, shown in view.members.items()
    }


def what_if(
    stored: bytes | RecordedRebalance, asked: Mapping[str, object], bounds: DocumentBounds, model: ForecastModel
) -> dict[str, object]:
    """Computes the results of `assignor what-if` and `assignor simulate` for changes of a group. Returns an object with
    the fields `difference`, `forecast` and `names`.

    `stored`: a recording in the stored form, or a rebalance that was made from the present state of the group. `asked`:
    the changes, as the document of a `Changes`. Raises InputError, DecodeError or AssignorNotListed.
    """
    recorded = stored if isinstance(stored, RecordedRebalance) else parse_recorded_rebalance(_document(stored))
    changes = changes_from_document(asked, "changes")
    after = changed(recorded, changes)
    check_size(after.snapshot, bounds.max_partitions)
    allowed_here(bounds.assignor_classes).check(after.snapshot.assignor)
    load = own_assignors(bounds.assignor_classes)
    before = _ran(recorded, load)
    compared = difference(before, run_recorded(after, load))
    most = most_rounds(group_size(after.snapshot), bounds)
    ahead = forecast(after, model, max_rounds=most, load_own=load, as_recorded=recorded)
    processes = group_history([PastRebalance(recorded.generation_id, before)]).instances
    names = InstanceNames(processes)
    return {
        "difference": difference_document(compared),
        "forecast": forecast_document(ahead, model),
        "names": {str(process): names.short(process) for process in processes},
    }


def held_document(stored: bytes, bounds: DocumentBounds) -> dict[str, object]:
    """Computes the effects of a held rebalance. Returns an object with the fields `difference` and `forecast`. A field
    is None if it cannot be computed. For example, a member has an unknown future version, or a custom assignor is no
    longer available. `stored`: the recording in the stored form.
    """
    recorded = parse_recorded_rebalance(_document(stored))
    return effects(recorded, recorded, bounds)


def effects(before: RecordedRebalance, after: RecordedRebalance, bounds: DocumentBounds) -> dict[str, object]:
    """Computes the effects of the rebalance `after`, compared with a rebalance of `before` that keeps every task in
    place. Returns an object as `held_document` does.
    """
    load, model = own_assignors(bounds.assignor_classes), ForecastModel()
    most = most_rounds(group_size(after.snapshot), bounds)
    steering = replace(before.snapshot.steering, keeps_owned=True)
    kept = replace(before, snapshot=replace(before.snapshot, steering=steering))
    return {
        "difference": _or_none(
            lambda: difference_document(difference(run_recorded(kept, load), run_recorded(after, load)))
        ),
        "forecast": _or_none(lambda: forecast_document(forecast(after, model, max_rounds=most, load_own=load), model)),
    }


def _or_none(compute: Callable[[], dict[str, object]]) -> dict[str, object] | None:
    try:
        return compute()
    except AssignorFault:
        return None


def _ran(recorded: RecordedRebalance, load: LoadOwn) -> RerunRebalance:
    ran = run_recorded(recorded, load)
    assert isinstance(ran, RerunRebalance)
    return ran


def _past(stored: Stored, load: LoadOwn) -> PastRebalance:
    generation, packed = stored
    return PastRebalance(generation, _ran(parse_recorded_rebalance(_document(packed)), load))


def _document(stored: bytes) -> dict[str, Any]:
    document = json.loads(b"".join(expanded(stored)))
    assert isinstance(document, dict)
    return document


def _texts(owners: Mapping[Any, list[str]]) -> dict[str, list[str]]:
    return {str(task): names for task, names in sorted(owners.items())}


def _history_document(history: TaskHistory, unreadable: int) -> dict[str, object]:
    names = InstanceNames(history.instances)
    rounds = []
    for is_unchanged, several in groupby(history.rebalances, key=lambda each: each.change in _UNCHANGED):
        same = list(several)
        rounds += [same] if is_unchanged else [[each] for each in same]
    last, waiting = history.rebalances[-1], history.summary.waiting
    return {
        "rounds": [_round(each, history, names) for each in reversed(rounds)],
        "unreadable": unreadable,
        "rebalances": len(history.rebalances),
        "copies": [copy_row(copy, names) for copy in history.summary.copies],
        # these fields are left out: the page lists the copies itself, and shows the end of the wait as a countdown
        "summary": [
            row for row in task_summary_rows(history.summary, names) if row.label not in ("is now", "waits for")
        ],
        "waits_for": None if waiting is None else waiting_text(waiting._replace(next_round_ms=None), names),
        "next_round_ms": None if waiting is None else waiting.next_round_ms,
        "candidates": _candidates(last, names),
        "steps": reason_sentences(last, names),
        "target": None
        if last.explanation is None or last.explanation.target is None
        else names.short(last.explanation.target),
        "generation_id": last.facts.generation,
        "differs": last.differs,
    }


def _round(same: Sequence[TaskRebalance], history: TaskHistory, names: InstanceNames) -> dict[str, object]:
    """Builds a row of the page. The row stands for one rebalance, or for several successive rebalances that did not
    change the task.
    """
    first, each = same[0], same[-1]
    facts = each.facts
    return {
        "facts": facts,
        "from_generation_id": first.facts.generation,
        "count": len(same),
        "change": str(each.change),
        "trigger": triggers_text(facts.triggers, names, history.task) if len(same) == 1 else None,
        "was": copies_text(each.before, names, lags=False) if each.before else None,
        "copies": [copy_row(copy, names) for copy in each.copies],
        "steps": reason_sentences(each, names) if len(same) == 1 else [],
        "differs": each.differs,
    }


def _candidates(each: TaskRebalance, names: InstanceNames) -> dict[str, object]:
    """Returns the instances with the lags that the assignor got. Instances that got a copy of the task come first,
    sorted by lag. Instances without a copy of the task come last, also sorted by lag.
    """
    problem = each.problem
    if problem is None:
        return {"listed": [], "more": 0}
    roles = {copy.process: copy.role for copy in reversed(each.copies)}
    acceptable = problem.configs.acceptable_recovery_lag
    lags = {
        process: client.lags.lag_for(each.task)
        for process, client in problem.clients.items()
        if each.task in client.lags
    }

    def rank(process: ProcessId) -> tuple[bool, bool, int, str]:
        lag = lags.get(process, 0)
        return process not in roles, lag == UNKNOWN_OFFSET_SUM, lag, names.short(process)

    order = sorted(lags or problem.clients, key=rank)
    return {
        "listed": [
            {
                "instance": names.short(process),
                "lag": lags.get(process),
                "caught_up": process in lags and is_caught_up(lags[process], acceptable),
                "role": str(roles[process]) if process in roles else None,
                "had_it": each.task in problem.clients[process].previous_active,
            }
            for process in order[:MOST_CANDIDATES]
        ],
        "more": max(0, len(order) - MOST_CANDIDATES),
        "acceptable_lag": acceptable,
    }
