"""Runs each instance, with its stream threads, as one long-running Spark task.

The Spark tasks are not barrier tasks. A task that gets its slot early does not wait for the other tasks. If an executor
dies, Spark starts the executor's tasks on another executor, and the job continues. If an instance fails at four starts
in a row, the job is cancelled. If the group is drained, the coordinator's responses to heartbeats tell all instances to
stop. After a drain, the job ends normally.
"""

import functools
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark import SparkContext, TaskContext, cloudpickle
from pyspark.sql import SparkSession

from assignor.errors import InputError
from coordinator_client.calls import DEFAULT_URL, addresses_of
from spark_engine.session.shipped_code import send_modules, send_packages
from spark_engine.session.spark_faults import reason_in, reason_of
from spark_engine.session.spark_job import SparkJob
from spark_engine.session.spark_options import is_on_loopback
from spark_jobs.ownership.executor_identity import executor_identity
from spark_jobs.workers.declaring import declare
from spark_jobs.workers.instance_starts import GIVEN_UP, FailedAttempt, StartFailures, Surroundings, WorkersFailed
from spark_jobs.workers.member_process import InstanceResult, InstanceSettings, run_instance
from spark_jobs.workers.spark_confs import refuse_unusable, warnings_about
from streams_runtime.instance.application import Application
from streams_runtime.logs.opening import kafka_servers
from streams_runtime.membership.calls import CoordinatorError, CoordinatorUnavailable
from streams_runtime.membership.coordinator_client import CoordinatorClient

STOP_TIMEOUT_S = 20.0
POLL_INTERVAL_S = 1.0

_LOGGER = logging.getLogger(__name__)
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
_LOST = re.compile(r"ExecutorLostFailure|ExecutorDecommission|Python worker exited unexpectedly|TaskKilled")
_LOST_REASON = re.compile(r"Reason: (.*)")

Report = Callable[[str], None]
"""A function that receives messages for the user, one line each. The default of `run` logs the messages as warnings."""


def check_picklable(app: Application) -> None:
    """Raises InputError if the application cannot be pickled for executors. The error names the processor that cannot
    be pickled.
    """
    try:
        cloudpickle.dumps(app)  # type: ignore[no-untyped-call]
    except Exception as error:  # Pickling an object of the application may raise any exception.
        raise InputError(
            "the application cannot be pickled for executors: "
            f"{_unpicklable_part(app)}{type(error).__name__}: {error}. "
            "Make locks, connections and clients inside of the function, or in the init of a processor",
            app.id,
        ) from error


def _unpicklable_part(app: Application) -> str:
    """Returns the name of a processor that cannot be pickled, followed by a colon; empty if each processor can be
    pickled.
    """
    for name, node in app.topology.builder.definition().nodes.items():
        try:
            cloudpickle.dumps(node.supplier)  # type: ignore[no-untyped-call]
        except Exception:
            return f"{name}: "
    return ""


