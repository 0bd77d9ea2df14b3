"""How far an instance's copies of tasks have come, kept in its state directory for the next start.

This is what stands in for state stores as long as members only hold their tasks: a copy that is held restores at a
fixed rate up to the end of its changelogs, and a copy that is given up stays where it is. A position is kept as Kafka
keeps it, in `<state.dir>/<application.id>/<task>/.checkpoint`. Among the threads of one instance, a task's state is
answered for by the thread that holds it, else by the first that claims it for a rebalance. Source: `StateDirectory`,
`TaskManager.tryToLockAllNonEmptyTaskDirectories`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from assignor.errors import DecodeError
from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
from spark_jobs.definition import Changelogs
from streams_runtime.offset_checkpoint import OFFSET_UNKNOWN, format_checkpoint, parse_checkpoint

CHECKPOINT_FILE_NAME = ".checkpoint"


@dataclass(slots=True)
class _Copy:
    """`offsets` as of `since_s`; `holder`: the thread that holds the task and so makes it grow."""

    offsets: dict[TopicPartition, int]
    since_s: float
    holder: str | None = None
    claimed_by: str | None = None


class TaskPositions:
    """All copies of one instance; shared by its threads.

    `restore_rate`: records a second and changelog partition. `clock`: seconds, monotonic.
    """

    def __init__(
        self,
        application_directory: Path,
        changelogs: Changelogs,
        *,
        restore_rate: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = application_directory
        self._changelogs = changelogs
        self._restore_rate = restore_rate
        self._clock = clock
        self._lock = threading.Lock()
        self._copies: dict[TaskId, _Copy] = {}
        for task, ends in changelogs.items():
            stored = self._stored(task, ends)
            if stored is not None:
                self._copies[task] = _Copy(stored, clock())

    def claim(self, thread: str) -> None:
        """A rebalance starts: `thread` answers for every copy that nobody holds and no other thread has claimed."""
        with self._lock:
            for copy in self._copies.values():
                if copy.holder is None and copy.claimed_by is None:
                    copy.claimed_by = thread

    def hold(self, thread: str, tasks: Iterable[TaskId]) -> None:
        """From now on `thread` holds exactly these; its claims end, and what it held before is kept on disk."""
        wanted = {task for task in tasks if task in self._changelogs}
        now_s = self._clock()
        with self._lock:
            for task, copy in self._copies.items():
                if copy.claimed_by == thread:
                    copy.claimed_by = None
                if copy.holder == thread and task not in wanted:
                    self._let_go(task, copy, now_s)
            for task in wanted:
                copy = self._copies.setdefault(task, _Copy(dict.fromkeys(self._changelogs[task], 0), now_s))
                if copy.holder != thread:
                    copy.offsets, copy.since_s = self._grown(task, copy, now_s), now_s
                    copy.holder = thread

    def offset_sums(self, thread: str) -> dict[TaskId, int]:
        """The offset sums of all that `thread` holds or has claimed, as SubscriptionInfo wants them."""
        now_s = self._clock()
        with self._lock:
            return {
                task: min(sum(self._grown(task, copy, now_s).values()), JAVA_LONG_MAX)
                for task, copy in self._copies.items()
                if thread in (copy.holder, copy.claimed_by)
            }

    def is_restored(self, task: TaskId) -> bool:
        """Whether this instance's copy has reached the end of its changelogs; a task without changelogs always has."""
        ends = self._changelogs.get(task)
        if ends is None:
            return True
        with self._lock:
            copy = self._copies.get(task)
            return copy is not None and self._grown(task, copy, self._clock()) == ends

    def _grown(self, task: TaskId, copy: _Copy, now_s: float) -> dict[TopicPartition, int]:
        if copy.holder is None:
            return copy.offsets
        restored = int((now_s - copy.since_s) * self._restore_rate)
        ends = self._changelogs[task]
        return {partition: min(end, copy.offsets.get(partition, 0) + restored) for partition, end in ends.items()}

    def _let_go(self, task: TaskId, copy: _Copy, now_s: float) -> None:
        copy.offsets, copy.since_s = self._grown(task, copy, now_s), now_s
        copy.holder = None
        directory = self._directory / str(task)
        directory.mkdir(parents=True, exist_ok=True)
        text = format_checkpoint(copy.offsets)
        assert text is not None, "only tasks with changelogs have copies"
        written = directory / f"{CHECKPOINT_FILE_NAME}.{os.getpid()}.tmp"
        written.write_text(text)
        written.replace(directory / CHECKPOINT_FILE_NAME)

    def _stored(self, task: TaskId, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int] | None:
        with contextlib.suppress(OSError, DecodeError):  # what cannot be read is restored from the start
            stored = parse_checkpoint((self._directory / str(task) / CHECKPOINT_FILE_NAME).read_bytes())
            return {
                partition: 0 if stored.get(partition, 0) == OFFSET_UNKNOWN else min(stored.get(partition, 0), end)
                for partition, end in ends.items()
            }
        return None
