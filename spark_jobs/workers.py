"""Instances as long-running Spark tasks: one non-barrier task an instance, k member threads each.

Rules: nobody waits for N members, because a task may get its slot only later; an executor that dies costs its own
tasks, which Spark starts elsewhere, and never the job; the job ends by the stop flag in the heartbeats' answers.
"""

from __future__ import annotations

import functools
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from assignor.errors import AssignorFault
from spark_jobs.definition import GroupDefinition
from spark_jobs.member_process import InstanceEnd, InstanceSettings, run_partition
from streams_runtime.coordinator_client import CoordinatorClient
from streams_runtime.coordinator_errors import CoordinatorError, CoordinatorUnavailable

STOP_TIMEOUT_S = 20.0
CANCEL_INTERVAL_S = 0.25


class WorkersFailed(AssignorFault):
    """The Spark job ended by an error."""


def instance_settings(
    definition: GroupDefinition, coordinator_url: str, state_dir: str, log_dir: str
) -> InstanceSettings:
    """Settings with what the definition tells; use `dataclasses.replace` for the rest."""
    return InstanceSettings(
        coordinator_url=coordinator_url,
        group_id=definition.group_id,
        application_id=definition.application_id,
        source_topics=definition.source_topics(),
        changelogs=definition.changelogs(),
        state_dir=state_dir,
        log_dir=log_dir,
    )


class Workers:
    """`instances` instances on a Spark session, from `start` until `wait` returns."""

    def __init__(self, spark: SparkSession, settings: InstanceSettings, instances: int) -> None:
        self._spark = spark
        self._settings = settings
        self._instances = instances
        self._job_group = f"members of {settings.group_id}"
        self._ends: list[InstanceEnd] = []
        self._failure: BaseException | None = None
        self._thread = InheritableThread(target=self._run, name=self._job_group, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> list[InstanceEnd] | None:
        """How the instances ended; None when some still run after `timeout_s`. Raises WorkersFailed."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return None
        if self._failure is not None:
            raise WorkersFailed(f"the members' Spark job failed: {self._failure}") from self._failure
        return self._ends

    def stop(self) -> list[InstanceEnd]:
        """Have every member leave and end; what does not end in time is cancelled, and its session times out."""
        try:
            with CoordinatorClient(self._settings.coordinator_url, token=self._settings.token) as client:
                client.drain(self._settings.group_id)
            ends = self.wait(STOP_TIMEOUT_S)
        except (CoordinatorError, CoordinatorUnavailable):
            ends = None
        if ends is not None:
            return ends
        self.cancel()
        return self._ends

    def cancel(self) -> None:
        """End the job without asking the members, who get SIGKILL."""
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while self._thread.is_alive() and time.monotonic() < deadline_s:
            # again and again: what has not been submitted yet cannot be cancelled yet
            self._spark.sparkContext.cancelJobGroup(self._job_group)
            self._thread.join(CANCEL_INTERVAL_S)

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


def run_members(
    spark: SparkSession, definition: GroupDefinition, settings: InstanceSettings, instances: int
) -> Workers:
    """Declare the group and start its members in the background. Raises CoordinatorError, CoordinatorUnavailable."""
    with CoordinatorClient(settings.coordinator_url, token=settings.token) as client:
        client.declare(definition.group_id, definition.body())
    workers = Workers(spark, settings, instances)
    workers.start()
    return workers
