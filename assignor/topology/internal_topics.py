"""Internal topics: their configs, and which of them have to be created.

A topic's configs are the library's own, overridden by the application's `topic.` configs, overridden by the store's
own. Two of them are computed last, and only the store's own value overrides them: the retention of a windowed
changelog and the compaction lag of a versioned one. An internal topic that exists must have exactly the partition
count that is needed now. Source: `InternalTopicManager.makeReady`, `RepartitionTopicConfig`,
`UnwindowedUnversionedChangelogTopicConfig`, `WindowedChangelogTopicConfig`, `VersionedChangelogTopicConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assignor.cluster import TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.errors import BrokersRefusal, IllegalArgumentError, StreamsError
from assignor.java.order import hash_set_copy_order, hash_set_order, int16, int32, string_hash
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from assignor.types import JAVA_LONG_MAX

CLEANUP_POLICY = "cleanup.policy"
MESSAGE_TIMESTAMP_TYPE = "message.timestamp.type"
MIN_COMPACTION_LAG_MS = "min.compaction.lag.ms"
RETENTION_MS = "retention.ms"
SEGMENT_BYTES = "segment.bytes"

VERSIONED_ADDITIONAL_COMPACTION_LAG_MS = 24 * 60 * 60 * 1000

DESCRIBE_TOPICS_FAILURE = "describe_topics"
CREATE_TOPICS_FAILURE = "create_topics"

_REPARTITION_DEFAULTS = {CLEANUP_POLICY: "delete", SEGMENT_BYTES: str(50 * 1024 * 1024), RETENTION_MS: "-1"}
_CHANGELOG_CLEANUP = {
    ChangelogType.UNWINDOWED: "compact",
    ChangelogType.WINDOWED: "compact,delete",
    ChangelogType.VERSIONED: "compact",
}


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """An internal topic that this rebalance creates."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One topic that has to exist. `changelog`: None for a repartition topic.

    `partitions`: None while not known. `fixed_partitions`: the user asked for that count, and nothing may change it.
    Raises IllegalArgumentError for a count below 1.
    """

    name: str
    partitions: int | None = None
    fixed_partitions: bool = False
    changelog: ChangelogConfig | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None and self.partitions < 1:
            raise IllegalArgumentError("Number of partitions must be at least 1.", f"{self.name} has {self.partitions}")

    def with_partitions(self, partitions: int) -> InternalTopic:
        """The same topic with its count decided; a fixed count stays as it is."""
        return self if self.fixed_partitions else replace(self, partitions=partitions)

    def configs(self, configs: AssignmentConfigs) -> dict[str, str]:
        """All configs to create the topic with, sorted by key."""
        values = {MESSAGE_TIMESTAMP_TYPE: "CreateTime"}
        if self.changelog is None:
            values |= {**_REPARTITION_DEFAULTS, **configs.topic_configs}
        else:
            values[CLEANUP_POLICY] = _CHANGELOG_CLEANUP[self.changelog.type]
            values |= {**configs.topic_configs, **self.changelog.configs, **_computed(self.changelog, configs)}
        return dict(sorted(values.items()))


def _computed(changelog: ChangelogConfig, configs: AssignmentConfigs) -> dict[str, str]:
    if changelog.type is ChangelogType.WINDOWED and RETENTION_MS not in changelog.configs:
        retention_ms = (changelog.retention_ms or 0) + configs.window_store_additional_retention_ms
        return {RETENTION_MS: str(min(retention_ms, JAVA_LONG_MAX))}
    if changelog.type is ChangelogType.VERSIONED and MIN_COMPACTION_LAG_MS not in changelog.configs:
        lag_ms = (changelog.min_compaction_lag_ms or 0) + VERSIONED_ADDITIONAL_COMPACTION_LAG_MS
        return {MIN_COMPACTION_LAG_MS: str(min(lag_ms, JAVA_LONG_MAX))}
    return {}


@dataclass(frozen=True, slots=True)
class InternalTopicCatalog:
    """The internal topics that existed before this rebalance. `failures`: see `failures` of rebalance/1.

    `refusal`: what the brokers answered to a failed call about topics, as `"SimpleName: message"`; None: not known.
    """

    existing: Mapping[str, TopicMetadata] = field(default_factory=dict)
    failures: frozenset[str] = frozenset()
    refusal: str | None = None

    def with_created(self, created: Mapping[str, CreatedTopic]) -> InternalTopicCatalog:
        """The catalog once the topics of `created` exist."""
        if not created:
            return self
        existing = {name: TopicMetadata(topic.partitions) for name, topic in created.items()}
        return replace(self, existing={**self.existing, **existing})


@dataclass(frozen=True, slots=True)
class ReadyTopics:
    """`created`: topics to create now; `ready`: all topics asked for, with their partition counts."""

    created: Mapping[str, CreatedTopic] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)


def make_ready(
    topics: Mapping[str, InternalTopic], catalog: InternalTopicCatalog, configs: AssignmentConfigs
) -> ReadyTopics:
    """Checks the topics that exist, and says how to create the others.

    Raises StreamsError for an existing topic with another partition count, for a topic without a count, and when the
    brokers cannot be asked or refuse. Differs from Kafka: a failure is final, nothing is asked again until a timeout.
    """
    in_kafkas_maps = hash_set_order(hash_set_order(topics, string_hash), string_hash)
    walk = hash_set_copy_order(in_kafkas_maps, string_hash)
    if walk and DESCRIBE_TOPICS_FAILURE in catalog.failures:
        raise _could_not_create(walk[0], "describe", catalog.refusal)
    missing: dict[str, CreatedTopic] = {}
    ready: dict[str, int] = {}
    for name in walk:
        topic = topics[name]
        if topic.partitions is None:
            raise StreamsError(f"Topic {name} number of partitions not defined")
        existing = catalog.existing.get(name)
        if existing is None:
            missing[name] = CreatedTopic(topic.partitions, int16(configs.replication_factor), topic.configs(configs))
        elif existing.partitions != topic.partitions:
            raise StreamsError(
                f"Existing internal topic {name} has invalid partitions: expected: {topic.partitions}; "
                f"actual: {existing.partitions}. "
                "Use 'org.apache.kafka.tools.StreamsResetter' tool to clean up invalid topics before processing.",
                "or delete this topic alone, then start again",
            )
        ready[name] = topic.partitions
    if missing and CREATE_TOPICS_FAILURE in catalog.failures:
        raise _could_not_create(_first_asked_for(missing), "create", catalog.refusal)
    return ReadyTopics(missing, ready)


def _first_asked_for(missing: Mapping[str, CreatedTopic]) -> str:
    """Kafka hands a `HashSet<NewTopic>` to its admin client, and looks at the answers in the order of a HashMap."""
    not_created = hash_set_order(missing, string_hash)
    asked_for = hash_set_order(not_created, lambda name: _new_topic_hash(name, missing[name]))
    return hash_set_order(asked_for, string_hash)[0]


def _new_topic_hash(name: str, topic: CreatedTopic) -> int:
    """Source: `NewTopic.hashCode`; the fourth field, replicas by partition, is null."""
    configs = sum(string_hash(key) ^ string_hash(value) for key, value in topic.configs.items())
    value = 1
    for field_hash in (string_hash(name), topic.partitions, topic.replication_factor, 0, int32(configs)):
        value = int32(31 * value + field_hash)
    return value


def _could_not_create(topic: str, call: str, refusal: str | None) -> StreamsError:
    """Kafka says the same whether it could not describe or not create the topic; the cause is the brokers' answer."""
    message = f"Could not create topic {topic}."
    if refusal is None:
        return StreamsError(message, f"the brokers refused to {call} it, and what they answered is not in the input")
    error = StreamsError(message, f"the brokers refused to {call} it: {refusal}")
    error.__cause__ = BrokersRefusal(refusal)
    return error
