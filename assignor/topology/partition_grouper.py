"""Makes tasks from partitions, in step 2 of a rebalance. Partition p of every source topic of a subtopology belongs to
task `subtopology_p`.

A subtopology has as many tasks as its largest source topic has partitions. Tasks and their partitions depend only on
the topology and on partition counts. So all rebalances of a group have the same tasks and partitions. Tasks and their
partitions are cached. In a group of thousands of tasks, the computation of tasks and partitions would take a third of
each rebalance. Do not change the values that the functions of this module return. Source: `PartitionGrouper`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat, zip_longest

from assignor.errors import InputError, UncheckedError
from assignor.java.hash_codes import task_hash
from assignor.java.order import hash_set_order
from assignor.topology.cluster import Cluster
from assignor.topology.group_topology import GroupTopology, Subtopology, source_topics_walk
from assignor.types import TaskId, TopicPartition, utf16_order

PartitionsOfTasks = Mapping[TaskId, tuple[TopicPartition, ...]]
"""A mapping from each task to its partitions, in the order of a Java HashMap of tasks."""

Sources = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
"""The id of each subtopology, in Kafka's iteration order, with its source topics and their partition counts."""

_KEPT = 16


@lru_cache(maxsize=_KEPT)
def source_partitions(sources: Sources) -> PartitionsOfTasks:
    """Returns every task with the partitions that it reads. Source: `PartitionGrouper`."""
    counts = dict(chain.from_iterable(topics for _, topics in sources))
    of_topic = {topic: [TopicPartition(topic, number) for number in range(count)] for topic, count in counts.items()}
    of_task = {
        subtopology: _rows([of_topic[topic][:count] for topic, count in topics]) for subtopology, topics in sources
    }
    tasks = [TaskId(subtopology, number) for subtopology, rows in of_task.items() for number in range(len(rows))]
    return {task: of_task[task[0]][task[1]] for task in hash_set_order(tasks, task_hash)}


def _rows(columns: list[Sequence[TopicPartition]]) -> list[tuple[TopicPartition, ...]]:
    """Returns, for each partition number, the partitions with this number. `columns`: the partitions of each topic;
    topics may have different numbers of partitions.
    """
    if len(set(map(len, columns))) < 2:
        return list(zip(*columns, strict=True))
    return [tuple(filter(None, row)) for row in zip_longest(*columns)]


@lru_cache(maxsize=_KEPT)
def task_by_partition(sources: Sources) -> Mapping[TopicPartition, TaskId]:
    """Returns each source partition with the task that reads it."""
    return {partition: task for task, partitions in source_partitions(sources).items() for partition in partitions}


class ChangelogPartitions(Mapping[TaskId, tuple[TopicPartition, ...]]):
    """A mapping from each stateful task to its changelog partitions. The mapping is computed at its first use, because
    only a rack-aware assignment needs the changelog partitions. Source: `ChangelogTopics`.
    """

    def __init__(self, tasks: Mapping[int, tuple[TaskId, ...]], topics: Mapping[int, tuple[str, ...]]) -> None:
        """`tasks`: the stateful tasks of each subtopology, in the order of the result. `topics`: the changelogs of each
        subtopology.
        """
        self._tasks = tasks
        self._topics = topics
        self._made: PartitionsOfTasks | None = None

    def _all(self) -> PartitionsOfTasks:
        if self._made is None:
            of = [_changelog_partitions(tasks, self._topics[each]) for each, tasks in self._tasks.items()]
            self._made = of[0] if len(of) == 1 else {task: each[task] for each in of for task in each}
        return self._made

    def __getitem__(self, task: TaskId) -> tuple[TopicPartition, ...]:
        return self._all()[task]

    def __iter__(self) -> Iterator[TaskId]:
        return chain.from_iterable(self._tasks.values())

    def __len__(self) -> int:
        return sum(map(len, self._tasks.values()))


@lru_cache(maxsize=_KEPT)
def _changelog_partitions(tasks: tuple[TaskId, ...], topics: tuple[str, ...]) -> PartitionsOfTasks:
    """Returns the changelog partitions of the tasks of one subtopology."""
    numbers = [task[1] for task in tasks]
    columns = [
        map(tuple.__new__, repeat(TopicPartition), zip(repeat(topic), numbers, strict=False)) for topic in topics
    ]
    return dict(zip(tasks, zip(*columns, strict=True), strict=True))


@lru_cache(maxsize=_KEPT)
def task_map_order(tasks: tuple[TaskId, ...]) -> tuple[TaskId, ...]:
    """Returns the tasks in the order of a HashMap to which they were added one by one."""
    return tuple(hash_set_order(tasks, task_hash))


@lru_cache(maxsize=_KEPT)
def places_in_order(tasks: tuple[TaskId, ...]) -> Mapping[TaskId, int]:
    """Returns each task with its index among the sorted tasks, in sorted order."""
    return {task: place for place, task in enumerate(sorted(tasks))}


MAX_GROUP_PARTITIONS = 1_000_000
"""The greatest number of source partitions of one group, and also the greatest number of its changelog partitions. An
untrusted document can contain a large count in a few bytes. The limit bounds the memory that the count can require.
"""


def counted_sources(topology: GroupTopology, cluster: Cluster) -> Sources:
    """Returns the source topics of each subtopology with their partition counts. The tasks are made from these topics.
    `cluster` includes the repartition topics. Raises UncheckedError for a source topic without partitions.

    Differs from Kafka: more than MAX_GROUP_PARTITIONS partitions raise InputError, before memory is allocated.
    """
    counts_by_subtopology = [
        (subtopology, _partition_counts(subtopology, cluster))
        for subtopology in source_topics_walk(topology.subtopologies)
    ]
    check_group_size(sum(sum(counts.values()) for _, counts in counts_by_subtopology), "source")
    return tuple((each.id, tuple(counts.items())) for each, counts in counts_by_subtopology)


def check_group_size(partitions: int, kind: str) -> None:
    """Raises InputError for more partitions than one group can have. `kind`: the kind of partitions, for the error
    message.
    """
    if partitions > MAX_GROUP_PARTITIONS:
        raise InputError(
            f"the group would have {partitions} {kind} partitions; no more than {MAX_GROUP_PARTITIONS} are placed",
            "input.topology",
        )


def _partition_counts(subtopology: Subtopology, cluster: Cluster) -> dict[str, int]:
    counts: dict[str, int] = {}
    for topic in sorted(set(subtopology.source_topics), key=utf16_order):
        metadata = cluster.topics.get(topic)
        if metadata is None or not metadata.partitions:
            raise UncheckedError(f"Empty partitions for topic {topic}")
        counts[topic] = metadata.partitions
    return counts


def tasks_by_subtopology(tasks: Iterable[TaskId]) -> dict[int, list[TaskId]]:
    by_subtopology: dict[int, list[TaskId]] = {}
    for task in tasks:
        by_subtopology.setdefault(task.subtopology, []).append(task)
    return by_subtopology
