"""Defines the rows of coordinators and groups. Also defines `LeaseStore`, the interface through which coordinators read
and change the rows. The module does no I/O.

Times are in milliseconds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class CoordinatorRow(NamedTuple):
    """The row of a coordinator. `url`: the coordinator's address for other coordinators. `renewals`: the number of
    times that the coordinator has renewed the row. `release`: the coordinator's version of this project. `takes`:
    True if the coordinator may get groups. `takes` is False before the coordinator serves and when it stops. `takes` is
    also False while the coordinator does not renew its row.
    """

    coordinator_id: str
    url: str
    renewals: int
    release: str
    takes: bool = True


class GroupOwner(NamedTuple):
    """The owner of a group. `owner`: the id of the owning coordinator; None if no coordinator owns the group. `epoch`:
    a number that increases by one each time the group is taken or handed over. `members`: the number of the group's
    members, which sets the group's weight.
    """

    group_id: str
    owner: str | None
    epoch: int
    members: int = 0


@dataclass(frozen=True, slots=True)
class LeaseView:
    """All rows of coordinators and groups at one moment."""

    coordinators: Mapping[str, CoordinatorRow]
    groups: Mapping[str, GroupOwner]

    def is_free(self, group: GroupOwner) -> bool:
        """Returns whether the group has no owner, or an owner without a row."""
        return group.owner is None or group.owner not in self.coordinators


class LeaseTimes(NamedTuple):
    """The times of a lease. `renewal_ms`: the interval of renewals. `valid_ms`: the time for which a coordinator may
    answer calls after it sent a successful renewal.
    """

    renewal_ms: float
    valid_ms: float

    @property
    def expires(self) -> bool:
        return math.isfinite(self.valid_ms)


NEVER_EXPIRES = LeaseTimes(math.inf, math.inf)
"""The lease times of an SQLite file. Only one coordinator can use an SQLite file, so no other coordinator changes the
rows.
"""


def lease_times(lease_timeout_ms: int) -> LeaseTimes:
    """Returns the times of a lease for a value of `lease.timeout.ms`. Within `lease.timeout.ms`, other coordinators
    have to serve the groups of a crashed owner.
    """
    # Other coordinators consider a lease expired when its row has not changed for 0.7 of the timeout. The lease is
    # valid for 2/3 of the timeout, and 2/3 times `lease_holder.MARGIN` is 0.7. In the rest of the timeout, the other
    # coordinators make their next poll, and take and open the groups.
    return LeaseTimes(lease_timeout_ms / 12, lease_timeout_ms * 2 / 3)


class LeaseStore(Protocol):
    """The rows of coordinators and groups in the store. Each method is one transaction, and raises StoreError if the
    transaction failed or its result is unknown.
    """

    times: LeaseTimes

    async def enter(self, coordinator_id: str, url: str, release: str) -> None:
        """Insert the row of a coordinator, under a new id. The coordinator gets no groups before its first poll with
        `takes=True`.
        """

    async def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        """Renew this coordinator's row, and read all rows. If this coordinator's row was deleted, nothing is written,
        and the result is None.

        `takes`: True if the coordinator may get groups after this poll. `renews`: True to add 1 to the row's
        `renewals`.
        """

    async def end(self, coordinator_id: str, renewals: int) -> bool:
        """Delete the row of a coordinator if the row's `renewals` is still this number. Returns whether a row was
        deleted.
        """

    async def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> int | None:
        """Give the group a new owner, and increment its epoch. `owner`, `epoch`: the values that the group's row must
        still have. `by`: the id of the new owner. The new owner must have a row. The old owner must have no row, or
        must be the new owner itself. Returns the new epoch; None if nothing was changed.
        """

    async def hand_over(self, group_id: str, epoch: int, by: str, to: str) -> bool:
        """Give the group a new owner, and increment its epoch. `epoch`: the epoch that the group's row must still have.
        `by`: the id of the old owner, which the group's row must still name. `to`: the id of the new owner. The new
        owner must have a row. Returns whether the owner was changed.
        """

    async def leave(self, coordinator_id: str) -> None:
        """Delete this coordinator's row. The coordinator's remaining groups are free at once."""
