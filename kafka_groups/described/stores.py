"""Finds the stores of a described topology. Determines the changelog topic and the kind of each store. Also determines
whether the store is logged. The kind of a store is key-value, windowed or versioned.

The text of `Topology#describe` does not show whether a store is logged. Kafka names a changelog `<application
id>-<store>-changelog` and creates all changelogs in the first rebalance. So if some changelogs exist, a store without a
changelog is assumed not to be logged. A table is an exception: if it is read from one topic, this topic may serve as
the changelog of the table's store. The text does not show the kind of a store either. The configs of the store's
changelog show the kind. If the changelog does not exist, the store's name may show the kind.

If the leader creates missing topics, it treats a store without a changelog as logged. The changelog may be missing for
two reasons: the store is new, or the previous leader failed before it created the changelog. An unneeded empty
changelog does no harm, but a missing changelog stops a task. If the kind of a store is unknown, its changelog gets safe
configs. With these configs, the brokers delete no record that the store may need. Source: `InternalTopologyBuilder`,
`TableSourceNode`.

The name of a store can show its kind. If the user does not name a store, the DSL generates a name that shows the DSL
call. A store that the user has named can have any kind that its processors allow. A versioned store always belongs to a
table. The user always supplies and names a versioned store. No name shows the retention of a windowed or versioned
store.

The configs of an existing changelog show the kind, because Kafka Streams sets them when it creates the topic. Each kind
of store has different changelog configs. For a windowed store, the brokers delete records that are older than the
store's retention. For a versioned store, the brokers delay compaction. If the application sets a config on every
internal topic (`topic.` configs), this config does not show the kind of a store. All other configs are assumed to come
from the store's definition (`withLoggingEnabled`). If the changelog is deleted, it is created again with these configs.

Source: `KStreamImplJoin`, `KStreamImpl`, `KTableImpl`, `KGroupedStreamImpl`, `InternalStreamsBuilder.newStoreName`;
`WindowedChangelogTopicConfig`, `VersionedChangelogTopicConfig`, `UnwindowedUnversionedChangelogTopicConfig`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.names.near_names import near_name
from assignor.topology.builder import LOGGED
from assignor.topology.definition import ProcessorNode, SourceNode, StoreDefinition, TopologyDefinition, node_groups
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from assignor.topology.internal_topics import (
    CLEANUP_POLICY,
    MIN_COMPACTION_LAG_MS,
    RETENTION_MS,
    VERSIONED_ADDITIONAL_COMPACTION_LAG_MS,
    InternalTopic,
)

StoreKinds = tuple[ChangelogType, ...]
"""The kinds that a store can have, in the order of `ChangelogType`."""

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
    """Returns the kinds that the store can have according to the names of the store and of its processors. `users`: the
    processors that use the store; the first processor fills the store. `repartition_topics`: the repartition topics of
    the topology; their names lack the application id.
    """
    if _AGGREGATE_STORE.fullmatch(store):
        return _AGGREGATE
    foreign_key = _FOREIGN_KEY_STORE.fullmatch(store)
    if foreign_key and f"{foreign_key[1]}-subscription-registration-topic" in repartition_topics:
        return KEY_VALUE
    is_buffer = store == f"{users[0].name}-Buffer"  # the buffer of a stream-table join with a grace period
    if is_buffer or _GENERATED_STORE.fullmatch(store) or _JOIN_HELPER.fullmatch(store):
        return KEY_VALUE
    if _JOIN_WINDOW_STORE.fullmatch(store) or any(_JOIN_WINDOW_USER.fullmatch(user.name) for user in users):
        return JOIN_WINDOW
    return _TABLE if _TABLE_USER.fullmatch(users[0].name) else _ANY


_DELETES = "delete"
_OF_A_REASSIGNMENT = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""The configs that `kafka-reassign-partitions` sets while it moves replicas."""


