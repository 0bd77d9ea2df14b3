"""What each client had before: its previous tasks, and how far it lags on every stateful task.

A task whose partition a member owns was active there. Of the other tasks that a member reported, one whose offset sum
says "running" was active as well, and the rest were standbys.

The lag of a client on a task is the task's end-offset sum, the end offsets of its changelogs added up, minus the
offset sum that the client reported. A changelog that this rebalance creates is empty and is not looked up. A source
topic that serves as changelog ends at the committed offset here, because later records have not been processed;
without a committed offset it ends at 0. Most clients report only the few tasks they hold; on every other task their
lag is its end-offset sum, the same for all. So a client keeps its own entries and shares the rest, and 50,000 tasks on
500 clients stay 50,000 + 50,000 numbers.

Source: `ClientState.initializePrevTasks`, `prevTasksByLag`, `computeTaskLags`, `lagFor`;
`StreamsPartitionAssignor.populateClientStatesMap`, `computeEndOffsetSumsByTask`; `ClientUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from assignor.clients.client_metadata import ClientMetadata, named_beside_unnamed
from assignor.errors import IllegalStateError
from assignor.java.hash_codes import int64, process_hash
from assignor.java.order import hash_set_order
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId, TopicPartition

END_OFFSETS_FAILURE = "changelog_end_offsets"
COMMITTED_OFFSETS_FAILURE = "committed_offsets"


@dataclass(frozen=True, slots=True)
class EndOffsets:
    """What the look-ups returned. `changelogs`: end offset of each partition by topic, None when the look-up failed;
    `committed`: committed offset of each partition by topic; `failures`: see `failures` of rebalance/1.
    """

    changelogs: Mapping[str, tuple[int, ...]] | None
    committed: Mapping[str, tuple[int | None, ...]]
    failures: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EndOffsetSums:
    """`by_task`: for every stateful task; when the look-up failed, each is UNKNOWN_OFFSET_SUM."""

    by_task: Mapping[TaskId, int]
    known: bool


def end_offset_sums(
    stateful_tasks: Iterable[TaskId],
    topics: Mapping[int, Iterable[str]],
    source_topics: frozenset[str],
    offsets: EndOffsets,
) -> EndOffsetSums:
    """`topics`: by subtopology, the changelogs of its tasks that existed before this rebalance; `source_topics`: those
    that serve as changelog.
    """
    tasks = tuple(stateful_tasks)
    ends_of = {
        subtopology: [_ends(topic, source_topics, offsets) for topic in changelogs]
        for subtopology, changelogs in topics.items()
    }
    sums: dict[TaskId, int] = {}
    for task in tasks:
        total = 0
        number = task[1]
        for ends, beyond in ends_of.get(task[0], ()):
            end = ends[number] if number < len(ends) else beyond
            if end is None:
                return EndOffsetSums(dict.fromkeys(tasks, UNKNOWN_OFFSET_SUM), known=False)
            total += end
        sums[task] = total if total < JAVA_LONG_MAX else JAVA_LONG_MAX
    return EndOffsetSums(sums, known=True)


def _ends(topic: str, source_topics: frozenset[str], offsets: EndOffsets) -> tuple[Sequence[int | None], int | None]:
    """Of each partition, and of those beyond. None: the look-up failed, as for a topic that it did not return."""
    if topic in source_topics:
        if COMMITTED_OFFSETS_FAILURE in offsets.failures:
            return (), None
        return [committed or 0 for committed in offsets.committed.get(topic, ())], 0
    if offsets.changelogs is None or END_OFFSETS_FAILURE in offsets.failures:
        return (), None
    return offsets.changelogs.get(topic, ()), None


@dataclass(frozen=True, slots=True)
class TaskLags:
    """Lag in records by stateful task; LATEST_OFFSET for a running active task, UNKNOWN_OFFSET_SUM when not known.

    `reported`: this client's own entries. `unreported`: the lag on every other stateful task, shared between clients.
    """

    reported: Mapping[TaskId, int]
    unreported: Mapping[TaskId, int] = field(default_factory=dict)

    def lag_for(self, task: TaskId) -> int:
        lag = self.reported.get(task)
        if lag is None:
            lag = self.unreported.get(task)
            if lag is None:
                raise IllegalStateError(f"Tried to lookup lag for unknown task {task}")
        return lag

    def __contains__(self, task: TaskId) -> bool:
        return task in self.reported or task in self.unreported

    def known_and_unknown(self, tasks: Sequence[TaskId]) -> tuple[list[TaskId], list[TaskId]]:
        """`tasks` that have a lag, and those that have none, both in the order given."""
        # of a client that has reported any, nearly all are: these few are found faster than the many of all clients
        first, second = (self.reported, self.unreported) if self.reported else (self.unreported, self.reported)
        known = [task for task in tasks if task in first or task in second]
        if len(known) == len(tasks):
            return known, []
        return known, [task for task in tasks if task not in self]

    def __iter__(self) -> Iterator[TaskId]:
        yield from self.reported
        yield from (task for task in self.unreported if task not in self.reported)


def compute_task_lags(offset_sums: Mapping[TaskId, int], end_offset_sums: Mapping[TaskId, int]) -> TaskLags:
    """`offset_sums`: as the client reported them; `end_offset_sums`: of every stateful task.

    A reported task that is not stateful, or no longer exists, is left out. A sum beyond the end counts as a full
    restore.
    """
    reported = dict(offset_sums)
    # looked up all at once: one look-up then need not wait for the memory of the one before
    end_sums = list(map(end_offset_sums.get, offset_sums))
    for (task, offset_sum), end_offset_sum in zip(offset_sums.items(), end_sums, strict=True):
        if end_offset_sum is None:
            del reported[task]
        elif offset_sum >= 0:
            lag = end_offset_sum - offset_sum
            reported[task] = (end_offset_sum if lag < 0 else lag) if end_offset_sum >= 0 else end_offset_sum
        elif offset_sum not in (LATEST_OFFSET, UNKNOWN_OFFSET_SUM):
            reported[task] = end_offset_sum if end_offset_sum < offset_sum else int64(end_offset_sum - offset_sum)
    return TaskLags(reported, end_offset_sums)


def is_caught_up(lag: int, acceptable_recovery_lag: int) -> bool:
    """UNKNOWN_OFFSET_SUM is not caught up. Source: `HighAvailabilityTaskAssignor.tasksToCaughtUpClients`."""
    return lag == LATEST_OFFSET or acceptable_recovery_lag == JAVA_LONG_MAX or 0 <= lag <= acceptable_recovery_lag


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


def client_states(
    clients: Mapping[ProcessId, ClientMetadata],
    task_for_partition: Mapping[TopicPartition, TaskId],
    end_offset_sums: Mapping[TaskId, int],
) -> dict[ProcessId, ClientState]:
    """In the order of Kafka's second HashMap of clients, filled in the order of the first: with crowded buckets the
    two differ. Raises as `client_state`.
    """
    return {
        process_id: client_state(clients[process_id], task_for_partition, end_offset_sums)
        for process_id in hash_set_order(clients, process_hash)
    }


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
