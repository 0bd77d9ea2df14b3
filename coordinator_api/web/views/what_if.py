"""The answer of a what-if, as tables and a plot. Every number is the command's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_api.web.views.words import count, duration

TASKS_SHOWN = 500
WIDTH, HEIGHT = 640, 180

_MEASURES = (
    ("active_moved", "Active tasks that move"),
    ("active_started", "Active tasks that ran nowhere"),
    ("standby_moved", "Standbys on an instance without a copy"),
    ("warm_ups", "Warm-ups"),
    ("records_to_restore", "Records to restore"),
    ("clients", "Instances"),
    ("threads", "Stream threads"),
    ("skew", "Copies of the fullest thread less those of the emptiest"),
    ("active_skew", "The same for active tasks"),
)


@dataclass(frozen=True, slots=True)
class Measure:
    """`key`: the field of the command's document."""

    key: str
    title: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ChangedTask:
    """Instances by their short names. `active_from`, `active_to`: None when the active copy is where it was."""

    task: str
    active_from: str | None
    active_to: str | None
    standby_gone: tuple[str, ...]
    standby_new: tuple[str, ...]
    warm_up_gone: tuple[str, ...]
    warm_up_new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """One rebalance of the forecast. `x`, `height`s: in the plot, whose size is WIDTH by HEIGHT."""

    number: int
    at_ms: int
    trigger: str
    moved: int
    warming_up: int
    unowned: int
    x: float
    moved_height: float
    warming_height: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """`verdict`: how the forecast ends, as a sentence. `tasks_more`: how many changed tasks are not shown."""

    id: str
    measures: tuple[Measure, ...]
    errors: tuple[str, ...]
    active_elsewhere: int
    standbys_new: int
    standbys_gone: int
    tasks: tuple[ChangedTask, ...]
    tasks_more: int
    rounds: tuple[Round, ...]
    most: int
    verdict: str
    totals: tuple[tuple[str, str], ...]


def what_if_view(answer: Mapping[str, Any]) -> WhatIf:
    """`answer`: of `page_computations.what_if`."""
    difference, ahead, names = answer["difference"], answer["forecast"], answer["names"]
    changed = difference["tasks"]
    return WhatIf(
        answer["id"],
        _measures(difference),
        tuple(
            f"{when}, no task is placed: {difference[side]['error']}"
            for side, when in (("before", "As it is"), ("after", "With the changes"))
            if difference[side]["error"] is not None
        ),
        difference["active_elsewhere"],
        difference["standbys_new"],
        difference["standbys_gone"],
        tuple(_task(each, names) for each in changed[:TASKS_SHOWN]),
        max(0, len(changed) - TASKS_SHOWN),
        *_plot(ahead["rounds"]),
        _verdict(ahead),
        _totals(ahead),
    )


def _measures(difference: Mapping[str, Any]) -> tuple[Measure, ...]:
    before, after = difference["before"], difference["after"]
    old, new = before["measures"] or {}, after["measures"] or {}
    rows = [Measure(key, title, count(old.get(key)), count(new.get(key))) for key, title in _MEASURES]
    rows.append(
        Measure(
            "restore_s",
            "The slowest instance restores for",
            _seconds(before["restore_s"]),
            _seconds(after["restore_s"]),
        )
    )
    return tuple(rows)


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f}\u00a0s"


def _task(task: Mapping[str, Any], names: Mapping[str, str]) -> ChangedTask:
    def named(processes: list[str]) -> tuple[str, ...]:
        return tuple(names.get(each, each) for each in processes)

    source, target = task["active"]["from"], task["active"]["to"]
    moved = source != target
    return ChangedTask(
        task["task"],
        (names.get(source, source) if source else "nowhere") if moved else None,
        (names.get(target, target) if target else "nowhere") if moved else None,
        named(task["standby"]["gone"]),
        named(task["standby"]["new"]),
        named(task["warm_up"]["gone"]),
        named(task["warm_up"]["new"]),
    )


def _plot(rounds: list[Mapping[str, Any]]) -> tuple[tuple[Round, ...], int]:
    """By real time; bars are as high as their share of the highest."""
    last_ms = max((each["at_ms"] for each in rounds), default=0) or 1
    most = max((max(len(each["moved"]), len(each["warming_up"])) for each in rounds), default=0)
    scale = (HEIGHT - 50) / max(most, 1)
    return tuple(
        Round(
            each["number"],
            each["at_ms"],
            each["trigger"],
            len(each["moved"]),
            len(each["warming_up"]),
            each["unowned"],
            round(40 + (WIDTH - 80) * each["at_ms"] / last_ms, 1),
            round(len(each["moved"]) * scale, 1),
            round(len(each["warming_up"]) * scale, 1),
        )
        for each in rounds
    ), most


def _verdict(ahead: Mapping[str, Any]) -> str:
    number = len(ahead["rounds"])
    rebalances = "1 rebalance" if number == 1 else f"{count(number)} rebalances"
    if ahead["end"] == "stable":
        return f"The group is stable after {duration(ahead['stable_after_ms'] or 0)} and {rebalances}."
    if ahead["end"] == "loop":
        loop = ahead["loop"]
        return f"The group never settles: from rebalance {loop['first_round']} on, {loop['length']} repeat without end."
    if ahead["end"] == "error":
        return f"The forecast ends after {rebalances}: {ahead['error']}"
    return f"The group is not stable after {rebalances}, and no more are forecast here."


def _totals(ahead: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    restored = ahead["restored_after_ms"]
    return (
        ("All copies caught up after", "not within the forecast" if restored is None else duration(restored)),
        ("Active moves in all", count(ahead["active_moves"])),
        ("Standby moves in all", count(ahead["standby_moves"])),
        ("Warm-ups in all", count(ahead["warm_ups"])),
        ("Time without owner, over all tasks", f"{count(ahead['unowned_ms'])}\u00a0ms"),
        ("Longest time without owner of one task", f"{count(ahead['unowned_longest_ms'])}\u00a0ms"),
    )
