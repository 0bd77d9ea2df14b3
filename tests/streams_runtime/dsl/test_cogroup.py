"""Cogrouped streams: one table of several grouped streams."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import TopologyError
from assignor.types import TopicPartition
from streams_runtime import STRING, CogroupedKStream, KGroupedStream, StreamsBuilder, TimeWindows, Windowed
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.logs.base import NewTopic
from streams_runtime.state_stores.state_store import ValueAndTimestamp
from streams_runtime.state_stores.thread_cache import ThreadCache
from tests.streams_runtime.dsl.driven import driven
from tests.streams_runtime.tasks.running_task import IN, OTHER, Configs, RunningTask, both_guarantees

CHANGELOG = TopicPartition("app-all-changelog", 0)


def plus(key: str, value: str, so_far: str) -> str:
    return f"{so_far}+{value}"


def minus(key: str, value: str, so_far: str) -> str:
    return f"{so_far}-{value}"


def grouped(builder: StreamsBuilder, topic: str) -> KGroupedStream[str, str]:
    return builder.stream(topic, STRING, STRING).group_by_key()


def cogrouped(builder: StreamsBuilder) -> CogroupedKStream[str, str]:
    return grouped(builder, "in").cogroup(plus).cogroup(grouped(builder, "other"), minus)


@both_guarantees
def test_should_keep_and_restore_one_table(tmp_path: Path, configs: Configs) -> None:
    builder = StreamsBuilder()
    table = cogrouped(builder).aggregate(str, value_serde=STRING, store=Materialized("all", persistent=False))
    table.to_stream().to("out")
    topology = pickle.loads(pickle.dumps(builder.build()))
    first = RunningTask(tmp_path, topology, configs, cache=ThreadCache(1_000_000))
    first.log.create_topics([NewTopic(CHANGELOG.topic, 1, {"cleanup.policy": "compact"})])
    first.start()
    first.write(IN, "1", first_ms=1)
    first.write(OTHER, "2", first_ms=2)
    first.run()
    assert first.output() == []
    first.stop()
    assert first.output() == ["+1-2"]
    second = RunningTask(tmp_path, topology, configs, after=first, cache=ThreadCache(1_000_000)).start()
    second.write(OTHER, "3")
    second.run()
    second.stop()
    assert second.output() == ["+1-2", "+1-2-3"]


def test_should_forward_old_values_to_a_node_that_needs_them() -> None:
    builder = StreamsBuilder()
    table = cogrouped(builder).aggregate(str, value_serde=STRING, store=Materialized("all", caching=False))
    lengths = table.group_by(lambda key, value: ("total", str(len(value))), key_serde=STRING, value_serde=STRING)
    total = lengths.aggregate(str, lambda _, value, all: f"{all}+{value}", minus, value_serde=STRING)
    total.to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("a", "1", 0))
        run.pipe("other", ("a", "2", 1))
        assert [value for _, value, _ in run.read("out")][-1] == "+2-2+4"


def test_should_replace_the_aggregator_of_a_stream_that_is_there() -> None:
    builder = StreamsBuilder()
    group = grouped(builder, "in")
    group.cogroup(plus).cogroup(group, minus).aggregate(str, value_serde=STRING, store="all")
    with driven(builder) as run:
        run.pipe("in", ("a", "1", 0))
        assert run.driver.get_key_value_store("all").get("a") == ValueAndTimestamp("-1", 0)


def test_should_use_the_topics_of_a_cogrouped_stream_for_all_its_tables() -> None:
    builder = StreamsBuilder()
    by_value = builder.stream("other", STRING, STRING).group_by(lambda _, value: value)
    both = grouped(builder, "in").cogroup(plus).cogroup(by_value, minus)
    both.aggregate(str, value_serde=STRING, store="one")
    both.windowed_by(TimeWindows(10)).aggregate(str, value_serde=STRING, store="two")
    topology = builder.build().group_topology("app")
    (subtopology,) = [each for each in topology.subtopologies if each.stores]
    assert [topic.name for topic in subtopology.repartition_source_topics] == ["app-one-repartition"]
    assert {frozenset(group) for group in topology.copartition_groups} == {frozenset({"in", "app-one-repartition"})}
    assert [store.name for store in subtopology.stores] == ["one", "two"]


def test_should_give_windows_the_key_serde_of_the_grouping() -> None:
    builder = StreamsBuilder()
    table = cogrouped(builder).windowed_by(TimeWindows(10)).aggregate(str, value_serde=STRING, store="all")
    seen: list[Any] = []
    table.to_stream().for_each(lambda key, value: seen.append((key, value)))
    with driven(builder) as run:
        run.pipe("in", ("a", "1", 12))
        run.pipe("other", ("a", "2", 13))
    assert seen == [(Windowed("a", 10, 20), "+1"), (Windowed("a", 10, 20), "+1-2")]


def test_should_refuse_what_is_no_grouped_stream_and_no_function() -> None:
    builder = StreamsBuilder()
    stream: Any = builder.stream("in", STRING, STRING)
    both: Any = cogrouped(builder)
    with pytest.raises(TopologyError, match="takes a KGroupedStream, not a KStream"):
        both.cogroup(stream, plus)
    with pytest.raises(TopologyError, match=r"CogroupedKStream\.cogroup"):
        both.cogroup(grouped(builder, "third"), "plus")
