"""What an incumbent asks of the database. Each method is one transaction."""

from __future__ import annotations

from typing import Protocol

from coordinator_api.ownership.values import OwnershipView


class OwnershipStore(Protocol):
    """Every method raises StoreError when nobody knows whether it was done."""

    async def enter(self, coordinator_id: str, url: str, release: str) -> None:
        """Make the row of a coordinator, whose id nobody has had before. It is given no groups until a beat says so."""

    async def beat(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> OwnershipView | None:
        """Renew the row, and read all rows. None when the row is gone; then nothing was written.

        `takes`: whether it is to be given groups from now on. `renews`: False leaves the number of the row as it is.
        """

    async def end(self, coordinator_id: str, renewals: int) -> bool:
        """Delete a row whose number is still `renewals`. Whether there is no such row now."""

    async def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> bool:
        """Make `by` the owner in epoch + 1, if owner and epoch are still these, `by` has a row, and the owner has none.
        Or the owner is `by` itself: then only the epoch rises.
        """

    async def hand_over(self, group_id: str, epoch: int, by: str, to: str) -> bool:
        """Make `to` the owner in epoch + 1, if `by` is still the owner in that epoch and `to` has a row."""

    async def leave(self, coordinator_id: str) -> None:
        """Delete the own row. What it still owned is free at once."""
