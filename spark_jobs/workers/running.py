"""Instances as long-running Spark tasks: one non-barrier task for each instance, with its stream threads inside.

Rules: no task waits for the others, because a task may get its slot later. An executor that dies costs its own tasks,
which Spark starts elsewhere, and never the job. The job ends when the coordinator's heartbeat answers say stop.
"""

from __future__ import annotations

import functools
import threading
import time

from pyspark import InheritableThread, cloudpickle
from pyspark.sql import SparkSession

from assignor.errors import AssignorFault, InputError
from spark_jobs.session.shipped_code import send_modules
from spark_jobs.workers.member_process import InstanceEnd, InstanceSettings, run_partition
from streams_runtime.application import Application
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.coordinator_errors import CoordinatorError, CoordinatorUnavailable
from streams_runtime.membership.group_definition import group_body

COORDINATOR_URL = "http://127.0.0.1:8080"
STOP_TIMEOUT_S = 20.0
CANCEL_INTERVAL_S = 0.25
EXECUTOR_CONF = {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""For a session that runs instances: an executor's JVM does nothing but start Python and wait for it. Compiling no more
than it needs, the one that Spark starts for a dead one takes half the CPU from the instances that take over.
"""


class WorkersFailed(AssignorFault):
    """The Spark job of the instances failed. The message has Spark's reason."""


class Workers:
    """A number of instances on a Spark session, from `start` until `wait` returns."""

    def __init__(self, spark: SparkSession, settings: InstanceSettings, instances: int) -> None:
        self._spark = spark
        self._settings = settings
        self._instances = instances
        self._group_id = settings.application.id
        self._job_group = f"instances of {self._group_id}"
        self._ends: list[InstanceEnd] = []
        self._failure: BaseException | None = None
        # an event, not Thread.join: after an interrupted join, Python takes the thread for ended (bpo-45274)
        self._ended = threading.Event()

    def start(self) -> None:
        InheritableThread(target=self._run, name=self._job_group, daemon=True).start()

    def wait(self, timeout_s: float | None = None) -> list[InstanceEnd] | None:
        """How the instances ended, or None when some still run after `timeout_s`. Raises WorkersFailed."""
        if not self._ended.wait(timeout_s):
            return None
        if self._failure is not None:
            raise WorkersFailed(f"the instances' Spark job failed: {self._failure}") from self._failure
        return self._ends

    def stop(self) -> list[InstanceEnd]:
        """Drain the group: every instance commits, checkpoints, leaves and ends.

        When they do not end within 20 s, the job is cancelled and the list is empty, since no instance reported its
        end.
        """
        try:
            with CoordinatorClient(self._settings.coordinator_url, token=self._settings.token) as client:
                client.drain(self._group_id)
            ends = self.wait(STOP_TIMEOUT_S)
        except (CoordinatorError, CoordinatorUnavailable):
            ends = None
        if ends is not None:
            return ends
        self.cancel()
        return self._ends

    def cancel(self) -> None:
        """Cancel the job. The instances get SIGKILL."""
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while not self._ended.is_set() and time.monotonic() < deadline_s:
            # repeated, because a job that Spark has not yet submitted cannot be cancelled
            self._spark.sparkContext.cancelJobGroup(self._job_group)
            self._ended.wait(CANCEL_INTERVAL_S)

    def _run(self) -> None:
        context = self._spark.sparkContext
        try:
            context.setJobGroup(self._job_group, self._job_group, interruptOnCancel=True)
            body = functools.partial(run_partition, self._settings)
            self._ends = (
                context.parallelize(range(self._instances), self._instances).mapPartitionsWithIndex(body).collect()
            )
        except BaseException as fault:
            self._failure = fault
        finally:
            self._ended.set()


def run(
    spark: SparkSession,
    app: Application,
    *,
    instances: int = 3,
    threads: int | None = None,
    coordinator_url: str = COORDINATOR_URL,
    token: str | None = None,
    state_dir: str | None = None,
    log_dir: str | None = None,
) -> Workers:
    """Declare the application's group at the coordinator (`declare`), and start its instances in the background
    (`start`).

    `threads`, `state_dir`: override the application's num.stream.threads and state.dir. `log_dir`: where stream threads
    write their ownership logs (`ownership_log`); None writes none. Paths are those of the executors. The coordinator's
    setting cluster.bootstrap.servers must list the application's bootstrap.servers.

    Raises as `declare` does.
    """
    declare(app, coordinator_url=coordinator_url, token=token)
    settings = InstanceSettings(app, coordinator_url, threads, state_dir, log_dir, token)
    return start(spark, settings, instances)


def declare(app: Application, *, coordinator_url: str, token: str | None = None, replace: bool = False) -> None:
    """Declare the application's group. `replace`: also when living members run another topology, which may end them.

    Raises InputError for an application that cannot be sent to executors, GroupRunsAnotherTopology, CoordinatorError,
    CoordinatorUnavailable.
    """
    body = group_body(app)
    _check_can_travel(app)
    with CoordinatorClient(coordinator_url, token=token) as client:
        client.declare(app.id, body, replace=replace)


def start(spark: SparkSession, settings: InstanceSettings, instances: int) -> Workers:
    """Start instances of an application whose group is declared, in the background."""
    send_modules(spark.sparkContext)
    workers = Workers(spark, settings, instances)
    workers.start()
    return workers


def _check_can_travel(app: Application) -> None:
    try:
        cloudpickle.dumps(app)  # type: ignore[no-untyped-call]
    except Exception as error:  # the objects in a topology may raise anything when they are pickled
        raise InputError(
            f"the application cannot be pickled for executors: {type(error).__name__}: {error}", app.id
        ) from error
