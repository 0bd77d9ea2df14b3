"""`/ui/groups/{group}/topology`: a group's subtopologies, topics and stores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fastapi import Request
from starlette.responses import Response

from assignor.snapshot import RebalanceSnapshot
from coordinator_api.group.image import GroupImage
from coordinator_api.http.connections import unless_hung_up
from coordinator_api.http.dependencies import GroupId, TheCoordinator, checked_router
from coordinator_api.web.group_documents import GroupDocuments
from coordinator_api.web.rendering import page
from coordinator_api.web.views.topology import topology_view

router = checked_router(include_in_schema=False)


@router.get("/ui/groups/{group}/topology")
async def topology(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """As the group's definition has it, with the work of now."""
    documents: GroupDocuments = request.app.state.group_documents
    document = await unless_hung_up(request, documents.now(group_id))
    snapshot = (await coordinator.group(group_id).definition(document.image)).snapshot
    partitions = _partitions(snapshot, document.image)
    view = await asyncio.to_thread(topology_view, snapshot.topology, partitions, document.values)
    return page(request, "topology", group_id=group_id, topology=view, digest=document.digest)


def _partitions(snapshot: RebalanceSnapshot, image: GroupImage) -> Mapping[str, int]:
    """As the definition says; else, of a cluster that it only names, as the last rebalance found them."""
    last = image.last_rebalance
    found = {} if last is None else {name: number for name, number in last.basis.topics.items() if number}
    internal = {name: topic.partitions for name, topic in snapshot.existing_internal_topics.items()}
    return {**found, **internal, **{name: topic.partitions for name, topic in snapshot.cluster.topics.items()}}
