"""`/ui/groups/{group}/tasks/{task}`: the history of one task in the recorded rebalances."""

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from assignor.errors import AssignorFault
from assignor.types import JAVA_INT_MAX, TaskId
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.dependencies import DIGITS, GroupId, TheCoordinator, computing, named_router
from coordinator_api.http.page_computations import history_of_task
from coordinator_api.http.problems import Problem, refusing_input
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.web.event_streams import rebalances_digest
from coordinator_api.web.rendering import page

router = named_router(include_in_schema=False)

MOST_REBALANCES = 20
MOST_STORED_BYTES = 262_144
"""The largest total size of the recordings of one page, in bytes. Two recordings are always read, even if they exceed
this limit. The page compares each rebalance with the rebalance before it. Each recorded rebalance is computed again, so
the page of a large group shows one rebalance at a time.
"""


@router.get("/ui/groups/{group}/tasks/{task}")
async def task(
    request: Request,
    group_id: GroupId,
    task: str,
    coordinator: TheCoordinator,
    before: Annotated[int | None, Query(ge=0, le=JAVA_INT_MAX), DIGITS] = None,
) -> Response:
    """The page of a task with its last recorded rebalances. `before`: show only rebalances below this generation."""
    chosen = _parsed(task)
    digest = rebalances_digest(coordinator.group(group_id).image)
    # The limit for computations also applies while recordings are read. A busy service therefore refuses the request
    # before it reads recordings.
    with refusing_input(), computing(request, coordinator):
        stored, has_more = await _stored(coordinator, group_id, before)
        if not stored:
            return page(request, "task", group_id=group_id, task=str(chosen), history=None, older=None, digest=digest)
        classes = coordinator.allowed_assignors.class_paths
        history = await run_in_worker(request, coordinator, history_of_task, tuple(stored), has_more, chosen, classes)
    if history is None:
        raise Problem("RESOURCE_NOT_FOUND", f"no recorded rebalance of the last {len(stored)} has a task {chosen}")
    older = stored[1][0] if has_more else None
    return page(request, "task", group_id=group_id, task=str(chosen), history=history, older=older, digest=digest)


async def _stored(coordinator: Coordinator, group_id: str, before: int | None) -> tuple[list[tuple[int, bytes]], bool]:
    """Returns the last recordings with their generations, ordered from old to new. The second value is True if older
    recordings exist. The result has at least two recordings if the group has two.
    """
    listed = await coordinator.repository.list_rebalances(group_id, before, MOST_REBALANCES + 1)
    found: list[tuple[int, bytes]] = []
    size = 0
    for each in listed:
        generation = each["generation_id"]
        assert isinstance(generation, int)
        document = await coordinator.recordings.stored(group_id, generation)
        if document is None:  # dropped meanwhile
            continue
        size += len(document)
        if len(found) == MOST_REBALANCES or (len(found) >= 2 and size > MOST_STORED_BYTES):
            return found[::-1], True
        found.append((generation, document))
    return found[::-1], False


def _parsed(text: str) -> TaskId:
    try:
        return TaskId.parse(text)
    except (AssignorFault, ValueError):
        raise Problem("RESOURCE_NOT_FOUND", "a task is named by its subtopology and partition, such as 0_3") from None