def changelog_of_configs(own: Mapping[str, str], configs: AssignmentConfigs) -> ChangelogConfig:
    """Determines the kind of a changelog from its configs. The result also has the configs that do not follow from the
    kind of the store. `own`: the configs that are set on the topic itself, without the brokers' defaults. `configs`:
    the application's configs.

    A topic that is created from the result has the same configs as this changelog. If this changelog does not set a
    config, the new topic gets the default of Kafka Streams.
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
    """Returns the value of a config of the topic, in milliseconds. Returns None if the config is not set on the topic,
    or if the application sets the same value on all internal topics.
    """
    value = own.get(key)
    return None if value is None or value == for_all.get(key) else int(value)


def _same(key: str, one: str, other: str) -> bool:
    """Returns True if two values of a config are equal. For cleanup policies, the order does not matter, because
    brokers may return them in any order.
    """
    return _policies(one) == _policies(other) if key == CLEANUP_POLICY else one == other


def _policies(value: str) -> frozenset[str]:
    return frozenset(value.replace(" ", "").split(","))


_KIND_TEXTS = {
    ChangelogType.UNWINDOWED: "key-value",
    ChangelogType.WINDOWED: "windowed",
    ChangelogType.VERSIONED: "versioned",
}
_DSL_TABLE = re.compile(r"KTABLE-SOURCE-\d{10}|.+-table-source", re.ASCII | re.DOTALL)
_GENERATED_NODE = re.compile(r"(?:COGROUP)?K(?:STREAM|TABLE)-[A-Z-]+-\d{10}", re.ASCII)
_NEVER_COMPACTED = {CLEANUP_POLICY: "delete"}
"""The cleanup policy for the changelog of a window store that belongs to a join. This changelog must not be compacted,
because the store contains several records with the same key. Source: `StreamJoinedStoreFactory`.
"""
_KEPT_FOR_EVER = ChangelogConfig(ChangelogType.WINDOWED, {**_NEVER_COMPACTED, RETENTION_MS: "-1"})
_FIELDS_BY_STORE = ("not_logged", "source_changelogs", "retention_ms", "history_retention_ms", "key_value")


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The caller's facts about stores. The text of `Topology#describe` does not have these facts.

    `not_logged`: the names of stores without a changelog. `source_changelogs`: the source topic that serves as
    changelog, by store name. `retention_ms`: the retention of windowed stores and session stores, by store name.
    `history_retention_ms`: the history retention of versioned stores, by store name. `key_value`: the names of stores
    that are neither windowed nor versioned. `reuses_source_topics`: True if the DSL's tables are restored from their
    source topics (`topology.optimization`); None if the application's setting is not known.
    """

    not_logged: Collection[str] = frozenset()
    source_changelogs: Mapping[str, str] = field(default_factory=dict)
    retention_ms: Mapping[str, int] = field(default_factory=dict)
    history_retention_ms: Mapping[str, int] = field(default_factory=dict)
    key_value: Collection[str] = frozenset()
    reuses_source_topics: bool | None = None

    def stores(self) -> frozenset[str]:
        """Returns the names of all stores that have a fact."""
        return frozenset(store for each in _FIELDS_BY_STORE for store in getattr(self, each))

    def __bool__(self) -> bool:
        """Returns True if at least one store has a fact."""
        return bool(self.stores())


@dataclass(frozen=True, slots=True)
class SeenChangelogs:
    """The topics of the cluster, and the configs of the changelog topics. `partition_counts`: the number of partitions
    of each topic; None if the topics were not read. `changelog_configs`: for each changelog topic, the configs that are
    set on the topic; None if no configs were read. `configs`: the application's configs.
    """

    partition_counts: Mapping[str, int] | None = None
    changelog_configs: Mapping[str, Mapping[str, str]] | None = None
    configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)


@dataclass(frozen=True, slots=True)
class DescribedStores:
    """The stores of a topology and the assumptions about them. `unknown_kind`: a text for each store of unknown kind,
    such as `counts (key-value or windowed)`. `assumed`: the names of all stores for which the logging, the changelog
    topic or the kind was assumed.
    """

    definitions: Mapping[str, StoreDefinition]
    assumptions: tuple[str, ...]
    unknown_kind: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


