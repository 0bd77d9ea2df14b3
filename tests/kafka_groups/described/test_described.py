"""The text of `Topology#describe` gives the topology that it was printed from, or says what the text cannot tell.

Two sets of texts are Kafka's own, each with the topics that Kafka's builder made: those of the DSL's tests, written in
our DSL as well, and `described_by_kafka/`, printed by Kafka's `StreamsBuilder` and `Topology` 4.3.1.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.description import describe
from assignor.topology.group_topology import ChangelogConfig, ChangelogType, GroupTopology, SubtopologyStore
from assignor.topology.internal_topics import InternalTopicCatalog, prepare_repartition_topics
from kafka_groups.described.described_topology import DescribedTopology, topology_from_description
from kafka_groups.described.graph import described_graph
from kafka_groups.described.stores import StoreFacts
from kafka_groups.described.text import read_description
from tests.assignor.topology.kafka_topologies import kafka_topologies
from tests.streams_runtime.dsl.test_topologies import ALL, built
from tests.streams_runtime.dsl.test_topologies import KAFKA as DSL
from tests.streams_runtime.dsl.topologies import Case

KAFKA = Path(__file__).with_name("described_by_kafka")
TEXTS = Path(__file__).with_name("texts")
TOPICS: dict[str, dict[str, Any]] = json.loads((KAFKA / "topics.json").read_text())
OTHERWISE: dict[str, list[list[str]]] = {"own_processors": [["a", "b"]]}
"""Co-partitioned here, not so in Kafka: topics with equal counts whose processors share a store, under names of the
user's own, as those of joins can be."""
OURS_KEEPS = {"two_joins_share_a_repartition_topic": ("table-b",)}
"""Topics that our DSL keeps co-partitioned and Kafka's does not: of the second join of one stream, its builder notes a
source that becomes no node."""

JOIN_WINDOW_STORE = re.compile(r"KSTREAM-(JOIN|OUTER)(THIS|OTHER)-\d+-store|.+-(this|other)-join-store")
KEPT_FOR_EVER = ChangelogConfig(ChangelogType.WINDOWED, {"cleanup.policy": "delete", "retention.ms": "-1"})
"""The config for a store of a join of two streams, whose windows the text does not show."""
ORDER_NOT_SHOWN = {"self_joins"}
"""Topologies in which a source has several children that are both inputs of one join. The text does not show in which
order the graph got them."""

WORD_COUNT = (DSL / "word_count.txt").read_text()
COUNTS = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"


def comparable(topology: GroupTopology) -> GroupTopology:
    """Stores by name; without groups of one topic, which ask for nothing and which the text cannot show."""
    return replace(
        topology,
        subtopologies=tuple(
            replace(each, stores=tuple(sorted(each.stores, key=lambda store: store.name)))
            for each in topology.subtopologies
        ),
        copartition_groups=tuple(group for group in topology.copartition_groups if len(group) > 1),
    )


def as_in_kafka(name: str, topology: GroupTopology) -> GroupTopology:
    """Without what only our DSL keeps together."""
    kept = OURS_KEEPS.get(name, ())
    groups = (tuple(topic for topic in group if topic not in kept) for group in topology.copartition_groups)
    return replace(topology, copartition_groups=tuple(groups))


def topics_of_a_cluster(topology: GroupTopology) -> dict[str, int]:
    """Partitions once the topology has run: 3 of every source topic, internal ones as Kafka makes them."""
    repartition = {topic.name for each in topology.subtopologies for topic in each.repartition_source_topics}
    topics = {topic: 3 for each in topology.subtopologies for topic in (*each.source_topics, *each.sink_topics)}
    outside = {name: TopicMetadata(count) for name, count in topics.items() if name not in repartition}
    ready = prepare_repartition_topics(
        topology, Cluster((), outside), InternalTopicCatalog(), AssignmentConfigs()
    ).ready
    stores = [store for each in topology.subtopologies for store in each.stores]
    changelogs = {store.changelog_topic: 3 for store in stores if store.changelog_topic is not None}
    return {name: topics[name] for name in outside} | dict(ready) | changelogs


