"""Formats a forecast as text: a table of its rebalances, and its outcome. Each function gets the JSON document of a
forecast, because the commands and the coordinator both provide this document.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from assignor.types import TaskId
from rebalance_analysis.presentation.quantities import UNKNOWN, aligned, count_text, counted, duration_text, task_ranges
from rebalance_analysis.simulate.model import End, ForecastTrigger

MAX_ROWS = 60
_FIRST_ROWS = 40
_HEADINGS = ("#", "at", "because", "moved", "warm-ups", "standbys", "no owner", "restore", "skew")
_TEXT_COLUMNS = 2

Document = Mapping[str, Any]
"""A forecast in the output of `assignor simulate -o json`, or one element of its field `rounds`."""


def forecast_text(title: str, forecast: Document) -> str:
    """Returns the title, the table and the final sentence of a forecast. `title`: text that names the recorded
    rebalance and the changes.
    """
    lines = [title]
    if forecast["rounds"]:
        lines += _table(forecast["rounds"])
    return "\n".join([*lines, forecast_sentence(forecast)])


def forecast_sentence(forecast: Document) -> str:
    """Returns a clause about the outcome, the moves and the warm-ups of the forecast. The clause begins in lower case
    and has no full stop.
    """
    ending = forecast_ending(forecast)
    match forecast["end"]:
        case End.ERROR:
            return ending
        case End.LOOP:
            return f"{ending}; until there {_took(forecast)}"
        case End.OUT_OF_ROUNDS:
            return f"{ending}: {_took(forecast)}{_behind(forecast)}"
    restored_after_ms = forecast["restored_after_ms"]
    caught_up = (
        "never all caught up"
        if restored_after_ms is None
        else f"all caught up after {duration_text(restored_after_ms)}"
    )
    return f"{ending}: {_took(forecast)}; {caught_up}{_behind(forecast)}"


def forecast_ending(forecast: Document) -> str:
    """Returns the outcome of the forecast, such as `stable after 5 rebalances, 5 follow-ups and 4 min 2 s`. The text
    begins in lower case and has no full stop.
    """
    match forecast["end"]:
        case End.ERROR:
            return f"ends with an error in rebalance {len(forecast['rounds']) + 1}: {forecast['error']}"
        case End.LOOP:
            return f"never stable: {_loop(forecast)}"
        case End.OUT_OF_ROUNDS:
            return f"not stable after {_rebalances(forecast)}"
    return f"stable after {_rebalances(forecast)}"


def verdict(forecast: Document) -> str:
    """Returns the outcome of the forecast as a complete sentence."""
    subject = "The forecast" if forecast["end"] == End.ERROR else "The group is"
    return f"{subject} {forecast_ending(forecast).removesuffix('.')}."


def _table(rebalances: Sequence[Document]) -> list[str]:
    """Returns the lines of the table of rebalances. If there are more than `MAX_ROWS` rebalances, the table has only
    the first and the last rebalances.
    """
    left_out = max(len(rebalances) - MAX_ROWS, 0)
    shown = [*rebalances[:_FIRST_ROWS], *rebalances[_FIRST_ROWS + left_out :]]
    lines = [f"  {line}" for line in aligned([_HEADINGS, *map(_row, shown)], left=_TEXT_COLUMNS)]
    if left_out:
        lines.insert(1 + _FIRST_ROWS, f"  ... {left_out} more ...")
    return lines


def _row(each: Document) -> tuple[str, ...]:
    measures = each["measures"]
    records = measures["records_to_restore"]
    return (
        str(each["number"]),
        duration_text(each["at_ms"]),
        each["trigger"],
        str(len(each["moved"])),
        str(len(each["warming_up"])),
        str(measures["standby_moved"]),
        str(each["unowned"]),
        UNKNOWN if records is None else count_text(records),
        str(measures["skew"]),
    )


def _rebalances(forecast: Document) -> str:
    rebalances = forecast["rounds"]
    follow_ups = len(rebalances) - forecast["probing_rounds"]
    parts = [counted(forecast["probing_rounds"], "rebalance")]
    if follow_ups:
        parts.append(counted(follow_ups, "follow-up"))
    if rebalances and rebalances[-1]["at_ms"]:
        parts.append(duration_text(rebalances[-1]["at_ms"]))
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _took(forecast: Document) -> str:
    parts = [
        counted(forecast["active_moves"], "move"),
        counted(forecast["warm_ups"], "warm-up"),
        counted(forecast["standby_moves"], "standby move"),
    ]
    if forecast["unowned_longest_task"] is None:
        return f"{', '.join(parts)}; no task without owner"
    return (
        f"{', '.join(parts)}; longest without owner: {forecast['unowned_longest_task']} for "
        f"{duration_text(forecast['unowned_longest_ms'])} (all tasks together {duration_text(forecast['unowned_ms'])})"
    )


def _loop(forecast: Document) -> str:
    loop = forecast["loop"]
    first, last = loop["first_round"], loop["first_round"] + loop["length"] - 1
    loop_text = f"rebalance {first} comes" if first == last else f"rebalances {first} to {last} come"
    every_ms = sum(_wait_ms(forecast, each) for each in forecast["rounds"][first - 1 : last])
    again = f"{loop_text} again for ever, every {duration_text(every_ms)}"
    if not loop["tasks"]:
        return f"{again}, though nothing moves or warms up: each asks for a probing rebalance"
    verb = "moves, warms up or is held back" if len(loop["tasks"]) == 1 else "move, warm up or are held back"
    return f"{again}; {_tasks(loop['tasks'])} {verb} in it"


def _wait_ms(forecast: Document, each: Document) -> int:
    """Returns the time from one rebalance of an endless loop to the next. After the last rebalance of the loop, the
    loop begins again with its first rebalance.
    """
    rebalances = forecast["rounds"]
    if each["number"] < len(rebalances):
        until_ms: int = rebalances[each["number"]]["at_ms"]
    elif each["followup"] or each["probing_at_ms"] is None:
        waits = (
            later["at_ms"] - earlier["at_ms"]
            for earlier, later in pairwise(rebalances)
            if later["trigger"] == ForecastTrigger.FOLLOW_UP
        )
        return next(waits, 0)
    else:
        until_ms = each["probing_at_ms"]
    return until_ms - int(each["at_ms"])


def _behind(forecast: Document) -> str:
    return f"; still not caught up: {_tasks(forecast['behind'])}" if forecast["behind"] else ""


def _tasks(tasks: Sequence[str]) -> str:
    return task_ranges([TaskId.parse(task) for task in tasks])
