"""The configs of topics in the embedded and the in-memory log, with Kafka's names, defaults and bounds.

Configs that matter only to brokers are stored and ignored. Source: `TopicConfig`, `LogConfig`, `Topic.validate`.
Differs from Kafka in three defaults, which a topic's own configs override:
- `segment.bytes`, the size of the active segment, is 1 MiB. The active segment contains the newest records, which
  compaction does not touch. With Kafka's default of 1 GiB, the changelogs of one machine would never be compacted.
- `retention.ms` has no limit. With Kafka's default of seven days, records with older timestamps would be deleted before
  any group has read them. With `cleanup.policy` compact,delete, age is counted from the newest timestamp of the
  partition (`cleanup_policy`).
- `message.timestamp.after.max.ms` has no limit. With Kafka's default of one hour, records from a machine whose clock is
  ahead would be refused.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from assignor.names.legal_names import is_legal_name
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from streams_runtime.logs.base import ConfigChanges, NewTopic, TopicDescription
from streams_runtime.logs.log_errors import InvalidTopic, TopicExists, UnknownTopicOrPartition
from streams_runtime.logs.record_limits import NO_TIMESTAMP_CHECKS, BrokerChecks, RecordLimits

N = TypeVar("N", int, float)

_POLICIES = frozenset({"compact", "delete"})


def _number(name: str, default: N, low: int, high: int = JAVA_LONG_MAX) -> N:
    """Makes a dataclass field for the config `name`. The value of the field is a number from `low` to `high`. The field
    has the type of `default`.
    """
    default_field: N = field(default=default, metadata={"config": (name, low, high, type(default))})
    return default_field


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The configs of one topic. Times are in milliseconds, sizes in bytes. A retention of -1 means no limit."""

    compacts: bool = False
    deletes: bool = True
    retention_ms: int = _number("retention.ms", -1, -1)
    retention_bytes: int = _number("retention.bytes", -1, -1)
    delete_retention_ms: int = _number("delete.retention.ms", 86_400_000, 0)
    min_compaction_lag_ms: int = _number("min.compaction.lag.ms", 0, 0)
    min_cleanable_dirty_ratio: float = _number("min.cleanable.dirty.ratio", 0.5, 0, 1)
    segment_bytes: int = _number("segment.bytes", 1_048_576, 1, JAVA_INT_MAX)
    max_message_bytes: int = _number("max.message.bytes", 1_048_588, 0, JAVA_INT_MAX)
    timestamp_after_max_ms: int = _number("message.timestamp.after.max.ms", JAVA_LONG_MAX, 0)
    timestamp_before_max_ms: int = _number("message.timestamp.before.max.ms", JAVA_LONG_MAX, 0)

    @property
    def record_limits(self) -> RecordLimits:
        times_ms = self.timestamp_after_max_ms, self.timestamp_before_max_ms
        checks = NO_TIMESTAMP_CHECKS if min(times_ms) == JAVA_LONG_MAX else BrokerChecks(*times_ms)
        return RecordLimits(self.max_message_bytes, self.compacts, checks)

    @property
    def deletes_by_stream_time(self) -> bool:
        """True if the age of a record is counted from the newest timestamp of its partition (`cleanup_policy`)."""
        return self.compacts and self.deletes

    @property
    def deletes_after_ms(self) -> int | None:
        """The age in milliseconds from which records are deleted (`retention.ms`). The value is None if the topic keeps
        records of any age.
        """
        return self.retention_ms if self.deletes and self.retention_ms >= 0 else None

    def keeps_windows(self, retention_ms: int) -> bool:
        """Returns True if `Log.keep_windows` has nothing to change for this retention."""
        return not self.deletes_by_stream_time or self.retention_ms < 0 or self.retention_ms >= retention_ms

    @classmethod
    def of(cls, topic: str, configs: Mapping[str, str]) -> TopicConfigs:
        """Raises InvalidTopic."""
        policies = frozenset(part.strip() for part in configs.get("cleanup.policy", "delete").split(","))
        if not policies <= _POLICIES:
            raise _invalid(topic, configs, "cleanup.policy", "compact, delete or both with a comma between")
        values: dict[str, Any] = {
            each.name: _value(topic, configs, *each.metadata["config"])
            for each in fields(cls)
            if each.metadata and each.metadata["config"][0] in configs
        }
        if configs.get("message.timestamp.type") == "LogAppendTime":
            # the topic replaces the timestamp of each record, so the record's own timestamp is not checked
            values |= {"timestamp_after_max_ms": JAVA_LONG_MAX, "timestamp_before_max_ms": JAVA_LONG_MAX}
        return cls("compact" in policies, "delete" in policies, **values)


