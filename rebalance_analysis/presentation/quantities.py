"""Formats times, durations, counts, lags and lists of names as text, for terminals and web pages."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId

UNKNOWN = "unknown"

NAMES_SHOWN = 4
TASKS_SHOWN = 12
"""The largest number of task ranges in a text. JSON documents list all tasks."""

_LONGEST_LEFT_MS = 30 * 86_400_000
_PAGE_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def time_text(time_ms: int) -> str:
    """Formats a time in UTC, to the millisecond: `2026-11-23 07:23:49.120Z`."""
    at = _utc(time_ms)
    return f"{time_ms} ms" if at is None else at.isoformat(" ", "milliseconds").replace("+00:00", "Z")


def utc(at_ms: int) -> str:
    """Formats a time in UTC, to the second: `2026-11-23 07:23:49 UTC`."""
    return (_utc(at_ms) or datetime.fromtimestamp(0, UTC)).strftime("%Y-%m-%d %H:%M:%S UTC")


def utc_iso(at_ms: int) -> str:
    """Formats a time for the attribute `datetime` of the HTML element `<time>`."""
    return (_utc(at_ms) or datetime.fromtimestamp(0, UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _utc(at_ms: int) -> datetime | None:
    """Converts milliseconds since the epoch to a `datetime`. Returns None for a number that `datetime` cannot
    represent, because recordings and reports may contain any number.
    """
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def duration_text(ms: float) -> str:
    """Formats a duration in at most two units: 120 ms, 1.2 s, 7 min 5 s, 7 h 50 min, 3 d 2 h."""
    if ms < 0:
        return f"-{duration_text(-ms)}"
    if round(ms) < 1000:
        return f"{round(ms) or (1 if ms else 0)} ms"
    if ms < 59_950:
        return f"{round(ms / 100) / 10:.1f} s".replace(".0 ", " ")
    seconds = round(ms / 1000)
    if seconds < 3600:
        return _two_units(seconds // 60, "min", seconds % 60, "s")
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return _two_units(minutes // 60, "h", minutes % 60, "min")
    hours = round(minutes / 60)
    return _two_units(hours // 24, "d", hours % 24, "h")


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large:,} {large_unit} {small} {small_unit}" if small else f"{large:,} {large_unit}"


def clock_duration(ms: int) -> str:
    """Formats the remaining time of a countdown on a web page, in whole seconds, such as `2 min 5 s`. After the end of
    the countdown, the text is `0 s`. The script static/countdown.js updates the countdown in the same format.
    """
    left = max(ms, 0)
    parts: list[tuple[int, str]] = []
    for unit_ms, name in _PAGE_UNITS:
        number, left = divmod(left, unit_ms)
        if number or parts:
            parts.append((number, name))
        if len(parts) == 2:
            break
    return " ".join(f"{number}\u00a0{name}" for number, name in parts if number) or "0\u00a0s"


def time_left_ms(records: int, per_s: float) -> int | None:
    """Returns the expected time in which `records` records are read, rounded up. Returns None if no record was read in
    the last seconds, or if the time is longer than 30 days. `per_s`: the speed of the last seconds, in records.
    """
    if per_s <= 0:
        return None
    left_ms = math.ceil(records * 1_000 / per_s)
    return left_ms if left_ms <= _LONGEST_LEFT_MS else None


def time_left_text(left_ms: int | None) -> str:
    """Formats a result of `time_left_ms` in whole seconds, rounded up: `about 12 s`; empty if the time is not known."""
    return "" if left_ms is None else f"about {duration_text(math.ceil(left_ms / 1_000) * 1_000)}"


def count_text(count: float) -> str:
    """Formats a number with thousands separators: `12,345`."""
    return f"{count:,.0f}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Formats a number and a noun in singular or plural: `1 member`, `2 members`, `1,000 processes`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def lag_text(lag: int | None) -> str:
    """Formats the lag of a copy in records: `lag 1,282`; empty if the leader did not know the lag of the copy."""
    if lag is None:
        return ""
    return {LATEST_OFFSET: "running it", UNKNOWN_OFFSET_SUM: "lag unknown"}.get(lag, f"lag {lag:,}")


def listed(names: Sequence[str], most: int = NAMES_SHOWN) -> str:
    """Returns a text with the first names and the number of other names, such as `a, b and 2 more`. `most`: the largest
    number of names in the text.
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Formats rows as lines of a table. `left`: the index of the only column that is aligned to the left. All other
    columns are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column == left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def task_ranges(tasks: Sequence[TaskId]) -> str:
    """Formats task ids as text, such as `0_0 to 0_3, 2_1`. Three or more consecutive partitions become a range. The
    text has at most `TASKS_SHOWN` ranges and single tasks.
    """
    ranges: list[list[TaskId]] = []
    for task in sorted(tasks):
        last = ranges[-1][-1] if ranges else None
        if last is not None and (last.subtopology, last.partition + 1) == (task.subtopology, task.partition):
            ranges[-1].append(task)
        else:
            ranges.append([task])
    texts: list[tuple[str, int]] = []
    for each in ranges:
        texts += [(f"{each[0]} to {each[-1]}", len(each))] if len(each) > 2 else [(str(task), 1) for task in each]
    more = sum(count for _, count in texts[TASKS_SHOWN:])
    shown = ", ".join(text for text, _ in texts[:TASKS_SHOWN])
    return f"{shown} and {more} more" if more else shown
