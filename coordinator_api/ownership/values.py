"""What the rows of coordinators and groups say, and what a coordinator does about it. Times are in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class CoordinatorRow(NamedTuple):
    """`url`: where others reach it. `renewals`: how often it has renewed the row. `release`: of this project. `takes`:
    whether it is to be given groups; not before it serves, and not once it stops.
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
class OwnershipView:
    """All rows, as they were at one moment."""

    coordinators: Mapping[str, CoordinatorRow]
    groups: Mapping[str, GroupOwner]

    def is_free(self, group: GroupOwner) -> bool:
        """Whether its owner has no row, or it has none."""
        return group.owner is None or group.owner not in self.coordinators


class LeaseTimes(NamedTuple):
    """`beat_ms`: between two beats. `valid_ms`: how long a coordinator may answer, from sending one that succeeded."""

    beat_ms: float
    valid_ms: float


def lease_times(lease_timeout_ms: int) -> LeaseTimes:
    """`lease_timeout_ms`: within this time after a crash of an owner its groups are served elsewhere."""
    return LeaseTimes(lease_timeout_ms / 12, lease_timeout_ms * 2 / 3)


# --- what a coordinator does


@dataclass(frozen=True, slots=True)
class EndCoordinator:
    """Delete the row of a coordinator that is over, if its number is still this one."""

    coordinator_id: str
    renewals: int


@dataclass(frozen=True, slots=True)
class Take:
    """Own a free group, or once more an own one that is not open here, if its owner and epoch are still these. Then
    load it: nothing of a group is kept from before it was taken.
    """

    group_id: str
    owner: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give an own group to another coordinator: close it, then change the row. It is not here any more from now on."""

    group_id: str
    epoch: int
    to: str


@dataclass(frozen=True, slots=True)
class Lose:
    """Forget a group that has another owner now, or none."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """The lease had ended for a while: read every own group again before its next event."""


@dataclass(frozen=True, slots=True)
class Enter:
    """The own row is gone, and with it all groups: enter under another id."""


Action = EndCoordinator | Take | HandOver | Lose | ReadAgain | Enter


# --- where a group is


@dataclass(frozen=True, slots=True)
class Here:
    """This coordinator owns it, in this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`url`: of its owner."""

    url: str


@dataclass(frozen=True, slots=True)
class Free:
    """Its owner is over, or it never had one: somebody is about to take it."""


@dataclass(frozen=True, slots=True)
class NoSuchGroup:
    """The newest view has no such group; it may be newer than that."""


Whereabouts = Here | Elsewhere | Free | NoSuchGroup
