"""The face of `Ownership` for a database that only one coordinator can use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from contextlib import AbstractContextManager, nullcontext

from coordinator_api.groups.owned_groups import OtherGroup, OwnedGroups
from coordinator_api.ownership.values import Elsewhere, Here, NoSuchGroup


class SoleOwner:
    """The only coordinator of its database: each group is here, and nothing ever ends."""

    is_shared = False
    check: Callable[[], None] | None = None
    first_epoch = 0

    def __init__(self, groups: OwnedGroups, group_ids: Callable[[], Awaitable[list[str]]]) -> None:
        self._groups = groups
        self._group_ids = group_ids

    async def start(self) -> None:
        """Open every group. Raises StoreError."""
        # one after the other: the logs of all groups together may be large
        for group_id in await self._group_ids():
            await self._groups.open_owned(group_id, 0)

    async def located(self, group_id: str) -> Here | Elsewhere | NoSuchGroup:
        return Here(0)

    def epoch(self, group_id: str) -> int:
        return 0

    def is_unknown(self, group_id: str) -> bool:
        return True

    def creating(self, group_id: str) -> AbstractContextManager[None]:
        return nullcontext()

    def created(self, group_id: str) -> None:
        pass

    def deleted(self, group_id: str) -> None:
        pass

    def lost(self, group_id: str) -> None:
        pass

    def elsewhere(self) -> list[OtherGroup]:
        return []

    def ids_elsewhere(self) -> Set[str]:
        return frozenset()

    def problem(self) -> str | None:
        return None

    def serves(self) -> None:
        pass

    async def give_away(self, within_s: float) -> None:
        pass

    async def leave(self) -> None:
        pass
