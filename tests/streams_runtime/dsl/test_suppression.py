"""Suppressed tables in a task: commits, restores, aborted transactions, metadata, and misuse."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import IllegalArgumentError, TopologyError
from assignor.types import TopicPartition
from streams_runtime import (
    STRING,
    BufferConfig,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.logs.base import NewTopic
from streams_runtime.queries.problems import QueryProblem
from streams_runtime.queries.store_reading import read_entries
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.state_stores.time_ordered_change_buffer import TimeOrderedChangeBufferBuilder
from tests.streams_runtime.dsl.driven import driven
from tests.streams_runtime.tasks.running_task import EXACTLY_ONCE, IN, Configs, RunningTask, both_guarantees

BUFFER = TopicPartition("app-held-store-changelog", 0)


class WithMetadata(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        where = self.context.record_metadata
        assert where is not None
        self.context.forward(record._replace(value=f"{record.value} of {where.topic} {where.offset}"))


def held() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", STRING, STRING, store=Materialized("kept", changelog=None, caching=False))
    stream = table.suppress(Suppressed.until_time_limit(100), name="held").to_stream()
    stream.process(WithMetadata).to("out", key_serde=STRING, value_serde=STRING)
    return builder.build()


def holding(directory: Path, configs: Mapping[str, object], after: RunningTask | None = None) -> RunningTask:
    one = RunningTask(directory, pickle.loads(pickle.dumps(held())), configs, after=after)
    if after is None:
        one.log.create_topics([NewTopic(BUFFER.topic, 1, {"cleanup.policy": "compact"})])
    return one.start()


@both_guarantees
def test_should_forward_what_an_earlier_task_has_buffered(tmp_path: Path, configs: Configs) -> None:
    first = holding(tmp_path, configs)
    first.write(IN, "1", "2", first_ms=10)
    first.run()
    first.stop()
    assert [(key, value is None) for key, value, _ in first.log.read(BUFFER)] == [(b"k", False)]
    second = holding(tmp_path, configs, after=first)
    second.write(IN, "later", first_ms=110, key="other")
    second.run()
    second.commit()
    assert second.output() == ["2 of in 1"]
    assert [(key, value is None) for key, value, _ in second.log.read(BUFFER)][1:] == [(b"other", False), (b"k", True)]
    second.stop()


def test_should_forget_what_an_aborted_transaction_has_buffered(tmp_path: Path) -> None:
    first = holding(tmp_path, EXACTLY_ONCE)
    first.write(IN, "1", first_ms=10)
    first.run()
    first.commit()
    first.write(IN, "never committed", first_ms=20)
    first.run()
    first.producer.abort()
    first.task.close_dirty()
    second = holding(tmp_path, EXACTLY_ONCE, after=first)
    assert second.run() == 1  # the input record is processed again
    second.write(IN, "later", first_ms=200)
    second.run()
    second.commit()
    assert second.output() == ["later of in 2"]
    second.stop()


def test_should_log_once_for_a_commit_also_what_a_record_cache_forwards(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("in", STRING, STRING, store=Materialized("kept", changelog=None))
    table.suppress(Suppressed.until_time_limit(100), name="held").to_stream().to("out")
    one = RunningTask(tmp_path, builder.build(), cache=ThreadCache(1_000_000))
    one.log.create_topics([NewTopic(BUFFER.topic, 1, {"cleanup.policy": "compact"})])
    one.start()
    one.write(IN, "1", "2", "3")
    one.run()
    assert one.log.read(BUFFER) == []
    one.commit()
    ((key, value, timestamp_ms),) = one.log.read(BUFFER)
    assert (key, value is not None, timestamp_ms) == (b"k", True, one.clock.now_ms())
    one.stop()


def test_should_not_log_a_buffer_without_a_changelog() -> None:
    builder = StreamsBuilder()
    suppressed = Suppressed.until_time_limit(10, BufferConfig(max_records=1, changelog=None))
    builder.table("in", STRING, STRING).suppress(suppressed).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("a", "1", 0), ("b", "2", 1))
        assert run.read("out") == [("a", "1", 0)]
        assert not [topic for topic in run.driver.produced_topic_names() if "SUPPRESS" in topic]


def test_should_let_others_read_a_buffered_key_as_it_was_forwarded() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", STRING, STRING, store="kept").suppress(Suppressed.until_time_limit(10))
    builder.stream("asked", STRING, STRING).left_join(table, lambda _, value: value or "").to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("in", ("a", "1", 0), ("a", "2", 20), ("a", "3", 21))
        run.pipe("asked", ("a", "?", 21), ("b", "?", 21))
        assert run.read("out") == [("a", "2", 21), ("b", "", 21)]


@pytest.mark.parametrize("config", [BufferConfig(max_records=1), BufferConfig(max_bytes=1)])
def test_should_refuse_to_emit_a_final_result_early(config: BufferConfig) -> None:
    with pytest.raises(IllegalArgumentError, match="shut_down_when_full=True"):
        Suppressed.until_window_closes(config)


def test_should_refuse_to_wait_for_windows_of_a_table_without_windows() -> None:
    table = StreamsBuilder().table("in", STRING, STRING).map_values(str.upper)
    with pytest.raises(
        TopologyError, match=r"only defined for windowed computations. Got \[root->KTABLE-SOURCE-.*->KTABLE-MAPVALUES-"
    ):
        table.suppress(Suppressed.until_window_closes())


def test_should_refuse_a_versioned_table() -> None:
    table = StreamsBuilder().table("in", STRING, STRING, store=Materialized("kept", history_retention_ms=10))
    with pytest.raises(TopologyError, match=r"only supported for non-versioned KTables$"):
        table.suppress(Suppressed.until_time_limit(5))
    with pytest.raises(TopologyError, match="version semantics might be inherited from upstream"):
        table.map_values(str.upper).suppress(Suppressed.until_time_limit(5))


def test_should_refuse_what_is_no_suppressed() -> None:
    table: Any = StreamsBuilder().table("in", STRING, STRING)
    with pytest.raises(TopologyError, match="takes a Suppressed"):
        table.suppress(BufferConfig())


def test_should_wait_for_the_longest_grace_of_several_windows() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", STRING, STRING).group_by_key()
    one, two = (grouped.windowed_by(TimeWindows(10, grace_ms=grace_ms)).count() for grace_ms in (5, 30))
    joined = one.join(two, lambda a, b: f"{a} {b}", value_serde=STRING)
    joined.suppress(Suppressed.until_window_closes()).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("a", "1", 0), ("a", "2", 39))
        assert "out" not in run.driver.produced_topic_names()
        run.pipe("in", ("a", "3", 40))
        assert "out" in run.driver.produced_topic_names()


def test_should_refuse_queries_of_a_buffer() -> None:
    builder = TimeOrderedChangeBufferBuilder("buffer", STRING, STRING)
    with pytest.raises(QueryProblem, match="a buffer, which cannot be queried"):
        read_entries(builder, builder.build(), 1)
