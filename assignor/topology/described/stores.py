"""The stores of a described topology: which are logged, and to which topic.

The text does not say it. Kafka calls a changelog `<application id>-<store>-changelog` and creates all of them in the
first rebalance. So when some exist and one does not, its store is not logged; or, for the store of a table that is
read from one topic, that topic serves as changelog.

A leader that creates missing topics cannot conclude that: the topology may have a new store, or the leader before it
died while it was creating them. An unneeded empty changelog does no harm, a missing one stops a task. Source:
`InternalTopologyBuilder`, `TableSourceNode`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignor.errors import InputError
from assignor.topology.builder import LOGGED
from assignor.topology.definition import ProcessorNode, SourceNode, StoreDefinition, TopologyDefinition, node_groups
from assignor.topology.group_topology import ChangelogConfig, ChangelogType


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What the caller knows, by store. `source_changelogs`: the topic that serves as changelog; `retention_ms`: of
    windowed stores. `creates_missing`: whether a changelog that does not exist will be created.
    """

    not_logged: Collection[str]
    source_changelogs: Mapping[str, str]
    retention_ms: Mapping[str, int]
    creates_missing: bool = False


@dataclass(frozen=True, slots=True)
class DescribedStores:
    definitions: Mapping[str, StoreDefinition]
    assumptions: tuple[str, ...]


def described_stores(
    definition: TopologyDefinition,
    application_id: str,
    partition_counts: Mapping[str, int] | None,
    has_run: bool,
    options: StoreOptions,
) -> DescribedStores:
    """Every store that a processor uses. Raises InputError for an option that names another store, or a topic that the
    store's subtopology does not read.
    """
    users = _users(definition)
    _check_options(definition, users, options)
    there = {store for store in users if f"{application_id}-{store}-changelog" in (partition_counts or {})}
    telling = partition_counts is not None and (has_run or bool(there))
    stores: dict[str, StoreDefinition] = {}
    assumptions: list[str] = []
    guessed: list[str] = []
    for store in users:
        known = _known(store, options)
        if known is not None:
            stores[store] = known
        elif store in there or not telling or options.creates_missing:
            stores[store] = StoreDefinition(store, _changelog(store, options))
            guessed += [] if store in there else [store]
        else:
            topic = _table_topic(definition, store, users[store])
            stores[store] = StoreDefinition(store, None if topic is None else LOGGED, topic)
            what = "not logged" if topic is None else f"restored from its source topic {topic}"
            assumptions.append(
                f"{application_id}-{store}-changelog is not on the cluster: store {store} assumed to be {what}"
            )
    if guessed:
        assumptions.append(f"assumed to be logged, each to a changelog of its own: {', '.join(guessed)}")
    plain = [store for store in users if stores[store] == StoreDefinition(store) and store not in there]
    if plain:
        assumptions.append(
            f"changelogs are assumed to be compacted only, give retention_ms of windowed stores: {', '.join(plain)}"
        )
    return DescribedStores(stores, tuple(assumptions))


def _known(store: str, options: StoreOptions) -> StoreDefinition | None:
    if store in options.source_changelogs:
        return StoreDefinition(store, LOGGED, options.source_changelogs[store])
    return StoreDefinition(store, None) if store in options.not_logged else None


def _changelog(store: str, options: StoreOptions) -> ChangelogConfig:
    retention_ms = options.retention_ms.get(store)
    return LOGGED if retention_ms is None else ChangelogConfig(ChangelogType.WINDOWED, retention_ms=retention_ms)


def _users(definition: TopologyDefinition) -> dict[str, list[ProcessorNode]]:
    """The processors that use a store, in the order added."""
    global_nodes = definition.global_nodes()
    users: dict[str, list[ProcessorNode]] = {}
    for name, node in definition.nodes.items():
        if isinstance(node, ProcessorNode) and name not in global_nodes:
            for store in node.stores:
                users.setdefault(store, []).append(node)
    return users


def _table_topic(definition: TopologyDefinition, store: str, users: Sequence[ProcessorNode]) -> str | None:
    """The one topic, not an internal one, of the source right above the processor that fills a table's store.

    That processor is recognised by the DSL's name, or by its store's name, which contains the topic, or because it is
    the only one.
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


def _check_options(
    definition: TopologyDefinition, users: Mapping[str, Sequence[ProcessorNode]], options: StoreOptions
) -> None:
    _check_names(users, "not_logged", options.not_logged)
    _check_names(users, "source_changelogs", options.source_changelogs)
    _check_names(users, "retention_ms", options.retention_ms)
    groups = [frozenset(names) for names in node_groups(definition).values()]
    for store, topic in options.source_changelogs.items():
        where = f"source_changelogs[{store!r}]"
        if store in options.not_logged:
            raise InputError("is also given as not logged", where)
        group = next(names for names in groups if users[store][0].name in names)
        nodes = [definition.nodes[name] for name in group]
        if not any(isinstance(node, SourceNode) and topic in node.topics for node in nodes):
            raise InputError(f"{topic} is not read in the subtopology of {store}", where)


def _check_names(stores: Collection[str], option: str, names: Iterable[str]) -> None:
    for name in names:
        if name not in stores:
            near = difflib.get_close_matches(name, stores, 1)
            raise InputError(f"no processor uses a store {name}{f'; is it {near[0]}?' if near else ''}", option)
