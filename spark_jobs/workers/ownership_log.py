"""What each stream thread owned and when, as the thread itself saw it: one JSON Lines file for each start of a thread.

Each line is one change and is written before the thread acts on it. So a task is in the log before the thread works on
it, and out of it before the group learns that the thread gave it up. Times are milliseconds since the epoch by the
machine's clock.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from assignor.errors import InputError

SUFFIX = ".jsonl"

_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 200
"""A thread's name begins with the client id, which may have any printable character."""


class OwnershipEvent(StrEnum):
    """What happened.

    `started`, `lost`, `closed`: the thread owns nothing. `joining`: it is about to send a subscription and keeps all
    its tasks. `revoked`: it has given up some tasks and keeps the others. `assigned`: it has taken the assignment of a
    generation. `restored`, `processed`: ownership does not change; the named active task has restored its state, or has
    processed its first record on this thread.
    """

    STARTED = "started"
    JOINING = "joining"
    REVOKED = "revoked"
    ASSIGNED = "assigned"
    LOST = "lost"
    CLOSED = "closed"
    RESTORED = "restored"
    PROCESSED = "processed"


@dataclass(frozen=True, slots=True)
class OwnershipChange:
    """One change: after it, the thread owns exactly `active` and `standby`.

    `task`: of `restored` and `processed`. `origin`, `records`: what the task started from, and how many changelog
    records it read before it ran. `reason`: why tasks were lost or closed.
    """

    event: OwnershipEvent
    generation_id: int | None = None
    member_id: str | None = None
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    reason: str | None = None
    task: str | None = None
    origin: str | None = None
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """Who writes: a thread of an instance, its process and executor. `jvm_pid`: the executor's, None if unknown."""

    instance: str
    thread: str
    executor: str
    pid: int
    jvm_pid: int | None = None


@dataclass(frozen=True, slots=True)
class OwnershipLine:
    """A line of the log: when, the fields of `Holder`, and those of `OwnershipChange`."""

    at_ms: float
    event: OwnershipEvent
    instance: str
    thread: str
    executor: str
    pid: int
    jvm_pid: int | None
    generation_id: int | None = None
    member_id: str | None = None
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    reason: str | None = None
    task: str | None = None
    origin: str | None = None
    records: int | None = None


class OwnershipLog:
    """The file of one thread; each change is appended as a line."""

    def __init__(self, directory: Path, holder: Holder) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._holder = holder
        self._file = directory / f"{_NO_FILE_NAME.sub('_', holder.thread)[-_LONGEST_NAME:]}-{holder.pid}{SUFFIX}"

    def write(self, change: OwnershipChange) -> None:
        """Append one line. Once this returns, the line survives the end of this process. Raises OSError."""
        document = asdict(_line(time.time() * 1000, self._holder, change))
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")


def read_ownership(directory: Path) -> list[OwnershipLine]:
    """Every complete line of every file, sorted by time. Raises InputError naming the file and line of a bad one."""
    return sorted(_lines(directory), key=lambda line: line.at_ms)


def _lines(directory: Path) -> Iterator[OwnershipLine]:
    for file in sorted(directory.glob(f"*{SUFFIX}")):
        text = file.read_text(encoding="utf-8")
        complete = text[: text.rfind("\n") + 1]
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                yield _as_line(json.loads(line))
            except (ValueError, TypeError, KeyError) as fault:
                raise InputError(f"is not a line of an ownership log: {fault}", f"{file}:{number}") from fault


def _as_line(document: dict[str, object]) -> OwnershipLine:
    fields: dict[str, object] = dict(document)
    fields["event"] = OwnershipEvent(str(fields["event"]))
    for name in ("active", "standby"):
        tasks = fields[name]
        if not isinstance(tasks, list):
            raise TypeError(f"{name} is not a list")
        fields[name] = tuple(str(task) for task in tasks)
    return OwnershipLine(**fields)  # type: ignore[arg-type]


def _line(at_ms: float, holder: Holder, change: OwnershipChange) -> OwnershipLine:
    return OwnershipLine(
        at_ms=at_ms,
        event=change.event,
        instance=holder.instance,
        thread=holder.thread,
        executor=holder.executor,
        pid=holder.pid,
        jvm_pid=holder.jvm_pid,
        generation_id=change.generation_id,
        member_id=change.member_id,
        active=tuple(sorted(change.active)),
        standby=tuple(sorted(change.standby)),
        reason=change.reason,
        task=change.task,
        origin=change.origin,
        records=change.records,
    )
