"""Runs spans of chunks on Spark executors. Each span is one Spark task.

Executors write parts to storage that the driver shares. So if an executor dies, only the chunk that it was running is
lost. Spark gives the span of the dead executor to another executor. The other executor runs only those chunks of the
span that have no part yet. If the work of a chunk raises an error, the error is written to a file beside the parts. The
Spark task then continues. A Spark task fails if its executor is lost or if a chunk kills the process. `worker` limits
the number of times that a chunk may kill its process. So Spark's own limit of task failures is only reached if
executors cannot run Python at all.
"""

import contextlib
import os
import pickle
import re
from collections.abc import Iterator, Sequence

from pyspark import SparkContext, TaskContext, cloudpickle

from spark_engine.batch.work import Chunk, ChunkT, EngineFailed, Wait
from spark_engine.batch.worker import Job, run_span, spans
from spark_engine.session.shipped_code import send_modules
from spark_engine.session.spark_faults import reason_of
from spark_engine.session.spark_job import SparkJob
from spark_engine.session.spark_session import spark_session

MAX_TASK_FAILURES = 16
CORES_OF_UNKNOWN_CLUSTER = 32


@contextlib.contextmanager
def spark_chunks(
    job: Job[ChunkT], chunks: Sequence[ChunkT], *, master: str, cores: int | None, title: str
) -> Iterator[Wait]:
    """Starts a Spark session on `master`, and a job that runs `chunks`. The job and the session are stopped at the end
    of the block. Yields a function that waits for the job. The function raises EngineFailed if the job failed.
    """
    settings = {"spark.task.maxFailures": str(MAX_TASK_FAILURES)}
    with spark_session(_retrying(master), title, conf=settings) as session:
        context = session.sparkContext
        send_modules(context)
        cut = spans(
            chunks, cores or cores_of_master(master) or max(context.defaultParallelism, CORES_OF_UNKNOWN_CLUSTER)
        )
        running = SparkJob(context, "chunks", lambda: _run_spans(context, job, cut))

        def wait(timeout_s: float) -> bool:
            if not running.wait(timeout_s):
                return True
            if running.failure is not None:
                raise EngineFailed(f"the Spark job failed: {reason_of(running.failure)}") from running.failure
            return False

        running.start()
        try:
            yield wait
        finally:
            running.cancel()


def cores_of_master(master: str) -> int | None:
    """Returns the number of cores in a master such as local[*], local[2] or local-cluster[2,1,1024]; None for other
    masters.
    """
    if found := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master):
        return int(found[1]) * int(found[2])
    if found := re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?", master):
        return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
    return None


def _retrying(master: str) -> str:
    """Adds the largest number of task failures to the address of a local master, such as `local[4,16]`. For a local
    master, Spark reads this limit only from the master's address. Without the limit, the first failed task ends the
    job.
    """
    found = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*\])?", master)
    return f"local[{found[1] or 1},{MAX_TASK_FAILURES}]" if found else master


def _run_spans(context: SparkContext, job: Job[ChunkT], cut: Sequence[Sequence[ChunkT]]) -> None:
    """Runs the spans as a Spark job. Sends all pickled spans to each executor once, as a broadcast variable. Each task
    unpickles only its own span. Raises EngineFailed if a span could not be run.
    """
    sent = context.broadcast((_pickled(job), [_pickled(span) for span in cut]))

    def problem_of(number: int) -> str | None:
        """Runs a span. If the span cannot be run, returns the error as text. If this function raised the error, Spark
        would retry the task.
        """
        job_content, contents = sent.value
        task = TaskContext.get()
        assert task is not None, "this runs as a Spark task"
        try:
            received: Job[Chunk] = pickle.loads(job_content)  # The driver sent these bytes. # noqa: S301
            run_span(received, pickle.loads(contents[number]), task.attemptNumber())  # noqa: S301
        except Exception as fault:
            return f"{type(fault).__name__}: {fault}"
        return None

    found = context.parallelize(range(len(cut)), len(cut)).map(problem_of).collect()
    if problems := sorted({problem for problem in found if problem is not None}):
        raise EngineFailed("\n".join(problems))


def _pickled(value: object) -> bytes:
    content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return content
