"""Writes and reads ownership logs. A stream thread writes the changes of its tasks to its ownership log, which is a
JSON Lines file. Each start of a thread creates a new file.

Each line of an ownership log is one change of the thread's tasks. The line is written before the thread acts on the
change. So the line of a new task is written before the thread processes the task. The line of a revocation is written
before the coordinator receives the revocation. Times are in milliseconds since the epoch, read from the machine's
clock.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from assignor.errors import InputError
from assignor.types import TaskId
from spark_jobs.ownership.executor_identity import ExecutorIdentity
from streams_runtime.instance.thread_listener import TaskRestored, ThreadListener
from streams_runtime.membership.member_events import HeldTasks

SUFFIX = ".jsonl"

_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 200
"""A file name contains at most this number of characters of the thread's name. The thread's name begins with the client
id, which may contain characters that a file name must not have. The pattern `_NO_FILE_NAME` matches these characters,
and they are replaced.
"""
_NOTHING = HeldTasks("", 0)


class OwnershipEvent(StrEnum):
    """The kinds of events in an ownership log.

    `started`, `lost`, `closed`: the thread started, lost all its tasks, or ended; it owns no tasks after the event.
    `joining`: the thread is about to send a subscription, and still owns all its tasks. `revoked`: the thread has
    revoked some of its tasks, and still owns its other tasks. `assigned`: the thread has received the assignment of a
    generation. `restored`: an active task has restored its state, and the owned tasks do not change. `processed`: an
    active task has processed its first record on this thread, and the owned tasks do not change.
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
class OwnershipLine:
    """One line of an ownership log. `active`, `standby`: all tasks that the thread owns after the logged event.
    `thread`: the stream thread that wrote the line. `instance`, `executor`, `pid`: the instance, executor and process
    id of this thread. `jvm_pid`: the process id of the executor's JVM; None if unknown. `task`: the task of a
    `restored` or `processed` event. `origin`: the kind of state from which the task started. `records`: the number of
    changelog records that the task read to restore its state. `reason`: the reason of a `lost` or `closed` event.
    """

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


class OwnershipListener(ThreadListener):
    """Writes the log of one thread. Only this thread calls the methods. When a method returns, its line is in the file.
    The line is not lost if the process is then killed. Each method raises OSError if the log cannot be written.
    """

    def __init__(self, directory: Path, instance: str, thread: str, executor: ExecutorIdentity) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        pid = os.getpid()
        self._file = directory / f"{_NO_FILE_NAME.sub('_', thread)[-_LONGEST_NAME:]}-{pid}{SUFFIX}"
        of_thread = instance, thread, executor.executor_id, pid, executor.jvm_pid
        self._last = OwnershipLine(0.0, OwnershipEvent.STARTED, *of_thread)
        self._hold(OwnershipEvent.STARTED, _NOTHING)

    def joining(self, held: HeldTasks) -> None:
        self._hold(OwnershipEvent.JOINING, held)

    def assigned(self, held: HeldTasks) -> None:
        self._hold(OwnershipEvent.ASSIGNED, held)

    def revoked(self, held: HeldTasks) -> None:
        self._hold(OwnershipEvent.REVOKED, held)

    def dropped(self, reason: str, *, clean: bool) -> None:
        self._hold(OwnershipEvent.CLOSED if clean else OwnershipEvent.LOST, _NOTHING, reason)

    def restored(self, task: TaskRestored) -> None:
        self._write(OwnershipEvent.RESTORED, task=str(task.task_id), origin=str(task.origin), records=task.records)

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        self._write(OwnershipEvent.PROCESSED, task=str(task_id))

    def _hold(self, event: OwnershipEvent, held: HeldTasks, reason: str | None = None) -> None:
        self._last = replace(
            self._last,
            generation_id=held.generation_id or None,
            member_id=held.member_id or None,
            active=tuple(sorted(map(str, held.active))),
            standby=tuple(sorted(map(str, held.standby))),
        )
        self._write(event, reason=reason)

    def _write(self, event: OwnershipEvent, **fields: Any) -> None:
        """Writes the line of an event. The line has the given fields and the tasks that the thread now owns."""
        line = replace(self._last, at_ms=time.time() * 1000, event=event, **fields)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")


def read_ownership(directory: Path) -> list[OwnershipLine]:
    """Returns every complete line of every ownership log in the directory, sorted by time. Raises InputError, with the
    file and the line number, if a line is invalid.
    """
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


def _as_line(document: dict[str, Any]) -> OwnershipLine:
    event, tasks = OwnershipEvent(document["event"]), {name: tuple(document[name]) for name in ("active", "standby")}
    return OwnershipLine(**{**document, "event": event, **tasks})
