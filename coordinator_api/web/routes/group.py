"""`/ui/groups/{group}`: one group, its grid, and its event stream."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import Response

from coordinator_api.errors import CoordinatorFault, TooManyRequests
from coordinator_api.http.connections import unless_hung_up
from coordinator_api.http.dependencies import GroupId, TheCoordinator, checked_router
from coordinator_api.store.errors import StoreError
from coordinator_api.web.event_streams import digests_of, event_stream
from coordinator_api.web.group_documents import GroupDocuments
from coordinator_api.web.group_grids import GroupGrids
from coordinator_api.web.rendering import SECURITY_HEADERS, page
from coordinator_api.web.views.grid_filter import GridFilter, filtered, sections, tag_keys
from coordinator_api.web.views.group_facts import GroupFacts
from coordinator_api.web.views.group_header import GroupHeader

router = checked_router(include_in_schema=False)


@router.get("/ui/groups/{group}")
async def group(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """One group as it is now."""
    grids: GroupGrids = request.app.state.group_grids
    seen = await unless_hung_up(request, grids.now(group_id))
    listed = await coordinator.repository.list_rebalances(group_id, None, 1)
    document, asked = seen.document.values, GridFilter.of(request.query_params)
    grid = await asyncio.to_thread(filtered, seen.grid, asked)
    names = {row.process_id: row.name for row in seen.grid.rows}
    return page(
        request,
        "group",
        group=GroupHeader.of(document, seen.document.tasks),
        facts=GroupFacts.of(document, names, listed[0] if listed else None),
        whole=seen.grid,
        grid=grid,
        asked=asked,
        sections=sections(grid, asked),
        tag_keys=tag_keys(seen.grid),
        digest=seen.document.digest,
    )


@router.get("/ui/groups/{group}/grid.json")
async def grid(request: Request, group_id: GroupId) -> Response:
    """The group's grid for the page's script: 304 while it is what the caller has."""
    grids: GroupGrids = request.app.state.group_grids
    packed = await unless_hung_up(request, grids.packed(group_id, GridFilter.of(request.query_params)))
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-cache, private", "ETag": packed.etag, "Vary": "Accept-Encoding"}
    if packed.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = packed.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = packed.packed
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type="application/json")


@router.get("/ui/groups/{group}/events")
async def group_events(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """An event stream: `changed` when the group has changed, or its lags."""
    documents: GroupDocuments = request.app.state.group_documents
    coordinator.group(group_id)

    async def digest() -> str | None:
        try:
            return (await documents.now(group_id)).digest
        except TooManyRequests:
            return None
        except (CoordinatorFault, StoreError) as error:
            return type(error).__name__  # the page is fetched again, and says what is wrong

    return event_stream(request, lambda: digests_of(coordinator.watching.watch(group_id), digest))
