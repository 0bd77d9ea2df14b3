"""Step 2: the changelogs of stateful tasks: which exist, which to create, which have offsets to look up.

A task is stateful when its subtopology has a changelog. A source topic that serves as changelog counts; a store
without logging does not. A changelog that is created now has no offsets yet, so none are looked up. Source:
`ChangelogTopics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignor.configs import AssignmentConfigs
from assignor.topology.group_topology import GroupTopology
from assignor.topology.internal_topics import CreatedTopic, InternalTopic, InternalTopicCatalog, make_ready
from assignor.topology.partition_grouper import check_group_size
from assignor.topology.remembered_tasks import PartitionsOfTasks, changelog_partitions, task_map_order
from assignor.topology.topics_info import changelog_configs, changelogs_walk, topic_groups_walk
from assignor.types import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class ChangelogTopics:
    """`stateful_tasks`: in the order of Kafka's `HashMap<TaskId, ..>`. `changelog_partitions`: for stateful tasks
    only.

    `source_topics`: those that serve as changelog. `ready`: partition counts of the other changelogs, those that
    existed before this rebalance and those that it created.
    """

    stateful_tasks: tuple[TaskId, ...] = ()
    changelog_partitions: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    source_topics: frozenset[str] = frozenset()
    created: Mapping[str, CreatedTopic] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)

    def pre_existing_partitions(self) -> Mapping[TaskId, tuple[TopicPartition, ...]]:
        """`changelog_partitions`, without those of topics that this rebalance creates."""
        if not self.created:
            return self.changelog_partitions
        return {
            task: tuple(partition for partition in partitions if partition.topic not in self.created)
            for task, partitions in self.changelog_partitions.items()
        }


def prepare_changelog_topics(
    topology: GroupTopology,
    tasks_by_subtopology: Mapping[int, Sequence[TaskId]],
    catalog: InternalTopicCatalog,
    configs: AssignmentConfigs,
) -> ChangelogTopics:
    """`tasks_by_subtopology`: tasks by subtopology id, in Kafka's order; a subtopology without tasks needs no topics.

    Raises StreamsError for a topic that cannot be made ready, InputError for more partitions than a group can have.
    """
    partition_count = 0
    topics: dict[str, InternalTopic] = {}
    source_based: set[str] = set()
    partitions: list[PartitionsOfTasks] = []
    for subtopology in topic_groups_walk(topology.subtopologies):
        tasks = tasks_by_subtopology.get(subtopology.id, ())
        changelogs = changelog_configs(subtopology)
        if not tasks or not changelogs:
            continue
        names = tuple(sorted(changelogs))
        partition_count += len(names) * len(tasks)
        check_group_size(partition_count, "changelog")
        partitions.append(changelog_partitions(tuple(tasks), names))
        count = max(tasks)[1] + 1
        sources = changelogs.keys() & set(subtopology.source_topics)
        source_based |= sources
        created_here = {name: config for name, config in changelogs.items() if name not in sources}
        for name in changelogs_walk(created_here):
            topics[name] = InternalTopic(name, count, changelog=created_here[name])
    ready = make_ready(topics, catalog, configs)
    by_task = partitions[0] if len(partitions) == 1 else {task: of[task] for of in partitions for task in of}
    return ChangelogTopics(
        stateful_tasks=task_map_order(tuple(by_task)),
        changelog_partitions=by_task,
        source_topics=frozenset(source_based),
        created=ready.created,
        ready=ready.ready,
    )
