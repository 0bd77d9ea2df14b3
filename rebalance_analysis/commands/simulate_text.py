"""A forecast for people: a table of its rebalances, and what becomes of the group in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from assignor.types import TaskId
from rebalance_analysis.measures import RebalanceMeasures
from rebalance_analysis.simulate.model import End, Forecast, ForecastRebalance, ForecastTrigger

MAX_ROWS = 60
_FIRST_ROWS = 40
MAX_TASKS = 12
_HEADINGS = ("#", "at", "because", "moved", "warm-ups", "standbys", "no owner", "restore", "skew")
_WORDS = 2


def forecast_text(title: str, forecast: Forecast) -> str:
    """`title`: what was forecast."""
    lines = [title]
    if forecast.rebalances:
        lines += _table(forecast.rebalances)
    return "\n".join([*lines, sentence(forecast)])


def sentence(forecast: Forecast) -> str:
    """How it ends and what it took; starts small, without a full stop."""
    if forecast.end is End.ERROR:
        return f"ends with an error in rebalance {len(forecast.rebalances) + 1}: {forecast.error}"
    took = _took(forecast)
    if forecast.end is End.LOOP:
        return f"never stable: {_loop(forecast)}; until there {took}"
    if forecast.end is End.OUT_OF_ROUNDS:
        return f"not stable after {_rebalances(forecast)}: {took}{_behind(forecast)}"
    caught_up = "never all caught up" if forecast.restored_after_ms is None else _caught_up(forecast.restored_after_ms)
    return f"stable after {_rebalances(forecast)}: {took}; {caught_up}{_behind(forecast)}"


def duration(ms: int) -> str:
    """Two units at most: 120 ms, 1.2 s, 7 min 5 s, 7 h 50 min, 3 d 2 h."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s".replace(".0 ", " ") if ms < 59_950 else "1 min"
    seconds = round(ms / 1000)
    if seconds < 3600:
        return _two(seconds // 60, "min", seconds % 60, "s")
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = round(minutes / 60)
    return _two(hours // 24, "d", hours % 24, "h")


def tasks_text(tasks: Sequence[TaskId]) -> str:
    """`0_1, 0_2 and 0_3`; of many only the first."""
    shown = [str(task) for task in tasks[:MAX_TASKS]]
    if len(tasks) > MAX_TASKS:
        return f"{', '.join(shown)} and {len(tasks) - MAX_TASKS} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def _table(rebalances: Sequence[ForecastRebalance]) -> list[str]:
    """Of many rebalances only the first and the last ones."""
    shown: list[ForecastRebalance | None] = list(rebalances)
    if len(rebalances) > MAX_ROWS:
        last = MAX_ROWS - _FIRST_ROWS
        shown = [*rebalances[:_FIRST_ROWS], None, *rebalances[-last:]]
    rows = [_HEADINGS, *(None if each is None else _row(each) for each in shown)]
    widths = [max(len(row[column]) for row in rows if row is not None) for column in range(len(_HEADINGS))]
    return [f"  ... {len(rebalances) - MAX_ROWS} more ..." if row is None else _line(row, widths) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Numbers to the right, words to the left."""
    cells = [
        cell.ljust(width) if column == _WORDS else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"  {'  '.join(cells)}"


def _row(each: ForecastRebalance) -> tuple[str, ...]:
    measures = each.measures
    return (
        str(each.number),
        duration(each.at_ms),
        each.trigger.value,
        str(len(each.moved)),
        str(len(each.warming_up)),
        str(measures.standby_moved),
        str(each.unowned),
        _records(measures),
        str(measures.skew),
    )


def _records(measures: RebalanceMeasures) -> str:
    return "unknown" if measures.records_to_restore is None else f"{measures.records_to_restore:,}"


def _rebalances(forecast: Forecast) -> str:
    follow_ups = len(forecast.rebalances) - forecast.probing_rounds
    parts = [_count(forecast.probing_rounds, "rebalance")]
    if follow_ups:
        parts.append(_count(follow_ups, "follow-up"))
    if forecast.rebalances[-1].at_ms:
        parts.append(duration(forecast.rebalances[-1].at_ms))
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _took(forecast: Forecast) -> str:
    parts = [
        _count(forecast.active_moves, "move"),
        _count(forecast.warm_ups, "warm-up"),
        _count(forecast.standby_moves, "standby move"),
    ]
    if forecast.unowned_longest_task is None:
        return f"{', '.join(parts)}; no task without owner"
    return (
        f"{', '.join(parts)}; longest without owner: {forecast.unowned_longest_task} for "
        f"{duration(forecast.unowned_longest_ms)} (all tasks together {duration(forecast.unowned_ms)})"
    )


def _caught_up(restored_after_ms: int) -> str:
    return f"all caught up after {duration(restored_after_ms)}"


def _loop(forecast: Forecast) -> str:
    loop = forecast.loop
    assert loop is not None
    last = loop.first_round + loop.length - 1
    loop_text = (
        f"rebalance {loop.first_round} comes" if loop.length == 1 else f"rebalances {loop.first_round} to {last} come"
    )
    every = sum(_wait_ms(forecast, each) for each in forecast.rebalances[loop.first_round - 1 : last])
    again = f"{loop_text} again for ever, every {duration(every)}"
    if not loop.tasks:
        return f"{again}, though nothing moves or warms up: each asks for a probing rebalance"
    verb = "moves, warms up or is held back" if len(loop.tasks) == 1 else "move, warm up or are held back"
    return f"{again}; {tasks_text(loop.tasks)} {verb} in it"


def _wait_ms(forecast: Forecast, each: ForecastRebalance) -> int:
    """From a rebalance to the next one; after the last one of a loop comes the first again."""
    rebalances = forecast.rebalances
    if each.number < len(rebalances):
        return rebalances[each.number].at_ms - each.at_ms
    if each.followup or each.probing_at_ms is None:
        return next((later.at_ms - earlier.at_ms for earlier, later in pairwise(rebalances) if _is_follow_up(later)), 0)
    return each.probing_at_ms - each.at_ms


def _is_follow_up(each: ForecastRebalance) -> bool:
    return each.trigger is ForecastTrigger.FOLLOW_UP


def _behind(forecast: Forecast) -> str:
    return f"; still not caught up: {tasks_text(forecast.behind)}" if forecast.behind else ""


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
