"""The levers below `/v1/groups/{group}`: operator commands that Kafka does not have.

A call of a lever may have a `?reason=`, which `RequestGuard` has checked. The audit log has the call's caller, time and
reason. While a lever is set, the description of the group also shows the lever's caller, time and reason.
"""

import asyncio
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from assignor.types import JAVA_INT_MAX
from coordinator_api.group import events
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.holding import describe_held
from coordinator_api.group.outcome import Accepted, AssignmentStored, ComputedAgain
from coordinator_api.http.audit import note_lever, reason_of
from coordinator_api.http.dependencies import (
    DIGITS,
    GroupId,
    JsonBody,
    OneDrained,
    RequestedGroup,
    TheCoordinator,
    accepted,
    answer,
    caller,
    compute,
    named_router,
    problems,
)
from coordinator_api.http.group_document import described_group, held_answer
from coordinator_api.http.models.lever_models import (
    DrainedLever,
    GenerationAnswer,
    HoldAnswer,
    HoldBody,
    RejoinGraceBody,
)
from coordinator_api.http.page_computations import held_document
from coordinator_api.http.problems import Problem, refusing_input
from coordinator_api.runtime.group_runtime import GroupRuntime

router = named_router(prefix="/v1/groups", tags=["levers"], responses=problems(404, 409))

RejoinGraceJson = Annotated[RejoinGraceBody, Depends(JsonBody(RejoinGraceBody))]
HoldJson = Annotated[HoldBody, Depends(JsonBody(HoldBody))]

HeldGeneration = Annotated[
    int | None,
    Query(
        ge=0,
        le=JAVA_INT_MAX,
        description="Generation of the examined rebalance. Default: the rebalance that waits for approval.",
    ),
    DIGITS,
]


@router.post("/{group}/rebalance", status_code=204)
async def request_rebalance(request: Request, group: RequestedGroup) -> None:
    """Start a rebalance now. The recorded rebalance contains the reason of this call. The call is refused if the group
    has no members.
    """
    await _apply(group, events.RequestRebalance(reason_of(request)))


@router.post("/{group}/pause", status_code=204)
async def pause_group(request: Request, group: RequestedGroup) -> None:
    """Pause all members: they process no records until the group is resumed. Paused members stay in the group, restore
    their state and keep standbys up to date.

    The answers to heartbeats notify members of the pause. Pausing a paused group changes nothing: the group keeps the
    caller and the reason of the first pause.
    """
    await _apply(group, events.SetLever(LeverName.PAUSE, True, caller(request), reason_of(request)))


@router.post("/{group}/resume", status_code=204)
async def resume_group(request: Request, group: RequestedGroup) -> None:
    """Resume a paused group. The members of the group continue where they stopped."""
    await _apply(group, events.SetLever(LeverName.PAUSE, False, caller(request), reason_of(request)))


@router.put("/{group}/rejoin-grace", status_code=204, responses=problems(404, 409, 415))
async def set_rejoin_grace(
    request: Request, body: RejoinGraceJson, group_id: GroupId, coordinator: TheCoordinator
) -> None:
    """Reserve the tasks of members that leave. A process that comes back within `grace_ms` continues with its tasks,
    and no rebalance runs. A process that crashes without leaving gets no grace.
    """
    event = events.SetLever(LeverName.REJOIN_GRACE, True, caller(request), reason_of(request), body.grace_ms)
    # Call `note_lever` before the group is looked up. If the group does not exist, the audit line then also has the
    # value.
    note_lever(request, event)
    await _apply(coordinator.group(group_id), event)


@router.delete("/{group}/rejoin-grace", status_code=204)
async def end_rejoin_grace(request: Request, group: RequestedGroup) -> None:
    """Remove the rejoin grace. Members that are away are removed from the group at once."""
    await _apply(group, events.SetLever(LeverName.REJOIN_GRACE, False, caller(request), reason_of(request)))


@router.get("/{group}/drain", responses={200: {"model": DrainedLever}})
async def show_drain(group: RequestedGroup, coordinator: TheCoordinator, drained: OneDrained) -> Response:
    """Show whether the drained instance or member can be stopped. If the instance or member cannot be stopped yet, the
    answer lists the tasks that still have to move. For each task that has to move, the answer has the instance that
    gets the task, and the lag of this instance.
    """
    process_id, member_id = drained
    coordinator.overload.admit("describe")
    target = member_id or process_id
    if target not in group.image.levers.drained:
        raise Problem("UNKNOWN_MEMBER_ID", f"{target} is not drained, or is gone")
    async with coordinator.descriptions:
        described = await described_group(group, coordinator.clusters)
    for lever in described.levers.drained:
        if (lever.member_id or lever.process_id) == target:
            return answer(lever)
    raise Problem("UNKNOWN_MEMBER_ID", f"{target} is gone, and its drain has ended")


