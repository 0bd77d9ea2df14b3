"""Hold and approve in `/v1/groups/{group}`: computed rebalances that wait until somebody has looked at them.

Each call says why in `?reason=`, as with the other levers. The group's document and its history say who, when and why.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX
from coordinator_api.group import events
from coordinator_api.group.holding import describe_held
from coordinator_api.group.outcome import Accepted, AssignmentStored, ComputedAgain
from coordinator_api.http.audit import note_lever, reason_of
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.dependencies import (
    GroupId,
    JsonBody,
    TheCoordinator,
    accepted,
    answer,
    caller,
    checked_router,
    problems,
)
from coordinator_api.http.held_computations import look_at_held
from coordinator_api.http.lever_document import held_answer, hold_lever
from coordinator_api.http.models.levers import HeldGenerationAnswer, HoldAnswer, HoldBody, LookedAtHeld
from coordinator_api.http.problems import Problem, from_input_error

router = checked_router(prefix="/v1/groups", tags=["levers"], responses=problems(404, 409))

_HOLD = JsonBody(HoldBody)

Generation = Annotated[
    int | None,
    Query(ge=0, le=JAVA_INT_MAX, description="The one that was looked at. By default whichever waits."),
]


@router.get("/{group}/hold", responses={200: {"model": HoldAnswer}})
async def show_hold(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """Whether computed rebalances wait, and the one that waits now: until when, and what it would change.

    `difference`: what happens when it is discarded, beside what happens when it is approved. `forecast`: what follows
    until the group is stable, from the approval on.
    """
    runtime = coordinator.group(group_id)
    image = runtime.image
    hold = hold_lever(image.levers)
    held = held_answer(await asyncio.to_thread(describe_held, image))
    if held is None:
        return answer(HoldAnswer(hold=hold, held=None))
    stored = await coordinator.recordings.stored(group_id, image.generation_id)
    looked: dict[str, Any] = {"difference": None, "forecast": None}
    if stored is not None:
        coordinator.overload.admit("computation")
        try:
            with coordinator.computation(principal_of(request).group_prefix):
                looked = await run_in_worker(request, coordinator, look_at_held, stored, coordinator.document_bounds)
        except InputError as error:
            raise from_input_error(error) from None
    return answer(HoldAnswer(hold=hold, held=LookedAtHeld(**dict(held), **looked)))


@router.put("/{group}/hold", status_code=204, responses=problems(404, 409, 415), openapi_extra=_HOLD.described)
async def hold_rebalances(
    request: Request, group_id: GroupId, coordinator: TheCoordinator, body: Annotated[HoldBody, Depends(_HOLD)]
) -> None:
    """From now on a computed rebalance that takes a task from a living owner waits for approval.

    Members work on meanwhile. Nobody is waited for longer than the time limit: then it is carried out. Tasks without a
    living owner are placed at once. Asked twice, the newer time limit holds, also for a rebalance that waits already.
    """
    event = events.SetHold(body.time_limit_ms, caller(request), reason_of(request))
    note_lever(request, event)
    accepted(await coordinator.group(group_id).handle(event), Accepted)


@router.delete("/{group}/hold", status_code=204)
async def end_hold(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> None:
    """Computed rebalances wait no more. One that waits is carried out."""
    accepted(await coordinator.group(group_id).handle(events.EndHold(caller(request), reason_of(request))), Accepted)


@router.post("/{group}/approve", responses={200: {"model": HeldGenerationAnswer}})
async def approve_rebalance(
    request: Request, group_id: GroupId, coordinator: TheCoordinator, generation: Generation = None
) -> HeldGenerationAnswer:
    """Carry out the rebalance that waits, as it was computed. This covers the rebalances that follow from it."""
    event = events.ApproveRebalance(generation, caller(request), reason_of(request))
    stored = accepted(await coordinator.group(group_id).handle(event), AssignmentStored)
    return HeldGenerationAnswer(generation_id=stored.generation_id)


@router.post("/{group}/discard", responses={200: {"model": HeldGenerationAnswer}})
async def discard_rebalance(
    request: Request, group_id: GroupId, coordinator: TheCoordinator, generation: Generation = None
) -> HeldGenerationAnswer:
    """Keep every task where it is instead of the rebalance that waits, until something else begins another one.

    It needs a reason.
    """
    reason = reason_of(request)
    if reason is None:
        raise Problem(
            "INVALID_REQUEST",
            "query.reason: say why the rebalance is discarded, for those who find it in the history",
            extensions={"where": "query.reason"},
        )
    event = events.DiscardRebalance(generation, caller(request), reason)
    again = accepted(await coordinator.group(group_id).handle(event), ComputedAgain)
    return HeldGenerationAnswer(generation_id=again.generation_id)