def retention_ms(topology: GroupTopology) -> dict[str, int]:
    return {
        store.name: store.changelog.retention_ms
        for each in topology.subtopologies
        for store in each.stores
        if store.changelog is not None and store.changelog.retention_ms is not None
    }


@pytest.mark.parametrize("name, case, optimize", ALL, ids=[name for name, _, _ in ALL])
def test_should_give_the_topology_of_our_dsl_when_the_cluster_is_known(name: str, case: Case, optimize: bool) -> None:
    expected = built(case, optimize).builder.build("app")
    described = topology_from_description(
        (DSL / f"{name}.txt").read_text(),
        "app",
        topics_of_a_cluster(expected),
        stores=StoreFacts(retention_ms=retention_ms(expected)),
        has_run=True,
    )

    assert comparable(described.topology) == comparable(as_in_kafka(name, expected))


@pytest.mark.parametrize("name, case, optimize", ALL, ids=[name for name, _, _ in ALL])
def test_should_name_every_difference_when_only_the_text_is_known(name: str, case: Case, optimize: bool) -> None:
    expected = comparable(as_in_kafka(name, built(case, optimize).builder.build("app")))
    described = topology_from_description((DSL / f"{name}.txt").read_text(), "app")
    topology, said = comparable(described.topology), " ".join(described.assumptions)

    assert topology.copartition_groups == expected.copartition_groups
    for ours, theirs in zip(topology.subtopologies, expected.subtopologies, strict=True):
        assert replace(ours, stores=(), repartition_source_topics=()) == replace(
            theirs, stores=(), repartition_source_topics=()
        )
        for topic, wanted in zip(ours.repartition_source_topics, theirs.repartition_source_topics, strict=True):
            assert topic.name == wanted.name
            assert topic.partitions is None
            assert f"no fixed count: {topic.name}" in said or f", {topic.name}" in said
        for store, other in zip(ours.stores, theirs.stores, strict=True):
            config = KEPT_FOR_EVER if JOIN_WINDOW_STORE.fullmatch(store.name) else ChangelogConfig()
            assert store == SubtopologyStore(store.name, f"app-{store.name}-changelog", None, config)
            assert store.name == other.name
            assert store.name in said


@pytest.mark.parametrize("name", TOPICS)
@pytest.mark.parametrize("cluster_known", [True, False])
def test_should_need_the_topics_that_kafka_does(name: str, cluster_known: bool) -> None:
    expected = TOPICS[name]
    parts = expected["subtopologies"].values()
    repartition = {topic for part in parts for topic in part["repartition"]}
    topics = {
        topic: 6 for part in parts for topic in (*part["sources"], *part["changelogs"]) if topic not in repartition
    }
    known = topics if cluster_known or name == "patterns" else None
    described = topology_from_description((KAFKA / f"{name}.txt").read_text(), "app", known)
    not_known = {"app-unlogged-changelog"} if name == "process_shared_store" and not cluster_known else set()

    assert {
        str(each.id): {
            "sources": sorted(each.source_topics),
            "sinks": sorted(each.sink_topics),
            "repartition": sorted(topic.name for topic in each.repartition_source_topics),
            "changelogs": {store.changelog_topic for store in each.stores if store.changelog_topic} - not_known,
        }
        for each in described.topology.subtopologies
    } == {number: {**part, "changelogs": set(part["changelogs"])} for number, part in expected["subtopologies"].items()}
    assert sorted(sorted(group) for group in comparable(described.topology).copartition_groups) == OTHERWISE.get(
        name, [group for group in expected["copartition"] if len(group) > 1]
    )


@pytest.mark.parametrize("name", [name for name, _, _ in ALL if name not in ORDER_NOT_SHOWN])
def test_should_describe_what_it_read_as_kafka_did(name: str) -> None:
    text = (DSL / f"{name}.txt").read_text()

    assert describe(described_graph(read_description(text), "app", None)[0]) == text


