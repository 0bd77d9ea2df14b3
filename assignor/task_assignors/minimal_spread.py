"""On which clients a task's standbys may lie: off its other copies, spread over tags, within its pins.

Spreading follows the rule of Kafka's ClientTagAwareStandbyTaskAssignor: a standby is to have none of the tags of the
copies before it, a tag key whose values are all used does not count any more, and when no client is left, any will do.
Source: KIP-708, `standby_client_tags.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assignor.task_assignors.minimal_pins import AllowedClients, PinnedTasks, is_free, use
from assignor.task_assignors.working_state import WorkingState

Tag = tuple[str, str]


class StandbySpread:
    """Reads who holds what from `state`; `tag_keys`: rack.aware.assignment.tags."""

    def __init__(self, state: WorkingState, tag_keys: Sequence[str], pins: PinnedTasks) -> None:
        self._state = state
        self._tags = [frozenset(tag for tag in client.tags.items() if tag[0] in tag_keys) for client in state.clients]
        self._values: dict[str, set[str]] = {}
        for tags in self._tags:
            for key, value in tags:
                self._values.setdefault(key, set()).add(value)
        self.spreads = bool(self._values)
        self._allowed = [pins.allowed(task) for task in state.tasks]
        self._rules = [pins.apart_rules(task) for task in state.tasks]

    def allowed(self, task: int) -> AllowedClients:
        return self._allowed[task]

    def used_tags(self, copies: Sequence[int]) -> frozenset[Tag]:
        """What the next standby must not have; `copies`: the client of the active task first."""
        used: set[Tag] = set()
        for number, client in enumerate(copies, start=1):
            for tag in self._tags[client]:
                values = self._values[tag[0]]
                if len(values) <= number:
                    used.difference_update([(tag[0], value) for value in values])
                else:
                    used.add(tag)
        return frozenset(used)

    def may_hold(self, task: int, client: int) -> bool:
        """Whether nothing but tags speaks against a standby there."""
        return (
            not self._state.holds(client, task)
            and client in self._allowed[task].members
            and is_free(self._rules[task], client)
        )

    def has_unused_tags(self, client: int, used: frozenset[Tag]) -> bool:
        return not used or used.isdisjoint(self._tags[client])

    def anyone_has_unused_tags(self, task: int, used: frozenset[Tag]) -> bool:
        return not used or any(
            used.isdisjoint(self._tags[client]) and self.may_hold(task, client)
            for client in self._allowed[task].clients
        )

    def may_move(self, task: int, source: int, destination: int, standbys: Iterable[int]) -> bool:
        """Whether a standby may go there: pins are kept, and the copies use as many values of every tag as before."""
        if self._state.holds(destination, task) or destination not in self._allowed[task].members:
            return False
        if not is_free(self._rules[task], destination, instead_of=source):
            return False
        if not self.spreads or self._tags[source] <= self._tags[destination]:
            return True
        others = [self._state.owner[task], *(client for client in standbys if client != source)]
        return all(
            self._distinct(key, [*others, destination]) >= self._distinct(key, [*others, source])
            for key in self._values
        )

    def put(self, task: int, client: int) -> None:
        self._state.assign_standby(client, task)
        use(self._rules[task], client)

    def move(self, task: int, source: int, destination: int) -> None:
        self._state.move_standby(source, destination, task)
        use(self._rules[task], source, -1)
        use(self._rules[task], destination)

    def _distinct(self, key: str, clients: Iterable[int]) -> int:
        return len({tag for client in clients for tag in self._tags[client] if tag[0] == key})
