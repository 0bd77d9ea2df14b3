"""Reads and checks the definition of a group from a PUT. A definition is the `input` of rebalance/1 without members and
leader.

If a definition describes its cluster, the definition is the only source for topics and offsets. Topics that a rebalance
creates are not added to the definition. A later PUT replaces the definition. If a definition names the provider of its
cluster, every rebalance polls the cluster.

This file checks the names in documents of callers, because these names become names of topics and directories. Groups
that an earlier release stored are not checked again. The service still leads groups that an earlier release stored, and
can delete them. Reports and computations may contain every name that Kafka accepts. Kafka accepts any name for a store
that is not logged.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from assignor.configs import KAFKA_VERSION
from assignor.configs.kafka_versions import VERSION_OF_NEW_GROUPS, VERSION_WITHOUT_A_NAME, KafkaVersion
from assignor.errors import ConfigError, InputError, KafkaError
from assignor.names.legal_names import LONGEST_NAME, checked_name, is_legal_name
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import parse_rebalance_input
from assignor.recording.fields import child
from assignor.topology.group_topology import Subtopology, SubtopologyStore
from assignor.topology.internal_topics import InternalTopicCatalog, prepare_repartition_topics
from assignor.topology.source_patterns import expanded
from coordinator_api.runtime.allowed_assignors import allowed_here
from coordinator_api.runtime.clusters import Clusters, ProviderAddress, provider_address

_DEFAULTS: Mapping[str, object] = {
    "configs": {},
    "existing_internal_topics": {},
    "changelog_end_offsets": {},
    "committed_offsets": {},
}
_NOT_OF_A_DEFINITION: Mapping[str, str] = {
    "members": "members join by POST of their subscriptions",
    "leader_process_id": "the leader is this service, which is in no process of the group",
    "steering": "operators steer a group by its levers, such as POST /v1/groups/{group}/drain?instance=",
}

_KNOWN_BY_THE_PROVIDER = ("existing_internal_topics", "changelog_end_offsets", "committed_offsets")


@dataclass(frozen=True, slots=True)
class Definition:
    """A parsed definition. `snapshot`: the definition as a snapshot without members. `provider`: the address of the
    cluster to poll; None if the definition describes its cluster. If `provider` is set, `snapshot` has no topics or
    brokers.
    """

    snapshot: RebalanceSnapshot
    provider: ProviderAddress | None


@dataclass(frozen=True, slots=True)
class DocumentBounds:
    """The limits for a caller's document. The limits come from the settings `group.max.partitions`,
    `group.max.subtopologies`, `task.assignor.classes` and `cluster.bootstrap.servers`. Worker processes read the
    documents, so this class can be pickled.
    """

    max_partitions: int
    max_subtopologies: int
    assignor_classes: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()


def declared_definition(
    document: dict[str, object], group_id: str, bounds: DocumentBounds, kafka_version: KafkaVersion
) -> str:
    """Checks the document of a PUT and returns its canonical definition. The function runs in a worker process.
    `kafka_version`: as in `read_definition`. Raises the errors of `read_definition`, and AssignorNotListed.
    """
    check_subtopologies(document, "", bounds.max_subtopologies)
    input_json = read_definition(
        document, group_id, bounds.max_partitions, Clusters(bounds.clusters), kafka_version=kafka_version
    )
    allowed_here(bounds.assignor_classes).check(str(document.get("assignor")))
    return input_json


def check_subtopologies(known: object, where: str, most: int) -> None:
    """Raises InputError if a document has too many subtopologies. Call `check_subtopologies` before the checks that
    take time. `known`: the `input` of a rebalance/1 document, in which no value has been checked yet.
    """
    topology = known.get("topology") if isinstance(known, dict) else None
    subtopologies = topology.get("subtopologies") if isinstance(topology, dict) else None
    if isinstance(subtopologies, list) and len(subtopologies) > most:
        raise InputError(
            f"{len(subtopologies)} are more than group.max.subtopologies, {most}", f"{where}topology.subtopologies"
        )


def read_definition(
    document: dict[str, object],
    group_id: str,
    max_partitions: int,
    clusters: Clusters | None = None,
    *,
    kafka_version: KafkaVersion = VERSION_OF_NEW_GROUPS,
) -> str:
    """Returns the definition as canonical JSON: defaults are filled in, keys are sorted, and there are no spaces. If
    `application_id` is missing, the definition gets the group's id.

    `clusters`: the clusters that the definition may name; None if the definition may not name a cluster.
    `kafka_version`: the version for a document without `kafka.version`. The definition does not contain version 4.3. So
    the definition of a group from an earlier release does not change. Raises NotBuiltYet, and InputError with the name
    of the wrong field.
    """
    for name, reason in _NOT_OF_A_DEFINITION.items():
        empty = document.get(name) is None or (name == "members" and document[name] == {})
        if not empty:
            raise InputError(f"is not part of a definition: {reason}", name)
    provider = provider_address(document.get("cluster"))
    if provider is not None:
        (clusters or Clusters()).check(provider)
        for name in _KNOWN_BY_THE_PROVIDER:
            if document.get(name):
                raise InputError("comes from the cluster's provider; leave it out", name)
    complete = {**_DEFAULTS, "application_id": group_id, **document, "members": {}, "leader_process_id": None}
    configs = complete["configs"]
    if isinstance(configs, dict) and kafka_version is not VERSION_WITHOUT_A_NAME:
        complete["configs"] = {KAFKA_VERSION: str(kafka_version), **configs}
    snapshot = _parse(complete, "").snapshot
    try:
        snapshot.configs.check()
    except ConfigError as error:
        raise InputError(str(error), "configs") from None
    check_names(snapshot, "", of_stores=True)
    check_size(snapshot, max_partitions)
    return json.dumps(complete, sort_keys=True, separators=(",", ":"))


def check_size(snapshot: RebalanceSnapshot, max_partitions: int) -> None:
    """Raises InputError if there are too many partitions or tasks. The check is needed because a document of a few
    bytes can ask for millions of partitions.
    """
    partitions = partition_total(snapshot)
    if partitions > max_partitions:
        raise InputError(f"{partitions} partitions are more than group.max.partitions, {max_partitions}", "cluster")
    tasks = task_total(snapshot)
    if tasks > max_partitions:
        raise InputError(f"{tasks} tasks are more than group.max.partitions, {max_partitions}", "topology")


def partition_total(snapshot: RebalanceSnapshot) -> int:
    """Returns the total number of partitions of all existing topics, and of repartition topics with a fixed number of
    partitions.
    """
    topics = (*snapshot.cluster.topics.values(), *snapshot.existing_internal_topics.values())
    fixed = (topic for each in snapshot.topology.subtopologies for topic in each.repartition_source_topics)
    return sum(topic.partitions for topic in topics) + sum(topic.partitions or 0 for topic in fixed)


def task_total(snapshot: RebalanceSnapshot) -> int:
    """Returns the number of tasks that a rebalance would make. There are more tasks than partitions if several
    subtopologies read one topic.

    If source topics are missing, the result includes only the tasks of existing topics.
    """
    topology, cluster = snapshot.topology, snapshot.cluster
    catalog = InternalTopicCatalog(snapshot.existing_internal_topics)
    with suppress(KafkaError):
        cluster = prepare_repartition_topics(topology, cluster, catalog, snapshot.configs).cluster
    counts = ([cluster.partition_count(topic) or 0 for topic in each.source_topics] for each in topology.subtopologies)
    return sum(max(each, default=0) for each in counts)


def read_input(input_json: str) -> Definition:
    """Parses the canonical JSON that `read_definition` returned."""
    return _parse(json.loads(input_json), "input")


def _parse(complete: dict[str, object], where: str) -> Definition:
    provider = provider_address(complete.get("cluster"))
    if provider is not None:
        complete = {**complete, "cluster": {"brokers": [], "topics": {}}}
    snapshot = parse_rebalance_input(complete, where)
    if provider is None and snapshot.topology.source_patterns:
        now = expanded(snapshot.topology, snapshot.application_id, snapshot.cluster.topics)
        snapshot = replace(snapshot, topology=now.topology)
    return Definition(snapshot, provider)


_TOPIC = "the name of a topic"


def check_names(snapshot: RebalanceSnapshot, where: str, *, of_stores: bool = False) -> None:
    """Checks the names in a snapshot. `where`: the path of the snapshot in its document; empty if the snapshot is the
    whole document. `of_stores`: True to check also the names of stores that are not logged. Members use the names of
    stores for directories. Raises InputError that names the path of the wrong name.
    """
    checked_name(snapshot.application_id, "an application id", child(where, "application_id"))
    for name, topics in (
        ("existing_internal_topics", snapshot.existing_internal_topics),
        ("changelog_end_offsets", snapshot.changelog_end_offsets or ()),
        ("committed_offsets", snapshot.committed_offsets),
        ("created_internal_topics", snapshot.created_internal_topics or ()),
    ):
        _check_keys(topics, child(where, name))
    _check_keys(snapshot.cluster.topics, f"{child(where, 'cluster')}.topics")
    topology = child(where, "topology")
    for number, subtopology in enumerate(snapshot.topology.subtopologies):
        at = f"{topology}.subtopologies[{number}]"
        for topic, topic_at in _topics(subtopology, at):
            checked_name(topic, _TOPIC, topic_at)
        for index, store in enumerate(subtopology.stores):
            _check_store(store, f"{at}.stores[{index}]", named=of_stores)
    patterns = snapshot.topology.source_patterns
    for number, group in enumerate(snapshot.topology.copartition_groups):
        for index, topic in enumerate(group):
            if topic not in patterns:
                checked_name(topic, _TOPIC, f"{topology}.copartition_groups[{number}][{index}]")
    if snapshot.topology.dead_letter_topic is not None:
        checked_name(snapshot.topology.dead_letter_topic, _TOPIC, f"{topology}.dead_letter_topic")


def _check_keys(topics: Iterable[str], where: str) -> None:
    for topic in topics:
        if not is_legal_name(topic):
            checked_name(topic, _TOPIC, child(where, topic))


def _topics(subtopology: Subtopology, at: str) -> Iterator[tuple[str, str]]:
    for name in ("source_topics", "sink_topics", "repartition_sink_topics"):
        for index, topic in enumerate(getattr(subtopology, name)):
            yield topic, f"{at}.{name}[{index}]"
    for index, repartition in enumerate(subtopology.repartition_source_topics):
        yield repartition.name, f"{at}.repartition_source_topics[{index}].name"


def _check_store(store: SubtopologyStore, at: str, *, named: bool) -> None:
    if named:
        checked_name(store.name, "the name of a store", f"{at}.name")
    changelog = store.changelog_topic
    if changelog is not None and len(changelog) > LONGEST_NAME:
        raise InputError(
            f"has {len(changelog)} characters, and Kafka's topics have up to {LONGEST_NAME}: choose a shorter "
            "application id, or a shorter name of the store",
            f"{at}.changelog_topic",
        )
    for name in ("changelog_topic", "source_topic_as_changelog"):
        topic = getattr(store, name)
        if topic is not None:
            checked_name(topic, _TOPIC, f"{at}.{name}")
