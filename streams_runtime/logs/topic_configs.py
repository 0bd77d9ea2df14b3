"""The configs of topics in a log that keeps the records itself, with Kafka's names, defaults and bounds.

Other configs are stored and ignored, because they are for brokers. Source: `TopicConfig`,
`LogConfig`, `Topic.validate`. Differs from Kafka: `segment.bytes` is the size of the newest records that compaction
leaves alone (the active segment), 1 MiB by default. With Kafka's 1 GiB the changelogs of one machine would never be
compacted. `retention.ms` has no limit by default. With Kafka's seven days, records that are older by their own
timestamps would be deleted before anybody has read them; a topic whose configs name a retention has that one. With
`cleanup.policy` compact,delete it counts from the newest timestamp of the partition (`cleanup_policy`).
`message.timestamp.after.max.ms` has no limit by default either: with Kafka's one hour, records of a clock that is ahead
would be refused. A topic whose configs name one has that one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from assignor.legal_names import is_legal_name
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from streams_runtime.logs.base import ConfigChanges, NewTopic, TopicDescription
from streams_runtime.logs.errors import InvalidTopic, TopicExists, UnknownTopicOrPartition
from streams_runtime.logs.record_limits import EVERY_TIMESTAMP, BrokerChecks, RecordLimits

N = TypeVar("N", int, float)

_POLICIES = frozenset({"compact", "delete"})


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """Times are in milliseconds, sizes in bytes. A retention of -1 has no limit."""

    compacts: bool = False
    deletes: bool = True
    retention_ms: int = -1
    retention_bytes: int = -1
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    min_cleanable_dirty_ratio: float = 0.5
    segment_bytes: int = 1_048_576
    max_message_bytes: int = 1_048_588
    timestamp_after_max_ms: int = JAVA_LONG_MAX
    timestamp_before_max_ms: int = JAVA_LONG_MAX

    @property
    def record_limits(self) -> RecordLimits:
        times_ms = self.timestamp_after_max_ms, self.timestamp_before_max_ms
        checks = EVERY_TIMESTAMP if min(times_ms) == JAVA_LONG_MAX else BrokerChecks(*times_ms)
        return RecordLimits(self.max_message_bytes, self.compacts, checks)

    @property
    def deletes_by_stream_time(self) -> bool:
        """Whether the age of a record counts from the newest timestamp of its partition (`cleanup_policy`)."""
        return self.compacts and self.deletes

    @property
    def deletes_after_ms(self) -> int | None:
        """`retention.ms`; None where it has no limit, or nothing is deleted by age."""
        return self.retention_ms if self.deletes and self.retention_ms >= 0 else None

    def keeps_windows(self, retention_ms: int) -> bool:
        """Whether `Log.keep_windows` has nothing to do."""
        return not self.deletes_by_stream_time or self.retention_ms < 0 or self.retention_ms >= retention_ms

    @classmethod
    def of(cls, topic: str, configs: Mapping[str, str]) -> TopicConfigs:
        """Raises InvalidTopic."""
        read = _ConfigReader(topic, configs)
        policies = read.policies()
        # with LogAppendTime a record's own timestamp is not kept, so it is not checked
        times_given = configs.get("message.timestamp.type") != "LogAppendTime"
        limit_ms = partial(read.integer, default=JAVA_LONG_MAX, low=0, high=JAVA_LONG_MAX)
        after_max_ms = limit_ms("message.timestamp.after.max.ms")
        before_max_ms = limit_ms("message.timestamp.before.max.ms")
        return cls(
            compacts="compact" in policies,
            deletes="delete" in policies,
            retention_ms=read.integer("retention.ms", cls().retention_ms, -1, JAVA_LONG_MAX),
            retention_bytes=read.integer("retention.bytes", -1, -1, JAVA_LONG_MAX),
            delete_retention_ms=read.integer("delete.retention.ms", cls().delete_retention_ms, 0, JAVA_LONG_MAX),
            min_compaction_lag_ms=read.integer("min.compaction.lag.ms", 0, 0, JAVA_LONG_MAX),
            min_cleanable_dirty_ratio=read.ratio("min.cleanable.dirty.ratio", 0.5),
            segment_bytes=read.integer("segment.bytes", cls().segment_bytes, 1, JAVA_INT_MAX),
            max_message_bytes=read.integer("max.message.bytes", cls().max_message_bytes, 0, JAVA_INT_MAX),
            timestamp_after_max_ms=after_max_ms if times_given else JAVA_LONG_MAX,
            timestamp_before_max_ms=before_max_ms if times_given else JAVA_LONG_MAX,
        )


def checked_topic(topic: NewTopic) -> TopicConfigs:
    """The meaning of its configs. Raises InvalidTopic for a name, partition count or config that no topic can have."""
    if not is_legal_name(topic.name):
        raise InvalidTopic(
            f"{topic.name!r} is not a topic name: use 1 to 249 letters, digits, '.', '_' and '-', but not '.' or '..'"
        )
    if topic.partitions < 1:
        raise InvalidTopic(f"topic {topic.name} must have at least one partition, not {topic.partitions}")
    return TopicConfigs.of(topic.name, topic.configs)


def topics_to_add(asked: Iterable[NewTopic], existing: Mapping[str, TopicDescription]) -> list[NewTopic]:
    """Those that are not there yet.

    Raises TopicExists when a topic, there or asked for twice, has another number of partitions. Then none is added.
    Source: `InternalTopicManager`, `CreateTopics`.
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
    """The topic with its new partitions and configs. Raises InvalidTopic if no topic can have them.

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
    """Raises UnknownTopicOrPartition that names those that are not."""
    missing = [name for name in names if name not in existing]
    if missing:
        raise UnknownTopicOrPartition(f"there is no topic {', '.join(missing)}")


class _ConfigReader:
    def __init__(self, topic: str, configs: Mapping[str, str]) -> None:
        self._topic = topic
        self._configs = configs

    def policies(self) -> frozenset[str]:
        given = self._configs.get("cleanup.policy", "delete")
        policies = frozenset(part.strip() for part in given.split(","))
        if not policies <= _POLICIES:
            raise self._invalid("cleanup.policy", "compact, delete or both with a comma between")
        return policies

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        return self._number(name, default, low, high, int, "a whole number")

    def ratio(self, name: str, default: float) -> float:
        return self._number(name, default, 0, 1, float, "a number")

    def _number(self, name: str, default: N, low: int, high: int, parse: Callable[[str], N], kind: str) -> N:
        given = self._configs.get(name)
        if given is None:
            return default
        try:
            value = parse(given)
        except ValueError:
            raise self._invalid(name, kind) from None
        if not low <= value <= high:
            raise self._invalid(name, f"from {low} to {high}")
        return value

    def _invalid(self, name: str, expected: str) -> InvalidTopic:
        return InvalidTopic(f"topic {self._topic}: {name} must be {expected}, not {self._configs[name]!r}")
