"""Topologies that Kafka Streams 4.3.1's own classes built, as values.

`kafka_topologies.jsonl.gz`, one JSON object a line: `steps` are calls of a topology builder in order; `output` is what
`InternalTopologyBuilder` made of them. With `leader` (topics of the cluster, changelogs that exist, configs) the
output also has what `RepartitionTopics`, `PartitionGrouper` and `ChangelogTopics` made of that. On an error, `step` is
the index of the call that threw, or the number of calls when all went well and the rest threw.
"""

import gzip
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignor.configs import AssignmentConfigs
from assignor.errors import KafkaError
from assignor.topology.builder import TopologyBuilder
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.group_topology import (
    ChangelogConfig,
    ChangelogType,
    GroupTopology,
    Subtopology,
    changelog_configs,
    java_hash_code,
)
from assignor.topology.internal_topics import (
    ChangelogTopics,
    InternalTopicCatalog,
    RepartitionTopics,
    prepare_changelog_topics,
    prepare_repartition_topics,
)
from assignor.topology.partition_grouper import PartitionsOfTasks, counted_sources, source_partitions
from assignor.types import TaskId, TopicPartition

_FILE = Path(__file__).with_name("kafka_topologies.jsonl.gz")


@dataclass(frozen=True, slots=True)
class KafkaTopology:
    id: str
    steps: list[list[Any]]
    leader: dict[str, Any] | None
    output: dict[str, Any]


def kafka_topologies() -> Iterator[KafkaTopology]:
    with gzip.open(_FILE, "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            yield KafkaTopology(case["id"], case["steps"], case.get("leader"), case["output"])


def output_of(case: KafkaTopology) -> dict[str, Any]:
    """What this project makes of the case, in the words of `output`."""
    builder, application_id, done = TopologyBuilder(), "app", 0
    try:
        for step in case.steps:
            if step[0] == "application_id":
                application_id = step[1]
            else:
                _CALLS[step[0]](builder, *step[1:])
            done += 1
        topology = builder.build(application_id)
        output: dict[str, Any] = {
            "describe": builder.describe(),
            "subtopologies": [_subtopology(subtopology) for subtopology in topology.subtopologies],
            "copartition_groups": [list(group) for group in topology.copartition_groups],
            "error": None,
        }
        if case.leader is not None:
            output |= _led(topology, case.leader)
    except KafkaError as error:
        return {"error": error.as_recorded(), "step": done}
    return output


def _add_state_store(
    builder: TopologyBuilder, name: str, processors: list[str], changelog: dict[str, Any] | None
) -> None:
    config = None if changelog is None else ChangelogConfig(**{**changelog, "type": ChangelogType(changelog["type"])})
    builder.add_state_store(name, processors, changelog=config)


def _add_global_store(builder: TopologyBuilder, name: str, source: str, topic: str, processor: str) -> None:
    builder.add_global_store(name, source=source, topic=topic, processor=processor)


_CALLS: dict[str, Callable[..., object]] = {
    "source": TopologyBuilder.add_source,
    "processor": TopologyBuilder.add_processor,
    "sink": TopologyBuilder.add_sink,
    "state_store": _add_state_store,
    "connect": TopologyBuilder.connect_processor_and_stores,
    "repartition_topic": TopologyBuilder.add_repartition_topic,
    "copartition": TopologyBuilder.copartition,
    "source_topic_as_changelog": TopologyBuilder.use_source_topic_as_changelog,
    "global_store": _add_global_store,
}


def _subtopology(subtopology: Subtopology) -> dict[str, Any]:
    return {
        "id": subtopology.id,
        "source_topics": list(subtopology.source_topics),
        "repartition_source_topics": [
            [topic.name, topic.partitions] for topic in subtopology.repartition_source_topics
        ],
        "sink_topics": sorted(subtopology.sink_topics),
        "changelog_topics": sorted(changelog_configs(subtopology)),
        "stores": sorted(store.name for store in subtopology.stores),
        "java_hash_code": java_hash_code(subtopology),
    }


def _led(topology: GroupTopology, leader: dict[str, Any]) -> dict[str, Any]:
    cluster = Cluster((), {topic: TopicMetadata(partitions) for topic, partitions in leader["topics"].items()})
    configs = AssignmentConfigs.from_dotted(leader["configs"])
    # an existing topic has the count it needs, and that is known after a first look at an empty cluster
    empty = _topics(topology, cluster, InternalTopicCatalog(), configs)
    counts = {**empty[0].ready, **empty[2].ready}
    existing = {topic: TopicMetadata(counts[topic]) for topic in leader["existing"] if topic in counts}
    repartition, groups, changelogs = _topics(topology, cluster, InternalTopicCatalog(existing), configs)
    created = {**repartition.created, **changelogs.created}
    configs_of = {**empty[0].created, **empty[2].created}
    before = {
        task: [TopicPartition(topic, task.partition) for topic in changelogs.pre_existing_topics()[task.subtopology]]
        for task in changelogs.changelog_partitions
    }
    pre_existing = {each for partitions in before.values() for each in partitions}
    of_sources = {each for each in pre_existing if each.topic in changelogs.source_topics}
    return {
        "tasks": [str(task) for task in groups],
        "stateful": [str(task) for task in changelogs.stateful_tasks],
        "pre_source": _texts(of_sources),
        "pre_other": _texts(pre_existing - of_sources),
        "partitions": {str(task): _texts(partitions) for task, partitions in groups.items()},
        "changelogs": {
            str(task): [_texts(partitions), _texts(before[task])]
            for task, partitions in changelogs.changelog_partitions.items()
        },
        "ready": {
            topic: [partitions, topic in created, dict(configs_of[topic].configs)]
            for topic, partitions in {**repartition.ready, **changelogs.ready}.items()
        },
    }


def _topics(
    topology: GroupTopology, cluster: Cluster, catalog: InternalTopicCatalog, configs: AssignmentConfigs
) -> tuple[RepartitionTopics, PartitionsOfTasks, ChangelogTopics]:
    repartition = prepare_repartition_topics(topology, cluster, catalog, configs)
    groups = source_partitions(counted_sources(topology, repartition.cluster))
    tasks: dict[int, list[TaskId]] = {}
    for task in groups:
        tasks.setdefault(task.subtopology, []).append(task)
    return repartition, groups, prepare_changelog_topics(topology, tasks, catalog, configs)


def _texts(partitions: Collection[TopicPartition]) -> list[str]:
    return [str(partition) for partition in sorted(partitions)]
