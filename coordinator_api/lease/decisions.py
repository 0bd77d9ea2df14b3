"""What a coordinator decides to do about the rows after a poll, and where a group is. Pure values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EndCoordinator:
    """Delete the row of a coordinator whose lease has expired, if it has not been renewed since."""

    coordinator_id: str
    renewals: int


@dataclass(frozen=True, slots=True)
class Take:
    """Own a free group, or once more an own one that is not open here, if its owner and epoch are still these. Then
    load the group: nothing is kept in memory from before it was taken.
    """

    group_id: str
    owner: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give an own group to another coordinator: close the group, then change its row. From now on it is not here."""

    group_id: str
    epoch: int
    to: str


@dataclass(frozen=True, slots=True)
class Lose:
    """Forget a group that has another owner now, or none."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """The lease had expired for a while: read every own group again before its next event."""


@dataclass(frozen=True, slots=True)
class Enter:
    """The own row is gone, and with it all groups: enter under another id."""


Action = EndCoordinator | Take | HandOver | Lose | ReadAgain | Enter


@dataclass(frozen=True, slots=True)
class Here:
    """This coordinator owns the group, in this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`url`: of the group's owner."""

    url: str


@dataclass(frozen=True, slots=True)
class Free:
    """The lease of the group's owner has expired, or the group has none: a coordinator is about to take it."""


@dataclass(frozen=True, slots=True)
class NoSuchGroup:
    """The newest view has no such group; it may be newer than that."""


Whereabouts = Here | Elsewhere | Free | NoSuchGroup
