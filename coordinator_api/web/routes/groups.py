"""`/ui/groups`: the list of groups, and `/ui/events`, which says when it has changed."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import Response

from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.dependencies import TheCoordinator, answer, checked_router
from coordinator_api.http.other_coordinators import ListsElsewhere, groups_elsewhere
from coordinator_api.web.event_streams import event_stream
from coordinator_api.web.group_summaries import GroupSummaries, SummarizedList, digest_of
from coordinator_api.web.rendering import SECURITY_HEADERS, page, see_other, wants_live_part
from coordinator_api.web.sessions import HOME
from coordinator_api.web.views.group_list import group_list

router = checked_router(include_in_schema=False)


@router.get("/ui")
async def home(request: Request) -> Response:
    """To the list of groups."""
    return see_other(request, HOME)


@router.get("/ui/groups")
async def groups(
    request: Request, coordinator: TheCoordinator, q: str = "", sort: str = "", order: str = ""
) -> Response:
    """Every group that the caller may see. `q`: words to search for. `sort`: a column. `order`: `desc` or none."""
    summaries: GroupSummaries = request.app.state.group_summaries
    elsewhere = asyncio.ensure_future(_elsewhere(request))
    if not wants_live_part(request):
        await summaries.known()
    listed, unreadable = summaries.listed(principal_of(request).sees, await elsewhere)
    shown = group_list(listed, unreadable, q, sort, order)
    return page(request, "groups", list=shown, digest=digest_of(listed, unreadable))


@router.get("/ui/groups.json")
async def groups_for_others(request: Request, coordinator: TheCoordinator) -> Response:
    """For the pages of other coordinators: the groups that this one owns, as far as the caller may see them."""
    summaries: GroupSummaries = request.app.state.group_summaries
    await summaries.known()
    listed = answer(summaries.summarized(principal_of(request).sees))
    listed.headers.update({**SECURITY_HEADERS, "Cache-Control": "no-store"})
    return listed


async def _elsewhere(request: Request) -> ListsElsewhere:
    return await groups_elsewhere(request, "/ui/groups.json", SummarizedList)


@router.get("/ui/events")
async def group_list_events(request: Request, coordinator: TheCoordinator) -> Response:
    """An event stream: `changed` when the list has changed."""
    summaries: GroupSummaries = request.app.state.group_summaries
    return event_stream(request, lambda: summaries.digests(principal_of(request).sees, lambda: _elsewhere(request)))
