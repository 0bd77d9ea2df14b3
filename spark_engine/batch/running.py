"""Runs a plan to its end in an output directory, with the local engine or with Spark.

A run has four steps:

- The driver locks the output directory.
- The driver finds the finished chunks.
- An engine runs the unfinished chunks, while the driver counts new parts.
- The driver merges the parts.

If a stopped run is started again, it begins with the first step. The second step then finds the finished chunks.
"""

import functools
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from rich.console import Console

from spark_engine.batch import Engine, EngineChoice
from spark_engine.batch.local_engine import LocalProcesses
from spark_engine.batch.output_directory import open_directory
from spark_engine.batch.parts import PartsSeen, failure_reason, forget_last_run, merge
from spark_engine.batch.terminal import RowsProgress
from spark_engine.batch.work import ChunksFailed, ChunkT, PartsNotSeen, Plan, RunOutcome, Wait
from spark_engine.batch.worker import Job, spans

MAX_FAILURES = 10
"""The number of failed chunks after which the driver stops the engine."""
POLL_S = 0.25
_START_POLL_S = 0.05
_POLL_SHARE = 0.05
_FAILURES_SHOWN = 3
_CHUNK_SHOWN = 200


def run_plan(plan: Plan[ChunkT], directory: Path, run_by: EngineChoice, *, console: Console, title: str) -> RunOutcome:
    """Runs the chunks that have no part in `directory` yet. Then merges all parts into the result files of
    `RunOutcome`.

    `run_by.cores`: the number of processes of the local engine. With Spark, the chunks are divided among `run_by.cores`
    cores; None stands for the master's number of cores. `console`: the console that shows the progress. On Ctrl-C, ends
    the workers, keeps the parts, prints a line and raises KeyboardInterrupt.

    Raises InputError if the output directory has files of another run or of another program, is in use, or is not
    writable. Raises ChunksFailed, EngineFailed, PartsNotSeen and PartDamaged. With Spark, also raises SparkNotStarted
    and JavaNotFound. After any error of `run_plan`, a call with the same arguments continues with the missing chunks.
    """
    with open_directory(directory, plan, restart=run_by.restart) as output, RowsProgress(console, title) as progress:
        outcome = functools.partial(RunOutcome, output.rows_file, output.rejects_file, output.timings_file)
        finished = output.finished()
        if finished is not None:
            output.remove_parts()
            progress.report(f"already finished: {finished.rows:,} rows, {finished.rejects:,} rejects; nothing to run")
            return outcome(
                **finished._asdict(),
                chunks_found_done=len(plan.chunks),
                rows_found_done=finished.rows,
                finished_before=True,
            )
        forget_last_run(output.parts)
        seen = PartsSeen(output.parts, plan.chunks)
        seen.refresh()
        found_chunks, found_rows = len(seen.parts), seen.rows
        if seen.parts:
            progress.report(
                f"continuing: {found_rows:,} rows of {found_chunks:,} of {len(plan.chunks):,} chunks are done"
            )
        seconds = start_up_seconds = 0.0
        try:
            if missing := [plan.chunks[number] for number in seen.missing()]:
                engine = _engine(Job(plan.work, str(output.parts)), missing, run_by, progress, title)
                seconds, start_up_seconds = _run(engine, seen, progress)
                _check_complete(plan, seen)
            if plan.check is not None:
                plan.check()
            began_s = time.monotonic()
            finished = merge(output, plan, [seen.parts[number] for number in range(len(plan.chunks))])
        except KeyboardInterrupt:
            seen.refresh()
            progress.report(f"interrupted: {seen.rows:,} rows are kept; run the same command again to continue")
            raise
        output.finish(finished)
        return outcome(
            **finished._asdict(),
            chunks_found_done=found_chunks,
            rows_found_done=found_rows,
            seconds=seconds,
            start_up_seconds=start_up_seconds,
            merge_seconds=time.monotonic() - began_s,
        )


def _engine(
    job: Job[ChunkT], chunks: Sequence[ChunkT], run_by: EngineChoice, progress: RowsProgress, title: str
) -> AbstractContextManager[Wait]:
    if run_by.engine is Engine.LOCAL:
        processes = run_by.cores or os.cpu_count() or 1
        return LocalProcesses(job, spans(chunks, processes), processes)
    # imported here, because the local engine works without PySpark
    from spark_engine.batch.spark_engine import spark_chunks

    progress.report(f"starting Spark on {run_by.master}")
    return spark_chunks(job, chunks, master=run_by.master, cores=run_by.cores, title=title)


def _run(engine: AbstractContextManager[Wait], seen: PartsSeen, progress: RowsProgress) -> tuple[float, float]:
    """Runs the engine until all chunks were tried, or until too many chunks failed. Returns two times in seconds: the
    time from the start of the first chunk to the end, and the time before the first chunk.
    """
    entered_s = time.monotonic()
    started_s: float | None = None
    with engine as wait:
        pause_s = _START_POLL_S
        while wait(pause_s) and len(seen.failed) < MAX_FAILURES:
            began_s = time.monotonic()
            seen.refresh()
            if started_s is None and seen.started:
                started_s = began_s
            if started_s is not None:
                progress.show(seen.rows + seen.rejects, seen.planned, seen.rejects)
                # On a slow file system, poll less often: listing the directory may use at most the fraction
                # `_POLL_SHARE` of the time.
                pause_s = max(POLL_S, (time.monotonic() - began_s) / _POLL_SHARE)
        ended_s = time.monotonic()
        seen.refresh()
        progress.show(seen.rows + seen.rejects, seen.planned, seen.rejects)
    started_s = ended_s if started_s is None else started_s
    return ended_s - started_s, started_s - entered_s


def _check_complete(plan: Plan[ChunkT], seen: PartsSeen) -> None:
    missing = seen.missing()
    failed = sorted(seen.failed.intersection(missing))
    if failed:
        raise ChunksFailed(_failures_text(plan, seen, failed, len(missing) - len(failed)))
    if missing:
        raise PartsNotSeen(
            f"{len(missing):,} of {len(plan.chunks):,} chunks ran and left nothing in {seen.directory}; put the output "
            "directory on storage that the driver and all executors share under the same path"
        )


def _failures_text(plan: Plan[ChunkT], seen: PartsSeen, failed: Sequence[int], untried: int) -> str:
    left = f" and {untried:,} were not tried" if untried else ""
    lines = [
        f"{len(failed):,} of {len(plan.chunks):,} chunks failed{left}; {seen.rows:,} rows of the others are kept, and "
        f"the same command retries the rest; stack traces are in {seen.directory}/*.failed"
    ]
    for number in failed[:_FAILURES_SHOWN]:
        reason = failure_reason(seen.directory, number)
        lines.append(f"chunk {number}, {str(plan.chunks[number])[:_CHUNK_SHOWN]}: {reason}")
    if len(failed) > _FAILURES_SHOWN:
        lines.append(f"... and {len(failed) - _FAILURES_SHOWN:,} more")
    return "\n".join(lines)
