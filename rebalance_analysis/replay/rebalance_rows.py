"""The columns of rounds.parquet, and the row of one rebalance that was run again.

The measures are those of `rebalance_analysis.measures`; `recorded_…` are the same measures of the recorded placement.
When the rerun equals the recording, that is the placement it came to. Otherwise it is read from the recorded bytes,
where a warm-up is a standby, and a task that is withheld until its owner gives it up is active nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from assignor.recording import PLACEMENT_FORMAT, REBALANCE_FORMAT, RecordedPlacement, RecordedRebalance
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode
from rebalance_analysis.compare import Comparison, compare_placement, compare_rebalance
from rebalance_analysis.measures import RebalanceMeasures, measure, recorded_placement
from rebalance_analysis.recordings.chunk import as_text
from rebalance_analysis.rerun import Rerun, RerunPlacement, RerunRebalance

Recorded = RecordedRebalance | RecordedPlacement

MAX_THREADS = 1_000_000
"""Above it a rebalance has no measures: a line may claim any capacity, and `thread_loads` has an entry a thread."""

COMPUTE_COLUMN = "compute_ms"
TIMING_COLUMNS = ("input", "line", "id")
"""Compute times differ from run to run, so they have a file of their own, each beside these columns."""

SCHEMA = pa.schema(
    [
        pa.field("input", pa.string(), nullable=False),
        pa.field("line", pa.int64()),
        pa.field("id", pa.string(), nullable=False),
        pa.field("format", pa.string(), nullable=False),
        pa.field("group_id", pa.string()),
        pa.field("generation_id", pa.int32()),
        pa.field("now_ms", pa.int64()),
        pa.field("assignor", pa.string(), nullable=False),
        pa.field("led_by", pa.string()),
        pa.field("compared", pa.bool_(), nullable=False),
        pa.field("equal", pa.bool_()),
        pa.field("bytes_equal", pa.bool_()),
        pa.field("difference", pa.string()),
        pa.field("error", pa.string()),
        pa.field("probing", pa.bool_(), nullable=False),
        pa.field("probing_at_ms", pa.int64()),
        pa.field("followup", pa.bool_(), nullable=False),
        pa.field("clients", pa.int32()),
        pa.field("threads", pa.int32()),
        pa.field("tasks", pa.int32()),
        pa.field("stateful_tasks", pa.int32()),
        pa.field("active_moved", pa.int32()),
        pa.field("active_started", pa.int32()),
        pa.field("standby_moved", pa.int32()),
        pa.field("warm_ups", pa.int32()),
        pa.field("records_to_restore", pa.int64()),
        pa.field("thread_loads", pa.list_(pa.int32())),
        pa.field("skew", pa.int32()),
        pa.field("active_skew", pa.int32()),
        pa.field("standby_coverage", pa.float64()),
        pa.field("rack_spread", pa.float64()),
        pa.field("cross_rack_reads", pa.int64()),
        pa.field("recorded_active_moved", pa.int32()),
        pa.field("recorded_standby_moved", pa.int32()),
        pa.field("recorded_skew", pa.int32()),
        pa.field(COMPUTE_COLUMN, pa.float64(), nullable=False),
    ]
)


class Replayed(NamedTuple):
    """A rebalance that was run again. `recorded`: its line. `ran`: the rerun, with the changes if there are any.

    `as_recorded`: the rerun without changes, the same as `ran` when there are none; None when it was not run.
    """

    recorded: Recorded
    ran: Rerun
    as_recorded: Rerun | None
    compute_ms: float


def row_of(input_name: str, line: int | None, replayed: Replayed) -> dict[str, object]:
    """One row of SCHEMA."""
    comparison = compared(replayed.recorded, replayed.ran)
    result = _result(replayed.ran)
    return {
        "input": input_name,
        "line": line,
        **_identity(replayed.recorded, replayed.ran),
        "compared": comparison is not None,
        "equal": None if comparison is None else comparison.equal,
        "bytes_equal": _bytes_equal(replayed.recorded, comparison),
        "difference": comparison.differences[0] if comparison is not None and comparison.differences else None,
        "error": result.error,
        "probing": result.probing,
        "probing_at_ms": result.probing_at_ms,
        "followup": result.followup,
        **_measured(_measures(result.problem, result.placement)),
        **_recorded_measures(replayed),
        COMPUTE_COLUMN: replayed.compute_ms,
    }


def compared(recorded: Recorded, ran: Rerun) -> Comparison | None:
    """The rerun compared with the recording; None without a recorded output, or when another leader led it."""
    if recorded.output is None:
        return None
    if isinstance(ran, RerunRebalance):
        assert isinstance(recorded, RecordedRebalance)
        return None if recorded.led_by is not None else compare_rebalance(ran.result, recorded.output)
    assert isinstance(recorded, RecordedPlacement)
    return compare_placement(ran.placement, recorded.output)


class _Result(NamedTuple):
    """What the reruns of rebalances and of placements have in common."""

    problem: PlacementProblem | None
    placement: Placement | None
    error: str | None
    probing: bool
    probing_at_ms: int | None
    followup: bool


def _result(ran: Rerun) -> _Result:
    if isinstance(ran, RerunPlacement):
        needed = ran.placement.probing_rebalance_needed
        return _Result(ran.recorded.problem, ran.placement, None, needed, None, False)
    result = ran.result
    error = result.error_code.name if result.error_code is not AssignorErrorCode.NONE else None
    if result.error is not None:
        error = result.error.with_hint()
    at_ms = result.probing_rebalance_at_ms
    return _Result(result.problem, result.placement, error, at_ms is not None, at_ms, result.followup_rebalance)


def _identity(recorded: Recorded, ran: Rerun) -> dict[str, object]:
    if isinstance(ran, RerunPlacement):
        return {"id": recorded.id, "format": PLACEMENT_FORMAT, "assignor": ran.recorded.assignor}
    assert isinstance(recorded, RecordedRebalance)
    return {
        "id": recorded.id,
        "format": REBALANCE_FORMAT,
        "group_id": recorded.group_id,
        "generation_id": recorded.generation_id,
        "now_ms": recorded.now_ms,
        "assignor": ran.recorded.snapshot.assignor,
        "led_by": recorded.led_by,
    }


def _bytes_equal(recorded: Recorded, comparison: Comparison | None) -> bool | None:
    """None for a placement, which has no bytes."""
    return comparison.bytes_equal if comparison is not None and isinstance(recorded, RecordedRebalance) else None


def _measures(problem: PlacementProblem | None, placement: Placement | None) -> RebalanceMeasures | None:
    """None for a rebalance without a placement, and for one with more than MAX_THREADS threads."""
    if problem is None or placement is None or problem.clients.keys() != placement.clients.keys():
        return None
    if sum(client.capacity for client in problem.clients.values()) > MAX_THREADS:
        return None
    return measure(problem, placement)


def _measured(measures: RebalanceMeasures | None) -> dict[str, object]:
    if measures is None:
        return {}
    records = measures.records_to_restore
    return {
        "clients": measures.clients,
        "threads": measures.threads,
        "tasks": measures.tasks,
        "stateful_tasks": measures.stateful_tasks,
        "active_moved": measures.active_moved,
        "active_started": measures.active_started,
        "standby_moved": measures.standby_moved,
        "warm_ups": measures.warm_ups,
        "records_to_restore": None if records is None else min(records, JAVA_LONG_MAX),
        "thread_loads": measures.thread_loads,
        "skew": measures.skew,
        "active_skew": measures.active_skew,
        "standby_coverage": measures.standby_coverage,
        "rack_spread": measures.rack_spread,
        "cross_rack_reads": measures.cross_rack_reads,
    }


def _recorded_measures(replayed: Replayed) -> dict[str, object]:
    measures = _measures_as_recorded(replayed.recorded, replayed.as_recorded)
    if measures is None:
        return {}
    return {
        "recorded_active_moved": measures.active_moved,
        "recorded_standby_moved": measures.standby_moved,
        "recorded_skew": measures.skew,
    }


def _measures_as_recorded(recorded: Recorded, as_recorded: Rerun | None) -> RebalanceMeasures | None:
    if recorded.output is None or as_recorded is None:
        return None
    result = _result(as_recorded)
    comparison = compared(recorded, as_recorded)
    if comparison is not None and comparison.equal:
        return _measures(result.problem, result.placement)
    if result.problem is None:
        return None
    if isinstance(recorded, RecordedPlacement):
        return _measures(result.problem, recorded.output)
    assert recorded.output is not None
    return _measures(result.problem, recorded_placement(result.problem, recorded.output.assignments))


def batch_of(rows: Sequence[dict[str, object]]) -> pa.RecordBatch:
    """Rows of `row_of` as a batch. A column missing from a row is null."""
    return pa.RecordBatch.from_pylist(
        [{name: storable(row.get(name)) for name in SCHEMA.names} for row in rows], SCHEMA
    )


def storable(value: object) -> object:
    """A value that Parquet can store."""
    return as_text(value) if isinstance(value, str) else value
