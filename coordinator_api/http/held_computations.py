"""What a rebalance that waits for approval would change, computed from its recording in a worker process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assignor.errors import AssignorFault
from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from assignor.rerun import run_recorded
from assignor.simulate import ForecastModel, forecast, forecast_document
from assignor.task_assignors.base import TaskAssignor
from assignor.what_if import difference, difference_document
from coordinator_api.groups.allowed_assignors import allowed_here
from coordinator_api.groups.definitions import DocumentBounds
from coordinator_api.http.computations import most_rounds
from coordinator_api.recorded_documents import read_recorded

_Load = Callable[[str], TaskAssignor]


def look_at_held(stored: bytes, bounds: DocumentBounds) -> dict[str, object]:
    """`{"difference", "forecast"}`, each None when it cannot be computed: a member of an unknown future version, an own
    assignor that is no longer there. `stored`: as the repository has it.
    """
    document, _ = read_recorded(stored)
    recorded = parse_recorded_rebalance(document)
    allowed = allowed_here(bounds.assignor_classes)

    def load(path: str) -> TaskAssignor:
        own = allowed.load(path)
        assert own is not None, f"{path} is no class path"
        return own

    return {
        "difference": _or_none(_difference, recorded, load),
        "forecast": _or_none(_forecast, recorded, load, most_rounds(recorded.snapshot, bounds)),
    }


def _or_none(compute: Callable[..., dict[str, object]], *arguments: object) -> dict[str, object] | None:
    try:
        return compute(*arguments)
    except AssignorFault:
        return None


def _difference(recorded: RecordedRebalance, load: _Load) -> dict[str, object]:
    """All kept, as after a discard, beside what was computed."""
    snapshot = recorded.snapshot
    kept = replace(recorded, snapshot=replace(snapshot, steering=replace(snapshot.steering, keeps_owned=True)))
    return difference_document(difference(run_recorded(kept, load), run_recorded(recorded, load)))


def _forecast(recorded: RecordedRebalance, load: _Load, max_rounds: int) -> dict[str, object]:
    model = ForecastModel()
    return forecast_document(forecast(recorded, model, max_rounds=max_rounds, load_own=load), model)
