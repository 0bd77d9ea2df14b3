"""`/ui/groups`: the list of groups. `/ui/events`: an event stream of changes of the list."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import Response

from coordinator_api.group.health import HealthLevel
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.dependencies import TheCoordinator, answer, named_router
from coordinator_api.http.models.group_models import GroupList, UnreadableGroupLine
from coordinator_api.http.other_coordinators import OtherCoordinators
from coordinator_api.views import contains_all
from coordinator_api.web.event_streams import event_stream
from coordinator_api.web.group_summaries import GroupSummaries, SummarizedLine, SummarizedList, digest_of
from coordinator_api.web.rendering import health_badge, page, see_other, wants_live_part
from coordinator_api.web.sessions import HOME
from coordinator_api.web.static_files import SECURITY_HEADERS

router = named_router(include_in_schema=False)

MOST_OF_A_QUERY = 249

HEALTH = "health"
"""The column by which the list is sorted if the address names no column."""


_RANKS: Mapping[str, int] = {level: level.rank for level in HealthLevel}


def _urgency(line: SummarizedLine) -> int:
    """Returns a number that is lowest for the worst health. An unknown health counts as degraded."""
    unknown = HealthLevel.DEGRADED.rank
    return -(unknown if line.health is None else _RANKS.get(line.health.level, unknown))


_COLUMNS: Mapping[str, Callable[[SummarizedLine], str | int | None]] = {
    HEALTH: _urgency,
    "group": lambda line: line.group_id,
    "state": lambda line: line.state,
    "members": lambda line: line.members,
    "tasks": lambda line: line.tasks_running,
    "lag": lambda line: line.lag,
    "probing": lambda line: line.probing_rebalance_at_ms,
    "reason": lambda line: next((each.text for each in line.reasons), None),
}
"""The sort key of each column. If the key of a group is None, the group is last in ascending and in descending order.
Groups with the same key are sorted by name.
"""


@router.get("/ui")
async def home(request: Request) -> Response:
    """Redirects to the list of groups."""
    return see_other(request, HOME)


@router.get("/ui/groups")
async def groups(
    request: Request, coordinator: TheCoordinator, q: str = "", sort: str = "", order: str = ""
) -> Response:
    """The list of all groups that the caller may see. `q`: words to search for. `sort`: a column. `order`: `desc` or
    empty.
    """
    summaries: GroupSummaries = request.app.state.group_summaries
    elsewhere = asyncio.ensure_future(_elsewhere(request))
    if not wants_live_part(request):
        await summaries.known()
    listed = summaries.listed(principal_of(request).sees, await elsewhere)
    digest = await asyncio.to_thread(digest_of, listed)
    return page(request, "groups", list=chosen(listed, q, sort, order), digest=digest)


@router.get("/ui/groups.json")
async def groups_for_others(request: Request, coordinator: TheCoordinator) -> Response:
    """The groups for the pages of other coordinators. This coordinator owns these groups, and the caller may see
    them.
    """
    summaries: GroupSummaries = request.app.state.group_summaries
    await summaries.known()
    listed = answer(summaries.listed(principal_of(request).sees))
    listed.headers.update({**SECURITY_HEADERS, "Cache-Control": "no-store"})
    return listed


@router.get("/ui/events")
async def group_list_events(request: Request, coordinator: TheCoordinator) -> Response:
    """An event stream that sends the event `changed` each time the list changes."""
    summaries: GroupSummaries = request.app.state.group_summaries
    return event_stream(request, lambda: summaries.digests(principal_of(request).sees, lambda: _elsewhere(request)))


async def _elsewhere(request: Request) -> list[GroupList]:
    others: OtherCoordinators = request.app.state.other_coordinators
    return await others.groups(request, "/ui/groups.json", SummarizedList)


class GroupsShown(NamedTuple):
    """The groups to show. `total`: the number of all groups that the caller may see, including those that the search
    does not find. `sort`: the key of a column.
    """

    rows: list[SummarizedLine]
    unreadable: list[UnreadableGroupLine]
    total: int
    query: str
    sort: str
    descending: bool

    def address(self, column: str) -> str:
        """Returns the address of the list sorted by the column. If the list is already sorted by this column, the
        address reverses the order.
        """
        turned = column == self.sort and not self.descending
        asked = {"q": self.query, "sort": column, "order": "desc" if turned else ""}
        return "?" + urlencode({name: value for name, value in asked.items() if value})


def chosen(listed: SummarizedList, query: str = "", sort: str = "", order: str = "") -> GroupsShown:
    """Selects and sorts the groups to show. `query`: words that must all occur in the name, the health, the state, the
    leader outside or the reasons of a group. `sort`: the key of a column. Invalid values are ignored.
    """
    query = query[:MOST_OF_A_QUERY].strip()
    sort = sort if sort in _COLUMNS else HEALTH
    descending = order == "desc"
    found: list[tuple[str | int, SummarizedLine]] = []
    unknown: list[SummarizedLine] = []
    for line in sorted(listed.groups, key=lambda each: each.group_id):
        badge, led_by = health_badge(line.health, line.state), f"led by {line.led_by}" if line.led_by else ""
        reasons = [text for each in line.reasons for text in (each.text, each.action or "")]
        if contains_all(query, line.group_id, badge.label, badge.more, led_by, *reasons):
            value = _COLUMNS[sort](line)
            if value is None:
                unknown.append(line)
            else:
                found.append((value, line))
    found.sort(key=lambda each: each[0], reverse=descending)
    return GroupsShown(
        [*(line for _, line in found), *unknown],
        [each for each in listed.unreadable if contains_all(query, each.group_id, each.reason, "unreadable")],
        len(listed.groups) + len(listed.unreadable),
        query,
        sort,
        descending,
    )
