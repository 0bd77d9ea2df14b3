"""A group whose processes are tasks on Spark executors: Spark starts those that die again, wherever there is room."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from pyspark import InheritableThread, TaskContext

from spark_engine.session.spark_session import spark_session
from spark_jobs.ownership.executor_identity import executor_identity
from spark_jobs.workers.leaving_signals import LeavingSignals
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.checkout import ROOT
from tests.history.faults import FaultKind
from tests.history.member import MemberSettings, work
from tests.spark_jobs.quick_java import quick_java

EXECUTORS = 2
END_TIMEOUT_S = 120.0
_MEMORY_MB = 1024


class SparkMembers:
    """The job of all processes. `failures`: what ended it, in words."""

    def __init__(self, settings: Sequence[MemberSettings]) -> None:
        self._settings = settings
        self._ended = threading.Event()
        self.failures: list[str] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """From their start until all have left. Raises SparkNotStarted, JavaNotFound."""
        conf = {"spark.executorEnv.PYTHONPATH": str(ROOT), "spark.executorEnv.PYTHONDONTWRITEBYTECODE": "1"}
        slots = -(-len(self._settings) // EXECUTORS)
        master = f"local-cluster[{EXECUTORS},{slots},{_MEMORY_MB}]"
        with quick_java(), spark_session(master, "history", conf=conf) as spark:
            context = spark.sparkContext

            def run() -> None:
                body = partial(_in_a_task, list(self._settings))
                count = len(self._settings)
                try:
                    context.parallelize(range(count), count).mapPartitionsWithIndex(body).collect()
                except Exception as error:
                    self.failures.append(f"the job on Spark failed: {error!r}"[:1_000])
                finally:
                    self._ended.set()

            InheritableThread(target=run, name="history on Spark", daemon=True).start()
            try:
                yield
            finally:
                if not self._ended.wait(0):
                    context.cancelAllJobs()

    def leave(self, coordinator_url: str) -> None:
        """Have the group told to stop, and wait until all have ended."""
        with CoordinatorClient(coordinator_url) as client:
            client.drain(self._settings[0].group)
        if not self._ended.wait(END_TIMEOUT_S):
            self.failures.append("the members on Spark did not end although they were told to")

    def fault_kinds(self) -> list[FaultKind]:
        """Executors are killed, with all processes on them, and single Python workers."""
        names = {f"spark task of {each.name}": each for each in self._settings}
        return [
            FaultKind("executor killed", 6, 1.0, {name: partial(_kill, each, 1) for name, each in names.items()}),
            FaultKind("Python worker killed", 6, 1.0, {name: partial(_kill, each, 0) for name, each in names.items()}),
        ]


@contextmanager
def _kill(settings: MemberSettings, which: int) -> Iterator[None]:
    """`which`: 0 for the Python worker, 1 for its executor. Nothing happens to one that has not started yet."""
    file = _pids(settings)
    if file.exists():
        pid = int(file.read_text().split()[which])
        with suppress(ProcessLookupError):  # it has died already, and Spark is about to start another one
            os.kill(pid, signal.SIGKILL)
    yield


def _pids(settings: MemberSettings) -> Path:
    return settings.directory / f"{settings.name}.pids"


def _in_a_task(settings: Sequence[MemberSettings], index: int, _rows: Iterator[object]) -> Iterator[bool]:
    """The life of one process. A worker whose executor is killed gets SIGHUP, and leaves."""
    context = TaskContext.get()
    assert context is not None, "it runs inside a Spark task"
    mine = settings[index]
    jvm_pid = executor_identity().jvm_pid
    assert jvm_pid is not None, "it runs under an executor"
    written = _pids(mine).with_suffix(".new")
    written.write_text(f"{os.getpid()} {jvm_pid}")
    written.rename(_pids(mine))
    with LeavingSignals() as signals:
        has_failed = work(mine, context.taskAttemptId() + 1, signals)
    if has_failed:
        raise RuntimeError(f"{mine.name} failed")
    yield True
