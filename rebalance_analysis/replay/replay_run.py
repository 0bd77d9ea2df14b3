"""Runs a replay: plans the inputs, runs the plan with an engine, and writes `summary.json` beside the rows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from assignor.errors import InputError
from rebalance_analysis.reading.own_assignors import OwnAssignors
from rebalance_analysis.reading.sources import shown
from rebalance_analysis.recordings.chunk import as_text
from rebalance_analysis.recordings.planning import check_of_inputs, identity_of_inputs, plan_recordings
from rebalance_analysis.replay.rebalance_rows import TIMING_COLUMNS
from rebalance_analysis.replay.replay_work import ReplayWork
from rebalance_analysis.replay.summary import Summary, summarized
from rebalance_analysis.what_if import changes_document
from rebalance_analysis.what_if.changes import Changes
from spark_engine.batch import Engine, EngineChoice
from spark_engine.batch.output_directory import spool_directory, write_document
from spark_engine.batch.running import run_plan
from spark_engine.batch.work import Plan, RunOutcome

ROWS_NAME = "rounds"
SUMMARY_NAME = "summary.json"
TITLE = "replay"


@dataclass(frozen=True, slots=True)
class Ended:
    """A replay that is complete."""

    summary: Summary
    outcome: RunOutcome
    document: dict[str, object]


def replay(inputs: Sequence[str], directory: Path, changes: Changes, run_by: EngineChoice, console: Console) -> Ended:
    """Runs every rebalance of the inputs again, and writes the results to a directory. `console`: the console that
    shows messages and progress. Raises the errors of `plan_recordings` and `run_plan`.
    """
    own_assignors = OwnAssignors(os.getcwd())
    own_assignors.check([changes.assignor])
    with spool_directory(directory) as spool:
        chunks = plan_recordings(inputs, spool, console)
        if not chunks:
            raise InputError("there is no line to run again", " ".join(map(shown, inputs)))
        check = check_of_inputs(chunks)
        asked = changes_document(changes)
        identity: dict[str, object] = {
            "command": "replay",
            "assignor": version("assignor"),
            "inputs": identity_of_inputs(chunks),
            "changes": asked,
        }
        work = ReplayWork(own_assignors, changes)
        plan = Plan(work, chunks, identity, ROWS_NAME, TIMING_COLUMNS, (SUMMARY_NAME,), check)
        outcome = run_plan(plan, directory, run_by, console=console, title=TITLE)
    summary = summarized(outcome, asked, (as_text(chunk.source) for chunk in chunks))
    document = {**summary.document(), "run": _run_document(outcome, run_by.engine)}
    write_document(directory / SUMMARY_NAME, document)
    return Ended(summary, outcome, document)


def _run_document(outcome: RunOutcome, engine: Engine) -> dict[str, object]:
    done_now = outcome.rows - outcome.rows_found_done
    return {
        "engine": str(engine),
        "rows": outcome.rows,
        "rejects": outcome.rejects,
        "rows_found_done": outcome.rows_found_done,
        "seconds": round(outcome.seconds, 3),
        "start_up_seconds": round(outcome.start_up_seconds, 3),
        "merge_seconds": round(outcome.merge_seconds, 3),
        "rounds_per_s": round(done_now / outcome.seconds, 1) if outcome.seconds else None,
    }
