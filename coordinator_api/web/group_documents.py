"""Caches the group descriptions that `GET /v1/groups/{group}` returns. All open pages of a group share one description
for about a second.

Making the description of a large group takes a fraction of a second. Each open page requests the description. If
requests arrive while a description is being made, they share the description. A commit makes the cached description
invalid at once. The description also expires, because lags change without a commit. If a description took long to make,
it is cached for longer. So descriptions take at most a quarter of the service's time. The grid of a description is made
when a page requests the grid for the first time.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic_core import to_json

from assignor.clients.client_metadata import ReceivedVersions
from assignor.errors import InputError, KafkaError
from assignor.pipeline import make_tasks
from assignor.topology.cluster import TopicMetadata
from coordinator_api.group.image import GroupImage
from coordinator_api.http.connections import unless_hung_up
from coordinator_api.http.dependencies import GroupId
from coordinator_api.http.group_document import described_group
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.definitions import Definition
from coordinator_api.web.grid import GroupGrid, group_grid, pack_grid
from coordinator_api.web.static_files import PackedFile

KEPT_S = 1.0
SHARE_OF_TIME = 4
_DROPPED_AFTER_S = 5.0


@dataclass
class GroupDocument:
    """A group's description with its grid. `values`: the document, which must not be changed. `digest`: the digest of
    all values that pages show. `took_s`: the duration of making the description. `tasks`: the number of the group's
    tasks, including tasks that do not run; None if this number is not known. `making`: an asyncio lock that is held
    while the grid is made or packed. Callers that wait for the asyncio lock occupy no thread.
    """

    values: Mapping[str, Any]
    digest: str
    image: GroupImage
    made_s: float
    took_s: float
    tasks: int | None
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    _grid: GroupGrid | None = field(default=None, init=False)
    _packed: PackedFile | None = field(default=None, init=False)

    async def grid(self) -> GroupGrid:
        """The group's grid. The first call takes time in proportion to the number of task copies. Later calls return
        the same grid.
        """
        async with self.making:
            if self._grid is None:
                self._grid = await asyncio.to_thread(group_grid, self.values)
            return self._grid

    async def packed(self) -> PackedFile:
        """The grid for the page's script. The first call takes time in proportion to the number of task copies."""
        grid = await self.grid()
        async with self.making:
            if self._packed is None:
                self._packed = await asyncio.to_thread(pack_grid, grid)
            return self._packed

    def is_old(self) -> bool:
        age_s = asyncio.get_running_loop().time() - self.made_s
        return age_s >= max(KEPT_S * 0.9, (SHARE_OF_TIME - 1) * self.took_s)


class GroupDocuments:
    """The cached descriptions of one service's groups. Use `GroupDocuments` on the service's event loop."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._kept: dict[str, GroupDocument] = {}
        self._under_way: dict[str, asyncio.Task[GroupDocument]] = {}

    async def now(self, group_id: str) -> GroupDocument:
        """Returns the description of the group's committed state, with the lags of about the last second.

        Raises GroupNotFound, UnreadableGroup and StoreError. Raises TooManyRequests while the service is overloaded.
        """
        while True:
            image = self._coordinator.group(group_id).image
            kept = self._kept.get(group_id)
            if kept is not None and kept.image is image and not kept.is_old():
                return kept
            making = self._under_way.get(group_id)
            if making is None:
                self._coordinator.overload.admit("describe")
                making = asyncio.create_task(self._make(group_id))
                self._under_way[group_id] = making
                making.add_done_callback(lambda done: self._made(group_id, done))
            made = await asyncio.shield(making)
            # Also accept a description of a later state, because a group may change all the time.
            if made.image is self._coordinator.group(group_id).image or made.image is not image:
                return made

    async def _make(self, group_id: str) -> GroupDocument:
        loop = asyncio.get_running_loop()
        async with self._coordinator.descriptions:
            began_s = loop.time()
            runtime = self._coordinator.group(group_id)
            image = runtime.image
            group = await described_group(runtime, self._coordinator.clusters)
            values = await asyncio.to_thread(group.model_dump, mode="json")
            digest = await asyncio.to_thread(digest_of, values)
            tasks = await asyncio.to_thread(task_total, await runtime.definition(image), image)
            return GroupDocument(values, digest, image, loop.time(), loop.time() - began_s, tasks)

    def _made(self, group_id: str, done: asyncio.Task[GroupDocument]) -> None:
        del self._under_way[group_id]
        if done.cancelled() or done.exception() is not None:
            return
        made = done.result()
        self._kept[group_id] = made
        # pass the document's time and not the document, because the timer would keep a replaced document in memory
        asyncio.get_running_loop().call_later(
            _DROPPED_AFTER_S + made.took_s * SHARE_OF_TIME, self._drop, group_id, made.made_s
        )

    def _drop(self, group_id: str, made_s: float) -> None:
        kept = self._kept.get(group_id)
        if kept is not None and kept.made_s == made_s:
            del self._kept[group_id]


async def document_of(request: Request, group_id: GroupId) -> GroupDocument:
    """FastAPI dependency: returns the description of the group in the request's address. Raises the errors of
    `GroupDocuments.now`, and CallerGone.
    """
    documents: GroupDocuments = request.app.state.group_documents
    return await unless_hung_up(request, documents.now(group_id))


TheDocument = Annotated[GroupDocument, Depends(document_of)]


def digest_of(document: Mapping[str, Any]) -> str:
    """The digest of a description. The digest leaves out values that change all the time and that pages do not show."""
    shown = dict(document)
    shown["members"] = [{**each, "last_heard_ms": None} for each in document["members"]]
    shown["tasks"] = [{**each, "flow": None} for each in document["tasks"]]
    shown["cluster"] = document["cluster"] and {**document["cluster"], "looked_at_ms": None}
    shown.pop("stored_bytes", None)
    return hashlib.sha256(to_json(shown)).hexdigest()[:16]


def task_total(definition: Definition, image: GroupImage) -> int | None:
    """Returns the number of the group's tasks, including tasks that do not run. Takes time in proportion to the number
    of tasks.

    Returns None if the number of tasks is not known, for example while topics are missing. If the definition names a
    cluster instead of topics, the topics of the last rebalance are used.
    """
    snapshot = definition.snapshot
    if definition.provider is not None:
        if image.last_rebalance is None:
            return None
        partitions = image.last_rebalance.basis.topics.items()
        topics = {name: TopicMetadata(number) for name, number in partitions if number}
        snapshot = replace(snapshot, cluster=snapshot.cluster.with_topics(topics))
    try:
        return len(make_tasks(snapshot, ReceivedVersions(), {}).partitions)
    except (KafkaError, InputError):
        return None
