"""What the stateless calls share: one document in, an answer worked out beside the event loop, nothing kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fastapi import Request, Response

from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.bodies import read_document
from coordinator_api.http.problems import input_as_problems
from coordinator_api.http.routes.surface import json_response
from coordinator_api.http.stateless import RequestBounds

Compute = Callable[[Mapping[str, object], RequestBounds], Mapping[str, object]]


async def computed(request: Request, coordinator: Coordinator, compute: Compute) -> Response:
    """What `compute` makes of the document. Raises Problem for a body, or bytes in it, that cannot be used."""
    document = await read_document(request, lambda document: document)
    bounds = RequestBounds(coordinator.allowed_assignors, coordinator.settings.group_max_partitions)

    def run() -> Response:
        return json_response(compute(document, bounds))

    with input_as_problems(bytes_in="input.members"), coordinator.computations.one():
        return await asyncio.to_thread(run)
