"""Which coordinator takes which free group, and what moves for balance. All compute the same from the same rows. Pure.

A group weighs one, and one for each member. The heaviest goes first, to the coordinator that carries least. Two
coordinators whose views differ may compute different plans; the database lets only one of them take a group.

`silent`: coordinators that have missed renewals. They keep their groups, and are given none. So do those that do not
serve yet or any more (`takes`), unless there are no others.
`waiting`: groups that have been free for too long. Any coordinator takes them, whatever the plan says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heapreplace

from coordinator_api.lease.decisions import HandOver, Take
from coordinator_api.store.lease_rows import GroupOwner, LeaseView

TOLERANCE = 1.25
"""A coordinator gives something away once it has more than so many times its fair share."""

_NOBODY: frozenset[str] = frozenset()


def weight(group: GroupOwner) -> int:
    return 1 + group.members


def takes(
    view: LeaseView, me: str, silent: Collection[str] = _NOBODY, waiting: Collection[str] = _NOBODY
) -> list[Take]:
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


def hand_over(view: LeaseView, me: str, movable: Collection[str], silent: Collection[str] = _NOBODY) -> HandOver | None:
    """The group that this coordinator hands over next, for balance. None unless it carries most of all, more than a
    quarter above its fair share, and the largest load becomes smaller by it. So no group ever moves back for balance.
    """
    loads = {each: load for each, load in _loads(view).items() if each == me or view.coordinators[each].takes}
    mine = loads[me]
    others = [(load, each) for each, load in loads.items() if each != me]
    if not others or silent or (mine, me) < max(others) or mine * len(loads) <= TOLERANCE * sum(loads.values()):
        return None
    least, to = min(others)
    best: tuple[int, str] | None = None
    for group_id in movable:
        group = view.groups.get(group_id)
        if group is None or group.owner != me:
            continue
        larger = max(mine - weight(group), least + weight(group))
        if larger < mine and (best is None or (larger, group_id) < best):
            best = larger, group_id
    if best is None:
        return None
    return HandOver(best[1], view.groups[best[1]].epoch, to)


def leaving(view: LeaseView, me: str, silent: Collection[str] = _NOBODY) -> list[HandOver]:
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
    least = [(load, each) for each, load in loads.items()]
    heapify(least)
    spread = []
    for group in sorted(groups, key=lambda group: (-weight(group), group.group_id)):
        load, to = least[0]
        spread.append((group, to))
        heapreplace(least, (load + weight(group), to))
    return spread
