"""A table whose source topic is its changelog: a restore and a standby apply what processing applied."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_runtime.common.errors import SchemaRegistryUnavailable
from streams_runtime.common.records import Record
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.logs.base import RecordBatch
from streams_runtime.processors.api import Processor, ProcessorContext, TimestampExtractor
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import BYTES, LONG, STRING, Serde
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.state_store import ValueAndTimestamp
from streams_runtime.tasks.exception_handling import log_and_continue
from tests.streams_runtime.tasks.running_task import EXACTLY_ONCE, IN, RunningTask

Row = tuple[bytes | None, bytes | None, int]
Table = Mapping[Any, Any]
"""Values with their timestamps."""


class LooseJson:
    """Reads JSON however it is spaced, and writes it in one way; null is None."""

    def serialize(self, value: Any, /) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    def deserialize(self, data: bytes, /) -> Any:
        return json.loads(data)


class SmallLong:
    """Writes small numbers only."""

    def serialize(self, value: int, /) -> bytes:
        if value > 1_000:
            raise ValueError(f"{value} is too large")
        return LONG.serialize(value)

    def deserialize(self, data: bytes, /) -> int:
        return LONG.deserialize(data)


class Unavailable:
    """As a serde with a schema while its registry is down."""

    def serialize(self, value: bytes, /) -> bytes:
        return value

    def deserialize(self, data: bytes, /) -> bytes:
        if data == b"down":
            raise SchemaRegistryUnavailable("http://registry does not answer")
        return data


def without_99(record: Record[Any, Any], _partition_time_ms: int) -> int:
    return -1 if record.value == 99 else record.timestamp_ms


def failing_at_7(record: Record[Any, Any], _partition_time_ms: int) -> int:
    if record.value == 7:
        raise RuntimeError("no time for 7")
    return int(record.value)


def table(key_serde: Serde[Any], value_serde: Serde[Any], extractor: TimestampExtractor | None = None) -> Topology:
    builder = StreamsBuilder(optimize=True)
    builder.table(IN.topic, key_serde, value_serde, store="table", timestamp_extractor=extractor)
    return builder.build()


def content(task: RunningTask) -> Table:
    store: Any = task.task.state_manager.stores["table"]
    return dict(store.all())


def processed_and_restored(directory: Path, topology: Topology, *rows: Row) -> tuple[Table, Table]:
    """The table after these records, and the table that the next owner of the task has of its topic."""
    first = RunningTask(
        directory, topology, deserialization_handler=log_and_continue, processing_handler=log_and_continue
    ).start()
    first.log.write(IN, *rows)
    first.run()
    processed = content(first)
    first.stop()
    first.directory.wipe(first.task.id)
    second = RunningTask(directory, topology, after=first).start()  # both handlers would fail
    restored = content(second)
    assert second.task.runtime.losses.dropped_records == 0
    second.stop()
    return processed, restored


def row(key: str, value: int, timestamp_ms: int) -> Row:
    return key.encode(), LONG.serialize(value), timestamp_ms


@pytest.mark.parametrize(
    "bad",
    [
        (b"a", b"xyz", 2),
        (b"a", LONG.serialize(99), 2),
        (b"\xff", LONG.serialize(3), 2),
        (None, LONG.serialize(3), 2),
        (b"a", LONG.serialize(2_000), 2),
    ],
    ids=["unreadable value", "dropped by the extractor", "unreadable key", "no key", "unwritable value"],
)
def test_should_leave_out_what_the_table_left_out(tmp_path: Path, bad: Row) -> None:
    topology = table(STRING, SmallLong(), without_99)
    processed, restored = processed_and_restored(tmp_path, topology, row("a", 7, 1), bad, row("b", 8, 3), bad)
    assert processed == restored == {"a": ValueAndTimestamp(7, 1), "b": ValueAndTimestamp(8, 3)}


def test_should_delete_a_key_again_by_a_tombstone_and_by_a_value_that_is_read_as_none(tmp_path: Path) -> None:
    rows: list[Row] = [
        (b'"a"', b"1", 1),
        (b'"b"', b"2", 2),
        (b'"a"', b"null", 3),
        (b'"b"', None, 4),
        (b"null", b"3", 5),
    ]
    processed, restored = processed_and_restored(tmp_path, table(LooseJson(), LooseJson()), *rows)
    assert processed == restored == {}


def test_should_have_one_row_of_a_key_that_was_written_in_two_ways(tmp_path: Path) -> None:
    rows: list[Row] = [(b'{"id": 1, "of": 2}', b'{"n":1}', 1), (b'{ "of":2, "id":1 }', b'{"n":2}', 2)]
    topology = table(LooseJson(), LooseJson())
    first = RunningTask(tmp_path, topology).start()
    first.log.write(IN, *rows)
    first.stop()
    second = RunningTask(tmp_path, topology, after=first)
    second.task.initialize_if_needed()
    second.restore()
    store: Any = second.state.stores["table"]
    assert [value for _, value in store.inner.scan(None, None)] == [(2).to_bytes(8, "big") + b'{"n": 2}']
    second.task.close_dirty()


def test_should_keep_the_timestamp_that_the_extractor_gave(tmp_path: Path) -> None:
    topology = table(STRING, LONG, failing_at_7)
    processed, restored = processed_and_restored(tmp_path, topology, row("a", 5, 900), row("b", 7, 901), row("c", 6, 1))
    assert processed == restored == {"a": ValueAndTimestamp(5, 5), "c": ValueAndTimestamp(6, 6)}


@pytest.mark.parametrize("seed", range(3))
def test_should_restore_any_mixture_of_records_as_it_was_processed(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    keys = [b"a", b"b", b"c", b"\xff", None]
    values = [*map(LONG.serialize, (1, 2, 99, 2_000)), b"xyz", b"", None]
    rows: list[Row] = [
        (random.choice(keys), random.choice(values), random.choice([1, 5, 3_000_000])) for _ in range(300)
    ]
    processed, restored = processed_and_restored(tmp_path, table(STRING, SmallLong(), without_99), *rows)
    assert processed == restored


def test_should_move_the_offset_past_records_that_are_left_out(tmp_path: Path) -> None:
    task = RunningTask(tmp_path, table(STRING, LONG))
    task.task.initialize_if_needed()
    batch = RecordBatch(IN, range(4, 7), [0, 0, 0], [b"\xff", b"a", b"b"], [b"", b"x", b"y"])
    task.state.restore(IN, batch)
    assert (task.state.changelog_offsets(), content(task)) == ({IN: 7}, {})
    task.task.close_dirty()


def test_should_leave_out_nothing_while_a_schema_registry_cannot_be_asked(tmp_path: Path) -> None:
    task = RunningTask(tmp_path, table(BYTES, Unavailable()))
    task.task.initialize_if_needed()
    batch = RecordBatch(IN, range(3), [0, 0, 0], [b"a", b"b", b"c"], [b"1", b"down", b"3"])
    for _ in range(2):
        with pytest.raises(SchemaRegistryUnavailable, match="http://registry does not answer"):
            task.state.restore(IN, batch)
        assert (task.state.changelog_offsets(), content(task)) == ({IN: 0}, {})
    task.state.restore(IN, batch.part(2, 3))
    assert content(task) == {b"c": ValueAndTimestamp(b"3", 0)}
    task.task.close_dirty()


def test_should_give_the_extractor_the_same_partition_time_when_records_are_read_again(tmp_path: Path) -> None:
    times: list[int] = []

    def noting(record: Record[Any, Any], partition_time_ms: int) -> int:
        times.append(partition_time_ms)
        return record.timestamp_ms

    task = RunningTask(tmp_path, table(BYTES, Unavailable(), noting))
    task.task.initialize_if_needed()
    first = RecordBatch(IN, range(2), [7, 5], [b"a", b"b"], [b"1", b"2"])
    second = RecordBatch(IN, range(2, 4), [9, 9], [b"a", b"b"], [b"3", b"down"])
    task.state.restore(IN, first)
    for _ in range(2):
        with pytest.raises(SchemaRegistryUnavailable):
            task.state.restore(IN, second)
    task.state.restore(IN, first)  # the store is restored anew
    assert times == [-1, 7, 7, 7, -1, 7]
    task.task.close_dirty()


@pytest.mark.parametrize("configs", [{}, EXACTLY_ONCE], ids=["at_least_once", "exactly_once"])
def test_should_go_on_from_a_checkpoint_with_records_of_the_table(
    tmp_path: Path, configs: Mapping[str, object]
) -> None:
    topology = table(STRING, LONG, without_99)
    first = RunningTask(tmp_path, topology, configs, deserialization_handler=log_and_continue).start()
    first.log.write(IN, row("a", 7, 1), (b"a", b"bad", 2))
    first.run()
    first.stop()
    first.log.write(IN, row("b", 8, 3), row("a", 99, 4))
    second = RunningTask(tmp_path, topology, configs, after=first)
    second.task.initialize_if_needed()
    assert second.state.changelog_offsets() == {IN: 2}
    second.restore()
    assert content(second) == {"a": ValueAndTimestamp(7, 1), "b": ValueAndTimestamp(8, 3)}
    second.task.close_dirty()


def test_should_restore_the_bytes_of_a_store_that_a_processor_of_the_users_own_fills(tmp_path: Path) -> None:
    builder = Topology().add_source("source", IN.topic, key_serde=STRING, value_serde=LONG)
    builder.add_processor("keep", StoreKeeper, "source")
    builder.add_state_store(key_value_store("table", STRING, LONG), "keep")
    builder.builder.use_source_topic_as_changelog("table", IN.topic)
    task = RunningTask(tmp_path, builder)
    task.task.initialize_if_needed()
    task.state.restore(IN, RecordBatch(IN, range(2), [0, 0], [b"a", b"a"], [LONG.serialize(1), b"bad"]))
    assert content(task) == {"a": 1}
    task.task.close_dirty()


class StoreKeeper(Processor[str, int]):
    def init(self, context: ProcessorContext) -> None:
        self.store = context.state_store("table")

    def process(self, record: Record[str, int]) -> None:
        self.store.put(record.key, record.value)
