"""The state of each client before the rebalance: its previous tasks, and its lag on every stateful task.

A task was active on a client if a member of the client owns a partition of the task. A task was also active on a client
if a member reported LATEST_OFFSET as the task's offset sum. A reported task was a standby on the client if it was not
active on the client.

The end-offset sum of a task is the sum of the end offsets of its changelogs. The lag of a client on a task is the
task's end-offset sum minus the offset sum that the client reported. Three rules apply to the end offsets:

- A changelog is empty if this rebalance creates it, so its end offsets are not looked up.
- If a source topic serves as changelog, a partition's committed offset is used as its end offset. Records after the
  committed offset have not been processed.
- If a partition of a changelog source topic has no committed offset, its end offset counts as 0.

Most clients report only a few tasks. If a client did not report a task, the client's lag on the task is the task's
end-offset sum. So all clients that did not report a task have the same lag on it. Each client stores only the lags on
the tasks that it reported. All clients share one mapping of lags on unreported tasks. So the lags of 50,000 tasks on
500 clients need about 100,000 numbers.

Source: `ClientState.initializePrevTasks`, `prevTasksByLag`, `computeTaskLags`, `lagFor`;
`StreamsPartitionAssignor.populateClientStatesMap`, `computeEndOffsetSumsByTask`; `ClientUtils`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    """The offsets that the leader looked up. `changelogs`: the end offset of each partition, by topic; None if the
    look-up of end offsets failed. `committed`: the committed offset of each partition, by topic. `failures`: the names
    of the failed look-ups, as in `failures` of rebalance/1.
    """

    changelogs: Mapping[str, tuple[int, ...]] | None
    committed: Mapping[str, tuple[int | None, ...]]
    failures: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EndOffsetSums:
    """`by_task`: the end-offset sum of every stateful task. `known`: False if a look-up of offsets failed; each sum is
    then UNKNOWN_OFFSET_SUM.
    """

    by_task: Mapping[TaskId, int]
    known: bool


def end_offset_sums(
    tasks: Collection[TaskId], topics: Mapping[int, Iterable[str]], source_topics: frozenset[str], offsets: EndOffsets
) -> EndOffsetSums:
    """Adds up the end offsets of each task's changelogs. `tasks`: the stateful tasks. `topics`: the changelogs of each
    subtopology, without the changelogs that this rebalance creates. `source_topics`: the source topics that serve as
    changelog.
    """
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
    """Returns a list of the end offsets of the topic's partitions. Also returns the common end offset of the partitions
    that are not in the list. An end offset is None if its look-up failed or did not return the topic.
    """
    if topic in source_topics:
        if COMMITTED_OFFSETS_FAILURE in offsets.failures:
            return (), None
        return [committed or 0 for committed in offsets.committed.get(topic, ())], 0
    if offsets.changelogs is None or END_OFFSETS_FAILURE in offsets.failures:
        return (), None
    return offsets.changelogs.get(topic, ()), None


@dataclass(frozen=True, slots=True)
class TaskLags:
    """The lags of one client on all stateful tasks. A lag is a number of records, LATEST_OFFSET for a running active
    task, or UNKNOWN_OFFSET_SUM if the lag is unknown.

    `reported`: the client's lag on each task that it reported. `unreported`: for each stateful task, the lag of a
    client that did not report the task. All clients share the mapping `unreported`. A lag in `reported` takes
    precedence over the lag in `unreported`.
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
        """Returns two lists in the order of `tasks`: the tasks that have a lag, and the tasks that have no lag."""
        # search `reported` first, because it is small and often contains nearly all of `tasks`
        first, second = (self.reported, self.unreported) if self.reported else (self.unreported, self.reported)
        known = [task for task in tasks if task in first or task in second]
        if len(known) == len(tasks):
            return known, []
        return known, [task for task in tasks if task not in self]

    def __iter__(self) -> Iterator[TaskId]:
        yield from self.reported
        yield from (task for task in self.unreported if task not in self.reported)


