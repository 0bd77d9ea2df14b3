"""The levers of `/v1/groups/{group}`: what operators may set or start beside Kafka's behaviour.

Each call says why in `?reason=`, which the guard has checked. Who, when and why stand in the audit log. As long as a
lever is pulled, they stand in the group's document as well.
"""

from __future__ import annotations

from fastapi import APIRouter, Request

from coordinator_api.group import events
from coordinator_api.group.outcome import Accepted
from coordinator_api.http.routes.surface import GroupId, TheCoordinator, accepted, caller, problems

router = APIRouter(prefix="/v1/groups", tags=["levers"], responses=problems(404, 409))


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


def reason_of(request: Request) -> str | None:
    """Why, as the caller says; None when it says nothing."""
    return request.query_params.get("reason") or None
