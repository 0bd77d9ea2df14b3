"""The tasks of one process, spread over its threads in three passes: stateful active, standby, stateless active.

Each pass is `assign_tasks_to_threads`. Source: `StreamsPartitionAssignor.computeNewAssignment`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from assignor.clients.client_state import ClientState
from assignor.decisions import Decision, DecisionLog
from assignor.java.order import hash_set_order, task_hash
from assignor.task_assignors.base import ClientPlacement
from assignor.threads.tasks_to_threads import Said, ThreadTasks, Walk, assign_tasks_to_threads
from assignor.types import ProcessId, Role, TaskId


class TasksOfThreads(NamedTuple):
    """Of one client: by consumer, for those that have any."""

    active: ThreadTasks
    standby: ThreadTasks


def tasks_of_threads(
    state: ClientState, placed: ClientPlacement, log: DecisionLog, drained_members: frozenset[str]
) -> TasksOfThreads:
    everybody = state.metadata.consumers
    consumers = everybody
    if drained_members:
        consumers = tuple([consumer for consumer in everybody if consumer not in drained_members]) or everybody
    process_id = state.metadata.process_id
    previous = state.previous_tasks_by_lag(consumers)
    thread_load: dict[str, int] = {}

    def assign(
        tasks: Sequence[TaskId], previous: Mapping[str, Sequence[TaskId]], role: Role, walk: Walk = tuple
    ) -> ThreadTasks:
        said: Said = []
        of_threads = assign_tasks_to_threads(tasks, previous, consumers, thread_load, said, walk)
        if said:
            log.later(lambda: _told(said, role, placed, process_id))
        return of_threads

    active = placed.active_in_order()
    stateful, stateless = state.lags.known_and_unknown(active)
    stateful_active = assign(stateful, previous, Role.ACTIVE, _hash_order)
    standby = assign(placed.standby_in_order(), previous, Role.STANDBY)
    for consumer, tasks in assign(stateless, {}, Role.ACTIVE, _hash_order).items():
        stateful_active[consumer] = [*stateful_active.get(consumer, ()), *tasks]
    return TasksOfThreads(stateful_active, standby)


def _hash_order(tasks: Collection[TaskId]) -> list[TaskId]:
    return hash_set_order(tasks, task_hash)


def _told(said: Said, role: Role, placed: ClientPlacement, process_id: ProcessId) -> Iterator[Decision]:
    for kind, tasks, consumers in said:
        for task, consumer in zip(tasks, consumers, strict=True):
            is_warm_up = role is Role.STANDBY and task in placed.warm_ups
            yield Decision(kind, task, Role.WARM_UP if is_warm_up else role, process_id, None, consumer)
