"""The grids of groups, made once of each document that open pages share.

Lags of one or two documents before are kept while pages are open: from them follows how fast copies are restored.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator_api.web.grid import GroupGrid, SeenLags, grid_document, group_grid
from coordinator_api.web.grid_filter import GridFilter, filtered
from coordinator_api.web.group_documents import GroupDocument, GroupDocuments
from coordinator_api.web.static_files import PackedFile

KEPT_S = 30.0
_LAGS_OLDER_MS = 5_000


class SeenGroup(NamedTuple):
    """A document of a group, and its grid."""

    document: GroupDocument
    grid: GroupGrid

    @property
    def names(self) -> Mapping[str, str]:
        """Of instances, by process id."""
        return {row.process_id: row.name for row in self.grid.rows}


@dataclass(slots=True)
class _Kept:
    """Of one group. `lags`: of one or two documents before."""

    seen: SeenGroup | None = None
    packed: PackedFile | None = None
    lags: list[SeenLags] = field(default_factory=list)
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

    async def packed(self, group_id: str, asked: GridFilter) -> PackedFile:
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
            lags = await asyncio.to_thread(SeenLags.of, document.values, at_ms)
            before = kept.lags[0] if kept.lags else lags
            grid = await asyncio.to_thread(group_grid, document.values, before, at_ms)
            if not kept.lags or at_ms - kept.lags[-1].at_ms >= _LAGS_OLDER_MS:
                kept.lags = [*kept.lags[-1:], lags]
            kept.seen, kept.packed = SeenGroup(document, grid), None
            return kept.seen


def pack_grid(grid: GroupGrid) -> PackedFile:
    """Takes time in proportion to its copies."""
    content = json.dumps(grid_document(grid), separators=(",", ":")).encode("ascii")
    return PackedFile.of(content, "application/json", level=1)
