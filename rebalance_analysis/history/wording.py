"""The words of a history: times, processes, copies, and what set a rebalance off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby

from assignor.names import ShortNames
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId
from rebalance_analysis.history import PlacedCopy, Trigger, TriggerKind

NAMES_SHOWN = 4
SAME_SHOWN = 3
"""How many processes with the same kind of change are named; the JSON has all of them."""


def time_text(time_ms: int) -> str:
    """In UTC, to the millisecond."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a clock may say anything
        return f"{time_ms} ms"


def duration(ms: int) -> str:
    tenths = round(abs(ms) / 100)
    sign = "-" if ms < 0 else ""
    if tenths < 600:
        return f"{sign}{tenths / 10:.1f} s"
    minutes, seconds = divmod(tenths // 10, 60)
    if minutes < 60:
        return f"{sign}{minutes} min {seconds} s"
    return f"{sign}{minutes // 60} h {minutes % 60} min"


def copies_text(copies: Sequence[PlacedCopy], processes: ShortNames, *, lags: bool = True) -> str:
    return ", ".join(_copy_text(copy, processes, lags) for copy in copies) or "nowhere"


def _copy_text(copy: PlacedCopy, processes: ShortNames, lags: bool) -> str:
    inside = [processes.thread(copy.process, copy.name), lag_text(copy.lag) if lags else ""]
    about = ", ".join(part for part in inside if part)
    held_back = ", not handed out yet" if copy.held_back else ""
    return f"{copy.role} on {processes.short(copy.process)}{f' ({about})' if about else ''}{held_back}"


def lag_text(lag: int | None) -> str:
    """`lag 1,282`; empty when it is not known at all."""
    if lag is None:
        return ""
    return {LATEST_OFFSET: "running it", UNKNOWN_OFFSET_SUM: "lag unknown"}.get(lag, f"lag {lag:,}")


def triggers_text(triggers: Sequence[Trigger], processes: ShortNames, task: TaskId | None) -> str:
    """`task`: the one to name first among those that waited."""
    parts = []
    for kind, several in groupby(sorted(triggers, key=_order), key=lambda trigger: trigger.kind):
        same = list(several)
        parts += [_trigger_text(trigger, processes, task) for trigger in same[:SAME_SHOWN]]
        if len(same) > SAME_SHOWN:
            parts.append(f"and {len(same) - SAME_SHOWN} more {kind}")
    return ", ".join(parts)


def _order(trigger: Trigger) -> int:
    return list(TriggerKind).index(trigger.kind)


def _trigger_text(trigger: Trigger, processes: ShortNames, task: TaskId | None) -> str:
    process, before, after = processes.short(trigger.process), trigger.before, trigger.after
    members = _members_text(trigger, processes)
    match trigger.kind:
        case TriggerKind.JOINED:
            return f"{process} joined{f' with {members}' if members else ''}"
        case TriggerKind.LEFT:
            return f"{process} is gone{f' with {members}' if members else ''}"
        case TriggerKind.RETURNED:
            return f"{members} of {process} came back{'' if before is None else f', which was {before}'}"
        case TriggerKind.THREADS:
            return f"{process} has {after} threads instead of {before}"
        case TriggerKind.TAGS:
            return f"{process} has the tags {after} instead of {before}"
        case TriggerKind.CONFIG:
            return f"{members} is {after} instead of {before}"
        case TriggerKind.TOPOLOGY:
            return "the topology has changed"
        case TriggerKind.TOPIC:
            return f"topic {members} {_partitions(before, after)}"
        case TriggerKind.FOLLOW_UP:
            return f"follow-up: {_waited(trigger.names, task)}"
        case TriggerKind.CREATED:
            return f"the leader saw {members} appear, which the rebalance before created"
        case TriggerKind.PROBING:
            return f"the probing deadline, {duration(int(after or 0))} before"
        case TriggerKind.FIRST:
            return "nothing earlier is recorded"
        case TriggerKind.REJOINED:
            return "a member rejoined; the recording does not show why"


def _members_text(trigger: Trigger, processes: ShortNames) -> str:
    """`2 threads` of an instance whose name says which, else their names."""
    threads = sorted(processes.thread(trigger.process, name) for name in trigger.names)
    if threads and all(name.startswith("thread ") for name in threads):
        return "1 thread" if len(threads) == 1 else f"{len(threads)} threads"
    return listed(threads)


def _partitions(before: str | None, after: str | None) -> str:
    if after is None:
        return "is gone"
    return f"has {after} partitions" if before is None else f"has {after} partitions instead of {before}"


def _waited(tasks: Sequence[str], task: TaskId | None) -> str:
    ordered = sorted(tasks, key=lambda name: name != str(task))
    return f"{listed(ordered)} waited to be given up" if ordered else "tasks waited to be given up"


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
