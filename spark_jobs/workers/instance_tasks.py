"""What Spark says of the instances' tasks: how many run, and which attempts have failed for what reason.

Spark starts a failed attempt again and says no more about it than a line in its own log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from spark_engine.session.spark_faults import reason_in
from spark_jobs.workers.restarts import FailedAttempt

_LOST = re.compile(r"ExecutorLostFailure|ExecutorDecommission|Python worker exited unexpectedly|TaskKilled")
_LOST_REASON = re.compile(r"Reason: (.*)")


class InstanceTasks:
    """The tasks of one Spark job, asked for from time to time. Once the JVM is gone, it has no more to say."""

    def __init__(self, context: SparkContext, job_group: str) -> None:
        self._context = context
        self._job_group = job_group
        self._known: set[int] = set()

    def running(self) -> int:
        """How many of them have a slot."""
        try:
            return sum(info.numActiveTasks for _, info in self._stages())
        except (Py4JError, ConnectionError):
            return 0

    def new_failures(self) -> list[FailedAttempt]:
        """Those that were not printed yet, oldest first."""
        try:
            return [failure for stage, info in self._stages() for failure in self._failures(stage, info)]
        except (Py4JError, ConnectionError):
            return []

    def _stages(self) -> Iterable[tuple[int, Any]]:
        if self._context._jsc is None:  # it is stopped
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
