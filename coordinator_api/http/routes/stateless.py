"""`POST /v1/assign`, `POST /v1/simulate`: compute a result for one recorded rebalance or placement problem. A worker
process computes the result. The result is not stored.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from coordinator_api.http.computations import MAX_ROUNDS, assign, simulate
from coordinator_api.http.dependencies import (
    DIGITS,
    TheCoordinator,
    computing,
    described_body,
    named_router,
    problems,
    run_on_document,
)
from coordinator_api.http.models.documents import RebalanceDocument
from coordinator_api.http.models.group_models import AssignAnswer, SimulateAnswer
from coordinator_api.runtime.coordinator import Coordinator
from rebalance_analysis.simulate import ForecastModel
from rebalance_analysis.simulate.model import HIGHEST_RATE, LONGEST_MS, LOWEST_RATE

router = named_router(prefix="/v1", tags=["stateless"], responses=problems(415))

_RECORDED_DOCUMENT = described_body(
    RebalanceDocument, description="A rebalance/1 or placement/1 document, which docs/formats.md describes."
)


@router.post("/assign", response_model=AssignAnswer, openapi_extra=_RECORDED_DOCUMENT)
async def assign_once(request: Request, coordinator: TheCoordinator) -> Response:
    """Compute the assignments that Kafka's leader would compute."""
    return await _computed(request, coordinator, assign)


_DEFAULT = ForecastModel()
_Rate = Annotated[float, Field(ge=LOWEST_RATE, le=HIGHEST_RATE, allow_inf_nan=False)]
_Ms = Annotated[int, Field(ge=0, le=LONGEST_MS), DIGITS]


class _ForecastQuery(BaseModel):
    max_rounds: Annotated[int | None, Field(ge=1, le=MAX_ROUNDS), DIGITS] = Field(
        None, description="Largest number of rebalances, including the recorded one. Default: the service's limit."
    )
    restore_records_per_s: _Rate = _DEFAULT.restore_records_per_s
    standby_records_per_s: _Rate = _DEFAULT.standby_records_per_s
    appended_records_per_s: float = Field(
        _DEFAULT.appended_records_per_s,
        ge=0,
        le=HIGHEST_RATE,
        allow_inf_nan=False,
        description="Number of records that each running stateful task appends in a second.",
    )
    rebalance_ms: _Ms = _DEFAULT.rebalance_ms
    session_timeout_ms: _Ms = _DEFAULT.session_timeout_ms
    state_cleanup_delay_ms: _Ms = _DEFAULT.state_cleanup_delay_ms
    jitter: float = Field(_DEFAULT.jitter, ge=0, le=1, allow_inf_nan=False)
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63), DIGITS] = _DEFAULT.seed


@router.post("/simulate", response_model=SimulateAnswer, openapi_extra=_RECORDED_DOCUMENT)
async def forecast_once(
    request: Request, coordinator: TheCoordinator, asked: Annotated[_ForecastQuery, Query()]
) -> Response:
    """Forecast the next rebalances of a group. The forecast ends when the group is stable, when its rebalances repeat
    in a cycle, or after `max_rounds` rebalances.
    """
    model = ForecastModel(**asked.model_dump(exclude={"max_rounds"}))
    return await _computed(request, coordinator, simulate, model, asked.max_rounds)


async def _computed(
    request: Request, coordinator: Coordinator, compute: Callable[..., bytes], *asked: object
) -> Response:
    """Runs `compute` on the document in the body, and returns its result as the answer. Raises Problem if the body, or
    a subscription in the body, cannot be used.
    """
    with computing(request, coordinator):
        answer = await run_on_document(
            request, coordinator, "input.members", compute, coordinator.document_bounds, *asked
        )
    return Response(answer, media_type="application/json")
