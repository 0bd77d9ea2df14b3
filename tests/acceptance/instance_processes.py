"""Instances as plain processes of their own, without Spark: they can be told to leave, or killed."""

import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.cloudpickle import dumps

from spark_jobs.ownership.executor_identity import ExecutorIdentity
from spark_jobs.workers.member_process import InstanceSettings, run_instance
from tests import warm_program

EXIT_TIMEOUT_S = 30.0


class InstanceProcess:
    """One instance. Its output goes to this process's stderr."""

    def __init__(self, settings: InstanceSettings, partition: int, incarnation: int = 0) -> None:
        def body() -> None:
            run_instance(settings, partition, incarnation, ExecutorIdentity(f"e{partition}", None))

        self._process = warm_program.CONTEXT.Process(target=_call, args=(dumps(body),), daemon=True)  # type: ignore[no-untyped-call]
        self._process.start()
        assert self._process.pid is not None, "it was started"
        self.pid = self._process.pid

    def hang_up(self) -> None:
        """SIGHUP, as pyspark's daemon sends it when the executor dies."""
        os.kill(self.pid, signal.SIGHUP)

    def suspend(self) -> None:
        """It answers nothing any more, and its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """The exit code, once it has ended by itself."""
        self._process.join(EXIT_TIMEOUT_S)
        assert self._process.exitcode is not None, "it runs on"
        return self._process.exitcode

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _call(body: bytes) -> None:
    warm_program.end_with_the_tests()
    pickle.loads(body)()


@contextmanager
def instances(settings: InstanceSettings, count: int) -> Iterator[list[InstanceProcess]]:
    """`count` instances; more may be appended. All are ended with the context."""
    started = [InstanceProcess(settings, partition) for partition in range(count)]
    try:
        yield started
    finally:
        for instance in started:
            instance.end()
