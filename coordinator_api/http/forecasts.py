"""`POST /v1/simulate`: one document through the library for as many rounds as it takes, nothing kept.

A forecast may be as much work as one round of the largest group that the service takes: that bounds rounds times size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from assignor.errors import InputError
from assignor.recording import RecordedPlacement, RecordedRebalance
from assignor.rerun import parse_recorded
from assignor.simulate import ForecastModel, forecast, forecast_document
from assignor.snapshot import RebalanceSnapshot
from assignor.task_assignors.base import PlacementProblem, TaskAssignor
from coordinator_api.groups.definitions import check_size, partition_total
from coordinator_api.http.stateless import RequestBounds

MAX_ROUNDS = 1_000


class ForecastRequest(NamedTuple):
    """`max_rounds`: None for as many as the service does for a group of this size."""

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
