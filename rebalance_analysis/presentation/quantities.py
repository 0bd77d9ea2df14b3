"""Times, durations, counts, lags and lists of names as people read them, on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId

UNKNOWN = "unknown"

NAMES_SHOWN = 4
TASKS_SHOWN = 12
"""A text names so many ranges of tasks; the JSON has all tasks."""

_PAGE_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def time_text(time_ms: int) -> str:
    """In UTC, to the millisecond: `2026-11-23 07:23:49.120Z`."""
    at = _utc(time_ms)
    return f"{time_ms} ms" if at is None else at.isoformat(" ", "milliseconds").replace("+00:00", "Z")


def utc(at_ms: int) -> str:
    """`2026-11-23 07:23:49 UTC`."""
    return (_utc(at_ms) or datetime.fromtimestamp(0, UTC)).strftime("%Y-%m-%d %H:%M:%S UTC")


def utc_iso(at_ms: int) -> str:
    """For `datetime` of a `<time>`."""
    return (_utc(at_ms) or datetime.fromtimestamp(0, UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _utc(at_ms: int) -> datetime | None:
    """None for a time that no calendar has: recordings and reports may contain any number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def duration_text(ms: float) -> str:
    """Two units at most: 120 ms, 1.2 s, 7 min 5 s, 7 h 50 min, 3 d 2 h."""
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
    """Whole seconds, as a clock on a page counts them: `2 min 5 s`, and `0 s` for what is over. static/countdown.js
    shows the same text a second later.
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


def count_text(count: float) -> str:
    """`12,345`."""
    return f"{count:,.0f}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 member`, `2 members`, `1,000 processes`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def lag_text(lag: int | None) -> str:
    """Says how far a copy is behind, in records: `lag 1,282`; empty when the leader was given no lag for it."""
    if lag is None:
        return ""
    return {LATEST_OFFSET: "running it", UNKNOWN_OFFSET_SUM: "lag unknown"}.get(lag, f"lag {lag:,}")


def listed(names: Sequence[str], most: int = NAMES_SHOWN) -> str:
    """`a, b and 2 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """The rows as lines of a table: the words of column `left` to the left, the numbers of the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column == left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def task_ranges(tasks: Sequence[TaskId]) -> str:
    """`0_0 to 0_3, 2_1`: three or more partitions in a row are a range; of many tasks only the first ranges."""
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
