"""Which tasks are stateful, and which changelog partitions can be asked for offsets."""

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError, StreamsError
from assignor.topology.cluster import TopicMetadata
from assignor.topology.group_topology import (
    ChangelogConfig,
    ChangelogType,
    GroupTopology,
    Subtopology,
    SubtopologyStore,
)
from assignor.topology.internal_topics import (
    ChangelogTopics,
    CreatedTopic,
    InternalTopic,
    InternalTopicCatalog,
    prepare_changelog_topics,
)
from assignor.types import TaskId, TopicPartition

_CONFIGS = AssignmentConfigs()
_TOPOLOGY = GroupTopology(
    (
        Subtopology(0, ("users",), stores=(SubtopologyStore("table", None, "users", ChangelogConfig()),)),
        Subtopology(
            1,
            ("orders",),
            stores=(SubtopologyStore("old", "app-old-changelog"), SubtopologyStore("new", "app-new-changelog")),
        ),
        Subtopology(2, ("clicks",), stores=(SubtopologyStore("not-logged"),)),
        Subtopology(3, ("idle",), stores=(SubtopologyStore("idle", "app-idle-changelog"),)),
    )
)
_TASKS = {
    0: [TaskId(0, 0)],
    1: [TaskId(1, 0), TaskId(1, 1)],
    2: [TaskId(2, 0)],
}


def test_should_ask_only_for_changelogs_that_were_there_before() -> None:
    old, new = "app-old-changelog", "app-new-changelog"
    catalog = InternalTopicCatalog({old: TopicMetadata(2)})

    changelogs = prepare_changelog_topics(_TOPOLOGY, _TASKS, catalog, _CONFIGS)

    assert changelogs == ChangelogTopics(
        stateful_tasks=changelogs.stateful_tasks,
        topics={0: ("users",), 1: (old, new)},  # the order of a HashMap
        changelog_partitions={
            TaskId(0, 0): (TopicPartition("users", 0),),
            TaskId(1, 0): (TopicPartition(old, 0), TopicPartition(new, 0)),
            TaskId(1, 1): (TopicPartition(old, 1), TopicPartition(new, 1)),
        },
        source_topics=frozenset({"users"}),
        created={new: CreatedTopic(2, -1, InternalTopic(new, changelog=ChangelogConfig()).configs(_CONFIGS))},
        ready={old: 2, new: 2},
    )
    assert sorted(changelogs.stateful_tasks) == [TaskId(0, 0), TaskId(1, 0), TaskId(1, 1)]
    assert changelogs.pre_existing_topics() == {0: ("users",), 1: (old,)}


def test_should_refuse_changelogs_beyond_all_measure_before_they_take_memory() -> None:
    stores = tuple(SubtopologyStore(f"store-{number}", f"app-store-{number}-changelog") for number in range(2_000))
    tasks = {0: [TaskId(0, partition) for partition in range(1_000)]}

    with pytest.raises(InputError, match=r"^input\.topology: the group would have 2000000 changelog partitions"):
        prepare_changelog_topics(
            GroupTopology((Subtopology(0, ("in",), stores=stores),)), tasks, InternalTopicCatalog(), _CONFIGS
        )


def test_should_name_the_topic_that_kafka_names_when_both_are_in_one_bucket() -> None:
    """Kafka keeps the configs of a subtopology in a HashSet before it keeps the topics in maps by name."""
    windowed = {
        "orders-store-1-changelog": ChangelogConfig(ChangelogType.WINDOWED, retention_ms=0),
        "orders-AaAa-3-changelog": ChangelogConfig(ChangelogType.WINDOWED, retention_ms=9223372036854775802),
    }
    stores = tuple(SubtopologyStore(name, name, changelog=config) for name, config in windowed.items())
    catalog = InternalTopicCatalog(failures=frozenset({"describe_topics"}))
    for order in (stores, stores[::-1]):
        topology = GroupTopology((Subtopology(1, ("in",), stores=order),))
        with pytest.raises(StreamsError, match=r"Could not create topic orders-store-1-changelog\."):
            prepare_changelog_topics(topology, {1: [TaskId(1, 0)]}, catalog, AssignmentConfigs())
