"""`POST /v1/simulate`: one recorded rebalance or placement problem in, the rounds ahead out; nothing is kept."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from assignor.simulate import ForecastModel
from assignor.simulate.model import HIGHEST_RATE, LONGEST_MS, LOWEST_RATE
from coordinator_api.http.forecasts import MAX_ROUNDS, ForecastRequest, simulate
from coordinator_api.http.routes.assign import RECORDED_DOCUMENT
from coordinator_api.http.routes.computed import computed
from coordinator_api.http.routes.surface import PROBLEMS, TheCoordinator
from coordinator_api.http.schemas import SimulateAnswer

router = APIRouter(prefix="/v1", tags=["stateless"], responses=PROBLEMS)

_DEFAULT = ForecastModel()
_Rate = Annotated[float, Query(ge=LOWEST_RATE, le=HIGHEST_RATE, allow_inf_nan=False)]
_Ms = Annotated[int, Query(ge=0, le=LONGEST_MS)]


# asynchronous, or FastAPI would hand each call of it to a thread
async def _request(
    max_rounds: Annotated[
        int | None,
        Query(ge=1, le=MAX_ROUNDS, description="The recorded one included; by default as many as are done here."),
    ] = None,
    restore_records_per_s: _Rate = _DEFAULT.restore_records_per_s,
    standby_records_per_s: _Rate = _DEFAULT.standby_records_per_s,
    appended_records_per_s: Annotated[
        float, Query(ge=0, le=HIGHEST_RATE, allow_inf_nan=False, description="Of each stateful task while it runs.")
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


@router.post("/simulate", response_model=SimulateAnswer, openapi_extra=RECORDED_DOCUMENT)
async def forecast_once(
    request: Request, coordinator: TheCoordinator, asked: Annotated[ForecastRequest, Depends(_request)]
) -> Response:
    """The rounds that follow, until the group is stable, goes in circles, or has had all the rounds it may."""
    return await computed(request, coordinator, lambda document, bounds: simulate(document, asked, bounds))
