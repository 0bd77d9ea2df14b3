"""`/ui/groups/{group}`: one group, and its event stream."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import Response

from coordinator_api.errors import CoordinatorFault, TooManyRequests
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.group_document import described_group
from coordinator_api.http.hang_ups import unless_hung_up
from coordinator_api.http.routes.surface import GroupId, TheCoordinator
from coordinator_api.store.errors import StoreError
from coordinator_api.web.event_streams import event_stream
from coordinator_api.web.rendering import page
from coordinator_api.web.views.group_header import GroupHeader

router = APIRouter()

LOOK_EVERY_S = 1.0


@router.get("/ui/groups/{group}")
async def group(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """One group as it is now."""
    coordinator.overload.admit("describe")
    document = await unless_hung_up(request, _described(group_id, coordinator))
    return page(request, "group", group=GroupHeader.of(document), digest=digest_of(document))


@router.get("/ui/groups/{group}/events")
async def group_events(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """An event stream: `changed` when the group has changed, or its lags."""
    coordinator.group(group_id)
    return event_stream(request, lambda: _digests(group_id, coordinator))


async def _described(group_id: str, coordinator: Coordinator) -> dict[str, object]:
    """As everybody who asks for a description, one after the other."""
    runtime = coordinator.group(group_id)
    async with coordinator.descriptions:
        return await described_group(runtime, coordinator.clusters)


async def _digests(group_id: str, coordinator: Coordinator) -> AsyncIterator[str | None]:
    with coordinator.watching.watch(group_id) as watcher:
        while not watcher.released:
            try:
                coordinator.overload.admit("describe")
                yield digest_of(await _described(group_id, coordinator))
            except TooManyRequests:
                yield None
            except (CoordinatorFault, StoreError) as error:
                yield f"gone-{type(error).__name__}"  # the page is fetched again, and says what is wrong
            await watcher.wait(LOOK_EVERY_S)


def digest_of(document: dict[str, object]) -> str:
    """Of a group, without what changes all the time and is shown nowhere."""
    shown = {**document, "members": [{**each, "last_heard_ms": None} for each in document["members"]]}  # type: ignore[attr-defined]
    shown.pop("stored_bytes", None)
    shown.pop("cluster", None)
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]
