"""What the process of a stream thread calls here, and is answered. The thread that stands for it makes the calls.

Rule: this process owns the locks of the tasks' directories, so they are held in the name of that thread, and all of
them are given back when the process is gone. Source: none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from assignor.types import TaskId
from streams_runtime.application import ThreadErrorResponse
from streams_runtime.restore.restore_listener import RestoreListeners
from streams_runtime.tasks.task_directories import TaskDirectories
from streams_runtime.thread_processes.carried_errors import CarriedError, carried
from streams_runtime.thread_processes.messages import Callee, CallOfThread, Reply
from streams_runtime.threads.thread_setting import ThreadSetting

_logger = logging.getLogger(__name__)


class AnsweredCalls:
    """Of one stream thread. `uncaught`: the error of which the user's handler was told."""

    def __init__(self, setting: ThreadSetting) -> None:
        self.uncaught: Exception | None = None
        self._handler = setting.application.uncaught_exception_handler
        self._locks = _Locks(setting.directory)
        self._callees: Mapping[Callee, object] = {
            Callee.DIRECTORIES: self._locks,
            Callee.LISTENER: setting.listener,
            Callee.RESTORE_LISTENER: RestoreListeners((setting.restore_listener,)),
        }

    def answer(self, call: CallOfThread) -> Reply:
        try:
            value = self._call(call)
        except BaseException as error:  # not even a SystemExit of a listener ends the thread that answers
            return Reply(call.number, None, carried(error))
        return Reply(call.number, value, None)

    def ask_user(self, error: Exception) -> ThreadErrorResponse:
        """What follows an error that no stream thread is left to ask for."""
        try:
            return ThreadErrorResponse(self._handler(error))
        except Exception:
            _logger.exception("the uncaught exception handler failed; shutting down")
            return ThreadErrorResponse.SHUTDOWN_CLIENT

    def unlock_all(self) -> None:
        """The process is gone."""
        self._locks.unlock_all()

    def _call(self, call: CallOfThread) -> Any:
        if call.callee is Callee.UNCAUGHT_EXCEPTION_HANDLER:
            return self._uncaught(call.arguments[0])
        method: Callable[..., Any] = getattr(self._callees[call.callee], call.method)
        value = method(*call.arguments, **call.named)
        return value if call.callee is Callee.DIRECTORIES else None  # nobody asks what a listener returns

    def _uncaught(self, error: CarriedError) -> ThreadErrorResponse:
        self.uncaught = error.exception()
        return ThreadErrorResponse(self._handler(self.uncaught))


class _Locks:
    def __init__(self, directory: TaskDirectories) -> None:
        self._directory = directory
        self._taken: set[TaskId] = set()

    def lock(self, task: TaskId, *, to_report: bool) -> bool:
        locked = self._directory.lock(task, to_report=to_report)
        if locked:
            self._taken.add(task)
        return locked

    def unlock(self, task: TaskId) -> None:
        self._directory.unlock(task)
        self._taken.discard(task)

    def holds(self, task: TaskId) -> bool:
        return self._directory.holds(task)

    def owner_name(self, task: TaskId) -> str | None:
        owner = self._directory.lock_owner(task)
        return None if owner is None else owner.name

    def unlock_all(self) -> None:
        for task in sorted(self._taken):
            self._directory.unlock(task)
        self._taken.clear()