@router.delete("/{group}/drain", status_code=204)
async def end_instance_drain(
    request: Request, group_id: GroupId, coordinator: TheCoordinator, drained: OneDrained
) -> None:
    """Stop draining an instance or a member, so that it may have tasks again. This call does not end the drain of a
    whole group. To end the drain of a whole group, use a PUT of the group.
    """
    event = events.SetInstanceDrain(False, *drained)
    note_lever(request, event)
    await _apply(coordinator.group(group_id), event)


@router.put("/{group}/promotion", status_code=204)
async def set_promotion(request: Request, group: RequestedGroup) -> None:
    """Switch promotion on. Each probing rebalance then starts as soon as all warm-ups have caught up, without waiting
    for the probing deadline.

    While an instance or a member is drained, promotion is always on.
    """
    await _apply(group, events.SetLever(LeverName.PROMOTION, True, caller(request), reason_of(request)))


@router.delete("/{group}/promotion", status_code=204)
async def end_promotion(request: Request, group: RequestedGroup) -> None:
    """Switch promotion off. Each probing rebalance then starts at the probing deadline, as in Kafka."""
    await _apply(group, events.SetLever(LeverName.PROMOTION, False, caller(request), reason_of(request)))


@router.get("/{group}/hold", responses={200: {"model": HoldAnswer}})
async def show_hold(request: Request, group: RequestedGroup, coordinator: TheCoordinator) -> Response:
    """Show whether computed rebalances wait for approval. If a rebalance is waiting now, also show its time limit and
    its effects.

    `difference`: the difference between the placement after a discard and the placement after an approval. `forecast`:
    the rebalances that follow an approval, until the group is stable.
    """
    image = group.image
    hold = image.levers.hold
    held = held_answer(await asyncio.to_thread(describe_held, image))
    if held is None:
        return answer(HoldAnswer.model_validate({"hold": hold, "held": None}))
    stored = await coordinator.recordings.stored(group.group_id, image.generation_id)
    review: dict[str, Any] = {"difference": None, "forecast": None}
    if stored is not None:
        with refusing_input():
            review = await compute(request, coordinator, held_document, stored, coordinator.document_bounds)
    return answer(HoldAnswer.model_validate({"hold": hold, "held": {**dict(held), **review}}))


@router.put("/{group}/hold", status_code=204, responses=problems(404, 409, 415))
async def hold_rebalances(request: Request, body: HoldJson, group_id: GroupId, coordinator: TheCoordinator) -> None:
    """Switch the hold on. A computed rebalance then waits for an operator's approval if it takes a task from a running
    owner.

    Members keep processing while the rebalance waits. After the time limit, the rebalance is carried out without
    approval. Tasks without a running owner do not wait: they are placed at once. A second call replaces the time limit,
    also for a rebalance that already waits.
    """
    event = events.SetLever(LeverName.HOLD, True, caller(request), reason_of(request), body.time_limit_ms)
    note_lever(request, event)
    await _apply(coordinator.group(group_id), event)


@router.delete("/{group}/hold", status_code=204)
async def end_hold(request: Request, group: RequestedGroup) -> None:
    """Switch the hold off: rebalances need no approval. If a rebalance is waiting, it is carried out at once."""
    await _apply(group, events.SetLever(LeverName.HOLD, False, caller(request), reason_of(request)))


@router.post("/{group}/approve", responses={200: {"model": GenerationAnswer}})
async def approve_rebalance(
    request: Request, group: RequestedGroup, generation: HeldGeneration = None
) -> GenerationAnswer:
    """Carry out the rebalance that waits, as it was computed. Follow-up rebalances of this rebalance need no further
    approval.
    """
    event = events.DecideHeldRebalance(True, generation, caller(request), reason_of(request))
    stored = accepted(await group.handle(event), AssignmentStored)
    return GenerationAnswer(generation_id=stored.generation_id)


@router.post("/{group}/discard", responses={200: {"model": GenerationAnswer}})
async def discard_rebalance(
    request: Request, group: RequestedGroup, generation: HeldGeneration = None
) -> GenerationAnswer:
    """Discard the rebalance that waits. Every task stays where it is until a new cause starts a rebalance.

    The call needs a reason.
    """
    reason = reason_of(request)
    if reason is None:
        raise Problem(
            "INVALID_REQUEST",
            "query.reason: say why the rebalance is discarded, for those who find it in the history",
            extensions={"where": "query.reason"},
        )
    event = events.DecideHeldRebalance(False, generation, caller(request), reason)
    again = accepted(await group.handle(event), ComputedAgain)
    return GenerationAnswer(generation_id=again.generation_id)


async def _apply(group: GroupRuntime, event: events.Event) -> None:
    accepted(await group.handle(event), Accepted)
