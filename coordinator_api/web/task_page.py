"""`/ui/groups/{group}/tasks/{task}`: what one task does, its copies now, and its history in the recorded rebalances."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import Query, Request
from starlette.responses import Response

from assignor.errors import AssignorFault
from assignor.topology.group_topology import GroupTopology
from assignor.types import JAVA_INT_MAX, TaskId
from coordinator_api.group.reported_flow import Flow
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.dependencies import DIGITS, GroupId, TheCoordinator, computing, named_router
from coordinator_api.http.models.group_models import FlowAnswer
from coordinator_api.http.page_computations import history_of_task
from coordinator_api.http.problems import Problem, refusing_input
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.views import flow_text
from coordinator_api.web.event_streams import rebalances_digest
from coordinator_api.web.grid import ROLES, Chip, GroupGrid
from coordinator_api.web.group_documents import document_of
from coordinator_api.web.rendering import page
from coordinator_api.web.topology_page import partition_counts, stores_with_changelogs, written_topics
from rebalance_analysis.presentation.quantities import counted

router = named_router(include_in_schema=False)

MOST_REBALANCES = 20
MOST_STORED_BYTES = 262_144
"""The largest total size of the recordings of one page, in bytes. Two recordings are always read, even if they exceed
this limit. The page compares each rebalance with the rebalance before it. Each recorded rebalance is computed again, so
the page of a large group shows one rebalance at a time.
"""


_MOST_KEPT = 16


@router.get("/ui/groups/{group}/tasks/{task}")
async def task(
    request: Request,
    group_id: GroupId,
    task: str,
    coordinator: TheCoordinator,
    before: Annotated[int | None, Query(ge=0, le=JAVA_INT_MAX), DIGITS] = None,
) -> Response:
    """The page of a task: what it does, its copies now, and its last recorded rebalances. `before`: show only
    rebalances below this generation.
    """
    chosen = _parsed(task)
    histories: TaskHistories = request.app.state.task_histories
    history = await histories.of(request, group_id, chosen, before)
    seen = await document_of(request, group_id)
    snapshot = (await coordinator.group(group_id).definition(seen.image)).snapshot
    grid, flow = await seen.grid(), coordinator.group(group_id).group.flow().tasks.get(chosen)
    partitions = partition_counts(snapshot, seen.image)
    work = await asyncio.to_thread(task_work, chosen, snapshot.topology, partitions, grid, flow)
    if history.rebalances and history.document is None and not work.copies:
        looked = counted(history.rebalances, "recorded rebalance")
        raise Problem("RESOURCE_NOT_FOUND", f"neither a member nor the last {looked} have a task {chosen}")
    return page(
        request,
        "task",
        group_id=group_id,
        task=str(chosen),
        work=work,
        history=history.document,
        older=history.older,
        digest=seen.digest,
    )


class CopyNow(NamedTuple):
    """A copy of the task now. `instance`: its name. `process_id`, `thread`: where it is."""

    chip: Chip
    instance: str
    process_id: str
    thread: str


class TaskWork(NamedTuple):
    """What a task does. `subtopology`: its number. `reads`: the topics, each with the number of its partition that the
    task reads; None if the topic has no such partition, or if its partitions are not known. `stores`: each with its
    changelog, which may be None. `copies`: the copies that members have now, the active one first. `flow`: the flow of
    its input in one line; None if no member has reported it.
    """

    subtopology: int
    reads: Sequence[tuple[str, int | None]]
    writes: Sequence[str]
    stores: Sequence[tuple[str, str | None]]
    copies: Sequence[CopyNow]
    flow: str | None


def task_work(
    task: TaskId, topology: GroupTopology, partitions: Mapping[str, int], grid: GroupGrid, flow: Flow | None
) -> TaskWork:
    """Describes the work of a task. `partitions`: the known partition counts of topics. Takes time in proportion to the
    task copies of the group.
    """
    of = next((each for each in topology.subtopologies if each.id == task.subtopology), None)
    copies = [
        CopyNow(chip, row.name, row.process_id, thread.name)
        for row in grid.rows
        for thread in row.threads
        for chip in thread.chips
        if chip.task == str(task)
    ]
    return TaskWork(
        task.subtopology,
        [(topic, task.partition if task.partition < partitions.get(topic, 0) else None) for topic in of.reads]
        if of is not None
        else [],
        written_topics(of) if of is not None else [],
        stores_with_changelogs(of) if of is not None else [],
        sorted(copies, key=lambda copy: ROLES.index(copy.chip.role)),
        None if flow is None else flow_text(FlowAnswer.model_validate(flow).model_dump()),
    )


class RecordedHistory(NamedTuple):
    """The history of a task. `document`: see `history_of_task`; None if no rebalance has the task. `older`: the
    generation below which older rebalances begin; None if there are none. `rebalances`: how many were looked at.
    """

    document: Mapping[str, Any] | None
    older: int | None
    rebalances: int


class TaskHistories:
    """Computes and caches the histories of tasks. An open page asks each time when a lag of the group has changed, but
    a history changes with a rebalance only. Use `TaskHistories` on the service's event loop.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._kept: dict[tuple[str, TaskId, int | None, str], RecordedHistory] = {}

    async def of(self, request: Request, group_id: str, task: TaskId, before: int | None) -> RecordedHistory:
        """Returns the history below the generation `before`. Raises TooManyRequests, StoreError, GroupNotFound."""
        coordinator = self._coordinator
        key = group_id, task, before, rebalances_digest(coordinator.group(group_id).image)
        if key not in self._kept:
            made = await self._made(request, group_id, task, before)
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = made
        return self._kept[key]

    async def _made(self, request: Request, group_id: str, task: TaskId, before: int | None) -> RecordedHistory:
        coordinator = self._coordinator
        # The limit for computations also applies while recordings are read. A busy service therefore refuses the
        # request before it reads recordings.
        with refusing_input(), computing(request, coordinator):
            stored, has_more = await _stored(coordinator, group_id, before)
            if not stored:
                return RecordedHistory(None, None, 0)
            classes = coordinator.allowed_assignors.class_paths
            document = await run_in_worker(
                request, coordinator, history_of_task, tuple(stored), has_more, task, classes
            )
        return RecordedHistory(document, stored[1][0] if has_more else None, len(stored))


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
