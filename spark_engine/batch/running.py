"""Runs a plan to its end in an output directory, with either engine.

The steps: lock the directory, find the finished chunks, run the others in an engine while the driver counts new parts,
merge the parts. A run that ended at any of these steps continues from there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from spark_engine.batch.engine import Engine
from spark_engine.batch.local_engine import LocalProcesses
from spark_engine.batch.merging import merge
from spark_engine.batch.outcome import ChunksFailed, EngineFailed, PartDamaged, PartsNotSeen, RunOutcome
from spark_engine.batch.output_directory import Finished, OutputDirectory, open_directory
from spark_engine.batch.parts import PartsSeen, forget_last_run, read_failure
from spark_engine.batch.progress import RowsProgress
from spark_engine.batch.work import ChunkT, Plan
from spark_engine.batch.worker import Job, spans

__all__ = ["ChunksFailed", "EngineFailed", "PartDamaged", "PartsNotSeen", "RunOutcome", "run_plan"]

MAX_FAILURES = 10
"""After this many failed chunks, no other chunk is started."""
POLL_S = 0.25
_START_POLL_S = 0.05
_POLL_SHARE = 0.05
_FAILURES_SHOWN = 3
_CHUNK_SHOWN = 200


class _Running(Protocol):
    """An engine at work."""

    def wait(self, timeout_s: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Times:
    seconds: float = 0.0
    start_up_seconds: float = 0.0


def run_plan(
    plan: Plan[ChunkT],
    directory: Path,
    *,
    engine: Engine,
    console: Console,
    title: str,
    master: str = "local[*]",
    cores: int | None = None,
    spark_conf: Mapping[str, str] | None = None,
    restart: bool = False,
) -> RunOutcome:
    """Run the chunks that have no part in `directory` yet, and merge all parts into the files of `RunOutcome`.

    `cores`: processes of the local engine, else all of the machine; the cores of Spark follow from `master`, and
    `cores` only sets the number of spans if `master` does not show it. `restart`: discard the files of earlier runs
    there. `console`: progress is printed to it. Ctrl-C ends the workers, keeps the parts, prints a line and is raised
    as KeyboardInterrupt.

    Raises InputError for a directory that cannot be used (another run's, somebody else's, in use, not writable),
    ChunksFailed, EngineFailed, PartsNotSeen, PartDamaged, and of Spark: SparkNotStarted, JavaNotFound. After each of
    these errors, the same call continues with the missing chunks.
    """
    if [chunk.number for chunk in plan.chunks] != list(range(len(plan.chunks))):
        raise ValueError("chunks have to be numbered 0, 1, 2, ...")
    with open_directory(directory, plan, restart=restart) as output, RowsProgress(console, title) as progress:
        finished = output.finished()
        if finished is not None:
            output.remove_parts()
            progress.say(f"already finished: {finished.rows:,} rows, {finished.rejects:,} rejects; nothing to run")
            return _outcome(output, plan, finished, (len(plan.chunks), finished.rows), _Times(), 0.0, True)
        forget_last_run(output.parts)
        seen = PartsSeen(output.parts, plan.chunks)
        seen.refresh()
        found = (len(seen.parts), seen.rows)
        if seen.parts:
            progress.say(f"continuing: {found[1]:,} rows of {found[0]:,} of {len(plan.chunks):,} chunks are done")
        times = _Times()
        try:
            if missing := [plan.chunks[number] for number in seen.missing()]:
                job = Job(plan.work, str(output.parts))
                if engine is Engine.LOCAL:
                    running = _local(job, missing, cores)
                else:
                    progress.say(f"starting Spark on {master}")
                    running = _spark(job, missing, cores, master, spark_conf, title)
                times = _run(running, seen, progress)
                _check_complete(plan, seen)
            if plan.check is not None:
                plan.check()
            began_s = time.monotonic()
            finished = merge(output, plan, [seen.parts[number] for number in range(len(plan.chunks))])
        except KeyboardInterrupt:
            seen.refresh()
            progress.say(f"interrupted: {seen.rows:,} rows are kept; run the same command again to continue")
            raise
        output.finish(finished)
        return _outcome(output, plan, finished, found, times, time.monotonic() - began_s, False)


def _local(job: Job[ChunkT], chunks: Sequence[ChunkT], cores: int | None) -> AbstractContextManager[_Running]:
    processes = cores or os.cpu_count() or 1
    return LocalProcesses(job, spans(chunks, processes), processes)


def _spark(
    job: Job[ChunkT],
    chunks: Sequence[ChunkT],
    cores: int | None,
    master: str,
    conf: Mapping[str, str] | None,
    title: str,
) -> AbstractContextManager[_Running]:
    from spark_engine.batch.spark_engine import SparkChunks  # PySpark is not installed for the local engine alone

    return SparkChunks(job, chunks, master=master, cores=cores, conf=conf, title=title)


def _run(engine: AbstractContextManager[_Running], seen: PartsSeen, progress: RowsProgress) -> _Times:
    """Run until all chunks were tried, or until too many failed."""
    entered_s = time.monotonic()
    started_s: float | None = None
    with engine as running:
        pause_s = _START_POLL_S
        while running.wait(pause_s) and len(seen.failed) < MAX_FAILURES:
            began_s = time.monotonic()
            seen.refresh()
            if started_s is None and seen.started:
                started_s = began_s
            if started_s is not None:
                progress.show(seen.rows + seen.rejects, seen.planned, seen.rejects)
                # the slower the directory is to list, the longer is the pause
                pause_s = max(POLL_S, (time.monotonic() - began_s) / _POLL_SHARE)
        ended_s = time.monotonic()
        seen.refresh()
        progress.show(seen.rows + seen.rejects, seen.planned, seen.rejects)
    started_s = ended_s if started_s is None else started_s
    return _Times(ended_s - started_s, started_s - entered_s)


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
        reason = read_failure(seen.directory, number).reason
        lines.append(f"chunk {number}, {str(plan.chunks[number])[:_CHUNK_SHOWN]}: {reason}")
    if len(failed) > _FAILURES_SHOWN:
        lines.append(f"... and {len(failed) - _FAILURES_SHOWN:,} more")
    return "\n".join(lines)


def _outcome(
    output: OutputDirectory,
    plan: Plan[ChunkT],
    counts: Finished,
    found: tuple[int, int],
    times: _Times,
    merge_seconds: float,
    finished_before: bool,
) -> RunOutcome:
    return RunOutcome(
        rows_file=output.rows_file,
        rejects_file=output.rejects_file,
        timings_file=output.timings_file,
        rows=counts.rows,
        rejects=counts.rejects,
        chunks=len(plan.chunks),
        chunks_found_done=found[0],
        rows_found_done=found[1],
        seconds=times.seconds,
        start_up_seconds=times.start_up_seconds,
        merge_seconds=merge_seconds,
        finished_before=finished_before,
    )
