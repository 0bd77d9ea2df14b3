"""`/ui/groups`: the list of groups, and `/ui/events`, which says when it has changed."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from coordinator_api.http.call_rights import checked_router, principal_of
from coordinator_api.http.routes.surface import TheCoordinator
from coordinator_api.web.event_streams import event_stream
from coordinator_api.web.group_summaries import GroupSummaries, digest_of
from coordinator_api.web.rendering import page, see_other, wants_live_part
from coordinator_api.web.sessions import HOME
from coordinator_api.web.views.group_list import group_list

router = checked_router(include_in_schema=False)


@router.get("/ui")
async def home() -> Response:
    """To the list of groups."""
    return see_other(HOME)


@router.get("/ui/groups")
async def groups(
    request: Request, coordinator: TheCoordinator, q: str = "", sort: str = "", order: str = ""
) -> Response:
    """Every group that the caller may see. `q`: words to search for. `sort`: a column. `order`: `desc` or none."""
    summaries: GroupSummaries = request.app.state.group_summaries
    if not wants_live_part(request):
        await summaries.known()
    listed, unreadable = summaries.listed(principal_of(request).sees)
    shown = group_list(listed, unreadable, q, sort, order)
    return page(request, "groups", list=shown, digest=digest_of(listed, unreadable))


@router.get("/ui/events")
async def group_list_events(request: Request, coordinator: TheCoordinator) -> Response:
    """An event stream: `changed` when the list has changed."""
    summaries: GroupSummaries = request.app.state.group_summaries
    return event_stream(request, lambda: summaries.digests(principal_of(request).sees))
