"""Places standbys for assignors of the public interface as Kafka does: by load, or by client tags (KIP-708).

This module follows the rules of `task_assignors/standby_assignors.py`, but places the tasks in the order of a HashSet.
`task_assignors/client_tags.py` contains the rule for client tags. The load of a client does not change while the client
is queued. So `heapq` gives the same clients as Kafka's ConstrainedPrioritySet. Source:
`TaskAssignmentUtils.defaultStandbyTaskAssignment`.
"""

from collections.abc import Iterable
from functools import partial
from heapq import heapify, heappush
from math import inf

from assignor.assignment.application_state import ApplicationState
from assignor.assignment.task_assignment import (
    AssignedTask,
    AssignedTaskType,
    KafkaStreamsAssignment,
    add_missing_clients,
)
from assignor.java.hash_codes import int32, task_hash
from assignor.java.hash_map import JavaHashMap
from assignor.java.order import hash_set_order
from assignor.task_assignors.client_tags import ClientTags, draw
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.types import ProcessId, Role, TaskId


def default_standby_task_assignment(
    application_state: ApplicationState, assignments: dict[ProcessId, KafkaStreamsAssignment]
) -> None:
    """Adds standbys to `assignments`. Every task with a changelog gets num.standby.replicas standbys, or fewer if there
    are too few clients. If tags are configured, the order of `assignments` changes the result.

    As in Kafka, if tags are configured, a task gets one standby even if num.standby.replicas is 0. This standby goes to
    a client whose tags differ from the tags of the client that runs the task.
    """
    add_missing_clients(application_state, assignments)
    standbys = _StandbysToPlace(application_state, assignments)
    with_changelog = [task for task, info in application_state.all_tasks.items() if info.has_changelog]
    tasks = hash_set_order(with_changelog, task_hash)
    if application_state.assignment_configs.rack_aware_assignment_tags:
        standbys.assign_by_tags(tasks)
    else:
        wanted = application_state.assignment_configs.num_standby_replicas
        standbys.assign_by_load((task, wanted) for task in tasks)


class _StandbysToPlace:
    def __init__(
        self, application_state: ApplicationState, assignments: dict[ProcessId, KafkaStreamsAssignment]
    ) -> None:
        self._state = application_state
        self._assignments = assignments
        self._clients = application_state.kafka_streams_states()
        self._queue: list[tuple[float, ProcessId]] = []

    def assign_by_load(self, wanted: Iterable[tuple[TaskId, int]]) -> None:
        """Places standbys on the least loaded clients. `wanted`: for each task, the number of standbys that it still
        needs, in the order of placement.
        """
        self._queue_all()
        for task, missing in wanted:
            drawn: list[ProcessId] = []
            while missing > 0:
                client = draw(self._queue, partial(self._may_hold, task))
                if client is None:
                    break
                self._assign(task, client)
                drawn.append(client)
                missing -= 1
            for client in drawn:
                heappush(self._queue, (self._load(client), client))
            if missing > 0:
                self._state.log.append(Decision(DecisionKind.NO_STANDBY_HOST, task, Role.STANDBY, detail=missing))

    def assign_by_tags(self, tasks: list[TaskId]) -> None:
        """Places each standby on a client that shares no configured tag with the clients of the task's other copies.
        Places a standby by load if every client shares a configured tag with the client of another copy.
        """
        keys = self._state.assignment_configs.rack_aware_assignment_tags
        tags = ClientTags({process: client.client_tags for process, client in self._clients.items()}, keys)
        wanted = self._state.assignment_configs.num_standby_replicas
        remaining = JavaHashMap(((task, wanted) for task in tasks), hash_of=task_hash)
        for task in tasks:
            for process in list(self._assignments):
                if self._assignments[process].has(task, AssignedTaskType.ACTIVE):
                    self._queue_all()
                    missing = remaining.get(task, wanted)
                    drawn = tags.draw_for_standbys(self._queue, process, missing, partial(self._may_hold, task))
                    for client in drawn:
                        self._assign(task, client)
                    missing = int32(missing - len(drawn))
                    if missing > 0:
                        remaining[task] = missing
                    else:
                        remaining.pop(task, None)
        self.assign_by_load(list(remaining.items()))

    def _queue_all(self) -> None:
        self._queue = [(self._load(client), client) for client in self._clients]
        heapify(self._queue)

    def _load(self, client: ProcessId) -> float:
        threads = self._clients[client].num_processing_threads
        return len(self._assignments[client].tasks) / threads if threads else inf

    def _may_hold(self, task: TaskId, client: ProcessId) -> bool:
        return task not in self._assignments[client].tasks

    def _assign(self, task: TaskId, client: ProcessId) -> None:
        self._assignments[client].assign_task(AssignedTask.standby(task))
        self._state.log.append(Decision(DecisionKind.TARGET, task, Role.STANDBY, client))