def checked_topic(topic: NewTopic) -> TopicConfigs:
    """Checks a new topic and reads its configs. Raises InvalidTopic if the name, the partition count or a config is
    invalid.
    """
    if not is_legal_name(topic.name):
        raise InvalidTopic(
            f"{topic.name!r} is not a topic name: use 1 to 249 letters, digits, '.', '_' and '-', but not '.' or '..'"
        )
    if topic.partitions < 1:
        raise InvalidTopic(f"topic {topic.name} must have at least one partition, not {topic.partitions}")
    return TopicConfigs.of(topic.name, topic.configs)


def topics_to_add(asked: Iterable[NewTopic], existing: Mapping[str, TopicDescription]) -> list[NewTopic]:
    """Returns the topics of `asked` that do not exist yet.

    Raises TopicExists if one of the topics exists with a different number of partitions. Also raises TopicExists if
    `asked` contains the same topic twice with different numbers of partitions. After this error the caller must not add
    any of the topics. Source: `InternalTopicManager`, `CreateTopics`.
    """
    partitions = {name: topic.partitions for name, topic in existing.items()}
    added: list[NewTopic] = []
    for topic in asked:
        there = partitions.setdefault(topic.name, topic.partitions)
        if there != topic.partitions:
            raise TopicExists(f"topic {topic.name} has {there} partitions, not {topic.partitions}")
        if topic.name not in existing and all(other.name != topic.name for other in added):
            added.append(topic)
    return added


def altered_topic(topic: TopicDescription, partitions: int | None, configs: ConfigChanges) -> TopicDescription:
    """Returns the topic with its new partition count and configs. Raises InvalidTopic for invalid values.

    Source: `ReplicationControlManager.createPartitions`.
    """
    count = topic.partitions if partitions is None else partitions
    if count < topic.partitions:
        raise InvalidTopic(
            f"topic {topic.name} has {topic.partitions} partitions and cannot have {count}: partitions are never taken "
            "away, because their records would be lost"
        )
    merged = {**topic.configs, **configs}
    kept = {key: value for key, value in merged.items() if value is not None}
    checked_topic(NewTopic(topic.name, count, kept))
    return TopicDescription(topic.name, count, kept)


def check_topics_exist(names: Iterable[str], existing: Container[str]) -> None:
    """Raises UnknownTopicOrPartition, which names the missing topics."""
    missing = [name for name in names if name not in existing]
    if missing:
        raise UnknownTopicOrPartition(f"there is no topic {', '.join(missing)}")


def _value(
    topic: str, configs: Mapping[str, str], name: str, low: int, high: int, kind: type[int] | type[float]
) -> float:
    try:
        value = kind(configs[name])
    except ValueError:
        raise _invalid(topic, configs, name, "a whole number" if kind is int else "a number") from None
    if not low <= value <= high:
        raise _invalid(topic, configs, name, f"from {low} to {high}")
    return value


def _invalid(topic: str, configs: Mapping[str, str], name: str, expected: str) -> InvalidTopic:
    return InvalidTopic(f"topic {topic}: {name} must be {expected}, not {configs[name]!r}")
