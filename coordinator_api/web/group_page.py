"""`/ui/groups/{group}`: the page of one group, its grid, and its event stream. The query of the page's address contains
the filter of the grid.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import Response

from coordinator_api.http.dependencies import GroupId, TheCoordinator, named_router
from coordinator_api.http.models.group_models import FlowAnswer
from coordinator_api.views import active_levers, contains_all, flow_text, names_with_ended
from coordinator_api.web.event_streams import group_stream
from coordinator_api.web.flow_plot import flow_plot
from coordinator_api.web.grid import ROLES, Chip, GridRow, GroupGrid, pack_grid
from coordinator_api.web.group_documents import GroupDocuments, TheDocument
from coordinator_api.web.group_summaries import GroupSummary
from coordinator_api.web.rendering import page
from coordinator_api.web.static_files import SECURITY_HEADERS, file_response

router = named_router(include_in_schema=False)


@router.get("/ui/groups/{group}")
async def group(request: Request, group_id: GroupId, coordinator: TheCoordinator, seen: TheDocument) -> Response:
    """The page of one group in its present state."""
    newest = next(iter(await coordinator.repository.list_rebalances(group_id, None, 1)), None)
    document, asked = seen.values, GridFilter.of(request.query_params)
    last = document["last_rebalance"]
    is_recorded = last is not None and newest is not None and newest["generation_id"] == last["generation_id"]
    whole = await seen.grid()
    grid = await asyncio.to_thread(filtered, whole, asked)
    flow = coordinator.group(group_id).group.flow()
    return page(
        request,
        "group",
        group=document,
        summary=GroupSummary.of(document, seen.tasks),
        levers=active_levers(document["levers"], whole.names),
        names=names_with_ended(whole.names, document["ends"]),
        last_ms=newest["now_ms"] if is_recorded and newest is not None else None,
        whole=whole,
        grid=grid,
        asked=asked,
        sections=sections(grid, asked),
        tag_keys=tag_keys(whole),
        digest=seen.digest,
        flow=None if flow.total is None else flow_text(FlowAnswer.model_validate(flow.total).model_dump()),
        plot=flow_plot(flow.history.points, time.time_ns() // 1_000_000),
    )


@router.get("/ui/groups/{group}/grid.json")
async def grid(request: Request, seen: TheDocument) -> Response:
    """The group's grid for the page's script. The answer has status 304 if the caller already has this grid."""
    asked = GridFilter.of(request.query_params)
    if asked == GridFilter():
        packed = await seen.packed()
    else:
        whole = await seen.grid()
        packed = await asyncio.to_thread(lambda: pack_grid(filtered(whole, asked)))
    return file_response(request, packed, {**SECURITY_HEADERS, "Cache-Control": "no-cache, private"})


@router.get("/ui/groups/{group}/events")
async def group_events(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """An event stream that sends the event `changed` when the group or its lags have changed."""
    documents: GroupDocuments = request.app.state.group_documents

    async def digest() -> str:
        return (await documents.now(group_id)).digest

    return group_stream(request, coordinator, group_id, digest)


_LONGEST = 249
"""The largest number of characters of one field of the filter."""


@dataclass(frozen=True, slots=True)
class GridFilter:
    """The filter of a grid. An empty field has no effect. `q`: words that an instance, a thread or a task must contain.
    `show`: the role of the task copies to show, or `behind` for task copies that lag behind. `by`: the field by which
    rows are grouped, `rack` or `tag:KEY`.
    """

    subtopology: str = ""
    rack: str = ""
    tag: str = ""
    show: str = ""
    q: str = ""
    by: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> GridFilter:
        """Reads the filter from the parameters of an address. Unknown parameters are ignored."""
        return cls(**{each.name: asked.get(each.name, "").strip()[:_LONGEST] for each in fields(cls)})

    @property
    def query(self) -> str:
        """The filter as the query of an address, without `?`. The query is empty if the filter has no effect."""
        return urlencode({each.name: value for each in fields(self) if (value := getattr(self, each.name))})


def filtered(grid: GroupGrid, asked: GridFilter) -> GroupGrid:
    """Returns the grid with only the instances and task copies that match the filter. If the filter has only search
    words, a thread without matching tasks is kept in two cases. The thread's own name contains the words, or the words
    occur in the name, rack or tags of its instance.
    """
    if asked == GridFilter():
        return grid
    rows = [
        row
        for row in grid.rows
        if (not asked.rack or row.rack == asked.rack) and (not asked.tag or asked.tag in row.tags)
    ]
    if asked.subtopology or asked.show or asked.q:
        rows = [found for row in rows if (found := _within(row, asked)) is not None]
    if asked.by:
        # Python's sort is stable, so rows with the same heading stay ordered by name
        rows.sort(key=lambda row: grouping(row, asked.by))
    return replace(grid, rows=tuple(rows), copies=sum(len(thread.chips) for row in rows for thread in row.threads))


def grouping(row: GridRow, by: str) -> str:
    """The heading under which a row is grouped; empty if rows are not grouped."""
    if by == "rack":
        return row.rack or "no rack"
    if by.startswith("tag:"):
        key = by.removeprefix("tag:") + "="
        return next((tag for tag in row.tags if tag.startswith(key)), f"no {key[:-1]}")
    return ""


def sections(grid: GroupGrid, asked: GridFilter) -> tuple[tuple[str, tuple[GridRow, ...]], ...]:
    """The rows of a filtered grid by heading. If rows are not grouped, there is a single section without a heading."""
    found: dict[str, list[GridRow]] = {}
    for row in grid.rows:
        found.setdefault(grouping(row, asked.by), []).append(row)
    return tuple((heading, tuple(rows)) for heading, rows in found.items())


def tag_keys(grid: GroupGrid) -> tuple[str, ...]:
    return tuple(sorted({tag.partition("=")[0] for tag in grid.tags}))


def _within(row: GridRow, asked: GridFilter) -> GridRow | None:
    row_has = contains_all(asked.q, row.name, row.process_id, row.rack or "", *row.tags)
    searches_alone = bool(asked.q) and not asked.subtopology and not asked.show
    threads = []
    for thread in row.threads:
        thread_has = row_has or contains_all(asked.q, thread.name, thread.member_id)
        chips = tuple(
            chip for chip in thread.chips if _is_shown(chip, asked) and (thread_has or contains_all(asked.q, chip.task))
        )
        # keep a thread without tasks if the thread's own values or its instance's values match the words
        if chips or (searches_alone and thread_has):
            threads.append(replace(thread, chips=chips))
    return replace(row, threads=tuple(threads)) if threads else None


def _is_shown(chip: Chip, asked: GridFilter) -> bool:
    if asked.subtopology and chip.task.partition("_")[0] != asked.subtopology:
        return False
    if asked.show in ROLES:
        return chip.role == asked.show
    return asked.show != "behind" or chip.standing == "behind"
