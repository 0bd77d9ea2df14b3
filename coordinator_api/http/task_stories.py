"""One task over the last recorded rebalances: where it was and is, and why, rule by rule. For people, in sentences.

Runs in a worker process: each rebalance is run again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from assignor.clients.task_lags import is_caught_up
from assignor.errors import AssignorFault
from assignor.explain import reason_in_full
from assignor.names import InstanceNames
from assignor.rerun import run
from assignor.story import PastRebalance, TaskChange, TaskRebalance, TaskStory, story
from assignor.story.words import copies_text, triggers_text
from assignor.types import ProcessId, TaskId
from coordinator_api.http.computations import own_assignors
from coordinator_api.recorded_documents import expanded

_UNCHANGED = frozenset({TaskChange.STAYED, TaskChange.ABSENT})


def task_story(
    stored: Sequence[bytes], has_more: bool, task: TaskId, classes: tuple[str, ...]
) -> dict[str, object] | None:
    """The story, the newest rebalance first; None when none of them has the task.

    `stored`: as the repository has them, oldest first. `has_more`: the first of them is only what the next one is
    compared with. `classes`: those of `AllowedAssignors`.
    """
    load, unreadable = own_assignors(classes), 0
    past: list[PastRebalance] = []
    for each in stored:
        document = json.loads(b"".join(expanded(each)))
        try:
            past.append(PastRebalance(document["generation_id"], run(document, load)))
        except AssignorFault:  # its assignor is not here any more, say
            unreadable += 1
    before = past.pop(0) if has_more and len(past) > 1 else None
    told = story(past, task, before)
    if not told.found:
        return None
    return _document(told, unreadable)


def _document(told: TaskStory, unreadable: int) -> dict[str, object]:
    names = InstanceNames(told.instances)
    rounds = []
    for is_dull, several in groupby(told.rebalances, key=lambda each: each.change in _UNCHANGED):
        same = list(several)
        rounds += [same] if is_dull else [[each] for each in same]
    last = told.rebalances[-1]
    return {
        "rounds": [_round(each, told, names) for each in reversed(rounds)],
        "unreadable": unreadable,
        "rebalances": len(told.rebalances),
        "summary": told.summary,
        "names": names,
        "candidates": _candidates(last, names),
        "steps": _steps(last, names),
        "target": None
        if last.explanation is None or last.explanation.target is None
        else names.short(last.explanation.target),
        "generation_id": last.facts.generation,
        "differs": last.differs,
    }


def _round(same: Sequence[TaskRebalance], told: TaskStory, names: InstanceNames) -> dict[str, object]:
    """One rebalance, or a row of those in which nothing changed."""
    first, each = same[0], same[-1]
    facts = each.facts
    return {
        "facts": facts,
        "from_generation_id": first.facts.generation,
        "count": len(same),
        "change": str(each.change),
        "trigger": triggers_text(facts.triggers, names, told.task) if len(same) == 1 else None,
        "was": copies_text(each.before, names, lags=False) if each.before else None,
        "copies": each.copies,
        "steps": _steps(each, names) if len(same) == 1 else [],
        "differs": each.differs,
    }


def _steps(each: TaskRebalance, names: InstanceNames) -> list[str]:
    """A sentence for each rule that had a part in it."""
    if each.explanation is None or each.problem is None:
        return []
    return [
        part[:1].upper() + part[1:] + "." for part in reason_in_full(each.explanation, each.problem, names).split("; ")
    ]


MOST_CANDIDATES = 20


def _candidates(each: TaskRebalance, names: InstanceNames) -> dict[str, object]:
    """Instances with the lag that the assignor was given, the nearest first."""
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

    def rank(process: ProcessId) -> tuple[bool, int, int, str]:
        lag = lags.get(process, 0)
        return process not in roles, 1 if lag == -3 else 0, lag, names.short(process)

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
