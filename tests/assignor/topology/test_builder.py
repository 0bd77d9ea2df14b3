"""Topologies a person can read, with what Kafka's own builder says of them; and what it refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import TopologyError
from assignor.topology.builder import TopologyBuilder
from assignor.topology.definition import ProcessorNode, SinkNode, SourceNode
from assignor.topology.group_topology import (
    ChangelogConfig,
    GroupTopology,
    RepartitionTopic,
    Subtopology,
    SubtopologyStore,
)


def _word_count() -> TopologyBuilder:
    return (
        TopologyBuilder()
        .add_source("sentences", "text")
        .add_processor("split", "sentences")
        .add_sink("to-words", "words", "split")
        .add_repartition_topic("words")
        .add_source("words", "words")
        .add_processor("count", "words")
        .add_state_store("counts", "count")
        .add_sink("out", "word-counts", "count")
    )


def test_should_split_at_the_repartition_topic_and_put_the_application_id_in_front_when_built() -> None:
    assert _word_count().build("app") == GroupTopology(
        (
            Subtopology(0, ("text",), (), ("app-words",), ("app-words",), ()),
            Subtopology(
                1,
                ("app-words",),
                (RepartitionTopic("app-words"),),
                ("word-counts",),
                (),
                (SubtopologyStore("counts", "app-counts-changelog", None, ChangelogConfig()),),
            ),
        )
    )


def test_should_share_the_store_when_it_is_added_again_for_another_processor() -> None:
    """Kafka leaves two subtopologies with half a store each."""
    builder = (
        TopologyBuilder()
        .add_source("a", "t1")
        .add_processor("p", "a")
        .add_state_store("s", "p")
        .add_source("b", "t2")
        .add_processor("q", "b")
        .add_state_store("s", "q")
    )

    assert [subtopology.source_topics for subtopology in builder.build("app").subtopologies] == [("t1", "t2")]


def test_should_hand_out_nodes_with_their_suppliers_when_a_runtime_asks() -> None:
    deserialize, process, serialize = object(), object(), object()
    builder = (
        TopologyBuilder()
        .add_source("in", ["t1", "t2"], supplier=deserialize)
        .add_source("other", "t3")
        .add_state_store("s")
        .add_processor("p", ["in"], stores=["s"], supplier=process)
        .add_sink("out", "t4", "p", supplier=serialize)
    )

    assert builder.subtopology_nodes(0) == (
        SourceNode("in", ("t1", "t2"), deserialize),
        ProcessorNode("p", ("in",), ("s",), process),
        SinkNode("out", ("p",), "t4", serialize),
    )
    assert builder.subtopology_nodes(1) == (SourceNode("other", ("t3",)),)


def _one_of_each() -> TopologyBuilder:
    return (
        TopologyBuilder()
        .add_source("source", "topic")
        .add_processor("processor", "source")
        .add_sink("sink", "out", "processor")
        .add_state_store("store", "processor")
        .add_global_store("global", source="global-source", topic="global-topic", processor="global-processor")
    )


REFUSED = json.loads((Path(__file__).parent / "refused_calls.json").read_text())
"""Method, arguments, and the start of the message."""


@pytest.mark.parametrize(("method", "positional", "named", "reason"), REFUSED)
def test_should_refuse_and_change_nothing(
    method: str, positional: list[Any], named: dict[str, Any], reason: str
) -> None:
    builder = _one_of_each()
    before = builder.definition()

    with pytest.raises(TopologyError, match=f"^{re.escape(f'Invalid topology: {reason}')}"):
        getattr(builder, method)(*positional, **named)
    assert builder.definition() == before


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (
            _one_of_each().use_source_topic_as_changelog("store", "elsewhere"),
            "Topic elsewhere serves as changelog of StateStore store",
        ),
        (
            _one_of_each().add_repartition_topic("not a name").add_source("new", "not a name"),
            "'app-not a name' is not a legal topic name",
        ),
        (
            TopologyBuilder()
            .add_repartition_topic("x", 3)
            .add_repartition_topic("y", 4)
            .add_source("a", "x")
            .add_source("b", "y")
            .copartition(["a", "b"]),
            "Following topics do not have the same number of partitions: [{x=3, y=4}]",
        ),
    ],
)
def test_should_refuse_when_built(builder: TopologyBuilder, reason: str) -> None:
    with pytest.raises(TopologyError, match=f"^{re.escape(f'Invalid topology: {reason}')}"):
        builder.build("app")


def test_should_refuse_when_a_second_source_topic_is_to_serve_as_changelog() -> None:
    builder = _one_of_each().use_source_topic_as_changelog("store", "topic")

    with pytest.raises(TopologyError, match=r"Source store store is already added\."):
        builder.use_source_topic_as_changelog("store", "topic")
