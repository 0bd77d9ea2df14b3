"""One instance in a thread of the test's process, where no signals reach it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from spark_jobs.ownership.executor_identity import ExecutorIdentity
from spark_jobs.workers.member_process import InstanceResult, InstanceSettings, run_instance
from streams_runtime.membership.coordinator_client import CoordinatorClient

TIMEOUT_S = 60.0
EXECUTOR = ExecutorIdentity("7", None, host="127.0.0.2")
"""Its host is this machine, too, and another one than an instance takes of its own accord."""


class RunningInstance:
    """Instance `partition` of these settings."""

    def __init__(self, settings: InstanceSettings, partition: int = 0, incarnation: int = 0) -> None:
        self._arguments = (settings, partition, incarnation, EXECUTOR)
        self._end: InstanceResult | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> InstanceResult:
        """How it ended. Raises what it raised."""
        self._thread.join(TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        assert self._end is not None, "it runs on"
        return self._end

    def _run(self) -> None:
        try:
            self._end = run_instance(*self._arguments)
        except BaseException as failure:
            self._failure = failure


@contextmanager
def running(client: CoordinatorClient, settings: InstanceSettings) -> Iterator[RunningInstance]:
    """Drained with the context."""
    instance = RunningInstance(settings)
    try:
        yield instance
    finally:
        client.drain(settings.application.id)
        instance.wait()
