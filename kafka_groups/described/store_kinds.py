"""Which kind a store of a described topology is: key-value, windowed or versioned. Pure.

By names: the DSL generates a name for each store that the user does not name, and the name shows the call. Only a table
can be versioned, and only with a store of the user's own, which has the user's name. A store that the user named can be
what the processors that use it allow. How long a windowed or versioned store keeps its records is in no name.

By the configs of an existing changelog: only Kafka Streams sets them when it creates the topic, and each kind of store
leaves its own mark: a windowed one deletes by time with the store's retention, a versioned one keeps records from
compaction for a while. What the application's `topic.` configs set on every internal topic marks nothing. All other
configs count as the store's own (`withLoggingEnabled`), so a changelog that was deleted is created again as it was.

Source: `KStreamImplJoin`, `KStreamImpl`, `KTableImpl`, `KGroupedStreamImpl`, `InternalStreamsBuilder.newStoreName`;
`WindowedChangelogTopicConfig`, `VersionedChangelogTopicConfig`, `UnwindowedUnversionedChangelogTopicConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from assignor.configs import AssignmentConfigs
from assignor.topology.definition import ProcessorNode
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from assignor.topology.internal_topics import (
    CLEANUP_POLICY,
    MIN_COMPACTION_LAG_MS,
    RETENTION_MS,
    VERSIONED_ADDITIONAL_COMPACTION_LAG_MS,
    InternalTopic,
)

StoreKinds = tuple[ChangelogType, ...]
"""Those that are possible, in the order of `ChangelogType`."""

KEY_VALUE: StoreKinds = (ChangelogType.UNWINDOWED,)
_TABLE: StoreKinds = (ChangelogType.UNWINDOWED, ChangelogType.VERSIONED)
_AGGREGATE: StoreKinds = (ChangelogType.UNWINDOWED, ChangelogType.WINDOWED)
JOIN_WINDOW: StoreKinds = (ChangelogType.WINDOWED,)
_ANY: StoreKinds = tuple(ChangelogType)

_NUMBER = r"-\d{10}"
_AGGREGATE_STORE = re.compile(rf"(?:COGROUP)?KSTREAM-(?:AGGREGATE|REDUCE)-STATE-STORE{_NUMBER}", re.ASCII)
_GENERATED_STORE = re.compile(rf".+-STATE-STORE{_NUMBER}", re.ASCII)
_JOIN_WINDOW_STORE = re.compile(
    rf"(?:KSTREAM-(?:JOIN|OUTER)(?:THIS|OTHER){_NUMBER}|.+-(?:outer-)?(?:this|other)-join)-store", re.ASCII
)
_JOIN_HELPER = re.compile(rf"KSTREAM-OUTERSHARED{_NUMBER}-store|.+-(?:outer|left)-shared-join-store", re.ASCII)
_FOREIGN_KEY_STORE = re.compile(r"(.+)-subscription-store", re.ASCII)
_JOIN_WINDOW_USER = re.compile(rf"KSTREAM-WINDOWED{_NUMBER}|.+-(?:this|other)-windowed", re.ASCII)
_TABLE_USER = re.compile(rf"(?:KTABLE-[A-Z-]+|KSTREAM-TOTABLE){_NUMBER}", re.ASCII)


def possible_kinds(store: str, users: Sequence[ProcessorNode], repartition_topics: Collection[str]) -> StoreKinds:
    """`users`: the processors that use the store, the one that fills it first. `repartition_topics`: of the topology,
    under their short names.
    """
    if _AGGREGATE_STORE.fullmatch(store):
        return _AGGREGATE
    foreign_key = _FOREIGN_KEY_STORE.fullmatch(store)
    if foreign_key and f"{foreign_key[1]}-subscription-registration-topic" in repartition_topics:
        return KEY_VALUE
    is_buffer = store == f"{users[0].name}-Buffer"  # of a stream's records that wait for a table with a grace period
    if is_buffer or _GENERATED_STORE.fullmatch(store) or _JOIN_HELPER.fullmatch(store):
        return KEY_VALUE
    if _JOIN_WINDOW_STORE.fullmatch(store) or any(_JOIN_WINDOW_USER.fullmatch(user.name) for user in users):
        return JOIN_WINDOW
    return _TABLE if _TABLE_USER.fullmatch(users[0].name) else _ANY


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
