"""Groups whose instances are started by `workers.run`: Spark starts those that die again, wherever there is room."""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from spark_engine.session.spark_session import spark_session
from spark_jobs.ownership.ownership_log import read_ownership
from spark_jobs.workers.running import Workers, run
from streams_runtime import Application
from tests.checkout import ROOT
from tests.history.calls import OWNERSHIP
from tests.history.faults import FaultKind
from tests.spark_jobs.quick_java import quick_java
from tests.waiting import wait_until

EXECUTORS = 2
START_TIMEOUT_S = 120.0
_MEMORY_MB = 1024


class SparkMembers:
    """All instances on Spark. `urls`: the coordinator's URL for each group. `instances`: their number in each group.

    `deaths`: the time at which each Python worker was killed, in milliseconds since the epoch, by process id.
    """

    def __init__(self, directory: Path, urls: Mapping[str, str], instances: int) -> None:
        self._directory = directory
        self._urls = urls
        self._instances = instances
        self._workers: dict[str, Workers] = {}
        self.deaths: dict[int, float] = {}

    @contextmanager
    def running(self, applications: Mapping[str, Application]) -> Iterator[None]:
        """From the time when all have started until the Spark session ends. Raises SparkNotStarted, JavaNotFound."""
        conf = {"spark.executorEnv.PYTHONPATH": str(ROOT), "spark.executorEnv.PYTHONDONTWRITEBYTECODE": "1"}
        slots = -(-len(self._urls) * self._instances // EXECUTORS)
        master = f"local-cluster[{EXECUTORS},{slots},{_MEMORY_MB}]"
        with quick_java(), spark_session(master, "history", conf=conf) as spark:
            try:
                for group, url in self._urls.items():
                    self._workers[group] = run(
                        spark,
                        applications[group],
                        instances=self._instances,
                        coordinator_url=url,
                        state_dir=str(self._directory / "state" / group),
                        log_dir=str(self._ownership(group)),
                    )
                wait_until(self._have_started, "all instances on Spark to start", START_TIMEOUT_S)
                yield
            finally:
                for workers in self._workers.values():
                    workers.cancel()

    def check(self) -> None:
        """Raises WorkersFailed, or AssertionError for a job that has ended before its group was drained."""
        for group, workers in self._workers.items():
            assert workers.wait(0.0) is None, f"the instances of {group} ended"

    def leave(self) -> list[dict[str, str]]:
        """Drain the groups, and wait until all instances have ended. Returns the failures of instances."""
        failures = []
        for group, workers in self._workers.items():
            ends = workers.stop()
            texts = [str(end) for end in ends if not end.is_good] if ends else ["the drained instances did not end"]
            failures += [{"group": group, "said": text} for text in texts]
        return failures

    def fault_kinds(self) -> Sequence[FaultKind]:
        """Executors are killed, with all instances on them, and single Python workers."""
        numbers = range(self._instances)
        instances = {f"instance {each} of {group}": (group, each) for group in self._urls for each in numbers}
        return [
            FaultKind(name, 6, 1.0, {target: partial(kill, *one) for target, one in instances.items()})
            for name, kill in (("executor killed", self._kill_executor), ("Python worker killed", self._kill_worker))
        ]

    @contextmanager
    def _kill_executor(self, group: str, number: int) -> Iterator[None]:
        """The Python workers of a killed executor get SIGHUP, and leave."""
        for _, jvm_pid in self._newest(group, number):
            assert jvm_pid is not None, "it runs under an executor"
            _kill(jvm_pid)
        yield

    @contextmanager
    def _kill_worker(self, group: str, number: int) -> Iterator[None]:
        for pid, _ in self._newest(group, number):
            self.deaths.setdefault(pid, time.time() * 1000)
            _kill(pid)
        yield

    def _have_started(self) -> bool:
        return all(self._newest(group, number) for group in self._urls for number in range(self._instances))

    def _newest(self, group: str, number: int) -> list[tuple[int, int | None]]:
        """The process id of an instance and that of its executor; empty if it has not started yet."""
        lines = [line for line in read_ownership(self._ownership(group)) if line.instance == f"p{number}"]
        return [(line.pid, line.jvm_pid) for line in lines[-1:]]

    def _ownership(self, group: str) -> Path:
        return self._directory / OWNERSHIP / group


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has died already, and Spark is about to start another one
        os.kill(pid, signal.SIGKILL)
