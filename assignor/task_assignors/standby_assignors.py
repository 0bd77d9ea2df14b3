"""Kafka's two ways to place standbys: on the least loaded clients, or on clients with different tags (KIP-708).

`client_tags.py` contains the rule for client tags.

Kafka takes clients from its ConstrainedPrioritySet. The load of a client does not change while the client is queued. So
the order inside Java's heap changes no result, and `heapq` gives the same clients. The results of the placement by tags
depend on Java's hash order. For some tasks, every client has a used tag. The standbys of these tasks are placed last,
in the order of a HashMap of tasks.

Kafka's StandbyTaskAssignorFactory has a third way to place standbys, by the racks of the clients.
HighAvailabilityTaskAssignor of Kafka 4.3.1 never places standbys by racks, because it passes no RackAwareTaskAssignor
to Kafka's factory of standby assignors. So standbys are placed by the tags of clients and never by their `client.rack`.
Source: `StandbyTaskAssignorFactory`, `DefaultStandbyTaskAssignor`, `ClientTagAwareStandbyTaskAssignor`.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappush
from itertools import repeat
from typing import Protocol

from assignor.configs import AssignmentConfigs
from assignor.java.hash_codes import int32
from assignor.java.hash_map import JavaHashMap
from assignor.task_assignors.client_tags import ClientTags, Tag
from assignor.task_assignors.decisions import DecisionKind
from assignor.task_assignors.working_state import WorkingState, assign_to_least_loaded
from assignor.types import Role


class DefaultStandbyTaskAssignor:
    """Places standbys on the clients with the fewest copies per thread. Any client without a copy of the task may get a
    standby.
    """

    limits_swaps = False

    def assign(self, state: WorkingState, num_standby_replicas: int) -> None:
        assign_to_least_loaded(state, zip(range(len(state.tasks)), repeat(num_standby_replicas)))

    def may_move(self, source: int, destination: int) -> bool:
        return True

    def may_swap(self, state: WorkingState, task: int, source: int, destination: int) -> bool:
        return True


class ClientTagStandbyTaskAssignor:
    """Places standbys on clients whose tags differ from the tags of the task's other copies (`client_tags.py`). If
    every client has a used tag, the standby is placed last, on the least loaded client. `tag_keys`:
    rack.aware.assignment.tags.
    """

    limits_swaps = True

    def __init__(self, state: WorkingState, tag_keys: Sequence[str]) -> None:
        self._all_tags = [frozenset(client.tags.items()) for client in state.clients]
        self._tags = ClientTags({number: client.tags for number, client in enumerate(state.clients)}, tag_keys)

    def may_move(self, source: int, destination: int) -> bool:
        """True if the destination has every tag of the source, including tags that are not configured."""
        return self._all_tags[source] <= self._all_tags[destination]

    def may_swap(self, state: WorkingState, task: int, source: int, destination: int) -> bool:
        """True if the swap does not reduce the number of different tags of the task's copies. As in Kafka, unconfigured
        tags are compared, too.
        """
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
            owner = state.owner[task]
            placed = self._tags.draw_for_standbys(queue, owner, num_standby_replicas, owner.__ne__)
            for client in placed:
                state.assign_standby(client, task)
                state.log_decision(DecisionKind.TARGET, task, Role.STANDBY, client)
                heappush(queue, (state.load(client), client))
            remaining = int32(num_standby_replicas - len(placed))
            if remaining > 0:
                missing[task] = remaining
        if missing:
            assign_to_least_loaded(state, ((task, missing[task]) for task in _in_map_order(state, missing)))


def _in_map_order(state: WorkingState, missing: Mapping[int, int]) -> list[int]:
    """Returns the tasks that lack standbys, in the order of Kafka's HashMap of tasks. Kafka adds all tasks to a HashMap
    in sorted order, and removes the tasks that have all their standbys, also in sorted order.
    """
    tasks_in_map = JavaHashMap((task, number) for number, task in enumerate(state.tasks))
    if len(missing) < len(state.tasks):
        for number, task in enumerate(state.tasks):
            if number not in missing:
                del tasks_in_map[task]
    return list(tasks_in_map.values())


class StandbyTaskAssignor(Protocol):
    """Places standbys after the targets of the active tasks are decided."""

    def assign(self, state: WorkingState, num_standby_replicas: int) -> None:
        """Places `num_standby_replicas` standbys of every task, or fewer if there are too few clients."""
        ...

    def may_move(self, source: int, destination: int) -> bool:
        """True if standbys may move from `source` to `destination` to balance the load. The result is valid for the
        standbys of every task.
        """
        ...

    limits_swaps: bool
    """False if `may_swap` is True for all arguments."""

    def may_swap(self, state: WorkingState, task: int, source: int, destination: int) -> bool:
        """True if this standby may move from `source` to `destination` in exchange for another task's standby."""
        ...


def standby_task_assignor(state: WorkingState, configs: AssignmentConfigs) -> StandbyTaskAssignor:
    """Returns the assignor by tags if `rack.aware.assignment.tags` is set, otherwise the default assignor."""
    if configs.rack_aware_assignment_tags:
        return ClientTagStandbyTaskAssignor(state, configs.rack_aware_assignment_tags)
    return DefaultStandbyTaskAssignor()
