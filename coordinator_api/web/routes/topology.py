"""`/ui/groups/{group}/topology`: a group's subtopologies, topics and stores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fastapi import Request
from starlette.responses import Response

from assignor.snapshot import RebalanceSnapshot
from coordinator_api.http.call_rights import checked_router
from coordinator_api.http.hang_ups import unless_hung_up
from coordinator_api.http.routes.surface import GroupId, TheCoordinator
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
    view = await asyncio.to_thread(topology_view, snapshot.topology, _partitions(snapshot), document.values)
    return page(request, "topology", group_id=group_id, topology=view, digest=document.digest)


def _partitions(snapshot: RebalanceSnapshot) -> Mapping[str, int]:
    internal = {name: topic.partitions for name, topic in snapshot.existing_internal_topics.items()}
    return {**internal, **{name: topic.partitions for name, topic in snapshot.cluster.topics.items()}}
