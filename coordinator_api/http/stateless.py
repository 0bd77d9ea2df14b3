"""`POST /v1/assign` and the explanation of a recorded round: one document through the library, nothing kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assignor import pipeline
from assignor.decisions import Decision
from assignor.errors import InputError, KafkaError
from assignor.explain import explain_rebalance, explanation_document
from assignor.recording import (
    PLACEMENT_FORMAT,
    REBALANCE_FORMAT,
    parse_recorded_placement,
    parse_recorded_rebalance,
    placement_output,
    rebalance_output,
)
from assignor.task_assignors.registry import task_assignor_named
from assignor.types import TaskId
from coordinator_api.groups.definitions import AllowedAssignors, check_size


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


def explain(recording: bytes, task: TaskId | None, allowed: AllowedAssignors) -> dict[str, object]:
    """Run a stored round again and say why. `same_result`: whether it decided what is recorded, as it must.

    Raises InputError when the round's own assignor is not available any more.
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
