"""The facts that --store, --copartitioned, --not-copartitioned and topology.optimization add to a described
topology.
"""

from __future__ import annotations

import pytest

from assignor.errors import InputError
from kafka_groups.application import topology_facts
from kafka_groups.described.copartition import CopartitionFacts


def test_should_read_groups_of_topics() -> None:
    facts = topology_facts([], ["a, b", "b,c,d"], ["x,y"])

    assert facts.copartition == CopartitionFacts((frozenset("ab"), frozenset("bcd")), (frozenset("xy"),))


@pytest.mark.parametrize("text", ["", "a", "a,", ",", "a,a"])
def test_should_refuse_fewer_than_two_topics(text: str) -> None:
    with pytest.raises(InputError, match="--not-copartitioned: must be at least two topics, as A,B, not"):
        topology_facts(not_copartitioned=[text])


@pytest.mark.parametrize(
    ("optimization", "reuses"),
    [
        (None, None),
        ("none", False),
        ("all", True),
        ("merge.repartition.topics", False),
        ("merge.repartition.topics, reuse.ktable.source.topics", True),
    ],
)
def test_should_know_by_the_optimization_whether_tables_are_restored_from_their_topics(
    optimization: str | None, reuses: bool | None
) -> None:
    assert topology_facts(optimization=optimization).stores.reuses_source_topics is reuses


def test_should_refuse_an_optimization_that_kafka_does_not_have() -> None:
    with pytest.raises(InputError, match=r"topology.optimization: must be of all, .*, not 'some'"):
        topology_facts(optimization="some")


def test_should_refuse_facts_about_a_topology_that_is_given_in_full() -> None:
    with pytest.raises(
        InputError, match=r"--copartitioned: goes with the text of Topology#describe only; x\.json already"
    ):
        topology_facts(copartitioned=["a,b"]).check_unused("x.json")
