"""What the service computes for a caller and does not keep: a rebalance, a forecast, why a task is where it is.

Each function takes one rebalance/1 or placement/1 document through the library. A forecast may be as much work as one
rebalance of the largest group that the service takes: that bounds rebalances times size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assignor import pipeline
from assignor.decisions import Decision
from assignor.errors import InputError, KafkaError
from assignor.explain import explain_rebalance, explanation_document
from assignor.recording import (
    PLACEMENT_FORMAT,
    REBALANCE_FORMAT,
    RecordedPlacement,
    RecordedRebalance,
    parse_recorded_placement,
    parse_recorded_rebalance,
    placement_output,
    rebalance_output,
)
from assignor.rerun import parse_recorded
from assignor.simulate import ForecastModel, forecast, forecast_document
from assignor.snapshot import RebalanceSnapshot
from assignor.task_assignors.base import PlacementProblem, TaskAssignor
from assignor.task_assignors.registry import task_assignor_named
from assignor.types import TaskId
from coordinator_api.groups.allowed_assignors import AllowedAssignors
from coordinator_api.groups.definitions import check_size, partition_total

MAX_ROUNDS = 1_000
"""Of one forecast."""


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """What a caller may ask for."""

    allowed: AllowedAssignors
    max_partitions: int


def assign(document: Mapping[str, object], bounds: RequestBounds) -> dict[str, object]:
    """`{"id", "output"}` of one rebalance/1 or placement/1. Raises InputError, DecodeError, AssignorNotListed."""
    run = _RUNNERS.get(str(document.get("format")))
    if run is None:
        raise InputError(f"must be {REBALANCE_FORMAT} or {PLACEMENT_FORMAT}", "format")
    return run(document, bounds)


def _assign_rebalance(document: Mapping[str, object], bounds: RequestBounds) -> dict[str, object]:
    recorded = parse_recorded_rebalance(document)
    snapshot = recorded.snapshot
    bounds.allowed.check(snapshot.assignor)
    check_size(snapshot, bounds.max_partitions)
    result = pipeline.assign(snapshot, recorded.now_ms, bounds.allowed.load(snapshot.assignor))
    return {"id": recorded.id, "output": rebalance_output(result)}


def _assign_placement(document: Mapping[str, object], bounds: RequestBounds) -> dict[str, object]:
    recorded = parse_recorded_placement(document)
    bounds.allowed.check(recorded.assignor)
    assignor = bounds.allowed.load(recorded.assignor) or task_assignor_named(recorded.assignor)
    log: list[Decision] = []
    try:
        placement = assignor.assign(recorded.problem, log)
    except KafkaError as error:
        raise InputError(error.as_recorded(), "placement") from None
    return {"id": recorded.id, "output": placement_output(placement)}


_RUNNERS: Mapping[str, Callable[[Mapping[str, object], RequestBounds], dict[str, object]]] = {
    REBALANCE_FORMAT: _assign_rebalance,
    PLACEMENT_FORMAT: _assign_placement,
}


class ForecastRequest(NamedTuple):
    """`max_rounds`: how many rebalances at most; None for as many as the service allows for a group of this size."""

    model: ForecastModel
    max_rounds: int | None


def simulate(document: Mapping[str, object], request: ForecastRequest, bounds: RequestBounds) -> dict[str, object]:
    """`{"id", "forecast"}` of one rebalance/1 or placement/1. Raises InputError, DecodeError, AssignorNotListed."""
    recorded = parse_recorded(document)
    assignor, size = _assignor_and_size(recorded, bounds)
    bounds.allowed.check(assignor)
    most = max(min(MAX_ROUNDS, bounds.max_partitions // max(size, 1)), 1)
    max_rounds = most if request.max_rounds is None else request.max_rounds
    if max_rounds > most:
        raise InputError(
            f"no more than {most} rounds of a group of this size are forecast here (group.max.partitions)", "max_rounds"
        )

    def load(path: str) -> TaskAssignor:
        own = bounds.allowed.load(path)
        assert own is not None, f"{path} is no class path"
        return own

    ahead = forecast(recorded, request.model, max_rounds=max_rounds, load_own=load)
    return {"id": recorded.id, "forecast": forecast_document(ahead, request.model)}


def _assignor_and_size(recorded: RecordedRebalance | RecordedPlacement, bounds: RequestBounds) -> tuple[str, int]:
    """Raises InputError for a group larger than the service takes."""
    if isinstance(recorded, RecordedRebalance):
        check_size(recorded.snapshot, bounds.max_partitions)
        return recorded.snapshot.assignor, _size_of_group(recorded.snapshot)
    size = _size_of_problem(recorded.problem)
    if size > bounds.max_partitions:
        raise InputError(
            f"a problem of {size} tasks, threads and lags is more than group.max.partitions, {bounds.max_partitions}",
            "clients",
        )
    return recorded.assignor, size


def _size_of_group(snapshot: RebalanceSnapshot) -> int:
    return partition_total(snapshot) + len(snapshot.members)


def _size_of_problem(problem: PlacementProblem) -> int:
    clients = problem.clients.values()
    return len(problem.tasks) + sum(client.capacity + len(client.lags.reported) for client in clients)


def explain(recording: bytes, task: TaskId | None, allowed: AllowedAssignors) -> dict[str, object]:
    """Run a recorded rebalance again and say why. `same_result`: whether it decided what is recorded, as it must.

    Raises InputError when its assignor is not available any more.
    """
    document = json.loads(recording)
    recorded = parse_recorded_rebalance(document)
    result = pipeline.assign(recorded.snapshot, recorded.now_ms, allowed.load(recorded.snapshot.assignor))
    output = document["output"]
    return {
        "group_id": recorded.group_id,
        "generation_id": recorded.generation_id,
        "error": output["error"],
        "same_result": rebalance_output(result)["assignments"] == output["assignments"],
        "explanations": [explanation_document(each) for each in explain_rebalance(result, task)],
    }
