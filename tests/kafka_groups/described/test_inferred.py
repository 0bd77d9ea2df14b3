"""What recorded groups showed, and the topology inferred from it: their rounds run again to the same assignments."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import InputError
from assignor.recording.topology_fields import topology_document
from assignor.types import TaskId, TopicPartition
from kafka_groups.described.described_topology import DescribedTopology
from kafka_groups.described.inferred import topology_from_cluster
from kafka_groups.recorder.choices import ShownTasks
from rebalance_analysis.rerun import run
from tests.kafka_groups.recorder.group_records import value_of
from tests.known import known
from tests.recorded import documents

TEXTS = Path(__file__).with_name("texts")
LED_BY_KAFKA = ("smoke", "static", "threads2", "upgrade", "wcflow")


Seen = tuple[dict[str, int], ShownTasks]
"""The partitions of topics, and what members of one group show over its rounds."""


def seen_in(rounds: Iterable[dict[str, Any]]) -> Seen:
    counts: dict[str, int] = {}
    shown = ShownTasks()
    for document in rounds:
        given = document["input"]
        for topics in (given["cluster"]["topics"], given["existing_internal_topics"]):
            counts |= {name: topic["partitions"] for name, topic in topics.items()}
        counts |= document["output"]["internal_topics"]
        shown.add(value_of(document).members)
    return counts, shown


def inferred(application_id: str, seen: Seen, **known: Any) -> DescribedTopology:
    counts, shown = seen
    return topology_from_cluster(
        application_id, counts, shown.subscribed, shown.assigned, stateful=shown.stateful, **known
    )


@pytest.mark.parametrize("name", LED_BY_KAFKA)
def test_should_run_recorded_rounds_again_to_the_same_assignments(name: str) -> None:
    rounds = documents(f"recordings/{name}.jsonl.gz")
    described = inferred(rounds[0]["input"]["application_id"], seen_in(rounds))
    differences: list[str] = []
    for document in rounds:
        document["input"]["topology"] = topology_document(described.topology)
        differences += known(run(document).comparison()).differences

    assert [line for line in differences if not line.startswith("configs of ")] == []
    assert all("cleanup.policy" in line for line in differences), "only in how a windowed changelog is created"


def test_should_be_told_what_it_cannot_see() -> None:
    """Which of two source topics a table is restored from."""
    rounds = documents("recordings/optimized.jsonl.gz")
    guessed = inferred("optimized", seen_in(rounds))
    told = inferred("optimized", seen_in(rounds), changelogs={"optimized-users": 0})

    assert guessed.assumptions[-1] == (
        "subtopology 0 has state and no changelog: assumed to be restored from source topic optimized-text; "
        "it could be optimized-users"
    )
    assert [store.source_topic_as_changelog for store in told.topology.subtopologies[0].stores] == ["optimized-users"]
    assert "optimized-text" not in " ".join(told.assumptions)


def task(subtopology: int, partition: int, *topics: str) -> dict[TaskId, list[TopicPartition]]:
    return {TaskId(subtopology, partition): [TopicPartition(topic, partition) for topic in topics]}


def test_should_tell_subtopologies_internal_topics_and_changelogs() -> None:
    described = topology_from_cluster(
        "app",
        {
            "lines": 2,
            "table": 2,
            "app-x-repartition": 4,
            "app-x-changelog": 4,
            "app-table-STATE-STORE-0000000002-changelog": 2,
            "app-other-changelog": 7,
            "application-x-changelog": 4,
        },
        ["lines", "table", "app-x-repartition", "late"],
        {**task(0, 0, "lines", "table"), **task(2, 3, "app-x-repartition")},
        stateful=[TaskId(0, 0), TaskId(2, 3)],
    )

    assert topology_document(described.topology) == json.loads((TEXTS / "inferred.json").read_text())
    assert described.assumptions == (
        "inferred from assignments and topic names: sinks and co-partitioned topics are not known, repartition "
        "topics keep the partitions they have, changelogs are assumed to be compacted only",
        "subscribed, but in no task that was seen, and so left out: late",
        "no task of subtopology 1 was seen: a global store, or not assigned yet; left out",
        "app-other-changelog has 7 partitions, as no subtopology with state has: left out",
    )


def test_should_say_which_other_place_a_changelog_could_have() -> None:
    described = topology_from_cluster(
        "app",
        {"left": 2, "app-by-repartition": 2, "app-c-changelog": 2, "app-left-table-changelog": 2},
        [],
        {**task(0, 0, "left"), **task(1, 1, "app-by-repartition")},
    )

    assert [[store.name for store in each.stores] for each in described.topology.subtopologies] == [
        ["left-table"],
        ["c"],
    ]
    assert described.assumptions[1:] == (
        "app-left-table-changelog is assumed to belong to subtopology 0; it could belong to 1",
        "app-c-changelog is assumed to belong to subtopology 1; it could belong to 0",
    )


def test_should_take_state_without_any_topic_to_restore_from_as_none() -> None:
    described = topology_from_cluster(
        "app", {"app-by-repartition": 1}, [], task(0, 0, "app-by-repartition"), stateful=[TaskId(0, 0)]
    )

    assert described.topology.subtopologies[0].stores == ()
    assert described.assumptions[1:] == (
        "subtopology 0 has state, but no changelog was found: assumed to be stateless",
    )


@pytest.mark.parametrize(
    "assigned, known, message",
    [
        ({}, {}, "assigned: no task has been assigned yet; give the Topology#describe text"),
        ({TaskId(0, 0): [TopicPartition("t", 1)]}, {}, "assigned: task 0_0 cannot have partition t-1"),
        ({TaskId(0, 0, "n"): [TopicPartition("t", 0)]}, {}, "assigned: named topologies cannot be inferred (n__0_0)"),
        ({**task(0, 0, "t"), **task(1, 0, "t")}, {}, "assigned: t is read by subtopologies 0 and 1"),
        (task(0, 0, "t"), {"app-s-changelog": 1}, "changelogs['app-s-changelog']: no task of subtopology 1 was seen"),
        (task(0, 0, "t"), {"u": 0}, "changelogs['u']: is neither a changelog nor read by subtopology 0"),
    ],
)
def test_should_refuse_the_impossible(
    assigned: dict[TaskId, list[TopicPartition]], known: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        topology_from_cluster("app", {"t": 1}, [], assigned, changelogs=known)
