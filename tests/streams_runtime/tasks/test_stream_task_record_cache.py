"""A task whose stores hold changes back: its commit flushes them first, and only a commit makes them last."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.errors import ProcessingFailed, TaskCorrupted
from streams_runtime.common.records import Headers, Record
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.dsl.streams import KStream, KTable
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.dsl.windows import TimeWindows
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import (
    ExceptionHandler,
    FailedRecord,
    HandlerResponse,
    Processor,
    ProcessorContext,
    PunctuationType,
)
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.state_store import ValueAndTimestamp
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.tasks import output_records
from streams_runtime.tasks.exception_handling import dead_letter, fail, log_and_continue
from tests.streams_runtime.tasks.running_task import (
    COUNTS,
    DEAD,
    EXACTLY_ONCE,
    IN,
    OTHER,
    OUT,
    Configs,
    RunningTask,
    Trouble,
    both_guarantees,
)

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


def below(table: KTable[Any, Any]) -> None:
    """Fails for a value that is too long, in the node below the table's."""
    table.to_stream().process(RefusesLong)


class RefusesLong(Processor[Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        if len(str(record.value)) > 3:
            raise Trouble(f"{record.value} is too long")


def newest(_so_far: str, value: str) -> str:
    return value


def of_a_topic(builder: StreamsBuilder) -> None:
    below(builder.table("in", STRING, STRING, store=Materialized("kept", changelog=None)))


def of_groups(builder: StreamsBuilder) -> None:
    below(builder.stream("in", STRING, STRING).group_by_key().reduce(newest, store="kept"))


def of_windows(builder: StreamsBuilder) -> None:
    below(builder.stream("in", STRING, STRING).group_by_key().windowed_by(TimeWindows(10)).reduce(newest, store="kept"))


def of_batches(builder: StreamsBuilder) -> None:
    same = builder.stream("in", STRING, STRING).map_values_batches(lambda batch: list(batch.values))
    below(same.group_by_key(key_serde=STRING, value_serde=STRING).reduce(newest, store="kept"))


def of_a_table_below_another(builder: StreamsBuilder) -> None:
    table = builder.stream("in", STRING, STRING).group_by_key().reduce(newest, store="kept")
    below(table.filter(lambda _key, _value: True, store="below"))


def of_a_sink(builder: StreamsBuilder) -> None:
    table = builder.stream("in", STRING, STRING).group_by_key().reduce(newest, store="kept")
    numbers: KStream[Any, Any] = table.to_stream().map_values(lambda value: value if len(value) > 3 else 1)
    numbers.to("out", key_serde=STRING, value_serde=LONG)


KINDS_OF_TABLES = (of_a_topic, of_groups, of_windows, of_batches, of_a_table_below_another, of_a_sink)


@pytest.mark.parametrize("headers", [(), (("h", b"1"),)], ids=["plain", "with_headers"])
@pytest.mark.parametrize("kind", KINDS_OF_TABLES)
def test_should_give_handlers_the_same_record_with_and_without_a_cache(
    tmp_path: Path, kind: Callable[[StreamsBuilder], None], headers: Headers
) -> None:
    def failures(cache_bytes: int) -> list[tuple[object, ...]]:
        asked: list[tuple[object, ...]] = []

        def handler(failed: FailedRecord) -> HandlerResponse:
            record = failed.metadata, failed.node, failed.key, failed.value, failed.headers, failed.timestamp_ms
            asked.append((*record, str(failed.error)))
            return HandlerResponse.DEAD_LETTER

        builder = StreamsBuilder()
        kind(builder)
        directory = tmp_path / str(cache_bytes)
        cache = ThreadCache(cache_bytes) if cache_bytes else None
        configs = {"errors.dead.letter.queue.topic.name": "dead"}
        one = RunningTask(directory, builder.build(), configs, processing_handler=handler, cache=cache)
        for store in ("kept", "below"):
            one.log.create_topics([NewTopic(f"app-{store}-changelog", 1, {"cleanup.policy": "compact"})])
        one.start()
        producer = one.log.log.producer()
        producer.send(IN, b"a", b"good", 3, headers)  # "good" has four letters
        producer.send(IN, b"b", b"ok", 4, headers)
        producer.flush()
        one.run()
        one.commit()
        dead = one.log.read(DEAD)
        one.stop()
        return [*asked, *dead]

    without = failures(0)
    assert without[0][2:6] == (b"a", b"good", headers, 3)
    assert without[-1] == (b"a", b"good", 3)
    assert failures(PLENTY) == without


def test_should_count_the_input_records_that_a_cache_keeps_for_a_handler(tmp_path: Path) -> None:
    directories = (tmp_path / str(number) for number in count())

    def size(handler: ExceptionHandler, value: bytes, headers: Headers = ()) -> int:
        cache = ThreadCache(PLENTY)
        configs = {"errors.dead.letter.queue.topic.name": "dead"}
        one = RunningTask(next(directories), counted(), configs, processing_handler=handler, cache=cache)
        producer = one.start().log.log.producer()
        producer.send(IN, b"k", value, 1, headers)
        producer.flush()
        one.run()
        size_bytes = cache.size_bytes
        one.stop()
        return size_bytes

    assert size(fail, b"x" * 500) == size(log_and_continue, b"x" * 500) == size(fail, b"x")
    assert size(dead_letter, b"x" * 500) == size(fail, b"x") + len(b"k") + 500
    assert size(dead_letter, b"x" * 500, (("h", b"1"),)) == size(fail, b"x") + len(b"k") + 500 + len("h1")


class PutsInAnyWay(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.store = context.state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        match record.key:
            case "put_all":
                self.store.put_all([("first", "x"), (record.key, record.value)])
            case "put_many":
                self.store.put_many(["first", record.key], ["x", record.value])
            case "put_if_absent":
                self.store.put_if_absent(record.key, record.value)
            case "delete":
                self.store.delete(record.value)
            case _:
                self.store.put(record.key, record.value)
        self.context.forward(record)


def in_a_store(builder: StreamsBuilder) -> None:
    builder.add_state_store(key_value_store("kept", STRING, STRING, caching=True))
    kept = builder.stream("in", STRING, STRING).process(PutsInAnyWay, stores=["kept"])
    kept.to("out", key_serde=STRING, value_serde=STRING)


def in_groups(builder: StreamsBuilder) -> None:
    table = builder.stream("in", STRING, STRING).group_by_key().reduce(newest, store="kept")
    table.to_stream().to("out", key_serde=STRING, value_serde=STRING)


def in_windows(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", STRING, STRING).group_by_key()
    windowed = grouped.windowed_by(TimeWindows(10)).reduce(newest, store="kept").to_stream()
    windowed.map(lambda key, value: (key.key, value)).to("out", key_serde=STRING, value_serde=STRING)


@pytest.mark.parametrize("kind", [in_a_store, in_groups, in_windows])
def test_should_refuse_a_change_too_large_for_its_changelog_with_and_without_a_cache(
    tmp_path: Path, kind: Callable[[StreamsBuilder], None]
) -> None:
    """The record that makes it fails, and neither store nor changelog have it when the handler goes on."""
    longest = 500

    def seen(cache_bytes: int) -> dict[str, object]:
        asked: list[tuple[object, ...]] = []

        def handler(failed: FailedRecord) -> HandlerResponse:
            asked.append((failed.metadata, failed.node, failed.key, str(failed.error)))
            return HandlerResponse.CONTINUE

        builder = StreamsBuilder()
        kind(builder)
        cache = ThreadCache(cache_bytes) if cache_bytes else None
        one = RunningTask(tmp_path / str(cache_bytes), builder.build(), processing_handler=handler, cache=cache)
        one.log.create_topics([NewTopic("app-kept-changelog", 1, {"max.message.bytes": str(longest)})])
        one.start()
        suffix = 12 if kind is in_windows else 0
        for key in ("put", "put_all", "put_many", "put_if_absent", "delete"):
            fits = longest - suffix - len(key)
            one.write(IN, "x" * fits, key=key)
            one.write(IN, "y" * (fits + 1 + (len(key) if key == "delete" else 0)), key=key)
            one.run()
            one.commit()
        kept: Any = one.task.stores["kept"]
        entries = list(kept.fetch_all(0, 100) if kind is in_windows else kept.all())
        one.stop()
        logged = sorted(one.log.read(TopicPartition("app-kept-changelog", 0)), key=str)
        return {"asked": asked, "sent": one.log.read(OUT), "kept": entries, "logged": logged}

    without = seen(0)
    asked: Any = without["asked"]
    refused = [b"put", b"put_all", b"put_many", b"put_if_absent", b"delete"]
    if kind is in_a_store:  # where the key is there already
        refused.remove(b"put_if_absent")
    assert [key for _, _, key, _ in asked] == refused
    assert "max.message.bytes" in asked[0][3]
    assert seen(PLENTY) == without


def test_should_start_over_when_the_log_was_away_in_a_transaction(tmp_path: Path) -> None:
    one = caching(tmp_path, configs=EXACTLY_ONCE).start()
    one.write(IN, "a", "b")
    one.run()
    one.log.fail["send"] = LogTimeout("away")
    with pytest.raises(TaskCorrupted):
        one.task.prepare_commit()


def keys(one: RunningTask, partition: TopicPartition = COUNTS) -> list[bytes | None]:
    return [key for key, _, _ in one.log.read(partition)]


@pytest.mark.parametrize("kept", [None, Materialized("joined", changelog=None)])
@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("left_has_cache", [True, False])
@pytest.mark.parametrize("order", [(IN, OTHER), (OTHER, IN)])
def test_should_remove_a_joined_row_that_both_tables_lost_between_two_commits(
    tmp_path: Path,
    kept: Materialized | None,
    derived: bool,
    left_has_cache: bool,
    order: tuple[TopicPartition, TopicPartition],
) -> None:
    """In Kafka the row stays: each table finds the other one empty."""
    builder = StreamsBuilder()
    left_store = Materialized("left", changelog=None, caching=left_has_cache)
    left = builder.table("in", STRING, STRING, store=left_store)
    right = builder.table("other", STRING, STRING, store=Materialized("right", changelog=None))
    if derived:
        left = left.map_values(str.lower)
        right = right.filter(lambda _key, value: value != "")
    joined = left.join(right, lambda one, other: one + other, value_serde=STRING if kept else None, store=kept)
    joined.to_stream().map_values(str).to("out", key_serde=STRING, value_serde=STRING)
    one = caching(tmp_path, builder.build(), configs={"max.task.idle.ms": -1}).start()
    one.write(IN, "x", key="both")
    one.write(OTHER, "y", key="both")
    one.write(IN, "x", key="left only")
    one.run()
    one.commit()
    assert set(one.output()) == {"xy"}
    for partition in order:
        one.log.write(partition, (b"both", None, 5))
        one.log.write(partition, (b"left only", None, 5))
        one.run()
    one.commit()
    keys = [(key, value) for key, value, _ in one.log.read(OUT)]
    assert keys[-1] == (b"both", b"None")
    assert {key for key, _ in keys} == {b"both"}
    one.stop()


def newest_or_none(_so_far: str, value: str) -> Any:
    return None if value == "remove" else value


def run_and_commit(one: RunningTask) -> None:
    one.run()
    one.commit()


def test_should_remove_a_joined_row_when_one_flush_causes_the_other(tmp_path: Path) -> None:
    """The flush of `left` forwards k1, which evicts from `right`, while both hold back the removal of k2."""
    builder = StreamsBuilder()
    left = builder.table("other", STRING, STRING, store="left")
    both = builder.stream("in", STRING, STRING).merge(left.to_stream())
    right = both.group_by_key(key_serde=STRING, value_serde=STRING).reduce(newest_or_none, store="right")
    left.join(right, str.__add__).to_stream().to("out", key_serde=STRING, value_serde=STRING)
    cache = ThreadCache(PLENTY)
    one = RunningTask(tmp_path, builder.build(), cache=cache)
    one.log.create_topics([NewTopic(f"app-{store}-changelog", 1) for store in ("left", "right")])
    one.start()
    one.log.write(OTHER, (b"k1", b"1", 1), (b"k2", b"1", 2))
    one.run()
    one.commit()
    one.log.write(IN, (b"k2", b"remove", 5))
    one.run()
    one.log.write(OTHER, (b"k1", b"2", 3), (b"k2", None, 4))
    one.run()
    cache.resize(1)
    one.commit()
    assert dict(row[:2] for row in one.log.read(OUT)) == {b"k1": b"22", b"k2": None}


@pytest.mark.parametrize("cache_bytes", [600, PLENTY], ids=["evicted", "committed"])
def test_should_forward_to_groups_after_a_restart_what_a_failed_flush_left(tmp_path: Path, cache_bytes: int) -> None:
    """Only k0 fails. All other keys still have the store's old value when they are processed again."""
    fails = False

    def group(key: str, value: str) -> tuple[str, str]:
        if fails and key == "k0":
            raise Trouble("k0")
        return key, value

    builder = StreamsBuilder()
    table = builder.table("other", STRING, STRING, store="counts")
    table.group_by(group, key_serde=STRING, value_serde=STRING, name="groups").count()
    topology, groups = builder.build(), TopicPartition("app-groups-repartition", 0)
    one = RunningTask(tmp_path, topology, cache=ThreadCache(cache_bytes))
    one.log.create_topics([NewTopic(groups.topic, 1)])
    one.start()
    one.log.write(OTHER, (b"first", b"1", 1))
    one.run()
    one.commit(enforce_checkpoint=True)
    fails = True
    one.log.write(OTHER, *[(b"k%d" % number, b"1", 1) for number in range(20)])
    with pytest.raises(ProcessingFailed):
        run_and_commit(one)
    one.task.close_dirty()
    one.producer.reset()
    fails = False
    next_owner = RunningTask(tmp_path, topology, after=one, cache=ThreadCache(cache_bytes)).start()
    next_owner.run()
    next_owner.commit()
    added = [key for key, value, _ in next_owner.log.read(groups) if value == b"1\1"]
    assert {b"k%d" % number for number in range(1, 20)} <= set(added)
    next_owner.task.close_dirty()


def test_should_send_a_count_after_the_log_was_away_though_an_operator_below_changed_its_store(tmp_path: Path) -> None:
    """The first operator below puts into the full cache that is flushed; then the second one cannot send."""
    is_away = True

    class Put(Processor[str, int]):
        def init(self, context: ProcessorContext) -> None:
            self.store = context.state_store("counts")

        def process(self, record: Record[str, int]) -> None:
            if record.key == "k1":
                self.store.put("other", ValueAndTimestamp(7, 1))

    def sent(value: int) -> int:
        if is_away:
            raise LogTimeout("away")
        return value

    builder = StreamsBuilder()
    counts = builder.stream("in", STRING, STRING).group_by_key().count(store="counts").to_stream()
    counts.process(Put, stores=["counts"])
    counts.map_values(sent).to("out", key_serde=STRING, value_serde=LONG)
    cache = ThreadCache(PLENTY)
    one = RunningTask(tmp_path, builder.build(), cache=cache).start()
    one.log.write(IN, (b"k1", b"a", 1))
    one.run()
    cache.resize(1)
    with pytest.raises(LogTimeout):
        one.commit()
    is_away = False
    one.commit()
    assert [(key, LONG.deserialize(value or b"")) for key, value, _ in one.log.read(OUT)] == [(b"k1", 1), (b"other", 7)]
    one.stop()


def test_should_count_once_below_a_flush_that_was_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_records, "MOST_ROWS", 10)
    builder = StreamsBuilder()
    words = builder.stream("in", STRING, STRING).group_by_key(key_serde=STRING, value_serde=STRING)
    changes = words.count(store="counts").to_stream().map_values(str)
    changes.group_by_key(key_serde=STRING, value_serde=STRING).count(store="below")
    one = RunningTask(tmp_path, builder.build(), cache=ThreadCache(PLENTY))
    one.log.create_topics([NewTopic("app-below-changelog", 1)])
    one.start()
    one.log.write(IN, *[(b"k%d" % number, b"a", 1) for number in range(50)])
    one.run()
    one.log.fail["send"] = LogTimeout("away")
    for _ in range(3):
        with pytest.raises(LogTimeout):
            one.commit()
    one.log.fail.clear()
    one.commit()
    below: Any = one.task.stores["below"]
    assert [(key, count.value) for key, count in below.all() if count.value != 1] == []
    assert len(one.log.read(COUNTS)) == 50


def test_should_evict_through_a_long_chain_of_tables(tmp_path: Path) -> None:
    """Each eviction forwards to the next table, which has to evict as well."""
    builder = StreamsBuilder()
    table = builder.table("in", STRING, STRING)
    for place in range(120):
        table = table.map_values(
            str, store=Materialized(f"store{place}", changelog=None, persistent=False), value_serde=STRING
        )
    table.to_stream().to("out", key_serde=STRING, value_serde=STRING)
    one = RunningTask(tmp_path, builder.build(), cache=ThreadCache(1)).start()
    one.write(IN, "a")
    one.run()
    assert one.output() == ["a"]


@pytest.mark.parametrize(("position", "counted_bytes"), [((IN, 3), len("in") + len("h12")), ((None, -1), len("h12"))])
def test_should_count_the_record_of_a_change_for_the_changes_that_its_flush_makes(
    tmp_path: Path, position: tuple[TopicPartition | None, int], counted_bytes: int
) -> None:
    """As for the changes that the record made itself. Source: `LRUCacheEntry`, `ProcessorRecordContext`."""
    runtime = caching(tmp_path).start().task.runtime
    partition, offset = position
    before = runtime.begin_flush()
    runtime.set_context((5, (("h", b"12"),), partition, offset, None, 0))
    made_below = runtime.record_context()
    runtime.end_flush(before)
    assert made_below == (5, (("h", b"12"),), partition, offset, None, counted_bytes)
