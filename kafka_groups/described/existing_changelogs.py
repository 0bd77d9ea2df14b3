"""What the configs of an existing changelog tell about its store: key-value, windowed or versioned. Pure.

Only Kafka Streams sets these configs when it creates the topic, and each kind of store leaves its own mark: a windowed
one deletes by time with the store's retention, a versioned one keeps records from compaction for a while. What the
application's `topic.` configs set on every internal topic marks nothing. All other configs count as the store's own
(`withLoggingEnabled`), so a changelog that was deleted is created again as it was.
Source: `WindowedChangelogTopicConfig`, `VersionedChangelogTopicConfig`, `UnwindowedUnversionedChangelogTopicConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assignor.configs import AssignmentConfigs
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from assignor.topology.internal_topics import (
    CLEANUP_POLICY,
    MIN_COMPACTION_LAG_MS,
    RETENTION_MS,
    VERSIONED_ADDITIONAL_COMPACTION_LAG_MS,
    InternalTopic,
)

_DELETES = "delete"
_OF_A_REASSIGNMENT = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""What `kafka-reassign-partitions` sets for as long as it moves replicas."""


def changelog_of_configs(own: Mapping[str, str], configs: AssignmentConfigs) -> ChangelogConfig:
    """`own`: the configs set on the topic itself, without the brokers' defaults. `configs`: the application's.

    A topic created from the result has the configs of `own`, and the library's own where `own` lacks them.
    """
    kind = _kind(own, configs)
    expected = InternalTopic("changelog", changelog=kind).configs(configs)
    rest = {
        key: value
        for key, value in own.items()
        if key not in _OF_A_REASSIGNMENT and not _same(key, value, expected.get(key, ""))
    }
    return replace(kind, configs=dict(sorted(rest.items())))


def _kind(own: Mapping[str, str], configs: AssignmentConfigs) -> ChangelogConfig:
    for_all = configs.topic_configs
    retention_ms = _time_ms(RETENTION_MS, own, for_all)
    deletes = _DELETES in _policies(own.get(CLEANUP_POLICY, ""))
    if retention_ms is not None and (deletes or CLEANUP_POLICY in for_all):
        store_ms = retention_ms - configs.window_store_additional_retention_ms
        return ChangelogConfig(ChangelogType.WINDOWED, retention_ms=max(0, store_ms))
    lag_ms = _time_ms(MIN_COMPACTION_LAG_MS, own, for_all)
    if lag_ms is not None and lag_ms >= VERSIONED_ADDITIONAL_COMPACTION_LAG_MS:
        store_ms = lag_ms - VERSIONED_ADDITIONAL_COMPACTION_LAG_MS
        return ChangelogConfig(ChangelogType.VERSIONED, min_compaction_lag_ms=store_ms)
    return ChangelogConfig()


def _time_ms(key: str, own: Mapping[str, str], for_all: Mapping[str, str]) -> int | None:
    """None when the topic does not set it, or sets what the application sets on all of its internal topics."""
    value = own.get(key)
    return None if value is None or value == for_all.get(key) else int(value)


def _same(key: str, one: str, other: str) -> bool:
    """Policies in any order are equal: a broker may return them as it keeps them."""
    return _policies(one) == _policies(other) if key == CLEANUP_POLICY else one == other


def _policies(value: str) -> frozenset[str]:
    return frozenset(value.replace(" ", "").split(","))
