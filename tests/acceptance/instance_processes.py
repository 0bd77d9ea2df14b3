"""Instances as plain processes of their own, without Spark: they can be told to leave, or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.cloudpickle import dumps

from spark_jobs.workers.executor_identity import ExecutorIdentity
from spark_jobs.workers.member_process import InstanceSettings, run_instance

EXIT_TIMEOUT_S = 30.0
_BODY = "import pickle, sys; pickle.load(sys.stdin.buffer)()"


class InstanceProcess:
    """One instance. Its output goes to this process's stderr."""

    def __init__(self, settings: InstanceSettings, partition: int, incarnation: int = 0) -> None:
        def body() -> None:
            run_instance(settings, partition, incarnation, ExecutorIdentity(f"e{partition}", None))

        self._process = subprocess.Popen([sys.executable, "-c", _BODY], stdin=subprocess.PIPE)
        assert self._process.stdin is not None
        self._process.stdin.write(dumps(body))  # type: ignore[no-untyped-call]
        self._process.stdin.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hang_up(self) -> None:
        """SIGHUP, as pyspark's daemon sends it when the executor dies."""
        os.kill(self.pid, signal.SIGHUP)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """The exit code, once it has ended by itself."""
        return self._process.wait(EXIT_TIMEOUT_S)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def instances(settings: InstanceSettings, count: int) -> Iterator[list[InstanceProcess]]:
    """`count` instances; more may be appended. All are ended with the context."""
    started = [InstanceProcess(settings, partition) for partition in range(count)]
    try:
        yield started
    finally:
        for instance in started:
            instance.end()
