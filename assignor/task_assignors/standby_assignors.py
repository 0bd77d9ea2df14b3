"""Kafka's two ways to place standbys: on the least loaded clients, or on clients with different tags (KIP-708).

Kafka draws clients out of its ConstrainedPrioritySet. Here no load changes while its client is queued, so the layout
of Java's heap cannot show, and a plain heap gives the same clients. What does show is Java's hash order: standbys that
found no client on unused tags are placed in the order of a HashMap of tasks.

Kafka's factory knows a third way, by the racks of the clients. HighAvailabilityTaskAssignor of 4.3.1 never asks for it:
it hands the factory no RackAwareTaskAssignor. So the rack of a client decides nothing here.
Source: `StandbyTaskAssignorFactory`, `DefaultStandbyTaskAssignor`, `ClientTagAwareStandbyTaskAssignor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import repeat
from typing import Protocol

from assignor.configs import AssignmentConfigs
from assignor.java.hash_codes import int32
from assignor.java.hash_map import JavaHashMap
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.task_assignors.working_state import WorkingState, assign_to_least_loaded
from assignor.types import Role


class DefaultStandbyTaskAssignor:
    """Standbys go to the clients with the fewest copies per thread; any client will do."""

    limits_swaps = False

    def assign(self, state: WorkingState, num_standby_replicas: int) -> None:
        assign_to_least_loaded(state, zip(range(len(state.tasks)), repeat(num_standby_replicas)))

    def may_move(self, source: int, destination: int) -> bool:
        return True

    def may_swap(self, state: WorkingState, task: int, source: int, destination: int) -> bool:
        return True


def log_missing_hosts(state: WorkingState, task: int, missing: int) -> None:
    state.log.append(Decision(DecisionKind.NO_STANDBY_HOST, state.tasks[task], Role.STANDBY, detail=missing))


Tag = tuple[str, str]
"""Key and value."""


class ClientTagStandbyTaskAssignor:
    """Standbys go to clients whose tags (zone, cluster, host, ...) differ from those of the task's other copies.

    Once a task has used every value of a tag, that tag no longer excludes any client for this task. Standbys that find
    no client on unused tags go to the least loaded clients at the end. `tag_keys`: rack.aware.assignment.tags.
    """

    limits_swaps = True

    def __init__(self, state: WorkingState, tag_keys: Sequence[str]) -> None:
        self._all_tags = [frozenset(client.tags.items()) for client in state.clients]
        self._tags = [[tag for tag in client.tags.items() if tag[0] in tag_keys] for client in state.clients]
        self._combinations = {frozenset(tags) for tags in self._tags}
        self._values: dict[str, set[str]] = {}
        for tags in self._tags:
            for key, value in tags:
                self._values.setdefault(key, set()).add(value)
        self._exhausted: dict[frozenset[Tag], bool] = {}

    def may_move(self, source: int, destination: int) -> bool:
        """Whether the destination has every tag of the source, including those that are not configured."""
        return self._all_tags[source] <= self._all_tags[destination]

    def may_swap(self, state: WorkingState, task: int, source: int, destination: int) -> bool:
        """Whether the copies of the task are on as many different tags afterwards. All tags count, as in Kafka."""
        others: set[Tag] = set()
        for client in range(len(state.clients)):
            if client not in (source, destination) and state.holds(client, task):
                others |= self._all_tags[client]
        return len(others | self._all_tags[destination]) >= len(others | self._all_tags[source])

    def assign(self, state: WorkingState, num_standby_replicas: int) -> None:
        queue = [(state.load(client), client) for client in range(len(state.clients))]
        heapify(queue)
        missing: dict[int, int] = {}
        for task in range(len(state.tasks)):
            placed = self._assign_on_unused_tags(state, queue, task, num_standby_replicas)
            for client in placed:
                heappush(queue, (state.load(client), client))
            remaining = int32(num_standby_replicas - len(placed))
            if remaining > 0:
                missing[task] = remaining
        if missing:
            assign_to_least_loaded(state, ((task, missing[task]) for task in _in_map_order(state, missing)))

    def _assign_on_unused_tags(
        self, state: WorkingState, queue: list[tuple[float, int]], task: int, num_standby_replicas: int
    ) -> list[int]:
        """Returns the clients chosen, which are no longer in the queue.

        As in Kafka, the first one is chosen before anybody looks at the number, which may be negative.
        """
        used: set[Tag] = set()
        placed: list[int] = []
        last = state.owner[task]
        while not placed or int32(num_standby_replicas - len(placed)) > 0:
            self._use_tags_of(last, used, used_clients=len(placed) + 1)
            client = self._draw(state, queue, task, used)
            if client is None:
                break
            state.assign_standby(client, task)
            state.log_decision(DecisionKind.TARGET, task, Role.STANDBY, client)
            placed.append(client)
            last = client
        return placed

    def _use_tags_of(self, client: int, used: set[Tag], used_clients: int) -> None:
        """Once as many clients are used as a tag has values, the tag is dropped: all its values become free again."""
        for tag in self._tags[client]:
            values = self._values[tag[0]]
            if len(values) <= used_clients:
                used.difference_update([(tag[0], value) for value in values])
            else:
                used.add(tag)

    def _draw(self, state: WorkingState, queue: list[tuple[float, int]], task: int, used: set[Tag]) -> int | None:
        """The lightest client without a copy that has none of the used tags; it is taken out of the queue."""
        if self._excludes_everybody(used):
            return None
        rejected: list[tuple[float, int]] = []
        found: int | None = None
        while queue and found is None:
            entry = heappop(queue)
            client = entry[1]
            if state.owner[task] == client or not used.isdisjoint(self._tags[client]):
                rejected.append(entry)
            else:
                found = client
        for entry in rejected:
            heappush(queue, entry)
        return found

    def _excludes_everybody(self, used: set[Tag]) -> bool:
        key = frozenset(used)
        excludes = self._exhausted.get(key)
        if excludes is None:
            excludes = all(not used.isdisjoint(tags) for tags in self._combinations)
            self._exhausted[key] = excludes
        return excludes


def _in_map_order(state: WorkingState, missing: Mapping[int, int]) -> list[int]:
    """The order of a HashMap that held all tasks, in order, and lost those that need no more standbys, in order."""
    tasks_in_map = JavaHashMap((task, number) for number, task in enumerate(state.tasks))
    if len(missing) < len(state.tasks):
        for number, task in enumerate(state.tasks):
            if number not in missing:
                del tasks_in_map[task]
    return list(tasks_in_map.values())


class StandbyTaskAssignor(Protocol):
    """Places standbys once active tasks have their targets."""

    def assign(self, state: WorkingState, num_standby_replicas: int) -> None:
        """Gives every task `num_standby_replicas` standbys, or as many as there are clients for."""
        ...

    def may_move(self, source: int, destination: int) -> bool:
        """Whether any standby may move from one client to the other, to balance their load."""
        ...

    limits_swaps: bool
    """Whether `may_swap` refuses anything."""

    def may_swap(self, state: WorkingState, task: int, source: int, destination: int) -> bool:
        """Whether this standby may move from one client to the other, for another that comes back."""
        ...


def standby_task_assignor(state: WorkingState, configs: AssignmentConfigs) -> StandbyTaskAssignor:
    """By tags when `rack.aware.assignment.tags` is set."""
    if configs.rack_aware_assignment_tags:
        return ClientTagStandbyTaskAssignor(state, configs.rack_aware_assignment_tags)
    return DefaultStandbyTaskAssignor()
