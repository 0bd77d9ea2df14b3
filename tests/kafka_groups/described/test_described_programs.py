"""What cannot be known from `Topology#describe` and changes a number of partitions is asked for, and never assumed."""

from pathlib import Path

import pytest

from assignor.errors import InputError
from kafka_groups.described.copartition import CopartitionFacts
from kafka_groups.described.described_topology import topology_from_description
from kafka_groups.described.stores import StoreFacts
from tests.kafka_groups.described.described_programs import answered, asked, described_programs, here, in_kafka

TEXTS = Path(__file__).with_name("texts")
SELF_JOIN, SHARED, TABLE = ((TEXTS / f"{name}.txt").read_text() for name in ("self_join", "shared_store", "table"))
REPARTITION = "app-b-repartition"


def test_should_have_the_topics_of_a_stream_that_is_joined_with_itself_co_partitioned() -> None:
    described = topology_from_description(SELF_JOIN, "app", {"a": 3, "b": 4})

    assert described.topology.copartition_groups == (("a", "b"),)
    assert not any("co-partitioned" in assumption for assumption in described.assumptions)


def test_should_ask_whether_processors_that_share_a_store_are_a_join_when_it_decides_a_count() -> None:
    with pytest.raises(InputError) as question:
        topology_from_description(SHARED, "app", {"a": 4, "b": 3})

    assert str(question.value) == (
        "co-partitioned topics: the text does not say whether Kafka requires equal numbers of partitions of "
        "a,b-repartition: one uses store shared, as a join with a name of the user's own does. It decides the "
        "partitions of app-b-repartition (4 or 3); say --copartitioned a,b-repartition or "
        "--not-copartitioned a,b-repartition"
    )


@pytest.mark.parametrize("topics", [{"a", "b-repartition"}, {"a", REPARTITION}])
def test_should_take_the_answer(topics: set[str]) -> None:
    group = frozenset(topics)
    joined = topology_from_description(SHARED, "app", {"a": 4, "b": 3}, copartition=CopartitionFacts(together=[group]))
    own = topology_from_description(SHARED, "app", {"a": 4, "b": 3}, copartition=CopartitionFacts(apart=[group]))

    assert [set(group) for group in joined.topology.copartition_groups] == [{"a", REPARTITION}]
    assert own.topology.copartition_groups == ()


@pytest.mark.parametrize(
    "topics",
    [
        pytest.param({"a": 3, "b": 3}, id="equal counts"),
        pytest.param({"a": 4, "b": 3, REPARTITION: 3}, id="as the users own"),
        pytest.param({"a": 4, "b": 3, REPARTITION: 4}, id="as a join"),
    ],
)
def test_should_ask_nothing_when_it_decides_nothing_or_has_run(topics: dict[str, int]) -> None:
    described = topology_from_description(SHARED, "app", topics)

    assert [each for each in described.assumptions if each.startswith("assumed to be") and "co-partitioned" in each]


def test_should_ask_for_another_description_when_the_order_of_calls_decides_a_count() -> None:
    (program,) = (each for each in described_programs() if each["seed"] == 1_771_011_807_000_139)

    assert asked(program, answered(program)) == (
        "co-partitioned topics: the text does not say in which order the program made the joins and cogroups with "
        "names of its own: n0, n1-subscription-join-foreign, n1-subscription-response-resolver, n5. It decides whether "
        "the group runs: Kafka refuses unequal numbers; give the topology as JSON"
    )


def test_should_ask_when_the_topics_are_not_there_yet() -> None:
    with pytest.raises(InputError, match="not known while source topics are missing; say --copartitioned"):
        topology_from_description(SHARED, "app", {"a": 4})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (CopartitionFacts(together=[frozenset({"a", "c"})]), "--copartitioned: the topology does not read c"),
        (CopartitionFacts(apart=[frozenset({"a"})]), "--not-copartitioned: name at least two topics, not a alone"),
    ],
)
def test_should_refuse_an_answer_that_does_not_fit(facts: CopartitionFacts, message: str) -> None:
    with pytest.raises(InputError, match=message):
        topology_from_description(SHARED, "app", {"a": 4, "b": 3}, copartition=facts)


def test_should_refuse_that_topics_of_a_join_are_not_co_partitioned() -> None:
    with pytest.raises(InputError, match="a join or cogroup needs equal numbers of partitions of a, b"):
        topology_from_description(SELF_JOIN, "app", {}, copartition=CopartitionFacts(apart=[frozenset({"a", "b"})]))


STORE = "prices-STATE-STORE-0000000000"


def test_should_ask_a_leader_that_creates_topics_whether_a_table_has_a_changelog() -> None:
    with pytest.raises(InputError) as question:
        topology_from_description(TABLE, "app", {"prices": 2}, creates_missing=True)

    assert f"{STORE} (of topic prices)" in str(question.value)
    assert f"--store {STORE}=topic:prices and --store {STORE}=key-value" in str(question.value)


@pytest.mark.parametrize(
    ("facts", "changelog", "source"),
    [
        (StoreFacts(reuses_source_topics=True), None, "prices"),
        (StoreFacts(reuses_source_topics=False), f"app-{STORE}-changelog", None),
        (StoreFacts(source_changelogs={STORE: "prices"}), None, "prices"),
        (StoreFacts(key_value={STORE}), f"app-{STORE}-changelog", None),
        (StoreFacts(not_logged={STORE}), None, None),
    ],
)
def test_should_take_what_is_said_of_a_table(facts: StoreFacts, changelog: str | None, source: str | None) -> None:
    described = topology_from_description(TABLE, "app", {"prices": 2}, stores=facts, creates_missing=True)
    (store,) = described.topology.subtopologies[0].stores

    assert (store.changelog_topic, store.source_topic_as_changelog) == (changelog, source)


def test_should_give_every_repartition_topic_the_partitions_that_it_has_in_kafka_or_ask() -> None:
    programs = list(described_programs())
    open_ = [program for program in programs if asked(program) is not None]
    known = [program for program in programs if program not in open_]

    assert [program["seed"] for program in known if here(program) != in_kafka(program)] == []
    assert (len(known), len(open_)) == (102, 31)


def test_should_do_as_kafka_when_what_it_asked_is_answered() -> None:
    open_ = [program for program in described_programs() if asked(program) is not None]
    answers = [(program, answered(program)) for program in open_]
    open_still = [program["seed"] for program, facts in answers if asked(program, facts) is not None]

    assert [program["seed"] for program, facts in answers if facts is None] == []
    assert [
        program["seed"]
        for program, facts in answers
        if program["seed"] not in open_still and here(program, facts) != in_kafka(program)
    ] == []
    assert len(open_still) < len(open_) / 4