def described_stores(
    definition: TopologyDefinition,
    application_id: str,
    seen: SeenChangelogs,
    facts: StoreFacts,
    *,
    has_run: bool = False,
    creates_missing: bool = False,
) -> DescribedStores:
    """Returns the definitions of all stores that processors use. `topology_from_description` describes `has_run` and
    `creates_missing`.

    Raises InputError if the facts contradict each other, name an unknown store, or name a topic that the store's
    subtopology does not read. Also raises InputError if the caller would create a changelog that the store may not
    need.
    """
    users = users_of_stores(definition)
    named = facts.stores()
    _check_facts(definition, users, facts)
    topics = {store: f"{application_id}-{store}-changelog" for store in users}
    there = {store for store, topic in topics.items() if topic in (seen.partition_counts or {})}
    shows_changelogs = seen.partition_counts is not None and (has_run or bool(there))
    stores: dict[str, StoreDefinition] = {}
    assumptions: list[str] = []
    guessed: list[str] = []
    unknown: list[str] = []
    endless: list[str] = []
    assumed: list[str] = []
    open_: dict[str, str] = {}
    for store in users:
        reusable = None if store in there or store in named else _reusable_topic(definition, users[store])
        known = _known(store, facts)
        if reusable is not None:
            topic, is_certain = reusable
            if is_certain and facts.reuses_source_topics:
                known = StoreDefinition(store, LOGGED, topic)
            elif creates_missing and (facts.reuses_source_topics is None or not is_certain):
                open_[store] = topic
        if store not in named and (store not in there or topics[store] not in (seen.changelog_configs or {})):
            assumed.append(store)
        if known is not None:
            stores[store] = known
        elif store in there or not shows_changelogs or creates_missing:
            kinds = possible_kinds(store, users[store], definition.repartition_topics)
            changelog = _changelog(store, topics[store], seen, facts, kinds)
            stores[store] = StoreDefinition(store, changelog or (_KEPT_FOR_EVER if kinds == JOIN_WINDOW else LOGGED))
            guessed += [] if store in there else [store]
            if changelog is None and not (store in there and seen.changelog_configs is None):
                (endless if kinds == JOIN_WINDOW else unknown).append(f"{store} ({_kinds_text(kinds)})")
        else:
            table_topic = _table_topic(definition, store, users[store])
            stores[store] = StoreDefinition(store, None if table_topic is None else LOGGED, table_topic)
            what = "not logged" if table_topic is None else f"restored from its source topic {table_topic}"
            assumptions.append(f"{topics[store]} is not on the cluster: store {store} assumed to be {what}")
    if open_:
        raise InputError(_ambiguous_changelogs(open_), "stores")
    if guessed:
        assumptions.append(f"assumed to be logged, each to a changelog of its own: {', '.join(guessed)}")
    if unknown:
        assumptions.append(f"not known which they are, changelogs assumed to be compacted only: {', '.join(unknown)}")
    if endless:
        assumptions.append(f"windows of joins, changelogs assumed to delete nothing: {', '.join(endless)}")
    return DescribedStores(stores, tuple(assumptions), (*unknown, *endless), tuple(assumed))


def _reusable_topic(definition: TopologyDefinition, users: Sequence[ProcessorNode]) -> tuple[str, bool] | None:
    """Returns the source topic that may serve as the changelog of a store; None if there is no such topic. The second
    value is True for the store of a DSL table. In an optimized topology, the topic always serves as the changelog of
    this store. The second value is False for a store that may be read-only. A store may be read-only if its processor
    has a user-given name, reads one topic and forwards no records.
    """
    for user in users:
        read = definition.source_topics(user.parents[0]) if len(user.parents) == 1 else ()
        if len(read) != 1 or read[0] in definition.repartition_topics:
            continue
        if _DSL_TABLE.fullmatch(user.name):
            return read[0], True
        if not _GENERATED_NODE.fullmatch(user.name) and not any(
            user.name in node.parents for node in definition.nodes.values()
        ):
            return read[0], False
    return None


def _ambiguous_changelogs(open_: Mapping[str, str]) -> str:
    stores = ", ".join(f"{store} (of topic {topic})" for store, topic in open_.items())
    one, topic = next(iter(open_.items()))
    return (
        f"not known whether they have a changelog of their own or are restored from their source topic: {stores}. With "
        "topology.optimization=all a table is restored from its topic, and a read-only store always is: give the "
        "application's properties with --config-file, or --config topology.optimization=none or all, or for each store "
        f"one of --store {one}=topic:{topic} and --store {one}=key-value"
    )


