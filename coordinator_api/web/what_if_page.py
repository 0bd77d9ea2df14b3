"""`/ui/groups/{group}/what-if`: a form over the group as it is now or was, and what would be different."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastapi import Request
from starlette.responses import Response

from assignor.errors import AssignorFault, InputError
from assignor.recording import RecordedRebalance
from assignor.snapshot import Member
from coordinator_api.errors import TooManyRequests
from coordinator_api.group.subscriptions import subscription_now
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.dependencies import GroupId, TheCoordinator, computing, named_router
from coordinator_api.http.group_document import CLUSTER_POLL_TIMEOUT_MS
from coordinator_api.http.page_computations import what_if
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.views.forecasts import changes_shown
from coordinator_api.web.rendering import page
from coordinator_api.web.what_if_form import ASSIGNORS, FIELDS, WhatIfForm, what_if_form
from rebalance_analysis.presentation.comparisons import MEASURES, TIME_TO_RESTORE
from rebalance_analysis.simulate import ForecastModel
from rebalance_analysis.what_if import changes_document

router = named_router(include_in_schema=False)

MODEL = ForecastModel()
WIDTH, HEIGHT = 640, 180


@router.get("/ui/groups/{group}/what-if")
async def what_if_page(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """The form, and below it the answer when something is to be different."""
    coordinator.group(group_id)
    form = what_if_form(dict(request.query_params))
    answer: Mapping[str, Any] | None = None
    if form.asked:
        try:
            answer = await _answer(request, coordinator, group_id, form)
        except TooManyRequests:
            raise
        except AssignorFault as error:
            form = form.refused(getattr(error, "where", None), str(error))
    return page(
        request,
        "what_if",
        status=400 if form.changes is None else 200,
        group_id=group_id,
        form=form,
        answer=answer,
        model=MODEL,
        fields=FIELDS,
        assignors=ASSIGNORS,
        measures=MEASURES,
        time_to_restore=TIME_TO_RESTORE,
    )


async def _answer(request: Request, coordinator: Coordinator, group_id: str, form: WhatIfForm) -> Mapping[str, Any]:
    """Raises InputError, DecodeError, TooManyRequests as `POST /v1/simulate` does."""
    assert form.changes is not None, "it is asked"
    with computing(request, coordinator):  # around the reading, too: a busy service neither reads nor asks the cluster
        source: bytes | RecordedRebalance | None
        if form.generation is None:
            source = await _now(coordinator, group_id)
        else:
            source = await coordinator.recordings.stored(group_id, form.generation)
        if source is None:
            raise InputError(f"no rebalance of generation {form.generation} is recorded", "generation")
        asked, bounds = changes_document(form.changes), coordinator.document_bounds
        made: Mapping[str, Any] = await run_in_worker(request, coordinator, what_if, source, asked, bounds, MODEL)
    return {**changes_shown(made), **_plot(made["forecast"]["rounds"])}


def _plot(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`rounds` of the forecast as bars over real time, each as high as its share of the highest, which is `most`."""
    last_ms = max((each["at_ms"] for each in rounds), default=0) or 1
    most = max((len(each[kind]) for each in rounds for kind in ("moved", "warming_up")), default=0)
    scale = (HEIGHT - 50) / max(most, 1)
    bars = [
        {
            **each,
            "moved": len(each["moved"]),
            "warming_up": len(each["warming_up"]),
            "x": round(40 + (WIDTH - 80) * each["at_ms"] / last_ms, 1),
            "moved_height": round(len(each["moved"]) * scale, 1),
            "warming_height": round(len(each["warming_up"]) * scale, 1),
        }
        for each in rounds
    ]
    return {"rounds": bars, "most": most}


async def _now(coordinator: Coordinator, group_id: str) -> RecordedRebalance:
    """What a rebalance at this moment would begin with: the definition, its cluster as it is now, and each member as if
    it rejoined.
    """
    runtime = coordinator.group(group_id)
    described = await runtime.describe()
    definition = await runtime.definition(described.image)
    snapshot = definition.snapshot
    if definition.provider is not None:
        view = await coordinator.clusters.cluster(definition.provider).view(group_id, snapshot, CLUSTER_POLL_TIMEOUT_MS)
        snapshot = snapshot.seen(view)
    members = {}
    for each in described.members:
        member = each.member
        reported = {copy.task_id: copy.offset_sum for copy in each.tasks if copy.offset_sum is not None}
        sent = subscription_now(member.last_join.subscription, member.last_assignment.assignment, reported)
        members[member.member_id] = Member(sent, member.last_join.client_id, member.last_join.group_instance_id)
    if not members:
        raise InputError("the group has no members now; choose a recorded generation", "generation")
    now_ms = time.time_ns() // 1_000_000
    return RecordedRebalance(
        id=f"{group_id}-now",
        group_id=group_id,
        generation_id=described.image.generation_id,
        now_ms=now_ms,
        source="coordinator",
        snapshot=replace(snapshot, members=members),
        output=None,
    )
