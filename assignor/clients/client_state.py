"""What each client had before: its previous tasks, and its lag on every stateful task.

A task whose partition a member owns was active there. Of the other tasks that it reported, one whose offset sum says
"running" was active as well, and the rest were standbys. Source: `ClientState.initializePrevTasks`,
`ClientState.prevTasksByLag`, `StreamsPartitionAssignor.populateClientStatesMap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from assignor.clients.client_metadata import ClientMetadata, named_beside_unnamed
from assignor.clients.task_lags import TaskLags, compute_task_lags
from assignor.errors import IllegalStateError
from assignor.types import LATEST_OFFSET, TaskId, TopicPartition

_SUBTOPOLOGY, _PARTITION, _TOPOLOGY_NAME = itemgetter(0), itemgetter(1), itemgetter(2)


@dataclass(frozen=True, slots=True)
class ClientState:
    """`previous_active` and `previous_standby` may contain tasks that the topology no longer has. `active_owners`: of
    each task the member that owns a partition of it.
    """

    metadata: ClientMetadata
    previous_active: frozenset[TaskId]
    previous_standby: frozenset[TaskId]
    lags: TaskLags
    active_owners: Mapping[TaskId, str]

    def previous_tasks_by_lag(self, consumers: Iterable[str]) -> dict[str, Sequence[TaskId]]:
        """The stateful tasks that each of these members reported, smallest lag first; without members that reported
        nothing.
        """
        reported, lag_of = self.metadata.reported_tasks, self.lags.reported
        previous: dict[str, Sequence[TaskId]] = {}
        for consumer in filter(reported.__contains__, consumers):
            tasks = reported[consumer]
            # of thousands of threads nearly all have one
            previous[consumer] = tasks if len(tasks) == 1 and tasks[0] in lag_of else self._by_lag(tasks)
        return previous

    def _by_lag(self, reported: Sequence[TaskId]) -> list[TaskId]:
        lags = self.lags
        try:
            return sorted(_sorted_tasks(reported), key=lags.reported.__getitem__)
        except KeyError:  # not all of them are stateful tasks, or known any more
            return sorted(sorted([task for task in reported if task in lags]), key=lags.lag_for)


def _sorted_tasks(tasks: Sequence[TaskId]) -> list[TaskId]:
    """As `sorted`; of one subtopology, by their numbers alone, which are compared in a fraction of the time."""
    if len(set(map(_SUBTOPOLOGY, tasks))) > 1 or any(map(_TOPOLOGY_NAME, tasks)):
        return sorted(tasks)
    return sorted(tasks, key=_PARTITION)


def client_state(
    metadata: ClientMetadata,
    task_for_partition: Mapping[TopicPartition, TaskId],
    end_offset_sums: Mapping[TaskId, int],
) -> ClientState:
    """`end_offset_sums`: of every stateful task. Raises IllegalStateError, as Kafka does, when a client owns
    partitions and none of them belongs to a task, or when it reports tasks of a named topology and there are others to
    compare them with.
    """
    owned = metadata.owned_partitions
    # looked up all at once: one look-up then need not wait for the memory of the one before
    tasks_owned = list(map(task_for_partition.get, owned))
    active_owners = {task: member for task, member in zip(tasks_owned, owned.values(), strict=True) if task is not None}
    previous_active = set(active_owners)
    if metadata.owned_partitions and not previous_active:
        raise IllegalStateError(
            "Must initialize prevActiveTasks from ownedPartitions before initializing remaining tasks.",
            f"{metadata.process_id} owns {next(iter(metadata.owned_partitions))}; nothing that it owns is of a task",
        )
    first_reported = next(iter(metadata.offset_sums), None)
    if first_reported is not None and first_reported.topology_name is not None and (previous_active or end_offset_sums):
        raise named_beside_unnamed()
    reported = metadata.offset_sums
    previous_active.update([task for task, offset_sum in reported.items() if offset_sum == LATEST_OFFSET])
    return ClientState(
        metadata=metadata,
        previous_active=frozenset(previous_active),
        previous_standby=frozenset(reported).difference(previous_active),
        lags=compute_task_lags(metadata.offset_sums, end_offset_sums),
        active_owners=active_owners,
    )