def _known(store: str, facts: StoreFacts) -> StoreDefinition | None:
    if store in facts.source_changelogs:
        return StoreDefinition(store, LOGGED, facts.source_changelogs[store])
    return StoreDefinition(store, None) if store in facts.not_logged else None


def _changelog(
    store: str, topic: str, seen: SeenChangelogs, facts: StoreFacts, kinds: StoreKinds
) -> ChangelogConfig | None:
    """Returns the configs of the changelog. The caller's facts determine the configs. If the caller gives no facts, the
    cluster determines the configs. If the cluster does not show the configs, the store's name determines them. Returns
    None if neither the facts nor the cluster nor the name show the configs.
    """
    if store in facts.retention_ms:
        own_policy = _NEVER_COMPACTED if kinds == JOIN_WINDOW else {}
        return ChangelogConfig(ChangelogType.WINDOWED, own_policy, retention_ms=facts.retention_ms[store])
    if store in facts.history_retention_ms:
        return ChangelogConfig(ChangelogType.VERSIONED, min_compaction_lag_ms=facts.history_retention_ms[store])
    if store in facts.key_value:
        return LOGGED
    own = (seen.changelog_configs or {}).get(topic)
    if own is not None:
        return changelog_of_configs(own, seen.configs)
    return LOGGED if kinds == KEY_VALUE else None


def _kinds_text(kinds: StoreKinds) -> str:
    texts = [_KIND_TEXTS[kind] for kind in kinds]
    if len(texts) == 1:
        return f"{texts[0]}, retention not known"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def users_of_stores(definition: TopologyDefinition) -> dict[str, list[ProcessorNode]]:
    """Returns, for each store, the processors that use it. The processors are in the order in which they were added."""
    global_nodes = definition.global_nodes()
    users: dict[str, list[ProcessorNode]] = {}
    for name, node in definition.nodes.items():
        if isinstance(node, ProcessorNode) and name not in global_nodes:
            for store in node.stores:
                users.setdefault(store, []).append(node)
    return users


def _table_topic(definition: TopologyDefinition, store: str, users: Sequence[ProcessorNode]) -> str | None:
    """Returns the topic from which the store of a table is filled. Returns None if the store is filled from several
    topics or from an internal topic.

    The processor that fills the store is found by its generated name. Otherwise this processor is found by the store's
    name, which contains the name of the topic. If the names do not help, and only one processor of the store reads a
    single topic, this processor is assumed to fill the store.
    """
    topics: dict[str, str] = {}
    for user in users:
        read = definition.source_topics(user.parents[0]) if len(user.parents) == 1 else ()
        if len(read) == 1 and read[0] not in definition.repartition_topics and not user.name.startswith("KSTREAM-"):
            topics[user.name] = read[0]
    for name, topic in topics.items():
        if name.startswith("KTABLE-SOURCE-") or store.startswith(f"{topic}-STATE-STORE-"):
            return topic
    return next(iter(topics.values())) if len(topics) == 1 else None


def _check_facts(
    definition: TopologyDefinition, users: Mapping[str, Sequence[ProcessorNode]], facts: StoreFacts
) -> None:
    for option in _FIELDS_BY_STORE:
        for name in getattr(facts, option):
            if name not in users:
                near = near_name(name, users)
                raise InputError(f"no processor uses a store {name}{f'; is it {near}?' if near else ''}", option)
    groups = [frozenset(names) for names in node_groups(definition).values()]
    for store, topic in facts.source_changelogs.items():
        where = f"source_changelogs[{store!r}]"
        if store in facts.not_logged:
            raise InputError("is also given as not logged", where)
        group = next(names for names in groups if users[store][0].name in names)
        nodes = [definition.nodes[name] for name in group]
        if not any(isinstance(node, SourceNode) and topic in node.topics for node in nodes):
            raise InputError(f"{topic} is not read in the subtopology of {store}", where)
    for store in facts.history_retention_ms:
        if store in facts.retention_ms:
            raise InputError("is also given as windowed", f"history_retention_ms[{store!r}]")
