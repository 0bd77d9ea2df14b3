"""The rule that places standbys on clients whose tags differ from the tags of the task's other copies (KIP-708).

`standby_assignors.py` uses the rule for HighAvailabilityTaskAssignor, `minimal/spread.py` for
MinimalMovementTaskAssignor, and `assignor/assignment/standbys.py` for assignors of the public interface.
Source: `ClientTagAwareStandbyTaskAssignor`, `TaskAssignmentUtils.tagBasedStandbyTaskAssignment`.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from typing import Generic, TypeVar

from assignor.java.hash_codes import int32

C = TypeVar("C", bound=Hashable)
"""The type that identifies a client: a number, or a process id."""

Tag = tuple[str, str]
"""A tag's key and value."""


class ClientTags(Generic[C]):
    """The configured tags (zone, cluster, host, ...) of clients, and the rule for the copies of one task.

    The used tags of a task are the tags of the clients that have a copy. A client with a used tag gets no standby. As
    in Kafka, a client without a tag key counts as different from all other clients. So a client without the key is
    preferred to clients with a used value of the key. When a client gets a copy, its tags become used. If a tag key has
    N values and at least N clients have a copy, all values of this key become unused. A key without used values
    excludes no client.

    `of[client]`: the client's tags whose keys are configured.
    """

    def __init__(self, tags: Mapping[C, Mapping[str, str]], keys: Collection[str]) -> None:
        """`tags`: all tags of each client. `keys`: rack.aware.assignment.tags."""
        self.of = {client: frozenset(tag for tag in each.items() if tag[0] in keys) for client, each in tags.items()}
        self._combinations = frozenset(self.of.values())
        self._with_key: dict[str, set[Tag]] = {}
        for tag in frozenset().union(*self._combinations):
            self._with_key.setdefault(tag[0], set()).add(tag)
        self._excludes_everybody: dict[frozenset[Tag], bool] = {}

    def __bool__(self) -> bool:
        """True if at least one client has a configured tag."""
        return bool(self._with_key)

    def used_by(self, clients: Iterable[C]) -> frozenset[Tag]:
        """Returns the used tags of a task. `clients`: the clients with a copy, first the client with the active
        copy.
        """
        used: set[Tag] = set()
        for number, client in enumerate(clients, start=1):
            self._use(client, used, number)
        return frozenset(used)

    def are_unused(self, client: C, used: AbstractSet[Tag]) -> bool:
        """True if the client has none of the used tags."""
        return used.isdisjoint(self.of[client])

    def draw_for_standbys(
        self, queue: list[tuple[float, C]], owner: C, wanted: int, may_hold: Callable[[C], bool]
    ) -> list[C]:
        """Removes from the queue the clients that get the standbys of one task, and returns these clients. `wanted`:
        the number of standbys. If every client has a used tag, the result has fewer than `wanted` clients. The caller
        has to place the remaining standbys on the least loaded clients. `owner`: the client with the active copy.

        As in Kafka, the first client is chosen before `wanted` is checked. So a client may be returned even if `wanted`
        is 0 or negative.
        """
        used: set[Tag] = set()
        drawn: list[C] = []
        last = owner
        while not drawn or int32(wanted - len(drawn)) > 0:
            self._use(last, used, used_clients=len(drawn) + 1)
            if self._exclude_everybody(used):
                break
            client = draw(queue, lambda each: may_hold(each) and self.are_unused(each, used))
            if client is None:
                break
            drawn.append(client)
            last = client
        return drawn

    def _use(self, client: C, used: set[Tag], used_clients: int) -> None:
        """Adds the client's tags to `used`. If a tag key has at most `used_clients` values, all values of this key
        become unused instead. As in Kafka, only the number of used clients matters, and not the number of used values
        of the key.
        """
        for tag in self.of[client]:
            values = self._with_key[tag[0]]
            if len(values) <= used_clients:
                used.difference_update(values)
            else:
                used.add(tag)

    def _exclude_everybody(self, used: set[Tag]) -> bool:
        """True if every client has a used tag. The result is cached, because only few combinations of used tags occur
        in a large group.
        """
        key = frozenset(used)
        excludes = self._excludes_everybody.get(key)
        if excludes is None:
            excludes = not any(map(used.isdisjoint, self._combinations))
            self._excludes_everybody[key] = excludes
        return excludes


def draw(queue: list[tuple[float, C]], accepts: Callable[[C], bool]) -> C | None:
    """Finds the least loaded client for which the function `accepts` returns True. Removes this client from the heap,
    and returns it. Returns None if there is no such client. `queue`: a heap of clients, each with its load.
    """
    rejected: list[tuple[float, C]] = []
    found: C | None = None
    while queue and found is None:
        entry = heappop(queue)
        if accepts(entry[1]):
            found = entry[1]
        else:
            rejected.append(entry)
    for entry in rejected:
        heappush(queue, entry)
    return found
