"""The rows of coordinators and groups as values, and the calls that read and change them. Pure.

Times are in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class CoordinatorRow(NamedTuple):
    """`url`: where others reach the coordinator. `renewals`: how often it has renewed the row. `release`: of this
    project. `takes`: whether it is to be given groups; not before it serves, and not once it stops.
    """

    coordinator_id: str
    url: str
    renewals: int
    release: str
    takes: bool = True


class GroupOwner(NamedTuple):
    """`owner`: a coordinator's id, None for nobody. `epoch`: how often the group has had another owner.
    `members`: how many it has, which is its weight.
    """

    group_id: str
    owner: str | None
    epoch: int
    members: int = 0


@dataclass(frozen=True, slots=True)
class LeaseView:
    """All rows, as they were at one moment."""

    coordinators: Mapping[str, CoordinatorRow]
    groups: Mapping[str, GroupOwner]

    def is_free(self, group: GroupOwner) -> bool:
        """Whether its owner has no row, or it has none."""
        return group.owner is None or group.owner not in self.coordinators


class LeaseTimes(NamedTuple):
    """`renewal_ms`: between two renewals. `valid_ms`: how long a coordinator may answer after it sent a renewal that
    succeeded.
    """

    renewal_ms: float
    valid_ms: float

    @property
    def expires(self) -> bool:
        return math.isfinite(self.valid_ms)


NEVER_EXPIRES = LeaseTimes(math.inf, math.inf)
"""Only one coordinator can use the database, so nobody else changes the rows."""


def lease_times(lease_timeout_ms: int) -> LeaseTimes:
    """`lease_timeout_ms`: within this time after a crash of an owner its groups are served elsewhere."""
    return LeaseTimes(lease_timeout_ms / 12, lease_timeout_ms * 2 / 3)


class LeaseStore(Protocol):
    """Each method is one transaction, and raises StoreError when nobody knows whether it was done."""

    times: LeaseTimes

    async def enter(self, coordinator_id: str, url: str, release: str) -> None:
        """Make the row of a coordinator, under an id that is new. It gets no groups before a poll with `takes`."""

    async def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        """Renew the row, and read all rows. None when the row is gone; then nothing was written.

        `takes`: whether it is to be given groups from now on. `renews`: False leaves the number of the row as it is.
        """

    async def end(self, coordinator_id: str, renewals: int) -> bool:
        """Delete a row whose number is still `renewals`. Whether it was there."""

    async def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> int | None:
        """Make `by` the owner in epoch + 1, if owner and epoch are still these, `by` has a row, and the owner has none.
        Or the owner is `by` itself: then only the epoch rises. Returns the new epoch; None when nothing was changed.
        """

    async def hand_over(self, group_id: str, epoch: int, by: str, to: str) -> bool:
        """Make `to` the owner in epoch + 1, if `by` is still the owner in that epoch and `to` has a row."""

    async def leave(self, coordinator_id: str) -> None:
        """Delete the own row. What it still owned is free at once."""
