"""Runs spans of chunks on Spark executors: each span is one partition of a DataFrame, through `mapInArrow`.

Rules: only parts on storage shared with the driver count, so an executor that dies costs the chunk it was running.
Spark gives its span to another executor, which continues with the chunks that have no part. An error in the work is
written beside the parts and fails no Spark task. Tasks fail by lost executors, and by chunks that kill their process,
which `worker` counts; Spark's own limit is only for executors that cannot run Python at all.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyspark import InheritableThread, TaskContext, cloudpickle
from pyspark.sql import SparkSession

from spark_engine.batch.outcome import EngineFailed
from spark_engine.batch.work import Chunk, ChunkT
from spark_engine.batch.worker import Job, run_span, spans
from spark_engine.session.shipped_code import send_modules
from spark_engine.session.spark_session import spark_session

MAX_TASK_FAILURES = 16
CORES_OF_UNKNOWN_CLUSTER = 32
STOP_TIMEOUT_S = 20.0
_CANCEL_INTERVAL_S = 0.25
_JOB_GROUP = "chunks"
_RECEIPT = "chunk long, rows long, rejects long, milliseconds double, problem string"
_RECEIPT_COLUMNS = pa.schema(
    [
        ("chunk", pa.int64()),
        ("rows", pa.int64()),
        ("rejects", pa.int64()),
        ("milliseconds", pa.float64()),
        ("problem", pa.string()),
    ]
)
_SHOWN = 2000


class SparkChunks:
    """A context manager in which a session on `master` runs `chunks`. Its end stops the job and the session."""

    def __init__(
        self,
        job: Job[ChunkT],
        chunks: Sequence[ChunkT],
        *,
        master: str,
        cores: int | None,
        conf: Mapping[str, str] | None,
        title: str,
    ) -> None:
        settings = {"spark.task.maxFailures": str(MAX_TASK_FAILURES), **(conf or {})}
        self._session = spark_session(_retrying(master), title, conf=settings)
        self._job = job
        self._chunks = chunks
        self._master = master
        self._cores = cores
        self._failure: BaseException | None = None
        # an event, not Thread.join: after an interrupted join, Python takes the thread for ended (bpo-45274)
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            spark = undo.enter_context(self._session)
            send_modules(spark.sparkContext)
            self._spark = spark
            InheritableThread(target=self._run, name=_JOB_GROUP, daemon=True).start()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            deadline_s = time.monotonic() + STOP_TIMEOUT_S
            while not self._ended.is_set() and time.monotonic() < deadline_s:
                # repeated, because a job that Spark has not yet submitted cannot be cancelled
                self._spark.sparkContext.cancelJobGroup(_JOB_GROUP)
                self._ended.wait(_CANCEL_INTERVAL_S)
        finally:
            self._undo.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait for at most that long. Returns whether the job still runs. Raises EngineFailed."""
        if not self._ended.wait(timeout_s):
            return True
        if self._failure is not None:
            raise EngineFailed(f"the Spark job failed: {_short(self._failure)}") from self._failure
        return False

    def _run(self) -> None:
        try:
            context = self._spark.sparkContext
            context.setJobGroup(_JOB_GROUP, _JOB_GROUP, interruptOnCancel=True)
            cores = (
                self._cores
                or cores_of_master(self._master)
                or max(context.defaultParallelism, CORES_OF_UNKNOWN_CLUSTER)
            )
            _run_spans(self._spark, self._job, spans(self._chunks, cores))
        except BaseException as fault:
            self._failure = fault
        finally:
            self._ended.set()


def cores_of_master(master: str) -> int | None:
    """The cores that a master names: local[*], local[2], local-cluster[2,1,1024]; None for any other."""
    if found := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master):
        return int(found[1]) * int(found[2])
    if found := re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?", master):
        return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
    return None


def _retrying(master: str) -> str:
    """A local master takes its limit of task failures from its name; without one, the first failure ends the job."""
    found = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*\])?", master)
    return f"local[{found[1] or 1},{MAX_TASK_FAILURES}]" if found else master


def _run_spans(spark: SparkSession, job: Job[ChunkT], cut: Sequence[Sequence[ChunkT]]) -> None:
    """Broadcast the pickled spans once to each executor; a task unpickles only its own. Raises EngineFailed."""
    sent = spark.sparkContext.broadcast((_pickled(job), [_pickled(span) for span in cut]))

    def run_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job_content, contents = sent.value
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for receipt in _receipts(job_content, contents[number]):
                    yield pa.RecordBatch.from_pylist([receipt], schema=_RECEIPT_COLUMNS)

    # one number per partition goes out, one receipt per chunk comes back
    receipts = spark.range(0, len(cut), 1, len(cut)).mapInArrow(run_partition, _RECEIPT).collect()
    if problems := sorted({receipt.problem for receipt in receipts if receipt.problem}):
        raise EngineFailed("\n".join(problems))


def _receipts(job_content: bytes, span_content: bytes) -> Iterator[dict[str, object]]:
    """A problem that prevents a span is returned, not raised, since Spark would retry it."""
    task = TaskContext.get()
    assert task is not None, "this runs as a Spark task"
    try:
        job: Job[Chunk] = pickle.loads(job_content)  # noqa: S301 (from the driver of this job)
        for receipt in run_span(job, pickle.loads(span_content), task.attemptNumber()):  # noqa: S301
            yield receipt._asdict()
    except Exception as fault:
        yield {"problem": f"{type(fault).__name__}: {fault}"}


def _pickled(value: object) -> bytes:
    content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return content


def _short(failure: BaseException) -> str:
    """Spark's message without JVM stack traces."""
    text = str(failure)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "..."))]
    return "\n".join(lines)[:_SHOWN]
