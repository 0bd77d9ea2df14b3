"""`topology.optimization` as a config. Kafka's: `StreamsConfigTest`, `StreamsBuilderTest`."""

from typing import Any

import pytest

from assignor.errors import InputError
from streams_runtime import STRING, Application, KStream, Record, StreamsBuilder, Topology
from tests.streams_runtime.processors.recording_runtime import PassOn

GIVEN = {"application.id": "app", "bootstrap.servers": "memory:app"}


def _built(configs: Any, *, optimize: bool = False) -> Topology:
    """A table, and two repartition topics after one change of the key."""
    builder = StreamsBuilder(optimize=optimize)
    builder.table("table", STRING, STRING, store="kept")
    stream = builder.stream("in", STRING, STRING).select_key(lambda key, value: value)
    stream.group_by_key(key_serde=STRING).count(store="first")
    stream.group_by_key(key_serde=STRING).reduce(lambda old, new: new, store="second")
    return builder.build(configs)


def _found(topology: Topology) -> tuple[bool, int]:
    """Whether the table has a changelog of its own, and the number of repartition topics."""
    subtopologies = topology.group_topology("app").subtopologies
    logged = any(store.changelog_topic for each in subtopologies for store in each.stores if store.name == "kept")
    return logged, len({topic.name for each in subtopologies for topic in each.repartition_source_topics})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, (True, 2)),
        ("none", (True, 2)),
        ("all", (False, 1)),
        ("reuse.ktable.source.topics", (False, 2)),
        ("merge.repartition.topics", (True, 1)),
        ("merge.repartition.topics, reuse.ktable.source.topics", (False, 1)),
        ("single.store.self.join", (True, 2)),
    ],
)
def test_should_optimize_what_the_config_names(value: str | None, expected: tuple[bool, int]) -> None:
    configs = GIVEN if value is None else {**GIVEN, "topology.optimization": value}

    topology = _built(configs)

    assert _found(topology) == expected
    assert Application(topology, configs).topology is topology
    assert _found(_built(Application(topology, configs).configs)) == expected  # as a StreamsConfig, too


def test_should_let_the_config_overrule_the_argument() -> None:
    assert _found(_built({"topology.optimization": "none"}, optimize=True)) == (True, 2)
    assert _found(_built(GIVEN, optimize=True)) == (False, 1)


@pytest.mark.parametrize("value", ["al", "all,none", "all,merge.repartition.topics", "", 7])
def test_should_refuse_an_optimization_that_is_not_known(value: object) -> None:
    with pytest.raises(InputError, match=r"topology\.optimization must be all, none, or a list of merge\.repartition"):
        _built({"topology.optimization": value})


def test_should_say_when_the_config_came_too_late() -> None:
    topology = _built(None)

    with pytest.raises(InputError) as refused:
        Application(topology, {**GIVEN, "topology.optimization": "merge.repartition.topics"})

    assert str(refused.value) == (
        "configs: topology.optimization is merge.repartition.topics, but the topology was built with none; "
        "give the configs to StreamsBuilder.build, too"
    )


def test_should_not_mind_a_topology_that_was_made_without_the_dsl() -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", "out", "source")

    assert Application(topology, {**GIVEN, "topology.optimization": "all"}).topology is topology


class _Rekey(PassOn):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record._replace(key=record.value))


def test_should_move_no_repartition_topic_above_a_processor() -> None:
    """A processor may change keys. Kafka's answer with `__enable.process.processValue.fix__` (KAFKA-19668)."""
    builder = StreamsBuilder(optimize=True)
    stream = builder.stream("in", STRING, STRING).select_key(lambda key, value: value).process(_Rekey)
    stream.group_by_key(key_serde=STRING, value_serde=STRING).count()
    stream.filter(lambda key, value: True).group_by_key(key_serde=STRING, value_serde=STRING).count()

    topology = builder.build()

    assert _found(topology)[1] == 1
    assert topology.definition().nodes["KSTREAM-PROCESSOR-0000000002"].parents == ("KSTREAM-KEY-SELECT-0000000001",)


def test_should_repartition_after_a_merge_what_came_from_processors() -> None:
    builder = StreamsBuilder(optimize=True)
    stream = builder.stream("in", STRING, STRING)
    merged = stream.process(_Rekey, name="one").merge(stream.process(_Rekey, name="two"), name="both")
    merged.group_by_key(key_serde=STRING, value_serde=STRING).count()
    merged.group_by_key(key_serde=STRING, value_serde=STRING).count()

    topology = builder.build()

    assert _found(topology)[1] == 1
    assert topology.definition().nodes["both"].parents == ("one", "two")


def test_should_merge_no_topics_across_a_value_that_a_processor_may_have_changed() -> None:
    """One topic has one serde, and the values before and after the processor may need two."""
    builder = StreamsBuilder(optimize=True)
    keyed = builder.stream("in", STRING, STRING).select_key(lambda key, value: value)
    keyed.group_by_key(key_serde=STRING, value_serde=STRING).count()
    keyed.process(_Rekey).group_by_key(key_serde=STRING, value_serde=STRING).count()

    assert _found(builder.build())[1] == 2


def _streams(count: int) -> tuple[StreamsBuilder, list[KStream[str, str]]]:
    """Streams of other topics, whose keys have changed."""
    builder = StreamsBuilder(optimize=True)
    streams = [builder.stream(f"in{number}", STRING, STRING) for number in range(count)]
    return builder, [stream.select_key(lambda key, value: value) for stream in streams]


def _aggregated(stream: KStream[str, str], store: str) -> None:
    stream.group_by_key(key_serde=STRING, value_serde=STRING).count(store=store)


def _feeding_topics(topology: Topology) -> set[tuple[frozenset[str], frozenset[str]]]:
    """For each part of the topology that has stores: the topics that it reads, and its stores."""
    return {
        (frozenset(each.source_topics), frozenset(store.name for store in each.stores))
        for each in topology.group_topology("app").subtopologies
        if each.stores
    }


@pytest.mark.parametrize("between", [lambda stream: stream, lambda stream: stream.filter(lambda key, value: True)])
def test_should_repartition_once_behind_the_last_of_several_merges(between: Any) -> None:
    builder, (one, two, three) = _streams(3)
    merged = between(one.merge(two)).merge(three)
    _aggregated(merged, "first")
    _aggregated(merged.merge(merged.filter(lambda key, value: bool(value))), "second")
    _aggregated(merged, "third")

    feeding = _feeding_topics(builder.build())

    assert {store for _, stores in feeding for store in stores} == {"first", "second", "third"}
    assert all(all(topic.endswith("-repartition") for topic in topics) for topics, _ in feeding)


def test_should_refuse_configs_that_are_no_mapping() -> None:
    given: Any = "app"
    with pytest.raises(InputError, match=r"^configs must be a mapping or a StreamsConfig, not 'app'"):
        StreamsBuilder().build(given)
