"""The values inside the INFO lines of Kafka's assignors: Java's text of client states, tasks and maps of them.

They are read by field name, so that the forms of older releases can be read too: `clientTags` came with 3.2, and 2.6
had `prevOwnedPartitionsByConsumerId`. Source: `ClientState.toString`, `AbstractCollection.toString`,
`AbstractMap.toString`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.errors import UnreadableLogLine
from assignor.types import ProcessId, TaskId

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CLIENT = re.compile(rf"({_UUID})=\[activeTasks: \(")
_TASKS = r" \(\[([^\]]*)\]\)"
_END = re.compile(r"capacity: (\d+)(?: assigned: (\d+))?\](?:, |\}|\Z)")
_TAGS = re.compile(r"\) clientTags: \(\[(.*)\]\) capacity: ", re.DOTALL)
_PLACED = re.compile(rf"({_UUID})=\[activeTasks:{_TASKS} standbyTasks:{_TASKS}\]")
_CONSUMERS = re.compile(rf"({_UUID}): \[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class LoggedClient:
    """One `ClientState`."""

    capacity: int
    active: tuple[TaskId, ...]
    standby: tuple[TaskId, ...]
    previous_active: tuple[TaskId, ...]
    previous_standby: tuple[TaskId, ...]
    lags: Mapping[TaskId, int]
    tags: Mapping[str, str] = field(default_factory=dict)


def read_client_states(text: str) -> dict[ProcessId, LoggedClient]:
    """`{process=[activeTasks: ...], ...}`, in the order of the map. Raises UnreadableLogLine."""
    starts = list(_CLIENT.finditer(text))
    if not starts:
        raise UnreadableLogLine("names no client")
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {
        ProcessId.parse(start[1]): _client(start[1], text[start.start() : end])
        for start, end in zip(starts, ends, strict=True)
    }


def _client(process: str, text: str) -> LoggedClient:
    end = _END.search(text)
    if end is None:
        raise UnreadableLogLine(f"is cut off in the state of {process}")
    tags = _TAGS.search(text)
    client = LoggedClient(
        capacity=int(end[1]),
        active=_field(text, "activeTasks"),
        standby=_field(text, "standbyTasks"),
        previous_active=_field(text, "prevActiveTasks"),
        previous_standby=_field(text, "prevStandbyTasks"),
        lags=_lags(text),
        tags={} if tags is None else _tags(tags[1]),
    )
    if end[2] is not None and int(end[2]) != len(client.active) + len(client.standby):
        raise UnreadableLogLine(f"says {end[2]} assigned tasks of {process}, but does not show as many")
    return client


def _field(text: str, name: str) -> tuple[TaskId, ...]:
    match = re.search(rf"\b{name}:{_TASKS}", text)
    if match is None:
        raise UnreadableLogLine(f"has no {name}")
    return read_tasks(match[1])


def _lags(text: str) -> dict[TaskId, int]:
    match = re.search(rf"\btaskLagTotals:{_TASKS}", text)
    if match is None:
        raise UnreadableLogLine("has no taskLagTotals: this release does not log them")
    lags: dict[TaskId, int] = {}
    for item in match[1].split(", ") if match[1] else ():
        task, _, lag = item.partition("=")
        lags[_task(task)] = _number(lag)
    return lags


def _tags(text: str) -> dict[str, str]:
    """`a=b, c=d`; a piece without `=` belongs to the value before it."""
    tags: dict[str, str] = {}
    last = None
    for piece in text.split(", ") if text else ():
        key, equals, value = piece.partition("=")
        if equals:
            tags[key], last = value, key
        elif last is not None:
            tags[last] += f", {piece}"
    return tags


def read_tasks(text: str) -> tuple[TaskId, ...]:
    """`0_0, 0_1`. Raises UnreadableLogLine."""
    return tuple(_task(item) for item in text.split(", ")) if text else ()


def read_placed(text: str) -> dict[ProcessId, tuple[tuple[TaskId, ...], tuple[TaskId, ...]]]:
    """Active and standby tasks by process, for the processes that the text shows completely."""
    return {ProcessId.parse(match[1]): (read_tasks(match[2]), read_tasks(match[3])) for match in _PLACED.finditer(text)}


def read_consumers(text: str) -> dict[ProcessId, tuple[str, ...]]:
    """Consumers by process, for the processes that the text shows completely."""
    return {
        ProcessId.parse(match[1]): tuple(match[2].split(", ")) if match[2] else ()
        for match in _CONSUMERS.finditer(text)
    }


def read_tasks_by_consumer(text: str) -> dict[str, tuple[TaskId, ...]]:
    """`{consumer=[0_0, 0_1], ...}`. Raises UnreadableLogLine."""
    if not (text.startswith("{") and text.endswith("}")):
        raise UnreadableLogLine("is cut off in the tasks of its consumers")
    return {match[1]: read_tasks(match[2]) for match in re.finditer(r"(?:\{|, )([^=\[\]]+)=\[([^\]]*)\]", text)}


def _task(text: str) -> TaskId:
    try:
        return TaskId.parse(text)
    except ValueError as error:
        raise UnreadableLogLine(str(error)) from None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnreadableLogLine(f"{text[:80]!r} is no lag") from None
