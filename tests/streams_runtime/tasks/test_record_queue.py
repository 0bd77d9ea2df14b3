"""One partition's buffer: lazy reading, partition time, and records that cannot be read."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor import TaskId, TopicPartition
from streams_runtime import STRING, FailedRecord, Headers, Record, RecordMetadata, Serdes
from streams_runtime.common.losses import TaskLosses, uncounted
from streams_runtime.logs.base import RecordBatch
from streams_runtime.processors.context import CurrentNode
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.processors.topology import SourceSettings
from streams_runtime.tasks.record_queue import RecordQueue

TASK = TaskId(0, 2)
IN = TopicPartition("in", 2)
UNREADABLE = b"\xff"


class Failed(Exception):
    pass


def queue(
    settings: SourceSettings | None = None,
    on_failure: Callable[[FailedRecord], None] | None = None,
    losses: TaskLosses | None = None,
) -> RecordQueue:
    def refuse(record: FailedRecord) -> None:
        raise Failed(record)

    return RecordQueue(
        TASK, IN, SourceRunner("source", settings or SourceSettings(), CurrentNode()), on_failure or refuse, losses
    )


def batch(
    offsets: list[int], times: list[int], values: list[bytes | None], headers: list[Headers] | None = None
) -> RecordBatch:
    return RecordBatch(IN, offsets, times, [b"k"] * len(offsets), values, headers)


def drain(one: RecordQueue) -> list[Record[Any, Any]]:
    records = []
    while (record := one.poll()) is not None:
        records.append(record)
    return records


def test_should_read_a_record_only_when_its_turn_comes() -> None:
    read: list[bytes] = []

    def deserialize(data: bytes) -> bytes:
        read.append(data)
        return data

    one = queue(SourceSettings(value_serde=Serdes(None, deserialize)))
    one.add(batch([0, 1, 2], [1, 2, 3], [b"a", b"b", b"c"]))
    assert read == []
    one.poll()
    assert read == [b"a"]
    assert one.head_timestamp_ms() == 2
    assert one.head_timestamp_ms() == 2
    assert (read, one.next_offset(), len(one)) == ([b"a", b"b"], 1, 2)
    assert one.poll() == Record(b"k", b"b", 2)
    assert read == [b"a", b"b"]


def test_should_give_a_timestamp_extractor_the_partition_time_before_the_record() -> None:
    given: list[int] = []

    def extract(record: Record[object, object], partition_time_ms: int) -> int:
        given.append(partition_time_ms)
        return record.timestamp_ms

    one = queue(SourceSettings(timestamp_extractor=extract))
    one.add(batch([0, 1, 2, 3], [5, 3, 9, 7], [b"a", b"b", b"c", b"d"]))
    drain(one)
    assert given == [-1, 5, 5, 9]


def test_should_drop_records_with_negative_timestamps(caplog: pytest.LogCaptureFixture) -> None:
    losses = uncounted(TASK)
    one = queue(losses=losses)
    one.add(batch([0, 1, 2], [-1, 5, -1], [b"a", b"b", b"c"]))
    with caplog.at_level(logging.WARNING):
        assert drain(one) == [Record(b"k", b"b", 5)]
    assert (losses.dropped_records, one.next_offset(), one.partition_time_ms) == (2, None, 5)
    assert "task 0_2 drops a record with the negative timestamp -1: topic=in, partition=2, offset=2" in caplog.text


@pytest.mark.parametrize("look_first", [False, True])
def test_should_tell_what_cannot_be_read_and_go_on_when_it_may(look_first: bool) -> None:
    failures: list[FailedRecord] = []
    one = queue(SourceSettings(value_serde=STRING), failures.append)
    one.add(batch([0, 1, 2], [1, 2, 3], [b"a", UNREADABLE, b"c"], [(), (("h", b"1"),), ()]))
    one.poll()
    if look_first:
        assert one.head_timestamp_ms() == 3
    assert one.poll() == Record(b"k", "c", 3)
    (failure,) = failures
    assert failure[:7] == (TASK, RecordMetadata("in", 2, 1), "source", b"k", UNREADABLE, (("h", b"1"),), 2)
    assert isinstance(failure.error, UnicodeDecodeError)


@pytest.mark.parametrize("read", [RecordQueue.poll, RecordQueue.head_timestamp_ms])
def test_should_keep_a_record_that_cannot_be_read_and_may_not_be_dropped(read: Callable[[RecordQueue], object]) -> None:
    one = queue(SourceSettings(value_serde=STRING))
    one.add(batch([0, 4, 6], [1, 2, 3], [b"a", UNREADABLE, b"c"]))
    one.poll()
    for _ in range(2):
        with pytest.raises(Failed):
            read(one)
        assert (one.next_offset(), len(one)) == (4, 2)


class Delivered:
    """What a queue has handed to its source. `on_error` goes on after an error, unless `ends`."""

    def __init__(self, one: RecordQueue, *, fails: Callable[[Any], bool], ends: bool = False) -> None:
        self.stream_time_ms = -1
        self.records: list[Record[Any, Any]] = []
        self.failed: list[tuple[int | None, str]] = []
        self._fails = fails
        self._ends = ends
        one.source.receiver = self._receive

    def _receive(self, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if self._fails(value):
            raise Failed(value)
        self.records.append(Record(key, value, timestamp_ms, headers))

    def on_error(self, one: RecordQueue, error: Exception) -> None:
        self.failed.append((one.next_offset(), repr(error)))
        if self._ends:
            raise error


@pytest.mark.parametrize("look_first", [False, True])
def test_should_end_a_run_at_a_record_that_fails_and_has_to_come_again(look_first: bool) -> None:
    one = queue()
    one.add(batch([4, 6, 9], [1, 2, 3], [b"a", b"bad", b"c"]))
    to = Delivered(one, fails=b"bad".__eq__, ends=True)
    if look_first:
        one.head_timestamp_ms()
    for _ in range(2):
        with pytest.raises(Failed):
            one.deliver(10, to, to.on_error)
        assert (one.next_offset(), len(one), one.handed_out) == (6, 2, 1)
    assert to.failed == [(6, "Failed(b'bad')")] * 2
    assert one.poll() == Record(b"k", b"bad", 2)


@pytest.mark.parametrize("look_first", [False, True])
@pytest.mark.parametrize(("value", "timestamp_ms"), [(UNREADABLE, 2), (b"b", -1)])
def test_should_take_a_run_back_that_ends_before_a_drop(look_first: bool, value: bytes, timestamp_ms: int) -> None:
    one = queue(SourceSettings(value_serde=STRING), lambda _: None)
    one.add(batch([0, 1, 2], [1, timestamp_ms, 3], [b"a", value, b"c"]))
    to = Delivered(one, fails=lambda _: False)
    if look_first:
        one.head_timestamp_ms()
    one.deliver(10, to, to.on_error)
    assert ([record.value for record in to.records], one.next_offset(), one.handed_out) == (["a"], 1, 1)
    one.rewind_run()
    assert (one.next_offset(), one.handed_out, one.partition_time_ms) == (0, 0, -1)


def test_should_forget_everything_when_cleared() -> None:
    one = queue()
    one.add(batch([0, 1, 2], [1, 2, 3], [b"a", b"b", b"c"]))
    one.add(batch([3], [4], [b"d"]))
    one.poll()
    one.head_timestamp_ms()
    one.clear()
    assert (len(one), one.next_offset(), one.partition_time_ms, one.poll()) == (0, None, -1, None)
    one.add(batch([7], [1], [b"x"]))
    assert drain(one) == [Record(b"k", b"x", 1)]


@given(st.lists(st.lists(st.integers(-1, 50), min_size=1, max_size=5), max_size=6), st.data())
def test_should_always_know_how_much_is_left_and_what_comes_next(batches: list[list[int]], data: st.DataObject) -> None:
    one = queue()
    offset = 0
    expected: list[tuple[int, int]] = []
    for times in batches:
        offsets = [offset + 2 * index for index in range(len(times))]
        offset = offsets[-1] + 3
        expected += zip(offsets, times, strict=True)
        one.add(batch(offsets, times, [b"v"] * len(times)))
    good = [(at, time) for at, time in expected if time >= 0]
    highest = -1
    for index, (at, time) in enumerate(good):
        if data.draw(st.booleans()):
            assert one.head_timestamp_ms() == time
            assert one.next_offset() == at
        assert one.poll() == Record(b"k", b"v", time)
        assert one.polled_metadata().offset == at
        highest = max(highest, time)
        assert one.partition_time_ms == highest
        rest = [each for each, _ in expected if each > at]
        assert (len(one), one.next_offset()) == (len(rest), rest[0] if rest else None), index
    assert one.poll() is None
    assert (len(one), one.next_offset()) == (0, None)
