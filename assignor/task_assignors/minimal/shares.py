"""The number of tasks that each client should have, in proportion to its threads.

A client's share of the tasks may be a fraction. The client gets its share rounded down or rounded up. The rounded-down
share and the rounded-up share are the client's bounds. Without pins, the bounds are computed in whole numbers, so there
are no rounding errors. If pins restrict tasks, the tasks with the same allowed clients form a group. Tasks also form
groups if a client already has more than its share. The groups whose clients have the fewest threads are distributed
first. The tasks of a group go to the allowed clients with the fewest tasks per thread. These clients then have equally
many tasks per thread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

_SWEEPS = 8
_ROUNDING = 9
"""The number of decimals to which a share in floating point is rounded, to remove rounding errors."""


@dataclass(frozen=True, slots=True)
class ShareBounds:
    """The lowest and the highest number of tasks that a client should get. `high` is at most `low` + 1."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Shares:
    """`of_client[client]`: the bounds for the client's tasks of all classes. `of_class[class][client]`: the bounds for
    the tasks of one class.
    """

    of_client: list[ShareBounds]
    of_class: list[dict[int, ShareBounds]]


@dataclass(frozen=True, slots=True)
class TaskClass:
    """A class of tasks that may go to the same clients. `count`: the number of the tasks. `allowed`: the clients,
    sorted. The tasks of each class are spread evenly over clients.
    """

    count: int
    allowed: tuple[int, ...]


def even_shares(classes: Sequence[TaskClass], capacity: Sequence[int], present: Sequence[int]) -> Shares:
    """Returns the bounds of each client. `present[client]`: the number of tasks that the client has already and does
    not give away.
    """
    everybody = tuple(range(len(capacity)))
    if all(each.allowed == everybody for each in classes):
        shares = _unpinned_shares(classes, capacity, present)
        if shares is not None:
            return shares
    return _pinned_shares(classes, capacity, present)


def level_shares(total: int, capacity: Sequence[int], least: Sequence[int], most: Sequence[int]) -> list[Fraction]:
    """Distributes tasks over the clients in proportion to their threads, as exact fractions. `total`: the number of
    tasks. `least[client]`, `most[client]`: the bounds of the client's share. If the sum of all upper bounds is smaller
    than `total`, only this many tasks are distributed.
    """
    shares: list[Fraction | None] = [None] * len(capacity)
    left, free = max(min(total, sum(most)), sum(least)), set(range(len(capacity)))
    while free:
        threads = sum(capacity[client] for client in free)
        height = Fraction(left, threads)
        above = [client for client in sorted(free) if height * capacity[client] > most[client]]
        below = [client for client in sorted(free) if height * capacity[client] < least[client]]
        too_much = sum((height * capacity[client] - most[client] for client in above), Fraction())
        too_little = sum((least[client] - height * capacity[client] for client in below), Fraction())
        if not above and not below:
            for client in free:
                shares[client] = height * capacity[client]
            break
        bound, settled = (most, above) if too_much >= too_little and above else (least, below)
        for client in settled:
            shares[client] = Fraction(bound[client])
            left -= bound[client]
            free.remove(client)
    return [share if share is not None else Fraction() for share in shares]


def _unpinned_shares(classes: Sequence[TaskClass], capacity: Sequence[int], present: Sequence[int]) -> Shares | None:
    """Returns the bounds if every client may get every task. Returns None if a client already has more than its share.
    The shares of the other clients are then not in proportion to their threads.
    """
    threads = sum(capacity)
    total = sum(present) + sum(each.count for each in classes)
    of_client: list[ShareBounds] = []
    for client, own in enumerate(capacity):
        low, high = total * own // threads, -(-total * own // threads)
        if present[client] > high:
            return None
        of_client.append(ShareBounds(max(0, low - present[client]), high - present[client]))
    of_class = [
        {
            client: ShareBounds(each.count * own // threads, -(-each.count * own // threads))
            for client, own in enumerate(capacity)
        }
        for each in classes
    ]
    return Shares(of_client, of_class)


def _pinned_shares(classes: Sequence[TaskClass], capacity: Sequence[int], present: Sequence[int]) -> Shares:
    """Returns the bounds if pins restrict tasks to some clients, or if a client already has more than its share.

    Tasks with the same allowed clients form a group. The groups are distributed one after the other. The group whose
    allowed clients have the fewest threads comes first. A later group may add tasks to the clients of an earlier group.
    Then it can be better if the earlier group uses other clients. So all groups are distributed `_SWEEPS` times.
    """
    groups: dict[tuple[int, ...], int] = {}
    for each in classes:
        groups[each.allowed] = groups.get(each.allowed, 0) + each.count
    order = sorted(groups, key=lambda allowed: (sum(capacity[client] for client in allowed), allowed))
    height = [float(count) for count in present]
    poured: dict[tuple[int, ...], dict[int, float]] = {allowed: {} for allowed in order}
    for _ in range(_SWEEPS if len(order) > 1 else 1):
        for allowed in order:
            for client, share in poured[allowed].items():
                height[client] -= share
            poured[allowed] = _pour(groups[allowed], allowed, capacity, height)
            for client, share in poured[allowed].items():
                height[client] += share
    of_client = [_around(height[client] - present[client]) for client in range(len(capacity))]
    of_class = [
        {
            client: _around(each.count * share / max(1, groups[each.allowed]))
            for client, share in poured[each.allowed].items()
        }
        for each in classes
    ]
    return Shares(of_client, of_class)


def _pour(count: int, allowed: tuple[int, ...], capacity: Sequence[int], height: Sequence[float]) -> dict[int, float]:
    """Distributes `count` tasks to the allowed clients with the fewest tasks per thread. These clients then have
    equally many tasks per thread. Returns the share of each client.
    """
    by_height = sorted(allowed, key=lambda client: (height[client] / capacity[client], client))
    there, threads, level = 0.0, 0, 0.0
    for number, client in enumerate(by_height):
        there += height[client]
        threads += capacity[client]
        level = (there + count) / threads
        following = by_height[number + 1] if number + 1 < len(by_height) else None
        if following is None or level <= height[following] / capacity[following]:
            break
    return {client: max(0.0, level * capacity[client] - height[client]) for client in allowed}


def _around(share: float) -> ShareBounds:
    share = max(0.0, round(share, _ROUNDING))
    return ShareBounds(math.floor(share), math.ceil(share))
