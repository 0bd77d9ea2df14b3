"""Which topics match the patterns of a topology, and what the topology is then."""

import random
import re

import pytest

from assignor.errors import InputError, TopologyError
from assignor.recording.topology_fields import as_topology, topology_document
from assignor.topology.builder import TopologyBuilder
from assignor.topology.group_topology import GroupTopology
from assignor.topology.source_patterns import expanded, pattern_text


def counting(pattern: str | re.Pattern[str] = "event.*") -> TopologyBuilder:
    return (
        TopologyBuilder()
        .add_source("events", re.compile(pattern))
        .add_source("names", "names")
        .add_processor("split", "events")
        .add_sink("to-words", "words", "split")
        .add_repartition_topic("words")
        .add_source("words", "words")
        .add_processor("count", ["words"])
        .add_state_store("counts", "count")
        .add_processor("print", "names")
    )


def read_by(topology: GroupTopology) -> dict[int, list[str]]:
    return {each.id: sorted(each.source_topics) for each in topology.subtopologies}


def test_should_declare_the_pattern_and_read_it_back() -> None:
    topology = counting().copartition(["events", "names"]).build("app")

    assert [each.source_patterns for each in topology.subtopologies] == [("event.*",), (), ()]
    assert topology.subtopologies[0].reads == ("event.*",)
    assert sorted(topology.copartition_groups[0]) == ["event.*", "names"]
    document = topology_document(topology)
    assert as_topology(document, "topology") == topology
    assert ["source_patterns" in each for each in document["subtopologies"]] == [True, False, False]  # type: ignore[attr-defined]


def test_should_put_the_topics_that_match_as_a_whole_in_place_of_the_pattern() -> None:
    topology = counting().copartition(["events", "names"]).build("app")
    cluster = ["event", "event-1", "my-event", "names", "__consumer_offsets", "app-words"]
    now = expanded(topology, "app", cluster)

    assert read_by(now.topology) == {0: ["event", "event-1"], 1: ["names"], 2: ["app-words"]} or read_by(
        now.topology
    ) == {0: ["event", "event-1"], 1: ["app-words"], 2: ["names"]}
    assert [sorted(group) for group in now.topology.copartition_groups] == [["event", "event-1", "names"]]
    assert (now.topology.source_patterns, now.unmatched) == ((), ())


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__transaction_state", "app-words", "app-counts-changelog", "app-old-repartition"]
)
def test_should_never_match_topics_of_kafka_or_of_the_application_itself(topic: str) -> None:
    builder = TopologyBuilder().add_source("all", re.compile(".*")).add_processor("p", "all").add_state_store("s", "p")
    now = expanded(builder.build("app"), "app", [topic, "a", "other-counts-changelog"])
    assert topic == "app-words" or read_by(now.topology) == {0: ["a", "other-counts-changelog"]}
    declared = counting("app-.*").build("app")
    assert expanded(declared, "app", [topic]).unmatched == ("app-.*",)


def test_should_leave_out_subtopologies_without_records_when_no_topic_matches() -> None:
    """Kafka leaves out the first one, and its rebalance fails because of the repartition topic."""
    now = expanded(counting().copartition(["events", "names"]).build("app"), "app", ["names", "app-words"])

    assert [each.source_topics for each in now.topology.subtopologies] == [("names",)]
    assert now.topology.copartition_groups == (("names",),)
    assert now.unmatched == ("event.*",)


def test_should_keep_a_subtopology_whose_repartition_topic_has_a_fixed_number_of_partitions() -> None:
    builder = counting().add_repartition_topic("words", 3)
    assert ("app-words",) in [
        each.source_topics for each in expanded(builder.build("app"), "app", []).topology.subtopologies
    ]


def test_should_agree_with_a_search_by_hand_for_random_topics() -> None:
    draw = random.Random()
    for _ in range(50):
        prefixes = draw.sample("abcdefgh", 3)
        builder = TopologyBuilder()
        for prefix in prefixes:
            builder.add_source(prefix, re.compile(f"{prefix}-[0-9]+")).add_processor(f"p{prefix}", prefix)
        topics = {f"{draw.choice('abcdefgh')}-{draw.choice(['1', '22', 'x', ''])}" for _ in range(8)}
        now = expanded(builder.build("app"), "app", topics)
        wanted = {
            number: sorted(t for t in topics if t[0] == prefix and t[2:].isdigit())
            for number, prefix in enumerate(prefixes)
        }
        assert read_by(now.topology) == {number: found for number, found in wanted.items() if found}
        assert len(now.unmatched) == sum(not found for found in wanted.values())


def test_should_refuse_a_topic_that_matches_two_patterns() -> None:
    builder = TopologyBuilder().add_source("a", re.compile("a.*")).add_source("b", re.compile(".*b"))
    assert read_by(expanded(builder.build("app"), "app", ["ax", "xb"]).topology) == {0: ["ax"], 1: ["xb"]}
    with pytest.raises(TopologyError, match=r"Topic ab matches the pattern \.\*b and the pattern a\.\*"):
        expanded(builder.build("app"), "app", ["ax", "ab"])


def test_should_refuse_a_pattern_that_another_source_overlaps() -> None:
    builder = TopologyBuilder().add_source("a", "event-1")
    with pytest.raises(TopologyError, match=r"Pattern event\.\* matches a topic that Source a already reads"):
        builder.add_source("b", re.compile("event.*"))
    builder.add_source("b", re.compile("x.*"))
    with pytest.raises(TopologyError, match=r"Topic xy matches the pattern x\.\*, which Source b reads"):
        builder.add_source("c", "xy")
    with pytest.raises(TopologyError, match=r"Pattern x\.\* is used twice: Source b already has it"):
        builder.add_source("c", re.compile("x.*"))
    with pytest.raises(TopologyError, match=r"Topic xy matches the pattern"):
        builder.add_global_store("s", source="g", topic="xy", processor="p")
    assert [*builder.definition().nodes] == ["a", "b"]


def test_should_describe_the_pattern_as_kafka_prints_it() -> None:
    text = TopologyBuilder().add_source("s", re.compile("a|b.*")).add_processor("p", "s").describe()
    assert "    Source: s (topics: a|b.*)\n      --> p\n" in text


@pytest.mark.parametrize(
    "pattern, text",
    [
        (re.compile("a.*"), "a.*"),
        (re.compile("a.*", re.IGNORECASE | re.VERBOSE), "(?ix)a.*"),
        (re.compile("(?i)a.*"), "(?i)a.*"),
        (re.compile("(?i)a.*", re.VERBOSE), "(?x)(?i)a.*"),
        (re.compile("a.*", re.ASCII), "(?a)a.*"),
    ],
)
def test_should_keep_the_flags_of_a_pattern_in_its_text(pattern: re.Pattern[str], text: str) -> None:
    assert pattern_text(pattern) == text
    assert re.compile(text).flags == pattern.flags


def test_should_refuse_a_pattern_of_bytes() -> None:
    with pytest.raises(TopologyError, match="must be text, not bytes"):
        TopologyBuilder().add_source("a", re.compile(b"a"))  # type: ignore[arg-type]


def test_should_refuse_a_definition_with_a_pattern_that_cannot_be_compiled() -> None:
    document = topology_document(counting().build("app"))
    document["subtopologies"][0]["source_patterns"] = ["("]  # type: ignore[index]
    with pytest.raises(InputError, match=r"source_patterns\[0\].*is not a regular expression of Python"):
        as_topology(document, "topology")
