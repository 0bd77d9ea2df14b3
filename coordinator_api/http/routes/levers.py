"""The levers of `/v1/groups/{group}`: what operators may set or start beside Kafka's behaviour.

Each call says why in `?reason=`, which the guard has checked. Who, when and why stand in the audit log. As long as a
lever is pulled, they stand in the group's document as well.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from coordinator_api.group import events
from coordinator_api.group.outcome import Accepted
from coordinator_api.http.audit import note_lever, reason_of
from coordinator_api.http.dependencies import (
    DrainedInstance,
    DrainedMember,
    GroupId,
    JsonBody,
    TheCoordinator,
    accepted,
    answer,
    caller,
    checked_router,
    one_drained,
    problems,
)
from coordinator_api.http.group_document import described_group
from coordinator_api.http.models.levers import DrainedLever, RejoinGraceBody
from coordinator_api.http.problems import Problem

router = checked_router(prefix="/v1/groups", tags=["levers"], responses=problems(404, 409, 415))

_REJOIN_GRACE = JsonBody(RejoinGraceBody)


@router.post("/{group}/rebalance", status_code=204)
async def request_rebalance(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> None:
    """Start a rebalance now. The reason is kept with it. Refused for a group without members."""
    event = events.RequestRebalance(caller(request), reason_of(request))
    accepted(await coordinator.group(group_id).handle(event), Accepted)


@router.post("/{group}/pause", status_code=204)
async def pause_group(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> None:
    """Have all members process nothing, until a resume. They restore, keep standbys up to date and stay members.

    They hear of it in the answer to their heartbeats. Asked twice, the first one stands.
    """
    event = events.SetPause(True, caller(request), reason_of(request))
    accepted(await coordinator.group(group_id).handle(event), Accepted)


@router.post("/{group}/resume", status_code=204)
async def resume_group(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> None:
    """End a pause: members go on where they stopped."""
    event = events.SetPause(False, caller(request), reason_of(request))
    accepted(await coordinator.group(group_id).handle(event), Accepted)


@router.put("/{group}/rejoin-grace", status_code=204, openapi_extra=_REJOIN_GRACE.described)
async def set_rejoin_grace(
    request: Request,
    group_id: GroupId,
    coordinator: TheCoordinator,
    body: Annotated[RejoinGraceBody, Depends(_REJOIN_GRACE)],
) -> None:
    """Have the tasks of members that leave wait for them: a process that is back within `grace_ms` goes on with them,
    and no rebalance runs. A process that dies, instead of leaving, is given no grace.
    """
    event = events.SetRejoinGrace(body.grace_ms, caller(request), reason_of(request))
    note_lever(request, event)
    accepted(await coordinator.group(group_id).handle(event), Accepted)


@router.delete("/{group}/rejoin-grace", status_code=204)
async def end_rejoin_grace(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> None:
    """Wait for nobody any more. Members that are away are removed at once."""
    event = events.SetRejoinGrace(None, caller(request), reason_of(request))
    accepted(await coordinator.group(group_id).handle(event), Accepted)


@router.get("/{group}/drain", responses={200: {"model": DrainedLever}})
async def show_drain(
    group_id: GroupId,
    coordinator: TheCoordinator,
    instance: DrainedInstance = None,
    member: DrainedMember = None,
) -> Response:
    """Whether what is drained can be stopped, and what is missing: which task waits for whom, and how far behind."""
    process_id, member_id = one_drained(instance, member)
    coordinator.overload.admit("describe")
    runtime = coordinator.group(group_id)
    target = member_id or process_id
    if target not in runtime.image.levers.drained:
        raise Problem("UNKNOWN_MEMBER_ID", f"{target} is not drained, or is gone")
    async with coordinator.descriptions:
        group = await described_group(runtime, coordinator.clusters)
    for drained in group.levers.drained:
        if (drained.member_id or drained.process_id) == target:
            return answer(drained)
    raise Problem("UNKNOWN_MEMBER_ID", f"{target} is gone, and its drain has ended")


@router.delete("/{group}/drain", status_code=204)
async def end_instance_drain(
    request: Request,
    group_id: GroupId,
    coordinator: TheCoordinator,
    instance: DrainedInstance = None,
    member: DrainedMember = None,
) -> None:
    """End the drain of an instance or of a member: it may have tasks again. A PUT ends the drain of a whole group."""
    event = events.EndInstanceDrain(*one_drained(instance, member))
    note_lever(request, event)
    accepted(await coordinator.group(group_id).handle(event), Accepted)


@router.put("/{group}/promotion", status_code=204)
async def set_promotion(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> None:
    """Have the next rebalance come as soon as all warm-ups have caught up, not at the probing deadline.

    It is on by itself while an instance is drained.
    """
    event = events.SetPromotion(True, caller(request), reason_of(request))
    accepted(await coordinator.group(group_id).handle(event), Accepted)


@router.delete("/{group}/promotion", status_code=204)
async def end_promotion(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> None:
    """Have the next rebalance come at the probing deadline, as in Kafka."""
    event = events.SetPromotion(False, caller(request), reason_of(request))
    accepted(await coordinator.group(group_id).handle(event), Accepted)
