"""Facts of an application's topology that the text of `Topology#describe` lacks, from options of the command line.

| option | fact |
|---|---|
| `--store STORE=not-logged` | the store has no changelog |
| `--store STORE=topic:NAME` | the store is restored from this topic, which the application reads; it has no changelog |
| `--store STORE=key-value` | the store is neither windowed nor versioned |
| `--store STORE=retention.ms:N` | windowed; the changelog keeps windowstore.changelog.additional.retention.ms more |
| `--store STORE=history.retention.ms:N` | the store is versioned |
| `--copartitioned A,B` | Kafka requires these topics to have equal numbers of partitions, as for a join |
| `--not-copartitioned A,B` | Kafka does not require it: the processor that both topics lead to is the user's own |

The application's `topology.optimization` says whether the tables of the DSL are restored from their source topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assignor.errors import InputError
from kafka_groups.described.copartition import COPARTITIONED, NOT_COPARTITIONED, CopartitionFacts
from kafka_groups.described.stores import StoreFacts

TOPOLOGY_OPTIMIZATION = "topology.optimization"
_REUSES_SOURCE_TOPICS = frozenset({"all", "reuse.ktable.source.topics"})
_OPTIMIZATIONS = _REUSES_SOURCE_TOPICS | {"none", "merge.repartition.topics", "single.store.self.join"}
_STORE_FORMS = (
    "STORE=not-logged, STORE=topic:NAME, STORE=key-value, STORE=retention.ms:N or STORE=history.retention.ms:N"
)


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """`stores`, `copartition`: see `topology_from_description`."""

    stores: StoreFacts = field(default_factory=StoreFacts)
    copartition: CopartitionFacts = field(default_factory=CopartitionFacts)

    def check_unused(self, path: str) -> None:
        """Raises InputError when options add facts to a topology that `path` already has in full."""
        for option, facts in (("--store", self.stores), (COPARTITIONED, self.copartition)):
            if facts:
                raise InputError(f"goes with the text of Topology#describe only; {path} already has it all", option)


def topology_facts(
    stores: Sequence[str] = (),
    copartitioned: Sequence[str] = (),
    not_copartitioned: Sequence[str] = (),
    optimization: str | None = None,
) -> TopologyFacts:
    """`optimization`: the application's `topology.optimization`; None when its properties are not known. Raises
    InputError."""
    return TopologyFacts(
        _stores(stores, None if optimization is None else _reuses_source_topics(optimization)),
        CopartitionFacts(_topics(copartitioned, COPARTITIONED), _topics(not_copartitioned, NOT_COPARTITIONED)),
    )


def _reuses_source_topics(optimization: str) -> bool:
    chosen = {each.strip() for each in optimization.split(",")}
    if not chosen <= _OPTIMIZATIONS:
        raise InputError(f"must be of {', '.join(sorted(_OPTIMIZATIONS))}, not {optimization!r}", TOPOLOGY_OPTIMIZATION)
    return not chosen.isdisjoint(_REUSES_SOURCE_TOPICS)


def _topics(options: Sequence[str], option: str) -> tuple[frozenset[str], ...]:
    groups = tuple(frozenset(filter(None, (topic.strip() for topic in text.split(",")))) for text in options)
    for text, group in zip(options, groups, strict=True):
        if len(group) < 2:
            raise InputError(f"must be at least two topics, as A,B, not {text!r}", option)
    return groups


def _stores(options: Sequence[str], reuses_source_topics: bool | None) -> StoreFacts:
    """Each option is `STORE=WHAT`, as above."""
    facts_by_store: dict[str, str] = {}
    names: dict[str, set[str]] = {"not-logged": set(), "key-value": set()}
    topics: dict[str, str] = {}
    times: dict[str, dict[str, int]] = {"retention.ms": {}, "history.retention.ms": {}}
    for option in options:
        store, _, fact = option.partition("=")
        kind, _, value = fact.partition(":")
        if store in facts_by_store:
            raise InputError(f"{store} is given twice", "--store")
        facts_by_store[store] = fact
        if store and fact in names:
            names[fact].add(store)
        elif store and kind == "topic" and value:
            topics[store] = value
        elif store and kind in times and value.isascii() and value.isdecimal():
            times[kind][store] = int(value)
        else:
            raise InputError(f"must be {_STORE_FORMS}, not {option!r}", "--store")
    return StoreFacts(
        not_logged=frozenset(names["not-logged"]),
        source_changelogs=topics,
        retention_ms=times["retention.ms"],
        history_retention_ms=times["history.retention.ms"],
        key_value=frozenset(names["key-value"]),
        reuses_source_topics=reuses_source_topics,
    )