def compute_task_lags(offset_sums: Mapping[TaskId, int], end_offset_sums: Mapping[TaskId, int]) -> TaskLags:
    """Computes the lags of a client. `offset_sums`: the sums that the client reported. `end_offset_sums`: the
    end-offset sum of every stateful task. The result leaves out reported tasks that are not stateful or no longer
    exist. If the reported sum is greater than the end-offset sum, the client has to restore the task from the
    beginning. The lag is then the whole end-offset sum.
    """
    reported = dict(offset_sums)
    # one loop does all look-ups, so that the CPU can overlap their cache misses
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
    """True if a client with the given lag counts as caught up. A client whose lag is UNKNOWN_OFFSET_SUM counts as
    caught up only if `acceptable_recovery_lag` is Java's Long.MAX_VALUE. Source:
    `HighAvailabilityTaskAssignor.tasksToCaughtUpClients`.
    """
    return lag == LATEST_OFFSET or acceptable_recovery_lag == JAVA_LONG_MAX or 0 <= lag <= acceptable_recovery_lag


_SUBTOPOLOGY, _PARTITION, _TOPOLOGY_NAME = itemgetter(0), itemgetter(1), itemgetter(2)


@dataclass(frozen=True, slots=True)
class ClientState:
    """A client before the rebalance. `previous_active` and `previous_standby` may contain tasks that the topology no
    longer has. `active_owners`: the id of the member that owns a partition of the task, by task.
    """

    metadata: ClientMetadata
    previous_active: frozenset[TaskId]
    previous_standby: frozenset[TaskId]
    lags: TaskLags
    active_owners: Mapping[TaskId, str]

    def previous_tasks_by_lag(self, consumers: Iterable[str]) -> dict[str, Sequence[TaskId]]:
        """Returns the stateful tasks that each of `consumers` reported, smallest lag first. The result contains only
        the consumers that reported tasks.
        """
        reported, lag_of = self.metadata.reported_tasks, self.lags.reported
        previous: dict[str, Sequence[TaskId]] = {}
        for consumer in filter(reported.__contains__, consumers):
            tasks = reported[consumer]
            # fast path: in a group of thousands of threads, nearly all threads report one task
            previous[consumer] = tasks if len(tasks) == 1 and tasks[0] in lag_of else self._by_lag(tasks)
        return previous

    def _by_lag(self, reported: Sequence[TaskId]) -> list[TaskId]:
        lags = self.lags
        try:
            return sorted(_sorted_tasks(reported), key=lags.reported.__getitem__)
        except KeyError:  # a reported task is not stateful, or no longer exists
            return sorted(sorted([task for task in reported if task in lags]), key=lags.lag_for)


def _sorted_tasks(tasks: Sequence[TaskId]) -> list[TaskId]:
    """Sorts tasks. Tasks of one subtopology are compared only by partition, which is much faster than a comparison of
    whole ids.
    """
    if len(set(map(_SUBTOPOLOGY, tasks))) > 1 or any(map(_TOPOLOGY_NAME, tasks)):
        return sorted(tasks)
    return sorted(tasks, key=_PARTITION)


def client_states(
    clients: Mapping[ProcessId, ClientMetadata],
    task_for_partition: Mapping[TopicPartition, TaskId],
    end_offset_sums: Mapping[TaskId, int],
) -> dict[ProcessId, ClientState]:
    """Returns the state of each client, in the order of Kafka's second HashMap of clients. Kafka copies the clients
    from a first HashMap to a second HashMap. The two maps have different orders if a bucket has nine or more keys
    (`java/order.py`). Raises the errors of `client_state`.
    """
    return {
        process_id: client_state(clients[process_id], task_for_partition, end_offset_sums)
        for process_id in hash_set_order(clients, process_hash)
    }


def client_state(
    metadata: ClientMetadata, task_for_partition: Mapping[TopicPartition, TaskId], end_offset_sums: Mapping[TaskId, int]
) -> ClientState:
    """Returns the state of one client. `end_offset_sums`: the end-offset sum of every stateful task.

    Raises IllegalStateError, as Kafka does, if the client owns partitions and none of these partitions belongs to a
    task. Also raises IllegalStateError if the client reports tasks of a named topology while the group has tasks
    without a topology name.
    """
    owned = metadata.owned_partitions
    # one loop does all look-ups, so that the CPU can overlap their cache misses
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
