"""`POST /v1/assign`, `POST /v1/simulate`: one recorded rebalance or placement problem in, an answer out.

The answer is computed in a worker process; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Query, Request, Response

from assignor.simulate import ForecastModel
from assignor.simulate.model import HIGHEST_RATE, LONGEST_MS, LOWEST_RATE
from coordinator_api.http.computations import MAX_ROUNDS, ForecastRequest, assign, simulate
from coordinator_api.http.dependencies import (
    TheCoordinator,
    checked_router,
    computing,
    document_body,
    problems,
    run_on_document,
)
from coordinator_api.http.models.groups import AssignAnswer, SimulateAnswer
from coordinator_api.runtime.coordinator import Coordinator

router = checked_router(prefix="/v1", tags=["stateless"], responses=problems(415))

_RECORDED_DOCUMENT = document_body("A rebalance/1 or placement/1 document, which docs/formats.md describes.")


@router.post("/assign", response_model=AssignAnswer, openapi_extra=_RECORDED_DOCUMENT)
async def assign_once(request: Request, coordinator: TheCoordinator) -> Response:
    """What Kafka's leader would decide."""
    return await _computed(request, coordinator, assign)


_DEFAULT = ForecastModel()
_Rate = Annotated[float, Query(ge=LOWEST_RATE, le=HIGHEST_RATE, allow_inf_nan=False)]
_Ms = Annotated[int, Query(ge=0, le=LONGEST_MS)]


# asynchronous, or FastAPI would hand each call of it to a thread
async def _request(
    max_rounds: Annotated[
        int | None,
        Query(
            ge=1,
            le=MAX_ROUNDS,
            description="After so many it stops, the recorded one included; by default as late as allowed.",
        ),
    ] = None,
    restore_records_per_s: _Rate = _DEFAULT.restore_records_per_s,
    standby_records_per_s: _Rate = _DEFAULT.standby_records_per_s,
    appended_records_per_s: Annotated[
        float,
        Query(ge=0, le=HIGHEST_RATE, allow_inf_nan=False, description="By each stateful task while it runs."),
    ] = _DEFAULT.appended_records_per_s,
    rebalance_ms: _Ms = _DEFAULT.rebalance_ms,
    session_timeout_ms: _Ms = _DEFAULT.session_timeout_ms,
    state_cleanup_delay_ms: _Ms = _DEFAULT.state_cleanup_delay_ms,
    jitter: Annotated[float, Query(ge=0, le=1, allow_inf_nan=False)] = _DEFAULT.jitter,
    seed: Annotated[int, Query(ge=-(2**63), lt=2**63)] = _DEFAULT.seed,
) -> ForecastRequest:
    model = ForecastModel(
        restore_records_per_s,
        standby_records_per_s,
        appended_records_per_s,
        rebalance_ms,
        session_timeout_ms,
        state_cleanup_delay_ms,
        jitter,
        seed,
    )
    return ForecastRequest(model, max_rounds)


@router.post("/simulate", response_model=SimulateAnswer, openapi_extra=_RECORDED_DOCUMENT)
async def forecast_once(
    request: Request, coordinator: TheCoordinator, asked: Annotated[ForecastRequest, Depends(_request)]
) -> Response:
    """The rebalances that follow, until the group is stable, repeats itself, or has had `max_rounds` of them."""
    return await _computed(request, coordinator, simulate, asked)


async def _computed(
    request: Request, coordinator: Coordinator, compute: Callable[..., bytes], *asked: ForecastRequest
) -> Response:
    """What `compute` makes of the document. Raises Problem for a body, or bytes in it, that cannot be used."""
    with computing(request, coordinator):
        answer = await run_on_document(
            request, coordinator, "input.members", compute, coordinator.document_bounds, *asked
        )
    return Response(answer, media_type="application/json")
