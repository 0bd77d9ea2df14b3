"""What would be different: the copies of tasks that would be elsewhere, and how a forecast ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rebalance_analysis.history.wording import duration

TASKS_SHOWN = 500


class ChangedTask(NamedTuple):
    """Instances by their names. `active`: where it is and where it would be; None when that is the same."""

    task: str
    active: tuple[str, str] | None
    standby_gone: list[str]
    standby_new: list[str]
    warm_up_gone: list[str]
    warm_up_new: list[str]


def changed_tasks(difference: Mapping[str, Any], named: Callable[[str], str]) -> list[ChangedTask]:
    """`difference`: as `assignor what-if -o json` has it. `named`: the name of an instance, of its process id."""

    def name(process: str | None) -> str:
        return named(process) if process else "nowhere"

    return [
        ChangedTask(
            each["task"],
            (name(each["active"]["from"]), name(each["active"]["to"]))
            if each["active"]["from"] != each["active"]["to"]
            else None,
            [named(one) for one in each["standby"]["gone"]],
            [named(one) for one in each["standby"]["new"]],
            [named(one) for one in each["warm_up"]["gone"]],
            [named(one) for one in each["warm_up"]["new"]],
        )
        for each in difference["tasks"]
    ]


def changes_shown(answer: Mapping[str, Any]) -> dict[str, Any]:
    """For templates: `answer`, which has a difference, a forecast and the names of instances, with `tasks` that are
    elsewhere, the number of those that are left out (`tasks_more`), and the `verdict`.
    """
    names = answer["names"]
    tasks = changed_tasks(answer["difference"], lambda process: str(names.get(process, process)))
    more = max(0, len(tasks) - TASKS_SHOWN)
    return {**answer, "tasks": tasks[:TASKS_SHOWN], "tasks_more": more, "verdict": verdict(answer["forecast"])}


def verdict(forecast: Mapping[str, Any]) -> str:
    """How the forecast ends. `forecast`: as `assignor simulate -o json` has it."""
    rounds = len(forecast["rounds"])
    rebalances = "1 rebalance" if rounds == 1 else f"{rounds:,} rebalances"
    match forecast["end"]:
        case "stable":
            return f"The group is stable after {duration(forecast['stable_after_ms'] or 0)} and {rebalances}."
        case "loop":
            loop = forecast["loop"]
            repeating = f"from rebalance {loop['first_round']} on, {loop['length']} repeat without end"
            return f"The group never settles: {repeating}."
        case "error":
            return f"The forecast ends after {rebalances}: {forecast['error']}"
    return f"The group is not stable after {rebalances}, and no more are forecast here."
