"""Standbys on clients whose tags (zone, cluster, host, ...) differ from those of the task's other copies.

Once a task has used every value of a tag, that tag no longer excludes anybody for this task. Standbys that find no
client on unused tags go to the least loaded clients in the end. Source: `ClientTagAwareStandbyTaskAssignor`, KIP-708.

Kafka offers all clients anew before each task and never changes a queued client's load, so the layout of Java's heap
cannot show here. What does show is Java's hash order: the remaining standbys are placed in the order of a HashMap of
tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from assignor.decisions import DecisionKind
from assignor.java.order import JavaHashMap
from assignor.task_assignors.standby_default import assign_to_least_loaded
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role

Tag = tuple[str, str]
"""Key and value."""


class ClientTagStandbyTaskAssignor:
    """Answers to `StandbyTaskAssignor` of standby_assignors.py. `tag_keys`: rack.aware.assignment.tags."""

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
        """Whether the destination has every tag of the source, also those that are not configured."""
        return self._all_tags[source] <= self._all_tags[destination]

    def assign(self, state: WorkingState, num_standby_replicas: int) -> None:
        queue = [(state.load(client), client) for client in range(len(state.clients))]
        heapify(queue)
        missing: dict[int, int] = {}
        for task in range(len(state.tasks)):
            placed = self._assign_on_unused_tags(state, queue, task, num_standby_replicas)
            for client in placed:
                heappush(queue, (state.load(client), client))
            if len(placed) < num_standby_replicas:
                missing[task] = num_standby_replicas - len(placed)
        if missing:
            assign_to_least_loaded(state, ((task, missing[task]) for task in _in_map_order(state, missing)))

    def _assign_on_unused_tags(
        self, state: WorkingState, queue: list[tuple[float, int]], task: int, num_standby_replicas: int
    ) -> list[int]:
        """Returns the clients chosen; they are out of the queue."""
        used: set[Tag] = set()
        placed: list[int] = []
        last = state.owner[task]
        while len(placed) < num_standby_replicas:
            self._use_tags_of(last, used, used_clients=len(placed) + 1)
            client = self._draw(state, queue, task, used)
            if client is None:
                break
            state.assign_standby(client, task)
            state.say(DecisionKind.TARGET, task, Role.STANDBY, client)
            placed.append(client)
            last = client
        return placed

    def _use_tags_of(self, client: int, used: set[Tag], used_clients: int) -> None:
        """A tag with no more values than there are used clients is given up, all of its values become free again."""
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
    """The order of a HashMap that had all tasks, in order, and lost those that miss nothing, in order."""
    tasks_in_map = JavaHashMap((task, number) for number, task in enumerate(state.tasks))
    if len(missing) < len(state.tasks):
        for number, task in enumerate(state.tasks):
            if number not in missing:
                del tasks_in_map[task]
    return list(tasks_in_map.values())
