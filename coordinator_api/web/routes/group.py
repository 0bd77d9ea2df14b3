"""`/ui/groups/{group}`: one group, and its event stream."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from coordinator_api.errors import CoordinatorFault, TooManyRequests
from coordinator_api.http.hang_ups import unless_hung_up
from coordinator_api.http.routes.surface import GroupId, TheCoordinator
from coordinator_api.store.errors import StoreError
from coordinator_api.web.event_streams import digests_of, event_stream
from coordinator_api.web.group_documents import GroupDocuments
from coordinator_api.web.rendering import page
from coordinator_api.web.views.group_header import GroupHeader

router = APIRouter()


@router.get("/ui/groups/{group}")
async def group(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """One group as it is now."""
    documents: GroupDocuments = request.app.state.group_documents
    document = await unless_hung_up(request, documents.now(group_id))
    return page(request, "group", group=GroupHeader.of(document.values, document.tasks), digest=document.digest)


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
