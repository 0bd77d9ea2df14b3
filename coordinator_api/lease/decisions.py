"""Defines the actions of a coordinator after a poll, and chooses the groups that it takes and hands over. All functions
are pure.

All coordinators compute the same plan from the same rows. Two coordinators with different views may compute different
plans. If both coordinators try to take one group, the database refuses the second attempt. The weight of a group is 1
plus the number of its members. The load of a coordinator is the sum of the weights of its groups. The plan assigns one
group after the other, from the heaviest group to the lightest group. Each group goes to the coordinator with the
smallest load at that point.

`silent`: coordinators that have missed renewals. A silent coordinator keeps its groups, but gets no further groups.
Coordinators that are starting or stopping (`takes` is False) get groups only if no other coordinator is left.
`waiting`: groups that have been free for too long. Any coordinator may take a waiting group, even if the plan gives the
group to another coordinator.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from coordinator_api.store.lease_rows import GroupOwner, LeaseView


@dataclass(frozen=True, slots=True)
class EndCoordinator:
    """Delete the row of a coordinator whose lease has expired. The deletion succeeds only if the row still has the
    observed number of renewals.
    """

    coordinator_id: str
    renewals: int


@dataclass(frozen=True, slots=True)
class Take:
    """Take a group that is free, or that this coordinator owns but has not opened. The take succeeds only if the
    group's row still has this `owner` and this `epoch`. After a take, the coordinator loads the group from the store,
    because the group's state in memory may be stale.
    """

    group_id: str
    owner: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """Hand a group of this coordinator over to another coordinator: close the group, then change the group's row. After
    the decision to hand over, the group no longer counts as a group of this coordinator.
    """

    group_id: str
    epoch: int
    to: str


@dataclass(frozen=True, slots=True)
class Lose:
    """Drop a group from memory, because the group now has another owner or no owner."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Read each group of this coordinator from the store again, before the next event of the group. The reason is that
    the coordinator's lease was not valid for a while.
    """


Action = EndCoordinator | Take | HandOver | Lose | ReadAgain


@dataclass(frozen=True, slots=True)
class Here:
    """This coordinator owns the group in `epoch`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another coordinator owns the group. `url`: the address of the owner."""

    url: str


@dataclass(frozen=True, slots=True)
class Free:
    """The lease of the group's owner has expired, or the group has no owner. A coordinator will take the group soon."""


@dataclass(frozen=True, slots=True)
class NoSuchGroup:
    """The rows of the newest poll do not contain the group. The group may have been created after this poll."""


Whereabouts = Here | Elsewhere | Free | NoSuchGroup


# --- choice of the groups to take and to hand over

TOLERANCE = 1.25
"""A coordinator hands a group over only if its load exceeds this multiple of its fair share."""


def weight(group: GroupOwner) -> int:
    return 1 + group.members


def takes_of(view: LeaseView, me: str, silent: Collection[str] = (), waiting: Collection[str] = ()) -> list[Take]:
    """Returns the free groups that this coordinator takes."""
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
    """Returns the next hand-over by which this coordinator balances the loads, or None. This coordinator must have the
    largest load, and this load must exceed the fair share by more than a quarter. The hand-over must reduce the largest
    load. The conditions on the loads ensure that no group is ever handed back for balance.
    """
    loads = {each: load for each, load in _loads(view).items() if each == me or view.coordinators[each].takes}
    mine = loads[me]
    others = [(load, each) for each, load in loads.items() if each != me]
    # equal loads are ordered by id, so that only one coordinator counts as the most loaded
    if not others or silent or (mine, me) < max(others) or mine * len(loads) <= TOLERANCE * sum(loads.values()):
        return None
    least, to = min(others)
    groups = [view.groups[each] for each in movable if each in view.groups and view.groups[each].owner == me]
    larger_loads = [(max(mine - weight(group), least + weight(group)), group.group_id) for group in groups]
    larger, group_id = min(larger_loads, default=(mine, ""))
    return HandOver(group_id, view.groups[group_id].epoch, to) if larger < mine else None


def hand_overs_of_all(view: LeaseView, me: str, silent: Collection[str] = ()) -> list[HandOver]:
    """Returns the hand-overs of all groups of this coordinator, spread over the other coordinators. If no other
    coordinator can take groups, the result is empty, and the groups become free.
    """
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
    """Pairs each group with the coordinator that gets it."""
    loads = dict(loads)
    spread = []
    for group in sorted(groups, key=lambda group: (-weight(group), group.group_id)):
        to = min(loads, key=lambda each: (loads[each], each))
        spread.append((group, to))
        loads[to] += weight(group)
    return spread
