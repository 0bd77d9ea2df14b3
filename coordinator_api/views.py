"""Converts the documents of HTTP answers to the rows and sentences that the commands and the pages show.

The functions are pure: they use no HTTP, no clock and no templates.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from assignor.names.short_names import names_of_ended
from assignor.types import TaskId
from rebalance_analysis.presentation.comparisons import difference_summary
from rebalance_analysis.presentation.forecasts import verdict
from rebalance_analysis.presentation.moves import copy_changes
from rebalance_analysis.presentation.quantities import count_text, counted, duration_text, listed, task_ranges, utc

TASKS_SHOWN = 500
"""The largest number of moved tasks that a page lists."""

_PLACES_SHOWN = 5

_CAUSES = {
    "member-joined": "a member joined",
    "subscription-changed": "a member's subscription changed",
    "static-member-replaced": "a static member was started again",
    "member-left": "a member left",
    "member-removed": "a member was removed",
    "definition-changed": "the group was declared anew",
    "followup-rebalance": "the rebalance before it asked for a follow-up",
    "probing-rebalance": "a probing rebalance was due",
    "topics-changed": "topics changed",
    "led-elsewhere": "the leader elsewhere did not say why",
    "operator-requested": "an operator asked for it",
    "instance-drained": "an instance is drained",
}
_OUTCOMES = {
    "stable": "nothing more is due",
    "follow-up": "a member has to give up tasks first, so another rebalance follows",
    "probing": "next owners have to catch up, so a probing rebalance is planned",
    "settled": "another rebalance would change nothing",
    "error": "it failed, and members got an error",
    "held": "it waits for approval",
}
_HOLD_ENDS = {
    "approved": "approved by {by}",
    "discarded": "discarded by {by}: every task stayed where it was",
    "time-limit": "carried out when its time limit had passed",
    "hold-ended": "carried out when {by} ended the hold",
    "replaced": "given up, because another rebalance began",
}


def count(number: int | None) -> str:
    """Formats a number as in `12,345`. Returns a dash if the number is not known."""
    return "–" if number is None else count_text(number)


def sentence(text: str) -> str:
    """Returns `text` with a capital letter and a full stop. If the first word contains dots, as the name of a config
    does, this word is not changed.
    """
    begins = text if "." in text.partition(" ")[0] else text[:1].upper() + text[1:]
    return begins if begins.endswith((".", "?", "!")) else f"{begins}."


def reason_details(reason: Mapping[str, Any], age: Callable[[int], str]) -> str:
    """Returns since when, when last and where it happened, as in `since 5m ago, last 3s ago; words-1`. The text is
    empty if nothing is known. `age`: formats the time since a time in milliseconds.
    """
    since_ms, last_ms = reason["since_ms"], reason["last_ms"]
    times = [f"since {age(since_ms)} ago"] if since_ms is not None else []
    times += [f"last {age(last_ms)} ago"] if last_ms is not None and last_ms != since_ms else []
    return "; ".join(part for part in (", ".join(times), reason_places(reason)) if part)


def reason_places(reason: Mapping[str, Any]) -> str:
    """Returns the first places of a reason, such as `words-1, words-2`. Leaves out the place that the reason's text
    names. The result is empty if no place is left, and if the text lists several places itself.
    """
    others = [place for place in reason["where"] if place not in reason["text"]]
    return "" if len(reason["where"]) - len(others) > 1 else listed(others, _PLACES_SHOWN)


def all_places(reason: Mapping[str, Any]) -> Sequence[str]:
    """Returns all places of a reason for a list that unfolds; empty if the text and `reason_places` name all."""
    shown = f"{reason['text']} {reason_places(reason)}"
    return [] if all(place in shown for place in reason["where"]) else reason["where"]


def contains_all(query: str, *texts: str) -> bool:
    """Returns whether each word of the query occurs in at least one of the texts. The comparison ignores case."""
    text = _folded(" ".join(texts))
    return all(word in text for word in _folded(query).split())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def cause_of(reason: str) -> str:
    """The cause of a rebalance in words. `reason`: a value of `RebalanceReason`; any other text is returned
    unchanged.
    """
    return _CAUSES.get(reason, reason)


def outcome_of(outcome: str) -> str:
    """The outcome of a rebalance in words. `outcome`: a value of `RebalanceOutcome`."""
    return _OUTCOMES.get(outcome, outcome)


def hold_text(hold: Mapping[str, Any] | None) -> str:
    """Describes the end of a rebalance's wait for approval, in words. If the rebalance still waits, the text says so.
    `hold`: the JSON object `hold` of a recorded rebalance; None if the rebalance did not wait.
    """
    if hold is None:
        return ""
    if hold["ended"] is None:
        return f"It waits since {utc(hold['since_ms'])}."
    end = _HOLD_ENDS.get(hold["ended"], str(hold["ended"])).format(by=hold["by"] or "somebody")
    why = f", because: {hold['reason']}" if hold["reason"] else ""
    waited = "" if hold["at_ms"] is None else f" It waited {duration_text(hold['at_ms'] - hold['since_ms'])}."
    return f"Held, then {end}{why}.{waited}"


DONE: Mapping[str, str] = {
    "approve": "the rebalance is carried out",
    "discard": "the rebalance is discarded; tasks stay where they are",
    "hold": "rebalances that move tasks now wait for approval",
    "hold-off": "rebalances do not wait any more",
    "drain": "the drain has begun; the table says when it is safe to stop",
    "drain-end": "the drain has ended, and tasks may come again",
    "grace": "tasks of members that leave now wait for them",
    "grace-off": "tasks of members that leave go to others at once",
    "promote": "the next rebalance comes as soon as the warm-ups have caught up",
    "promote-off": "the next rebalance comes at the probing deadline",
    "pause": "members process nothing until it is resumed",
    "resume": "members go on",
    "rebalance": "a rebalance starts",
    "stop-all": "the coordinator tells every member to stop",
}
"""The text that is shown after the group has accepted an operator's command. The keys are the commands' names on the
page.
"""


ASKED: Mapping[str, str] = {
    "approve": "Approve the rebalance",
    "hold-off": "Hold no more, and carry out the rebalance that waits",
    "drain": "Drain",
    "drain-end": "End the drain of",
    "grace-off": "Wait for nobody",
    "promote": "Promote when caught up",
    "rebalance": "Rebalance now",
}
"""The question that a page asks before a command that moves tasks, without its question mark. The keys are as in DONE.
The name of the instance or member follows the texts of the drains.
"""


class ActiveLever(NamedTuple):
    """A lever (an operator's setting of a group) that is on. `effect`: a sentence without a full stop. `by`, `reason`:
    None if they are not known.
    """

    name: str
    effect: str
    by: str | None
    at_ms: int
    reason: str | None


EFFECTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "hold": lambda lever: f"rebalances that move tasks wait {duration_text(lever['time_limit_ms'])} for approval",
    "rejoin_grace": lambda lever: f"tasks of members that leave wait {duration_text(lever['grace_ms'])} for them",
    "promotion": lambda lever: "a rebalance comes as soon as warm-ups have caught up",
    "pause": lambda lever: "members process no records",
}
"""For each lever, a function that describes the effect of the lever while the lever is on. The keys are the levers'
names in the group's document. Each function receives the lever from the group's document.
"""


def active_levers(levers: Mapping[str, Any], names: Mapping[str, str] | None = None) -> list[ActiveLever]:
    """The levers that are on, including the drains of instances and members. `levers`: the JSON object `levers` of a
    group. `names`: the names of instances, by process id.
    """
    found = [
        ActiveLever(name, effect(lever), lever["by"], lever["at_ms"], lever["reason"])
        for name, effect in EFFECTS.items()
        if (lever := levers[name]) is not None
    ]
    for each in levers["drained"]:
        process, member = each["process_id"], each["member_id"]
        target = f"member {member}" if member else f"instance {(names or {}).get(process, process)}"
        found.append(ActiveLever("drained", f"{target} is to have no tasks", each["by"], each["at_ms"], each["reason"]))
    return found


def names_with_ended(names: Mapping[str, str], ends: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the names of instances by process id, with those of the instances that ended. `names`: of the instances
    that are there. `ends`: the field of the group's document.
    """
    ended = names_of_ended((end["process_id"], end["client_id"]) for end in ends)
    return {**ended, **names}


def missing_of_drain(drain: Mapping[str, Any]) -> list[str]:
    """Returns a line for each condition that a drain still waits for. The list is empty if the drained instance or
    member can be stopped.
    """
    return [f"{each['task']}: {each['why']}" if each["task"] else str(each["why"]) for each in drain["missing"]]


def moves_of_held(held: Mapping[str, Any]) -> str:
    """Describes the moves of tasks in a held rebalance, such as `2 tasks would move: 0_0, 0_3`. `held`: the JSON object
    `held_rebalance` of a group.
    """
    tasks = held["tasks_to_move"]
    if not tasks:
        return "no task would move"
    return f"{counted(len(tasks), 'task')} would move: {task_ranges([TaskId.parse(task) for task in tasks])}"


def changes_shown(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Prepares the difference between two assignments, and a forecast of the next rebalances, for a page. `answer`: a
    document with `difference`, `forecast`, and the `names` of instances.

    Returns `answer` with four more fields. `tasks`: the first TASKS_SHOWN tasks that would move. `tasks_more`: the
    number of further tasks that would move. `summary`: a short text about the difference. `verdict`: a sentence about
    the forecast.
    """
    names, every = answer["names"], answer["difference"]["tasks"]
    return {
        **answer,
        "tasks": [copy_changes(each, lambda process: str(names.get(process, process))) for each in every[:TASKS_SHOWN]],
        "tasks_more": max(0, len(every) - TASKS_SHOWN),
        "summary": difference_summary(answer["difference"]),
        "verdict": verdict(answer["forecast"]),
    }


_ARROWS = {"rising": " \u2191", "falling": " \u2193"}


def input_lag_text(flow: Mapping[str, Any] | None) -> str:
    """Returns the input lag of a flow, with an arrow if it rises or falls, such as `20,412 ↑`."""
    if flow is None:
        return ""
    lag = flow["lag"]
    return "unknown" if lag is None else f"{lag:,}{_ARROWS.get(flow['trend'] or '', '')}"


def behind_text(flow: Mapping[str, Any] | None) -> str:
    behind_ms = None if flow is None else flow["behind_ms"]
    return "" if not behind_ms else duration_text(behind_ms)


def records_per_s_text(flow: Mapping[str, Any] | None) -> str:
    speed = None if flow is None else flow["records_per_s"]
    return "" if speed is None else f"{speed:,.0f}"


def flow_text(flow: Mapping[str, Any]) -> str:
    """Returns a flow in one line, such as `20,412 records waiting, rising; 12 min behind; 850 records/s`."""
    lag = flow["lag"]
    waits = "how many records wait is not known" if lag is None else f"{counted(lag, 'record')} waiting"
    trend = f", {flow['trend']}" if flow["trend"] in _ARROWS else ""
    behind, speed = behind_text(flow), records_per_s_text(flow)
    parts = (f"{waits}{trend}", behind and f"{behind} behind", speed and f"{speed} records/s")
    return "; ".join(part for part in parts if part)
