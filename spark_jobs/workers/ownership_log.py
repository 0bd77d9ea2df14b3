"""What members held and when, as they saw it: one JSON Lines file for each thread of each start.

Each line is one change, and is written before anything else happens: a task is in the log before it is worked on, and
given up in the log before the group hears of it. Times are milliseconds since the epoch, of the machine's clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from assignor.errors import InputError

SUFFIX = ".jsonl"


class OwnershipEvent(StrEnum):
    """What a line says.

    `started`, `lost`, `closed`: nothing is held. `joining`: a subscription is about to be sent, everything is held on
    to. `revoked`: what was not given up is held. `assigned`: all anew, by the assignment of a generation. `restored`,
    `processed`: nothing changes hands; the active task named has its state, or has processed its first record here.
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
    """One change: after it, this thread holds exactly `active` and `standby`.

    `pid`: its process, `jvm_pid`: the executor's, None where it is not known. `task`: of `restored` and `processed`;
    `origin`, `records`: what it started from, and how many records it read from changelogs before it ran.
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


@dataclass(frozen=True, slots=True)
class Holder:
    """Who writes: a thread of an instance, in a process, under an executor."""

    instance: str
    thread: str
    executor: str
    pid: int
    jvm_pid: int | None = None


class OwnershipLog:
    """The file of one thread, appended line by line."""

    def __init__(self, directory: Path, holder: Holder) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._holder = holder
        self._file = directory / f"{holder.thread}-{holder.pid}{SUFFIX}"

    def write(
        self,
        event: OwnershipEvent,
        *,
        generation_id: int | None = None,
        member_id: str | None = None,
        active: Iterable[str] = (),
        standby: Iterable[str] = (),
        reason: str | None = None,
        task: str | None = None,
        origin: str | None = None,
        records: int | None = None,
    ) -> None:
        """Append one line; when this returns, the line survives this process. Raises OSError."""
        line = OwnershipLine(
            time.time() * 1000,
            event,
            **asdict(self._holder),
            generation_id=generation_id,
            member_id=member_id,
            active=tuple(sorted(active)),
            standby=tuple(sorted(standby)),
            reason=reason,
            task=task,
            origin=origin,
            records=records,
        )
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")


def read_ownership(directory: Path) -> list[OwnershipLine]:
    """Every line of every file, in order of time; a last line that is being written is left out. Raises InputError."""
    return sorted(_lines(directory), key=lambda line: line.at_ms)


def _lines(directory: Path) -> Iterator[OwnershipLine]:
    for file in sorted(directory.glob(f"*{SUFFIX}")):
        text = file.read_text(encoding="utf-8")
        complete = text[: text.rfind("\n") + 1]
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                yield _as_line(json.loads(line))
            except (ValueError, TypeError, KeyError) as fault:
                raise InputError(f"not a line of an ownership log: {fault}", f"{file}:{number}") from fault


def _as_line(document: dict[str, object]) -> OwnershipLine:
    fields: dict[str, object] = dict(document)
    fields["event"] = OwnershipEvent(str(fields["event"]))
    for name in ("active", "standby"):
        tasks = fields[name]
        if not isinstance(tasks, list):
            raise TypeError(f"{name} is not a list")
        fields[name] = tuple(str(task) for task in tasks)
    return OwnershipLine(**fields)  # type: ignore[arg-type]
