"""`/v1/groups/{group}/rebalances`: the list of recorded rebalances, one recorded rebalance, and its explanation."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from assignor.types import JAVA_INT_MAX, TaskId
from coordinator_api.group.outcome import RebalanceReported
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.computations import explain
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.dependencies import (
    DIGITS,
    GroupId,
    TheCoordinator,
    accepted,
    answer,
    computing,
    described_body,
    named_router,
    problems,
    run_on_document,
)
from coordinator_api.http.models.documents import RebalanceDocument
from coordinator_api.http.models.group_models import RebalanceExplanation, RebalanceList
from coordinator_api.http.models.lever_models import GenerationAnswer
from coordinator_api.http.models.member_models import TASK_PATTERN
from coordinator_api.http.problems import Problem, refusing_input
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.reported_rebalances import read_report

router = named_router(prefix="/v1/groups/{group}/rebalances", tags=["rebalances"], responses=problems(404, 409))

Generation = Annotated[int, Path(ge=0, le=JAVA_INT_MAX), DIGITS]
MAX_PAGE = 1_000


@router.get("", responses={200: {"model": RebalanceList}})
async def list_rebalances(
    group_id: GroupId,
    coordinator: TheCoordinator,
    before: Annotated[
        int | None, Query(ge=0, le=JAVA_INT_MAX, description="Only generations below this number."), DIGITS
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE), DIGITS] = 100,
) -> Response:
    """Lists the recorded rebalances, newest first. `next_before`: the value of the parameter `before` that returns the
    next page; null on the last page.
    """
    coordinator.group(group_id)
    page = await coordinator.repository.list_rebalances(group_id, before, limit)
    next_before = page[-1]["generation_id"] if len(page) == limit else None
    return answer(RebalanceList(rebalances=page, next_before=next_before))


@router.post(
    "",
    status_code=201,
    responses={200: {"model": GenerationAnswer}, **problems(404, 409, 415)},
    openapi_extra=described_body(
        RebalanceDocument,
        description="A rebalance/1 document of this group with its output and the source `kafka`. docs/formats.md "
        "describes rebalance/1.",
    ),
)
async def report_rebalance(
    request: Request, response: Response, group_id: GroupId, coordinator: TheCoordinator
) -> GenerationAnswer:
    """Report a rebalance of a leader outside this service. The status is 201 for a new rebalance, and 200 for a
    rebalance that was reported before. The status is 409 for a rebalance that is too old.

    The first report creates the group, which is shown like any other group. If the leader of a group is outside this
    service, its members cannot join at this service.
    """

    read = await run_on_document(request, coordinator, "body", read_report, group_id, coordinator.document_bounds)
    tenant = principal_of(request).group_prefix
    answered = await coordinator.handle_or_create(group_id, read.event, read.recording, tenant)
    reported = accepted(answered, RebalanceReported)
    response.status_code = 201 if reported.created else 200
    return GenerationAnswer(generation_id=reported.generation_id)


@router.get("/{generation}", responses={200: {"model": RebalanceDocument}})
async def show_rebalance(group_id: GroupId, generation: Generation, coordinator: TheCoordinator) -> Response:
    """Returns one recorded rebalance as a rebalance/1 document. The document contains everything that a new run of the
    rebalance needs.
    """
    stored = await _recorded(coordinator, group_id, generation)
    return StreamingResponse(coordinator.recordings.pieces(stored), media_type="application/json")


@router.get("/{generation}/explain", responses={200: {"model": RebalanceExplanation}})
async def explain_rebalance(
    request: Request,
    group_id: GroupId,
    generation: Generation,
    coordinator: TheCoordinator,
    task: Annotated[str | None, Query(pattern=TASK_PATTERN, max_length=300)] = None,
) -> Response:
    """Explains the place of every task, or of one task (`task=0_3`)."""
    # An overloaded service refuses the call here, before it reads the store.
    with refusing_input(), computing(request, coordinator):
        chosen = None if task is None else TaskId.parse(task)
        stored = await _recorded(coordinator, group_id, generation)
        classes = coordinator.allowed_assignors.class_paths
        explained = await run_in_worker(request, coordinator, explain, stored, chosen, classes)
    if explained is None:
        raise Problem("RESOURCE_NOT_FOUND", f"the rebalance of generation {generation} placed no task {chosen}")
    return Response(explained, media_type="application/json")


async def _recorded(coordinator: Coordinator, group_id: str, generation: int) -> bytes:
    coordinator.group(group_id)
    document = await coordinator.recordings.stored(group_id, generation)
    if document is None:
        raise Problem(
            "RESOURCE_NOT_FOUND",
            f"no rebalance of generation {generation} is recorded: a rebalance has no recording when "
            "the group was empty, and the oldest are dropped (rebalances.retained.count)",
        )
    return document
