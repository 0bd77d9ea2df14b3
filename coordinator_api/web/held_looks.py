"""What rebalances that wait would change, worked out once for each, however many look at it and however often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request

from assignor.errors import InputError
from coordinator_api.errors import TooManyRequests
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.page_computations import look_at_held

_MOST_KEPT = 16


class HeldLooks:
    """Of one service, on its event loop."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._kept: dict[tuple[str, int, int], Mapping[str, Any]] = {}

    async def of(self, request: Request, group_id: str, held: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """`held`: of the group's document. None when nothing waits, and when it cannot be worked out now."""
        if held is None:
            return None
        key = group_id, held["generation_id"], held["since_ms"]
        found = self._kept.get(key)
        if found is not None:
            return found
        coordinator = self._coordinator
        stored = await coordinator.recordings.stored(group_id, held["generation_id"])
        if stored is None:
            return None
        try:
            coordinator.overload.admit("computation")
            with coordinator.computation(principal_of(request).group_prefix):
                looked = await run_in_worker(request, coordinator, look_at_held, stored, coordinator.document_bounds)
        except (InputError, TooManyRequests):
            return None
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = looked
        return looked
