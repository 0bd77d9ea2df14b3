"""What a coordinator decides to do about the rows after a poll, and which groups it takes and hands over. Pure.

All coordinators compute the same plan from the same rows. Two coordinators whose views differ may compute different
plans; the database lets only one of them take a group. A group weighs one, and one for each member. The heaviest group
goes first, to the coordinator with the smallest load.

`silent`: coordinators that have missed renewals. They keep their groups, and get none. Neither do coordinators that do
not serve yet or any more (`takes`), unless there are no others.
`waiting`: groups that have been free for too long. Any coordinator takes them, whatever the plan says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from coordinator_api.store.lease_rows import GroupOwner, LeaseView


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


Action = EndCoordinator | Take | HandOver | Lose | ReadAgain


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


# --- which groups a coordinator takes and hands over

TOLERANCE = 1.25
"""A coordinator gives something away once it has more than so many times its fair share."""


def weight(group: GroupOwner) -> int:
    return 1 + group.members


def takes_of(view: LeaseView, me: str, silent: Collection[str] = (), waiting: Collection[str] = ()) -> list[Take]:
    """The free groups that this coordinator takes."""
    free = [group for group in view.groups.values() if view.is_free(group)]
    if not free:
        return []
    loads = {each: load for each, load in _loads(view).items() if each == me or each not in silent}
    loads = {each: load for each, load in loads.items() if view.coordinators[each].takes} or loads
    return [
        Take(group.group_id, group.owner, group.epoch)
        for group, to in _spread(free, loads)
        if to == me or group.group_id in waiting
    ]


def hand_over_of(view: LeaseView, me: str, movable: Collection[str], silent: Collection[str] = ()) -> HandOver | None:
    """The group that this coordinator hands over next, for balance. None unless it carries most of all, more than a
    quarter above its fair share, and the largest load becomes smaller by it. So no group ever moves back for balance.
    """
    loads = {each: load for each, load in _loads(view).items() if each == me or view.coordinators[each].takes}
    mine = loads[me]
    others = [(load, each) for each, load in loads.items() if each != me]
    if not others or silent or (mine, me) < max(others) or mine * len(loads) <= TOLERANCE * sum(loads.values()):
        return None
    least, to = min(others)
    groups = [view.groups[each] for each in movable if each in view.groups and view.groups[each].owner == me]
    larger_loads = [(max(mine - weight(group), least + weight(group)), group.group_id) for group in groups]
    larger, group_id = min(larger_loads, default=(mine, ""))
    return HandOver(group_id, view.groups[group_id].epoch, to) if larger < mine else None


def hand_overs_of_all(view: LeaseView, me: str, silent: Collection[str] = ()) -> list[HandOver]:
    """All groups of this coordinator, spread over the others. Empty when there are none: the groups will be free."""
    able = {each for each, row in view.coordinators.items() if each != me and each not in silent and row.takes}
    loads = {each: load for each, load in _loads(view).items() if each in able}
    own = [group for group in view.groups.values() if group.owner == me]
    return [HandOver(group.group_id, group.epoch, to) for group, to in _spread(own, loads)] if loads else []


def _loads(view: LeaseView) -> dict[str, int]:
    loads = dict.fromkeys(view.coordinators, 0)
    for group in view.groups.values():
        if group.owner in loads:
            loads[group.owner] += weight(group)
    return loads


def _spread(groups: Iterable[GroupOwner], loads: Mapping[str, int]) -> list[tuple[GroupOwner, str]]:
    """Each group with the coordinator that gets it."""
    loads = dict(loads)
    spread = []
    for group in sorted(groups, key=lambda group: (-weight(group), group.group_id)):
        to = min(loads, key=lambda each: (loads[each], each))
        spread.append((group, to))
        loads[to] += weight(group)
    return spread
