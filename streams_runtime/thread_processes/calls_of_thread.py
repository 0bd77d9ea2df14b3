"""What a stream thread in a process of its own calls in the process of its instance, as if it were here.

Rule: each call waits for its answer, and raises what was raised there: a listener that fails ends the thread here as
well, and a task's directory is locked before the thread goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from assignor.types import TaskId, TopicPartition
from streams_runtime.application import ThreadErrorResponse
from streams_runtime.membership.task_holder import HeldTasks
from streams_runtime.task_manager.thread_listener import TaskRestored
from streams_runtime.tasks.file_system import SYSTEM_FILES
from streams_runtime.tasks.task_directories import TaskDirectories
from streams_runtime.thread_processes.carried_errors import carried
from streams_runtime.thread_processes.messages import Callee, CallOfThread, Reply


class InstanceCalls:
    """Any thread may call. `send`: takes a call to the other process, which answers with a `Reply`."""

    def __init__(self, send: Callable[[CallOfThread], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, SimpleQueue[Reply]] = {}

    def call(self, callee: Callee, method: str, *arguments: Any, **named: Any) -> Any:
        """What the method returns there. Raises what it raises there."""
        answer: SimpleQueue[Reply] = SimpleQueue()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answer
        self._send(CallOfThread(number, callee, method, arguments, named))
        reply = answer.get()
        if reply.error is not None:
            raise reply.error.error()
        return reply.value

    def answered(self, reply: Reply) -> None:
        with self._lock:
            waiting = self._waiting.pop(reply.number)
        waiting.put(reply)


class Owner(NamedTuple):
    """A thread of another process that has a task's directory."""

    name: str


class DirectoriesOfInstance(TaskDirectories):
    """The instance owns the locks, over all its threads and processes. What is in the directories is used here."""

    def __init__(self, state_dir: Path, application_id: str, calls: InstanceCalls) -> None:
        super().__init__(state_dir, application_id, SYSTEM_FILES)
        self._calls = calls

    def lock(self, task: TaskId, *, to_report: bool = False) -> bool:
        return bool(self._calls.call(Callee.DIRECTORIES, "lock", task, to_report=to_report))

    def unlock(self, task: TaskId) -> None:
        self._calls.call(Callee.DIRECTORIES, "unlock", task)

    def holds(self, task: TaskId) -> bool:
        return bool(self._calls.call(Callee.DIRECTORIES, "holds", task))

    def lock_owner(self, task: TaskId) -> Owner | None:
        name = self._calls.call(Callee.DIRECTORIES, "owner_name", task)
        return None if name is None else Owner(name)


class ListenerOfInstance:
    """A `ThreadListener`."""

    def __init__(self, calls: InstanceCalls) -> None:
        self._calls = calls

    def joining(self, held: HeldTasks) -> None:
        self._calls.call(Callee.LISTENER, "joining", held)

    def assigned(self, held: HeldTasks) -> None:
        self._calls.call(Callee.LISTENER, "assigned", held)

    def revoked(self, held: HeldTasks) -> None:
        self._calls.call(Callee.LISTENER, "revoked", held)

    def dropped(self, reason: str, *, clean: bool) -> None:
        self._calls.call(Callee.LISTENER, "dropped", reason, clean=clean)

    def restored(self, task: TaskRestored) -> None:
        self._calls.call(Callee.LISTENER, "restored", task)

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        self._calls.call(Callee.LISTENER, "processed_first", task_id, at_ms)


class RestoreListenerOfInstance:
    """A `RestoreListener`."""

    def __init__(self, calls: InstanceCalls) -> None:
        self._calls = calls

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self._calls.call(Callee.RESTORE_LISTENER, "on_restore_start", partition, store, start, end)

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        self._calls.call(Callee.RESTORE_LISTENER, "on_batch_restored", partition, store, batch_end, count)

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        self._calls.call(Callee.RESTORE_LISTENER, "on_restore_end", partition, store, total)

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        self._calls.call(Callee.RESTORE_LISTENER, "on_restore_suspended", partition, store, total)


def uncaught_exception_handler(calls: InstanceCalls) -> Callable[[Exception], ThreadErrorResponse]:
    """The user's own, in the user's own process."""

    def ask(error: Exception) -> ThreadErrorResponse:
        return ThreadErrorResponse(calls.call(Callee.UNCAUGHT_EXCEPTION_HANDLER, "", carried(error)))

    return ask