def test_should_read_every_topology_that_kafka_described() -> None:
    """Random ones, with names and neighbours that no DSL makes. Where a node has several parents the text does not tell
    in which order they were given, so some do not come back to the letter."""
    texts = [case.output["describe"] for case in kafka_topologies() if case.output["error"] is None]
    again = [describe(described_graph(read_description(text), "app", None)[0]) for text in texts]

    assert len(texts) == 346
    assert sum(one == other for one, other in zip(texts, again, strict=True)) >= 320


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(lambda text: text.replace("    ", "\t"), id="tabs"),
        pytest.param(lambda text: f"2026-01-01 10:00:00,123 INFO  [main] app.Main - {text}\n2026 INFO up", id="logged"),
        pytest.param(lambda text: prefixed(text, "app-1  | "), id="docker compose"),
        pytest.param(lambda text: prefixed(text, "2026-01-01T10:00:00.{:06}Z stdout F "), id="containerd"),
        pytest.param(lambda text: json.dumps({"message": text, "level": "INFO"}), id="JSON"),
        pytest.param(lambda text: text.replace("Topologies:\n   ", "").replace("\n\n", "\n"), id="without the header"),
        pytest.param(lambda text: text.replace("Topologies:", "Sub-topologies:").replace("[lines]", "lines"), id="1.0"),
        pytest.param(lambda text: f"{text}\nINFO restarted\n{text}", id="twice"),
    ],
)
def test_should_read_the_text_out_of_a_log(wrap: Any) -> None:
    assert topology_from_description(wrap(WORD_COUNT), "app") == topology_from_description(WORD_COUNT, "app")


def prefixed(text: str, prefix: str) -> str:
    return "\n".join(prefix.format(number) + line for number, line in enumerate(text.split("\n")))


