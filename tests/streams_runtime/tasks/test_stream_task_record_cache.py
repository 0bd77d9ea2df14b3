"""A task whose stores hold changes back: its commit flushes them first, and only a commit makes them last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assignor.types import TopicPartition
from streams_runtime.dsl import StreamsBuilder
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.errors import ProcessingFailed, TaskCorrupted
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.processors.api import FailedRecord, HandlerResponse, Processor, ProcessorContext, PunctuationType
from streams_runtime.processors.topology import Topology
from streams_runtime.records import Record, RecordMetadata
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.tasks.standby_task import StandbyTask
from tests.streams_runtime.tasks.running_task import COUNTS, EXACTLY_ONCE, IN, OTHER, OUT, RunningTask, Trouble

both_guarantees = pytest.mark.parametrize("configs", [{}, EXACTLY_ONCE], ids=["at_least_once", "exactly_once"])
Configs = dict[str, object]
PLENTY = 1_000_000


def counted() -> Topology:
    """Counts by key, as `word: count`."""
    builder = StreamsBuilder()
    words = builder.stream("in", STRING, STRING).group_by_key(key_serde=STRING, value_serde=STRING)
    counts = words.count(store="counts")
    counts.to_stream().map_values(str).to("out", key_serde=STRING, value_serde=STRING)
    return builder.build()


def caching(directory: Path, topology: Topology | None = None, **arguments: Any) -> RunningTask:
    return RunningTask(directory, topology or counted(), cache=ThreadCache(PLENTY), **arguments)


@both_guarantees
def test_should_send_nothing_before_a_commit_and_everything_with_it(tmp_path: Path, configs: Configs) -> None:
    one = caching(tmp_path, configs=configs).start()
    one.write(IN, "a", "b", "c")
    one.run()
    assert one.output() == []
    assert one.log.read(COUNTS) == []
    assert one.task.stores["counts"].get("k").value == 3  # type: ignore[attr-defined]
    assert one.commit() == {IN: 3}
    assert one.output() == ["3"]
    assert one.log.read(COUNTS) == [(b"k", LONG.serialize(3), 3)]
    assert one.commit() == {}
    assert one.output() == ["3"]
    one.stop()


@both_guarantees
def test_should_lose_what_was_not_committed_at_a_dirty_close(tmp_path: Path, configs: Configs) -> None:
    one = caching(tmp_path, configs=configs).start()
    one.write(IN, "a", "b")
    one.run()
    one.commit()
    one.write(IN, "c")
    one.run()
    one.task.close_dirty()
    one.producer.reset()
    next_owner = caching(tmp_path, configs=configs, after=one).start()
    next_owner.run()
    next_owner.commit()
    assert next_owner.output() == ["2", "3"]


@both_guarantees
def test_should_have_only_flushed_counts_in_a_checkpointed_store(tmp_path: Path, configs: Configs) -> None:
    one = caching(tmp_path, configs=configs).start()
    one.write(IN, "a", "b")
    one.run()
    one.stop()
    next_owner = caching(tmp_path, configs=configs, after=one).start()
    assert next_owner.task.stores["counts"].get("k").value == 2  # type: ignore[attr-defined]


def test_should_forward_with_timestamp_headers_and_place_of_the_record_that_changed_the_key_last(
    tmp_path: Path,
) -> None:
    seen: list[Any] = []

    class See(Processor[str, int]):
        def init(self, context: ProcessorContext) -> None:
            self.context = context

        def process(self, record: Record[str, int]) -> None:
            seen.append((*record, self.context.record_metadata, self.context.headers))

    builder = StreamsBuilder()
    words = builder.stream("in", STRING, STRING).group_by_key(key_serde=STRING, value_serde=STRING)
    counts = words.count(store="counts")
    counts.to_stream().process(See)
    one = caching(tmp_path, builder.build()).start()
    header = (("h", b"1"),)
    producer = one.log.log.producer()
    producer.send(IN, b"k", b"a", 7, ())
    producer.send(IN, b"k", b"b", 5, header)
    producer.flush()
    one.run()
    one.commit()
    assert seen == [("k", 2, 7, header, RecordMetadata("in", 0, 1), header)]


class Remember(Processor[str, str]):
    """Puts into a cached store, in `init` and `close`, too."""

    def init(self, context: ProcessorContext) -> None:
        self.store = context.state_store("counts")
        self.store.put("init", 1)
        context.schedule(1, PunctuationType.WALL_CLOCK_TIME, lambda _: self.store.put("punctuated", 1))

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, 1)

    def close(self) -> None:
        self.store.put("close", 1)


def remembering() -> Topology:
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_state_store(key_value_store("counts", STRING, LONG, caching=True))
    return topology.add_processor("remember", Remember, "source", stores=["counts"])


@both_guarantees
def test_should_commit_what_init_punctuators_and_close_put(tmp_path: Path, configs: Configs) -> None:
    one = caching(tmp_path, remembering(), configs=configs).start()
    assert one.task.commit_needed()
    one.commit()
    assert keys(one) == [b"init"]
    one.clock.advance(5)
    one.task.maybe_punctuate_system_time(one.clock.now_ms())
    assert one.task.commit_needed()
    one.commit()
    assert keys(one) == [b"init", b"punctuated"]
    one.task.suspend()
    assert one.task.commit_needed()
    one.commit()
    assert keys(one) == [b"init", b"punctuated", b"close"]
    one.task.close_clean()


def test_should_give_tables_below_the_old_value_that_the_commit_before_sent(tmp_path: Path) -> None:
    """A filter lets a removal pass only if it had let the old value pass."""
    builder = StreamsBuilder()
    words = builder.stream("in", STRING, STRING).group_by_key(key_serde=STRING, value_serde=STRING)
    counts = words.count(store="counts")
    even = counts.filter(lambda _key, count: count % 2 == 0).to_stream()
    even.map_values(str).to("out", key_serde=STRING, value_serde=STRING)
    one = caching(tmp_path, builder.build()).start()
    sent = []
    for more in (1, 3, 1, 2, 1):  # to 1, 4, 5, 7 and 8
        one.write(IN, *"x" * more)
        one.run()
        one.commit()
        sent.append([value for _, value, _ in one.log.read(OUT)])
    assert sent == [[], [b"4"], [b"4", b"None"], [b"4", b"None"], [b"4", b"None", b"8"]]


def test_should_join_with_what_the_other_table_holds_back(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    left = builder.table("in", STRING, STRING, store=Materialized("left", changelog=None))
    right = builder.table("other", STRING, STRING, store=Materialized("right", changelog=None))
    joined = left.join(right, lambda one, other: one + other)
    joined.to_stream().to("out", key_serde=STRING, value_serde=STRING)
    topology = builder.build()
    one = caching(tmp_path, topology).start()
    one.write(IN, "a", "b")
    one.write(OTHER, "x", "y")
    one.run()
    one.commit()
    assert set(one.output()) == {"by"}
    one.write(OTHER, "z")
    one.run()
    one.commit()
    assert one.output()[-1] == "bz"


@pytest.mark.parametrize("kept", [False, True])
def test_should_not_send_the_removal_of_a_key_that_a_table_never_sent(tmp_path: Path, kept: bool) -> None:
    builder = StreamsBuilder()
    settings = Materialized("counts", caching=kept)
    builder.table("in", STRING, STRING, store=settings).to_stream().to("out", key_serde=STRING, value_serde=STRING)
    one = caching(tmp_path, builder.build()).start()
    one.log.write(IN, (b"k", None, 1), (b"other", b"v", 2), (b"other", None, 3))
    one.run()
    one.commit()
    sent = [(key, value) for key, value, _ in one.log.read(OUT)]
    assert sent == ([] if kept else [(b"k", None), (b"other", b"v"), (b"other", None)])


def test_should_have_no_cache_in_a_store_of_the_processor_api_that_does_not_ask_for_it(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, cache=ThreadCache(PLENTY)).start()
    one.write(IN, "a")
    one.run()
    assert one.output() == ["A"]


class Picky(Processor[str, int]):
    def process(self, record: Record[str, int]) -> None:
        if record.value == 2:
            raise Trouble("two")


def picky() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in", STRING, STRING).group_by_key(key_serde=STRING, value_serde=STRING)
    counts = words.count(store="counts")
    counts.to_stream().process(Picky)
    return builder.build()


def test_should_ask_the_handler_about_an_error_below_a_flush_and_go_on(tmp_path: Path) -> None:
    asked: list[FailedRecord] = []

    def handler(record: FailedRecord) -> HandlerResponse:
        asked.append(record)
        return HandlerResponse.CONTINUE

    one = caching(tmp_path, picky(), processing_handler=handler).start()
    one.write(IN, "a", "b")
    one.write(IN, "c", first_ms=9, key="other")
    one.run()
    assert one.commit() == {IN: 3}
    (record,) = asked
    assert (record.metadata, record.key, record.value, record.timestamp_ms) == (
        RecordMetadata("in", 0, 1),
        None,
        None,
        2,
    )
    assert "PROCESS" in record.node
    assert keys(one) == [b"k", b"other"]


def test_should_fail_the_commit_when_the_handler_wants_it(tmp_path: Path) -> None:
    one = caching(tmp_path, picky()).start()
    one.write(IN, "a", "b")
    one.run()
    with pytest.raises(ProcessingFailed, match="two"):
        one.task.prepare_commit()


def test_should_flush_again_after_the_log_was_away(tmp_path: Path) -> None:
    one = caching(tmp_path).start()
    one.write(IN, "a", "b")
    one.run()
    one.log.fail["send"] = LogTimeout("away")
    with pytest.raises(LogTimeout):
        one.task.prepare_commit()
    del one.log.fail["send"]
    assert one.commit() == {IN: 2}
    assert one.output() == ["2"]


def test_should_start_over_when_the_log_was_away_in_a_transaction(tmp_path: Path) -> None:
    one = caching(tmp_path, configs=EXACTLY_ONCE).start()
    one.write(IN, "a", "b")
    one.run()
    one.log.fail["send"] = LogTimeout("away")
    with pytest.raises(TaskCorrupted):
        one.task.prepare_commit()


def test_should_give_a_standby_what_was_flushed_and_take_it_back(tmp_path: Path) -> None:
    one = caching(tmp_path).start()
    one.write(IN, "a", "b")
    one.run()
    one.commit()
    one.task.suspend()
    standby = StandbyTask(one.task.id, one.inputs, one.task.recycle_state(), configs=one.configs, clock=one.clock)
    standby.initialize_if_needed()
    assert standby.stores["counts"].get("k").value == 2  # type: ignore[attr-defined]
    standby.suspend()
    state = standby.recycle_state()
    again = caching(tmp_path, after=one, state=state).start()
    again.write(IN, "c")
    again.run()
    assert again.output() == ["2"]
    again.commit()
    assert again.output() == ["2", "3"]
    again.stop()


def test_should_send_each_change_where_the_cache_is_too_small_for_any(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counted(), cache=ThreadCache(0)).start()
    one.write(IN, "a", "b", "c")
    one.run()
    assert one.output() == ["1", "2", "3"]


def keys(one: RunningTask, partition: TopicPartition = COUNTS) -> list[bytes | None]:
    return [key for key, _, _ in one.log.read(partition)]
