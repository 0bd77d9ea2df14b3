"""Runs a Spark job in a separate thread, so that the caller can cancel the job, or wait for it with a time limit."""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Generic, TypeVar

from pyspark import InheritableThread, SparkContext

STOP_TIMEOUT_S = 20.0
_CANCEL_INTERVAL_S = 0.25

Result = TypeVar("Result")


class SparkJob(Generic[Result]):
    """Runs the function `body`, which starts a Spark job and returns its result. `failure`: the exception that `body`
    raised; None if it raised no exception.
    """

    def __init__(self, context: SparkContext, title: str, body: Callable[[], Result]) -> None:
        # the name has a UUID, because an earlier job of this session may have had the same title
        self.group = f"{title} {uuid.uuid4().hex}"
        self.result: Result | None = None
        self.failure: BaseException | None = None
        self._context = context
        self._title = title
        self._body = body
        # The main thread waits for this event. The main thread does not call Thread.join, because Python treats a
        # thread as ended after an interrupted join (bpo-45274).
        self._ended = threading.Event()

    def start(self) -> None:
        InheritableThread(target=self._run, name=self._title, daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Waits at most `timeout_s` seconds for the end of the job. Returns True if the job has ended."""
        return self._ended.wait(timeout_s)

    def cancel(self) -> None:
        """Cancels the job. Spark kills the Python workers of its tasks with SIGKILL."""
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while not self._ended.is_set() and time.monotonic() < deadline_s:
            # repeat the call: it has no effect before Spark has submitted the job
            self._context.cancelJobGroup(self.group)
            self._ended.wait(_CANCEL_INTERVAL_S)

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self.group, self._title, interruptOnCancel=True)
            self.result = self._body()
        except BaseException as fault:
            self.failure = fault
        finally:
            self._ended.set()
