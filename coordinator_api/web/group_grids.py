"""The grids of groups, made of the documents that all who look share, and how fast their copies are restored.

A grid is made once of each document. Lags of one or two documents before are kept while somebody looks: what is
restored, and until when, comes of them.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinator_api.web.group_documents import GroupDocument, GroupDocuments
from coordinator_api.web.views.grid_filter import GridFilter, filtered
from coordinator_api.web.views.group_grid import GroupGrid, grid_document, group_grid
from coordinator_api.web.views.restoring import LagsSeen

KEPT_S = 30.0
_LAGS_OLDER_MS = 5_000


class SeenGroup(NamedTuple):
    """A document of a group, and its grid."""

    document: GroupDocument
    grid: GroupGrid


class PackedGrid(NamedTuple):
    """`content`: JSON; `packed`: the same by gzip. `etag`: with its quotes."""

    content: bytes
    packed: bytes
    etag: str


@dataclass(slots=True)
class _Kept:
    """Of one group. `lags`: of one or two documents before."""

    seen: SeenGroup | None = None
    packed: PackedGrid | None = None
    lags: list[LagsSeen] = field(default_factory=list)
    asked_s: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class GroupGrids:
    """Of one service, on its event loop."""

    def __init__(self, documents: GroupDocuments) -> None:
        self._documents = documents
        self._kept: dict[str, _Kept] = {}

    async def now(self, group_id: str) -> SeenGroup:
        """Raises as `GroupDocuments.now` does."""
        return await self._seen(group_id, await self._documents.now(group_id))

    async def packed(self, group_id: str, asked: GridFilter) -> PackedGrid:
        """The grid, or a part of it, for the page's script. Raises as `now` does."""
        seen = await self.now(group_id)
        if asked != GridFilter():
            return await asyncio.to_thread(pack_grid, filtered(seen.grid, asked))
        kept = self._kept[group_id]
        async with kept.turn:
            if kept.packed is None or kept.seen is not seen:
                made = await asyncio.to_thread(pack_grid, seen.grid)
                if kept.seen is not seen:
                    return made
                kept.packed = made
            return kept.packed

    async def _seen(self, group_id: str, document: GroupDocument) -> SeenGroup:
        now_s = asyncio.get_running_loop().time()
        for gone in [each for each, kept in self._kept.items() if now_s - kept.asked_s > KEPT_S and each != group_id]:
            del self._kept[gone]
        kept = self._kept.setdefault(group_id, _Kept())
        kept.asked_s = now_s
        async with kept.turn:
            if kept.seen is not None and kept.seen.document is document:
                return kept.seen
            at_ms = round(document.made_s * 1_000)
            grid, lags = await asyncio.to_thread(_looked, document.values, tuple(kept.lags), at_ms)
            if not kept.lags or at_ms - kept.lags[-1].at_ms >= _LAGS_OLDER_MS:
                kept.lags = [*kept.lags[-1:], lags]
            kept.seen, kept.packed = SeenGroup(document, grid), None
            return kept.seen


def _looked(document: Mapping[str, Any], before: tuple[LagsSeen, ...], at_ms: int) -> tuple[GroupGrid, LagsSeen]:
    lags = LagsSeen.of(document, at_ms)
    return group_grid(document, (before[0] if before else lags).until(at_ms)), lags


def pack_grid(grid: GroupGrid) -> PackedGrid:
    """Takes time in proportion to its copies."""
    content = json.dumps(grid_document(grid), separators=(",", ":")).encode("ascii")
    return PackedGrid(content, gzip.compress(content, 1, mtime=0), f'"{hashlib.sha256(content).hexdigest()[:32]}"')