class Workers:
    """Runs the instances of an application on a Spark session. `start` starts the instances. `wait` returns a list when
    all instances have ended.
    """

    def __init__(self, spark: SparkSession, settings: InstanceSettings, instances: int, report: Report) -> None:
        self._settings = settings
        self.instances = instances
        context = spark.sparkContext
        self.surroundings = Surroundings(str(context.master), context.uiWebUrl, settings.coordinator_url)
        self._report = report
        body = functools.partial(_run_partition, settings)
        numbers = context.parallelize(range(instances), instances)
        title = f"instances of {settings.application.id}"
        self._job = SparkJob(context, title, lambda: list(numbers.mapPartitionsWithIndex(body).collect()))
        self._tasks = InstanceTasks(context, self._job.group)
        self._start_failures = StartFailures()

    def start(self) -> None:
        self._job.start()

    def wait(self, timeout_s: float | None = None) -> list[InstanceResult] | None:
        """Waits until all instances have ended. Returns an InstanceResult for each instance, or None if instances still
        run after `timeout_s`. Raises WorkersFailed if the last four starts of an instance failed, or if the Spark job
        fails. During the wait, the function `report` receives messages about failed instances and their reasons.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._job.wait(_until(deadline_s)):
            self._check_for_failures()
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return None
        if (failure := self._job.failure) is not None:
            raise WorkersFailed(f"the instances' Spark job failed: {reason_of(failure)}") from failure
        return self._job.result

    @property
    def running(self) -> int:
        """The number of instances that have a slot on Spark."""
        return self._tasks.running()

    def stop(self) -> list[InstanceResult]:
        """Drains the group: every instance commits, checkpoints, leaves the group and ends. Returns an InstanceResult
        for each instance. If the instances do not end within 20 s, the Spark job is cancelled, and the returned list is
        empty.
        """
        try:
            with CoordinatorClient(self._settings.coordinator_url, token=self._settings.caller_token()) as client:
                client.drain(self._settings.application.id)
            ends = self.wait(STOP_TIMEOUT_S)
        except (CoordinatorError, CoordinatorUnavailable):
            ends = None
        if ends is None:
            self.cancel()
        return ends or []

    def cancel(self) -> None:
        """Cancels the Spark job of the instances. Spark kills the instances with SIGKILL."""
        self._job.cancel()

    def _check_for_failures(self) -> None:
        for failure in self._tasks.new_failures():
            if self._start_failures.is_last(failure):
                self.cancel()
                raise WorkersFailed(f"{failure}; {GIVEN_UP}")
            self._report(f"{failure}; Spark starts it again")


def run(
    spark: SparkSession,
    app: Application,
    *,
    instances: int = 3,
    threads: int | None = None,
    coordinator_url: str = DEFAULT_URL,
    token: str | None = None,
    state_dir: str | None = None,
    log_dir: str | None = None,
    report: Report = _LOGGER.warning,
) -> Workers:
    """Declares the application's group at the coordinator (`declare`), and starts its instances in the background
    (`start`).

    `coordinator_url`: the URL of a coordinator. If several coordinators share a database, `coordinator_url` has the
    URLs of all these coordinators, separated by commas. `threads`, `state_dir`: values that replace the application's
    configs num.stream.threads and state.dir; None to keep the application's value. `log_dir`: the directory of
    ownership logs (`ownership_log`); None to write no ownership logs. `state_dir` and `log_dir` are paths on the
    executors. The coordinator's setting cluster.bootstrap.servers must list the application's bootstrap.servers.

    `spark`: any Spark session, for example the session of a program that spark-submit started. For a new session,
    `with_defaults` returns suitable settings. `report`: a function that receives messages for the user, one line each.
    Raises InputError in three cases: the application cannot be sent to executors, instances cannot run with these
    settings, or an instance is already running. Raises CoordinatorError and CoordinatorUnavailable, too.
    """
    settings = InstanceSettings(app, coordinator_url, threads, state_dir, log_dir, token)
    check_picklable(app)
    with CoordinatorClient(coordinator_url, token=token) as client:
        declare(settings, client, wait_s=0.0, instances=instances, report=report)
    return start(spark, settings, instances=instances, report=report)


def start(spark: SparkSession, settings: InstanceSettings, *, instances: int, report: Report) -> Workers:
    """Starts the instances of a group that is already declared. Raises InputError if instances cannot run with the
    settings of Spark.
    """
    context = spark.sparkContext
    refuse_unusable(context.getConf())
    for warning in (*warnings_about(context.getConf()), *_placement_warnings(str(context.master), settings)):
        report(warning)
    send_packages(context)
    send_modules(context)
    workers = Workers(spark, settings, instances, report)
    workers.start()
    return workers


def _run_partition(settings: InstanceSettings, partition: int, _rows: Iterator[object]) -> Iterator[InstanceResult]:
    """The body of a Spark task: runs an instance until the instance ends."""
    context = TaskContext.get()
    assert context is not None, "runs inside a Spark task"
    yield run_instance(settings, partition, context.taskAttemptId(), executor_identity())


def _placement_warnings(master: str, settings: InstanceSettings) -> Iterator[str]:
    """Yields a warning for each setting with which executors on other machines cannot reach the coordinator or the log
    of records.
    """
    if is_on_loopback(master):
        return
    for url in addresses_of(settings.coordinator_url).urls:
        if urlsplit(url).hostname in _LOOPBACK_NAMES:
            yield f"{url} is the coordinator for this machine only: executors elsewhere need its name"
    servers = settings.application.configs.bootstrap_servers
    if kafka_servers(servers) is None:
        yield f"{servers} is a log on the disk of one machine: executors elsewhere would each have one of their own"


def _until(deadline_s: float | None) -> float:
    """Returns the time until the next poll, in seconds."""
    return POLL_INTERVAL_S if deadline_s is None else max(0.0, min(POLL_INTERVAL_S, deadline_s - time.monotonic()))


class InstanceTasks:
    """Asks Spark for the tasks of one job: the number of running tasks, and the failed attempts with their reasons.
    This class is necessary because Spark starts a failed task again and writes the failure only to its own log file.
    After the JVM has ended, `running` returns 0, and `new_failures` returns an empty list.
    """

    def __init__(self, context: SparkContext, job_group: str) -> None:
        self._context = context
        self._job_group = job_group
        self._known: set[int] = set()

    def running(self) -> int:
        """Returns the number of tasks of the job that have a slot."""
        try:
            return sum(info.numActiveTasks for _, info in self._stages())
        except (Py4JError, ConnectionError):
            return 0

    def new_failures(self) -> list[FailedAttempt]:
        """Returns the failed attempts since the last call."""
        try:
            return [failure for stage, info in self._stages() for failure in self._failures(stage, info)]
        except (Py4JError, ConnectionError):
            return []

    def _stages(self) -> Iterable[tuple[int, Any]]:
        if self._context._jsc is None:  # The Spark context has been stopped.
            return
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._job_group):
            found = tracker.getJobInfo(job)
            for stage in () if found is None else found.stageIds:
                info = tracker.getStageInfo(stage)
                if info is not None:
                    yield stage, info

    def _failures(self, stage: int, info: Any) -> Iterable[FailedAttempt]:
        if info.numFailedTasks <= len(self._known):
            return
        store: Any = self._context._jsc.sc().statusStore()
        tasks = store.taskList(stage, info.currentAttemptId, 2**31 - 1)
        for number in range(tasks.length()):
            task = tasks.apply(number)
            if task.status() != "FAILED" or task.taskId() in self._known:
                continue
            self._known.add(task.taskId())
            yield _failed(task)


def _failed(task: Any) -> FailedAttempt:
    error = task.errorMessage()
    text = str(error.get()) if error.isDefined() else ""
    duration = task.duration()
    is_loss = _LOST.search(text) is not None
    given = _LOST_REASON.search(text) if is_loss else None
    return FailedAttempt(
        int(task.index()),
        f"executor {task.executorId()} on {str(task.host()).partition(':')[0]}",
        given[1].strip() if given is not None else reason_in(text),
        int(duration.get()) if duration.isDefined() else 0,
        is_loss,
    )