@pytest.mark.parametrize(
    "text, message",
    [
        ("nothing", "there is no topology in this text: expected what Topology#describe prints"),
        ("Topologies:\n", "there is no topology in this text"),
        ("Topology: orders:\n   Sub-topology: 0\n", "line 1: named topologies cannot be read"),
        (WORD_COUNT.replace("Sub-topology: 1", "Sub-topology: 2"), "line 17: expected Sub-topology: 1, not 2"),
        (WORD_COUNT[: WORD_COUNT.index("      <--")], "line 5: the line '<--' of KSTREAM-FLATMAPVALUES-0000000001 is"),
        (WORD_COUNT.split("\n\n")[0][:-60], "is the text cut off?"),
        (WORD_COUNT.replace("      --> KSTREAM-FLATMAPVALUES-0000000001\n", "", 1), "line 3: the line '-->' of"),
        (
            WORD_COUNT.replace("--> KSTREAM-FLATMAPVALUES-0000000001", "--> KSTREAM-MAP-0000000001"),
            "line 3: KSTREAM-SOURCE-0000000000 --> KSTREAM-MAP-0000000001, but Sub-topology: 0 has no such node",
        ),
        (
            WORD_COUNT.replace("--> KSTREAM-FLATMAPVALUES-0000000001", "--> none"),
            "line 5: KSTREAM-FLATMAPVALUES-0000000001 <-- KSTREAM-SOURCE-0000000000, but not "
            "KSTREAM-SOURCE-0000000000 --> KSTREAM-FLATMAPVALUES-0000000001 (line 3)",
        ),
        (
            WORD_COUNT.replace("    Processor:", "10:00 WARN late\n    Processor:", 1),
            "line 5: is no part of a topology's description, though line 6 is: '10:00 WARN late'",
        ),
        (WORD_COUNT + WORD_COUNT.replace("lines", "rows"), "line 29: differs from the topology that starts at"),
        *[(row["text"], row["message"]) for row in json.loads((TEXTS / "refused.json").read_text())],
    ],
)
def test_should_say_in_which_line_a_text_is_none(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        topology_from_description(text, "app")


def test_should_take_topics_by_pattern_from_the_cluster() -> None:
    text = (KAFKA / "patterns.txt").read_text()
    described = topology_from_description(text, "app", {"logs-b": 1, "logs-a": 2, "logs-9": 2, "__consumer_offsets": 9})

    assert set(described.topology.subtopologies[0].source_topics) == {"logs-a", "logs-b"}
    assert described.assumptions[0] == (
        "source KSTREAM-SOURCE-0000000000 reads by pattern; the topics of the cluster that fit it now are: "
        "logs-a, logs-b"
    )


def test_should_leave_out_a_subtopology_whose_pattern_fits_nothing() -> None:
    text = (KAFKA / "patterns.txt").read_text()

    assert [each.id for each in topology_from_description(text, "app", {"other": 1}).topology.subtopologies] == [1]


def test_should_refuse_a_pattern_that_python_cannot_read() -> None:
    with pytest.raises(InputError, match="line 3: the pattern of KSTREAM-SOURCE-0000000000 cannot be read here"):
        topology_from_description((KAFKA / "patterns.txt").read_text().replace("logs-[a-z]+", "logs-[a"), "app", {})


def test_should_take_a_topic_that_is_there_under_its_own_name_as_the_users() -> None:
    """Nothing keeps a user from calling a topic `...-repartition`."""
    topic = f"{COUNTS}-repartition"
    described = topology_from_description(WORD_COUNT, "app", {"lines": 2, topic: 2})

    assert [each.source_topics for each in described.topology.subtopologies] == [("lines",), (topic,)]
    assert described.topology.subtopologies[1].repartition_source_topics == ()
    assert (
        f"topic {topic} is on the cluster under just that name: assumed to be the user's own" in described.assumptions
    )


def test_should_fix_the_count_of_a_repartition_topic_that_has_another_than_follows() -> None:
    topic = f"app-{COUNTS}-repartition"
    described = topology_from_description(WORD_COUNT, "app", {"lines": 2, topic: 5})

    assert described.topology.subtopologies[1].repartition_source_topics[0].partitions == 5
    assert described.assumptions[-1] == (
        f"repartition topic {topic} has 5 partitions where 2 follow from upstream: assumed to be a fixed count"
    )


def test_should_know_that_processors_of_the_dsl_that_share_a_store_are_no_join() -> None:
    text = (KAFKA / "process_shared_store.txt").read_text()
    described = topology_from_description(text, "app", {"a": 2, "b": 3})

    assert described.topology.copartition_groups == ()


def test_should_keep_the_topics_of_a_join_together_though_one_has_grown() -> None:
    text = (TEXTS / "stream_table_join.txt").read_text()
    described = topology_from_description(text, "app", {"lines": 6, "modules": 4, "app-packages-changelog": 4})

    assert described.topology.copartition_groups == (("lines", "modules"),)


def test_should_have_a_leader_create_the_changelog_of_a_new_store() -> None:
    text = (KAFKA / "process_shared_store.txt").read_text()
    topics = {"a": 2, "b": 2, "app-shared-changelog": 2}
    recorded = topology_from_description(text, "app", topics)
    led = topology_from_description(text, "app", topics, creates_missing=True)

    assert stores_of(recorded)["unlogged"] == (None, None)
    assert stores_of(led) == {"shared": ("app-shared-changelog", None), "unlogged": ("app-unlogged-changelog", None)}
    assert "assumed to be logged, each to a changelog of its own: unlogged" in led.assumptions


def test_should_know_a_table_that_is_restored_from_its_topic_by_the_changelog_that_is_not_there() -> None:
    text = (DSL / "source_tables_optimized.txt").read_text()
    topics = {"kept": 2, "read": 2, "stream": 2, "joined": 2}
    before = topology_from_description(text, "app", topics)
    after = topology_from_description(text, "app", topics, has_run=True)

    assert stores_of(before)["kept-store"] == ("app-kept-store-changelog", None)
    assert stores_of(after)["kept-store"] == (None, "kept")
    assert stores_of(after)["read-STATE-STORE-0000000002"] == (None, "read")
    assert (
        "app-kept-store-changelog is not on the cluster: store kept-store assumed to be restored from its source topic "
        "kept" in (after.assumptions)
    )


def test_should_take_what_the_caller_knows_of_stores() -> None:
    text = (KAFKA / "process_shared_store.txt").read_text()
    described = topology_from_description(
        text, "app", stores=StoreFacts(not_logged=["unlogged"], source_changelogs={"shared": "a"})
    )
    kinds = StoreFacts(retention_ms={"shared": 5}, history_retention_ms={"unlogged": 7})
    told = topology_from_description(text, "app", stores=kinds)

    assert stores_of(described) == {"shared": (None, "a"), "unlogged": (None, None)}
    assert {store.name: store.changelog for store in told.topology.subtopologies[0].stores} == {
        "shared": ChangelogConfig(ChangelogType.WINDOWED, retention_ms=5),
        "unlogged": ChangelogConfig(ChangelogType.VERSIONED, min_compaction_lag_ms=7),
    }
    assert told.stores_of_unknown_kind == ()
    assert topology_from_description(text, "app", stores=StoreFacts(key_value=["shared"])).stores_of_unknown_kind == (
        "unlogged (key-value, windowed or versioned)",
    )


@pytest.mark.parametrize(
    "name, in_doubt",
    [
        (
            "stream_joins",
            {
                "KSTREAM-JOINTHIS-0000000004-store": "windowed, retention not known",
                "KSTREAM-JOINOTHER-0000000005-store": "windowed, retention not known",
                "KSTREAM-OUTERTHIS-0000000013-store": "windowed, retention not known",
                "KSTREAM-OUTEROTHER-0000000014-store": "windowed, retention not known",
            },
        ),
        ("suppressed_windows", {"KSTREAM-AGGREGATE-STATE-STORE-0000000003": "key-value or windowed"}),
        ("cogroup", {"COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000004": "key-value or windowed"}),
        ("foreign_key_join", {}),
        ("foreign_key_join_named", {"joined-store": "key-value, windowed or versioned"}),
    ],
)
def test_should_name_only_stores_that_can_be_windowed_or_versioned(name: str, in_doubt: dict[str, str]) -> None:
    described = topology_from_description((KAFKA / f"{name}.txt").read_text(), "app")

    assert sorted(described.stores_of_unknown_kind) == sorted(f"{store} ({kinds})" for store, kinds in in_doubt.items())


def test_should_name_a_table_that_the_user_keeps_as_one_that_can_be_versioned() -> None:
    described = topology_from_description((DSL / "source_tables.txt").read_text(), "app")

    assert described.stores_of_unknown_kind == ("kept-store (key-value or versioned)",)


def stores_of(described: DescribedTopology) -> dict[str, tuple[str | None, str | None]]:
    return {
        store.name: (store.changelog_topic, store.source_topic_as_changelog)
        for each in described.topology.subtopologies
        for store in each.stores
    }


@pytest.mark.parametrize(
    "stores, message",
    [
        (StoreFacts(not_logged=["unloged"]), "not_logged: no processor uses a store unloged; is it unlogged?"),
        (StoreFacts(retention_ms={"x": 1}), "retention_ms: no processor uses a store x"),
        (
            StoreFacts(source_changelogs={"shared": "z"}),
            "source_changelogs['shared']: z is not read in the subtopology",
        ),
        (
            StoreFacts(source_changelogs={"shared": "a"}, not_logged=["shared"]),
            "source_changelogs['shared']: is also given as not logged",
        ),
        (
            StoreFacts(retention_ms={"shared": 1}, history_retention_ms={"shared": 1}),
            "history_retention_ms['shared']: is also given as windowed",
        ),
    ],
)
def test_should_refuse_facts_that_do_not_fit_the_topology(stores: StoreFacts, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        topology_from_description((KAFKA / "process_shared_store.txt").read_text(), "app", stores=stores)


def test_should_refuse_an_application_id_that_no_topic_can_carry() -> None:
    with pytest.raises(InputError, match="is not a legal topic name"):
        topology_from_description(WORD_COUNT, "my app")
