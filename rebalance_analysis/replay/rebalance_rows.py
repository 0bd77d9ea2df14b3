"""Defines the columns of rounds.parquet, and makes the result row of one rebalance that was run again.

`rebalance_analysis.measures` defines the measures of a result row. The columns `recorded_…` have the measures of the
recorded placement. If the result of the rerun equals the recording, the placement of the rerun is used. If the results
differ, the placement is read from the recorded bytes. In assignment bytes, a warm-up looks like a standby. A task that
is held back has no active copy.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import pyarrow as pa

from assignor.recording import PLACEMENT_FORMAT, REBALANCE_FORMAT, RecordedPlacement, RecordedRebalance
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import JAVA_LONG_MAX
from rebalance_analysis.compare import Comparison, compare_placement, compare_rebalance
from rebalance_analysis.measures import RebalanceMeasures, measure, recorded_placement
from rebalance_analysis.recordings.chunk import as_text
from rebalance_analysis.rerun import Rerun, RerunPlacement, RerunRebalance

Recorded = RecordedRebalance | RecordedPlacement

MAX_THREADS = 1_000_000
"""A rebalance with more threads than this number gets no measures. A line may request any number of threads, and
`thread_loads` has an element for each thread.
"""

COMPUTE_COLUMN = "compute_ms"
TIMING_COLUMNS = ("input", "line", "id")
"""The columns that identify a row in the file of compute times. Compute times have a separate file, because they differ
from run to run.
"""


def _columns(kind: pa.DataType, *names: str, nullable: bool = True) -> list[pa.Field]:
    return [pa.field(name, kind, nullable) for name in names]


SCHEMA = pa.schema(
    [
        *_columns(pa.string(), "input", nullable=False),
        *_columns(pa.int64(), "line"),
        *_columns(pa.string(), "id", "format", nullable=False),
        *_columns(pa.string(), "group_id"),
        *_columns(pa.int32(), "generation_id"),
        *_columns(pa.int64(), "now_ms"),
        *_columns(pa.string(), "assignor", nullable=False),
        *_columns(pa.string(), "led_by"),
        *_columns(pa.bool_(), "compared", nullable=False),
        *_columns(pa.bool_(), "equal", "bytes_equal"),
        *_columns(pa.string(), "difference", "error"),
        *_columns(pa.bool_(), "probing", nullable=False),
        *_columns(pa.int64(), "probing_at_ms"),
        *_columns(pa.bool_(), "followup", nullable=False),
        *_columns(pa.int32(), "clients", "threads", "tasks", "stateful_tasks"),
        *_columns(pa.int32(), "active_moved", "active_started", "standby_moved", "warm_ups"),
        *_columns(pa.int64(), "records_to_restore"),
        *_columns(pa.list_(pa.int32()), "thread_loads"),
        *_columns(pa.int32(), "skew", "active_skew"),
        *_columns(pa.float64(), "standby_coverage", "rack_spread"),
        *_columns(pa.int64(), "cross_rack_reads"),
        *_columns(pa.int32(), "recorded_active_moved", "recorded_standby_moved", "recorded_skew"),
        *_columns(pa.float64(), COMPUTE_COLUMN, nullable=False),
    ]
)


class Replayed(NamedTuple):
    """A rebalance that was run again. `recorded`: the recorded rebalance. `ran`: the result of the rerun with the
    changes that the command's options describe. `as_recorded`: the result of a rerun without these changes; None if
    there was no such rerun. Without changes, `ran` and `as_recorded` are the same object.
    """

    recorded: Recorded
    ran: Rerun
    as_recorded: Rerun | None
    compute_ms: float


def row_of(input_name: str, line: int | None, replayed: Replayed) -> dict[str, object]:
    """Returns the result row of a rebalance, with the columns of SCHEMA."""
    comparison = compared(replayed.recorded, replayed.ran)
    has_bytes = isinstance(replayed.ran, RerunRebalance)
    return {
        "input": input_name,
        "line": line,
        "id": replayed.recorded.id,
        **_of_format(replayed.recorded, replayed.ran),
        "compared": comparison is not None,
        "equal": None if comparison is None else comparison.equal,
        "bytes_equal": comparison.bytes_equal if comparison is not None and has_bytes else None,
        "difference": comparison.differences[0] if comparison is not None and comparison.differences else None,
        "error": replayed.ran.error,
        **_measured(_measures(replayed.ran.placed)),
        **_recorded_measures(replayed),
        COMPUTE_COLUMN: replayed.compute_ms,
    }


def compared(recorded: Recorded, ran: Rerun) -> Comparison | None:
    """Compares the rerun with the recording. Returns None if no output is recorded, or if another leader than Kafka
    Streams led the rebalance.
    """
    if recorded.output is None:
        return None
    if isinstance(ran, RerunRebalance):
        assert isinstance(recorded, RecordedRebalance)
        return None if recorded.led_by is not None else compare_rebalance(ran.result, recorded.output)
    assert isinstance(recorded, RecordedPlacement)
    return compare_placement(ran.placement, recorded.output)


def _of_format(recorded: Recorded, ran: Rerun) -> dict[str, object]:
    """Returns the columns that are computed differently for rebalances and for placement problems."""
    if isinstance(ran, RerunPlacement):
        return {
            "format": PLACEMENT_FORMAT,
            "assignor": ran.recorded.assignor,
            "probing": ran.placement.probing_rebalance_needed,
            "followup": False,
        }
    assert isinstance(recorded, RecordedRebalance)
    probing_at_ms = ran.result.probing_rebalance_at_ms
    return {
        "format": REBALANCE_FORMAT,
        "group_id": recorded.group_id,
        "generation_id": recorded.generation_id,
        "now_ms": recorded.now_ms,
        "assignor": ran.recorded.snapshot.assignor,
        "led_by": recorded.led_by,
        "probing": probing_at_ms is not None,
        "probing_at_ms": probing_at_ms,
        "followup": ran.result.followup_rebalance,
    }


def _measures(placed: tuple[PlacementProblem, Placement] | None) -> RebalanceMeasures | None:
    """Returns the measures of a rebalance; None if it has no placement or more than MAX_THREADS threads."""
    if placed is None:
        return None
    problem, placement = placed
    if problem.clients.keys() != placement.clients.keys():
        return None
    if sum(client.capacity for client in problem.clients.values()) > MAX_THREADS:
        return None
    return measure(problem, placement)


def _measured(measures: RebalanceMeasures | None) -> dict[str, object]:
    if measures is None:
        return {}
    records = measures.records_to_restore
    return {**asdict(measures), "records_to_restore": None if records is None else min(records, JAVA_LONG_MAX)}


def _recorded_measures(replayed: Replayed) -> dict[str, object]:
    measures = _measures_as_recorded(replayed.recorded, replayed.as_recorded)
    if measures is None:
        return {}
    return {f"recorded_{name}": getattr(measures, name) for name in ("active_moved", "standby_moved", "skew")}


def _measures_as_recorded(recorded: Recorded, as_recorded: Rerun | None) -> RebalanceMeasures | None:
    if recorded.output is None or as_recorded is None:
        return None
    comparison = compared(recorded, as_recorded)
    placed = as_recorded.placed
    if placed is None or (comparison is not None and comparison.equal):
        return _measures(placed)
    problem = placed[0]
    if isinstance(recorded, RecordedPlacement):
        return _measures((problem, recorded.output))
    placement = recorded_placement(problem, recorded.output.assignments)
    return None if placement is None else _measures((problem, placement))


def batch_of(rows: Sequence[dict[str, object]]) -> pa.RecordBatch:
    """Converts rows that `row_of` made to an Arrow record batch. If a row does not have a column, the value is null."""
    return pa.RecordBatch.from_pylist(
        [{name: storable(row.get(name)) for name in SCHEMA.names} for row in rows], SCHEMA
    )


def storable(value: object) -> object:
    """Converts a value to a value that Parquet can store. Text may contain bytes that are not UTF-8, which Parquet
    refuses.
    """
    return as_text(value) if isinstance(value, str) else value
