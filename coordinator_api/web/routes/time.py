"""`/ui/groups/{group}/time`: the recorded rebalances on a line, and two of them beside each other."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from starlette.responses import Response

from assignor.errors import AssignorFault
from assignor.types import JAVA_INT_MAX
from coordinator_api.errors import TooManyRequests
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.dependencies import GroupId, TheCoordinator, checked_router
from coordinator_api.http.page_computations import compare_two, tell_history
from coordinator_api.http.problems import Problem
from coordinator_api.store.repository import HELD
from coordinator_api.web.event_streams import digests_of, event_stream
from coordinator_api.web.rebalance_digests import rebalances_digest
from coordinator_api.web.rendering import page
from coordinator_api.web.views.comparison import ComparedRebalances, comparison
from coordinator_api.web.views.time_line import time_line

router = checked_router(include_in_schema=False)

LIMIT, LEAST, MOST = 20, 5, 80


@router.get("/ui/groups/{group}/time")
async def time(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """`before_generation`, `limit`: which rebalances. `before`, `after`: the two that are compared."""
    coordinator.group(group_id)
    page_before = _number(request, "before_generation")
    limit = max(LEAST, min(_number(request, "limit") or LIMIT, MOST))
    pair = (_number(request, "before"), _number(request, "after"))
    digest = _digest(coordinator, group_id)
    # one more: what the oldest one that is shown is compared with
    listed: list[Any] = list(await coordinator.repository.list_rebalances(group_id, page_before, limit + 1))
    shown = listed[:limit]
    # no member was told of one that was held and not carried out, so it is no step between the others
    told = [each["generation_id"] for each in listed if each["outcome"] != HELD]
    story, untold = await _story(request, coordinator, group_id, told, limit)
    line = time_line(
        shown,
        story,
        newer_ms=await _newer_ms(coordinator, group_id, page_before),
        next_before=shown[-1]["generation_id"] if len(listed) > limit else None,
        page_before=page_before,
        limit=limit,
        limits=(LEAST, MOST),
        pair=pair,
    )
    compared, wrong = await _compared(request, coordinator, group_id, pair)
    return page(
        request,
        "time",
        group_id=group_id,
        digest=digest,
        line=line,
        untold=untold,
        compared=compared,
        wrong=wrong,
        limit=limit,
        page_before=page_before,
    )


@router.get("/ui/groups/{group}/time/events")
async def time_events(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """An event stream: `changed` when another rebalance has ended, or waits for approval."""
    coordinator.group(group_id)

    async def digest() -> str | None:
        return _digest(coordinator, group_id)

    return event_stream(request, lambda: digests_of(coordinator.watching.watch(group_id), digest))


def _digest(coordinator: Coordinator, group_id: str) -> str:
    runtime = coordinator.groups.get(group_id)
    return "gone" if runtime is None else rebalances_digest(runtime.image)


async def _newer_ms(coordinator: Coordinator, group_id: str, page_before: int | None) -> int | None:
    """When the rebalance began that stands above this page; None on the first page, and when it is not recorded."""
    if page_before is None or page_before >= JAVA_INT_MAX:
        return None
    newer: list[Any] = list(await coordinator.repository.list_rebalances(group_id, page_before + 1, 1))
    return newer[0]["now_ms"] if newer and newer[0]["generation_id"] == page_before else None


async def _story(
    request: Request, coordinator: Coordinator, group_id: str, generations: list[int], limit: int
) -> tuple[dict[str, Any] | None, str | None]:
    """The story of the page's rebalances, or why it cannot be told."""
    if not generations:
        return None, None
    try:
        coordinator.overload.admit("computation")
        with coordinator.computation(principal_of(request).group_prefix):
            stored = [(each, await coordinator.recordings.stored(group_id, each)) for each in generations]
            kept = [(generation, packed) for generation, packed in stored if packed is not None]
            before = kept.pop() if len(generations) > limit and kept and kept[-1][0] == generations[-1] else None
            classes = coordinator.allowed_assignors.class_paths
            oldest_first = tuple(reversed(kept))
            told = await run_in_worker(request, coordinator, tell_history, group_id, oldest_first, before, classes)
    except TooManyRequests:
        return None, "The service is busy. Load the page again in a few seconds to see what moved."
    except AssignorFault as error:
        return None, f"What moved cannot be told: {error}"
    return json.loads(told), None


async def _compared(
    request: Request, coordinator: Coordinator, group_id: str, pair: tuple[int | None, int | None]
) -> tuple[ComparedRebalances | None, str | None]:
    """The two that are asked for, or what is wrong with them."""
    before, after = pair
    if before is None and after is None:
        return None, None
    if before is None or after is None or before == after:
        return None, "Choose two different rebalances: one in the column Before and one in the column After."
    try:
        first, second = [await coordinator.recordings.stored(group_id, each) for each in (before, after)]
        if first is None or second is None:
            missing = before if first is None else after
            return None, f"No rebalance of generation {missing} is recorded: the oldest are dropped."
        coordinator.overload.admit("computation")
        with coordinator.computation(principal_of(request).group_prefix):
            classes = coordinator.allowed_assignors.class_paths
            made = await run_in_worker(request, coordinator, compare_two, (before, first), (after, second), classes)
    except TooManyRequests:
        return None, "The service is busy. Load the page again in a few seconds to compare them."
    except AssignorFault as error:
        return None, f"They cannot be compared: {error}"
    return comparison(before, after, json.loads(made)), None


def _number(request: Request, name: str) -> int | None:
    """Raises Problem for what is no generation."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10) or int(text) > JAVA_INT_MAX:
        raise Problem("INVALID_REQUEST", f"query.{name}: must be a whole number of at least 0")
    return int(text)
