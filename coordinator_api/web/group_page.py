"""`/ui/groups/{group}`: one group, its grid, and its event stream."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import Response

from coordinator_api.http.dependencies import GroupId, TheCoordinator, named_router
from coordinator_api.views.active_levers import active_levers
from coordinator_api.web.event_streams import group_stream
from coordinator_api.web.grid import pack_grid
from coordinator_api.web.grid_filter import GridFilter, filtered, sections, tag_keys
from coordinator_api.web.group_documents import GroupDocuments, TheDocument
from coordinator_api.web.group_summaries import GroupSummary
from coordinator_api.web.rendering import page
from coordinator_api.web.static_files import SECURITY_HEADERS, file_response

router = named_router(include_in_schema=False)


@router.get("/ui/groups/{group}")
async def group(request: Request, group_id: GroupId, coordinator: TheCoordinator, seen: TheDocument) -> Response:
    """One group as it is now."""
    newest = next(iter(await coordinator.repository.list_rebalances(group_id, None, 1)), None)
    document, asked = seen.values, GridFilter.of(request.query_params)
    last = document["last_rebalance"]
    is_recorded = last is not None and newest is not None and newest["generation_id"] == last["generation_id"]
    whole = await seen.grid()
    grid = await asyncio.to_thread(filtered, whole, asked)
    return page(
        request,
        "group",
        group=document,
        summary=GroupSummary.of(document, seen.tasks),
        levers=active_levers(document["levers"], whole.names),
        names=whole.names,
        last_ms=newest["now_ms"] if is_recorded and newest is not None else None,
        whole=whole,
        grid=grid,
        asked=asked,
        sections=sections(grid, asked),
        tag_keys=tag_keys(whole),
        digest=seen.digest,
    )


@router.get("/ui/groups/{group}/grid.json")
async def grid(request: Request, seen: TheDocument) -> Response:
    """The group's grid for the page's script: 304 while it is what the caller has."""
    asked = GridFilter.of(request.query_params)
    if asked == GridFilter():
        packed = await seen.packed()
    else:
        whole = await seen.grid()
        packed = await asyncio.to_thread(lambda: pack_grid(filtered(whole, asked)))
    return file_response(request, packed, {**SECURITY_HEADERS, "Cache-Control": "no-cache, private"})


@router.get("/ui/groups/{group}/events")
async def group_events(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """An event stream: `changed` when the group has changed, or its lags."""
    documents: GroupDocuments = request.app.state.group_documents

    async def digest() -> str:
        return (await documents.now(group_id)).digest

    return group_stream(request, coordinator, group_id, digest)
