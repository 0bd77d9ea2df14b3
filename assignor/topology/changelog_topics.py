"""Step 2: the changelogs of stateful tasks: which exist, which to create, which have offsets to look up.

A task is stateful when its subtopology has a changelog. A source topic that serves as changelog counts; a store
without logging does not. A changelog that is created now has no offsets yet, so none are looked up. Source:
`ChangelogTopics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from assignor.configs import AssignmentConfigs
from assignor.topology.group_topology import GroupTopology
from assignor.topology.internal_topics import CreatedTopic, InternalTopic, InternalTopicCatalog, make_ready
from assignor.topology.partition_grouper import check_group_size
from assignor.topology.remembered_tasks import ChangelogPartitions, task_map_order
from assignor.topology.topics_info import changelog_configs, changelogs_walk, topic_groups_walk
from assignor.types import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class ChangelogTopics:
    """`stateful_tasks`: in the order of Kafka's `HashMap<TaskId, ..>`. `topics`: by subtopology the changelogs of its
    tasks, sorted; without those that have none. `changelog_partitions`: for stateful tasks only.

    `source_topics`: those that serve as changelog. `ready`: partition counts of the other changelogs, those that
    existed before this rebalance and those that it created.
    """

    stateful_tasks: tuple[TaskId, ...] = ()
    topics: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    changelog_partitions: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    source_topics: frozenset[str] = frozenset()
    created: Mapping[str, CreatedTopic] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)

    def pre_existing_topics(self) -> Mapping[int, tuple[str, ...]]:
        """`topics`, without those that this rebalance creates."""
        if not self.created:
            return self.topics
        return {
            subtopology: tuple([topic for topic in topics if topic not in self.created])
            for subtopology, topics in self.topics.items()
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
    to_make_ready: dict[str, InternalTopic] = {}
    source_based: set[str] = set()
    topics: dict[int, tuple[str, ...]] = {}
    stateful: dict[int, tuple[TaskId, ...]] = {}
    for subtopology in topic_groups_walk(topology.subtopologies):
        tasks = tasks_by_subtopology.get(subtopology.id, ())
        changelogs = changelog_configs(subtopology)
        if not tasks or not changelogs:
            continue
        names = tuple(sorted(changelogs))
        partition_count += len(names) * len(tasks)
        check_group_size(partition_count, "changelog")
        topics[subtopology.id] = names
        stateful[subtopology.id] = task_map_order(tuple(tasks))
        count = max(tasks)[1] + 1
        sources = changelogs.keys() & set(subtopology.source_topics)
        source_based |= sources
        created_here = {name: config for name, config in changelogs.items() if name not in sources}
        for name in changelogs_walk(created_here):
            to_make_ready[name] = InternalTopic(name, count, changelog=created_here[name])
    ready = make_ready(to_make_ready, catalog, configs)
    return ChangelogTopics(
        stateful_tasks=task_map_order(tuple(chain.from_iterable(stateful.values()))),
        topics=topics,
        changelog_partitions=ChangelogPartitions(stateful, topics),
        source_topics=frozenset(source_based),
        created=ready.created,
        ready=ready.ready,
    )
