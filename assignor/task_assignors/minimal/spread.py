"""Finds the clients that may get a task's standbys. A client may get a standby if it has no copy of the task and the
pins allow it. The tags of the client should differ from the tags of the clients with a copy.

The rule for tags is Kafka's rule, in `task_assignors/client_tags.py`. If every client without a copy has a used tag, a
standby may go to any client without a copy. Source: KIP-708.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations

from assignor.task_assignors.client_tags import ClientTags, Tag
from assignor.task_assignors.minimal.pin_lookup import AllowedClients, PinnedTasks, is_free, use
from assignor.task_assignors.working_state import WorkingState

_ORDERS_OF = 4  # if a task has more standbys than this number, `is_spread` checks only one order of the standbys


class StandbySpread:
    """Checks and changes the clients of standbys in `state`. `tag_keys`: rack.aware.assignment.tags."""

    def __init__(self, state: WorkingState, tag_keys: Sequence[str], pins: PinnedTasks) -> None:
        self._state = state
        self._tags = ClientTags({number: client.tags for number, client in enumerate(state.clients)}, tag_keys)
        self._allowed = [pins.allowed(task) for task in state.tasks]
        self._rules = [pins.apart_rules(task) for task in state.tasks]

    def allowed(self, task: int) -> AllowedClients:
        return self._allowed[task]

    def used_tags(self, copies: Sequence[int]) -> frozenset[Tag]:
        """Returns the tags that the client of the next standby should not have. `copies`: the clients of the task's
        copies, first the client of the active copy.
        """
        return self._tags.used_by(copies)

    def may_hold(self, task: int, client: int) -> bool:
        """True if the client has no copy of the task and the task's pins allow a standby on the client. Does not check
        tags.
        """
        return (
            not self._state.holds(client, task)
            and client in self._allowed[task].members
            and is_free(self._rules[task], client)
        )

    def has_unused_tags(self, client: int, used: frozenset[Tag]) -> bool:
        return self._tags.are_unused(client, used)

    def anyone_has_unused_tags(self, task: int, used: frozenset[Tag], copies: Sequence[int]) -> bool:
        """True if an allowed client without a copy has none of the used tags."""
        return any(
            self._tags.are_unused(client, used) and client not in copies for client in self._allowed[task].clients
        )

    def spreads(self, task: int) -> bool:
        """True if the tag rule applies to the task: tags are configured, and no `apart` pin names the task."""
        return bool(self._tags) and not self._rules[task]

    def is_spread(self, task: int, standbys: Sequence[int]) -> bool:
        """True if Kafka's rule could have chosen the clients `standbys` in some order. If there are more than four
        standbys, only the given order is checked.
        """
        if not self.spreads(task):
            return True
        orders = permutations(standbys) if len(standbys) <= _ORDERS_OF else (standbys,)
        return any(self._is_spread_in_order(task, order) for order in orders)

    def spread_first(self, task: int, there: Sequence[int]) -> list[int]:
        """Returns the clients that keep their copy of the task. `there`: the clients that have a copy.

        The tag rule chooses the clients that keep their copy, one after the other. The tag rule stops when every
        remaining client has a used tag. If an allowed client without a copy has none of the used tags, the remaining
        clients then lose their copies.
        """
        copies, left = [self._state.owner[task]], list(there)
        while left:
            used = self.used_tags(copies)
            client = next((client for client in left if self.has_unused_tags(client, used)), None)
            if client is None:
                if not self.anyone_has_unused_tags(task, used, copies):
                    copies += left
                break
            left.remove(client)
            copies.append(client)
        return copies[1:]

    def is_apart(self, task: int) -> bool:
        return bool(self._rules[task])

    def _is_spread_in_order(self, task: int, standbys: Sequence[int]) -> bool:
        copies = [self._state.owner[task]]
        for client in standbys:
            used = self.used_tags(copies)
            if not self.has_unused_tags(client, used):
                return not self.anyone_has_unused_tags(task, used, copies)
            copies.append(client)
        return True

    def may_move(self, task: int, source: int, destination: int, standbys: Iterable[int]) -> bool:
        """True if the move of a standby from `source` to `destination` violates no pin and keeps the copies spread over
        tags.
        """
        if self._state.holds(destination, task) or destination not in self._allowed[task].members:
            return False
        if not is_free(self._rules[task], destination, instead_of=source):
            return False
        if not self.spreads(task) or self._tags.of[source] == self._tags.of[destination]:
            return True
        return self.is_spread(task, [destination if client == source else client for client in standbys])

    def put(self, task: int, client: int) -> None:
        self._state.assign_standby(client, task)
        use(self._rules[task], client)

    def move(self, task: int, source: int, destination: int) -> None:
        self._state.move_standby(source, destination, task)
        use(self._rules[task], source, -1)
        use(self._rules[task], destination)
