"""Records go where Kafka's own producer would send them, on any log; and come back as objects."""

import threading
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from assignor.errors import InputError
from assignor.types import TopicPartition
from streams_runtime import JSON, LONG, STRING, NewTopic, RecordProducer, open_log, read_topic
from streams_runtime.common.errors import SerdeMismatch
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.log_errors import InvalidRecord, LogTimeout, UnknownTopicOrPartition
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.logs.record_producer import STICKY_BYTES
from streams_runtime.logs.topic_reading import ConsumedRecord, UndecodableRecord
from tests.streams_runtime.manual_clock import ManualClock


@pytest.fixture
def log() -> InMemoryLog:
    log = InMemoryLog()
    log.create_topics([NewTopic("orders", 7), NewTopic("table", 1, {"cleanup.policy": "compact"})])
    return log


def test_should_choose_the_partition_by_the_key_unless_it_is_given(log: InMemoryLog) -> None:
    with RecordProducer(log, STRING, LONG) as producer:
        by_key = [producer.send("orders", f"key {number}", number) for number in range(100)]
        given = producer.send("orders", "key 1", 1, partition=6)

    assert by_key == [TopicPartition("orders", partition_of(b"key %d" % number, 7)) for number in range(100)]
    assert len(set(by_key)) == 7
    assert given == TopicPartition("orders", 6)


def test_should_stay_with_one_partition_for_a_while_without_keys(log: InMemoryLog) -> None:
    value = "v" * (STICKY_BYTES // 4)
    with RecordProducer(log, STRING, STRING) as producer:
        places = [producer.send("orders", None, value).partition for _ in range(28)]

    first = places[0]
    assert places == [(first + number // 4) % 7 for number in range(28)]


def test_should_give_a_record_the_time_of_the_clock_unless_it_has_one(log: InMemoryLog) -> None:
    clock = ManualClock()
    with RecordProducer(log, STRING, JSON, clock=clock) as producer:
        producer.send("table", "a", {"total": 3}, headers=(("trace", b"1"),))
        producer.send("table", "b", None, timestamp_ms=5)

    assert list(read_topic(log, "table", STRING, JSON)) == [
        ConsumedRecord("table", 0, 0, clock.now_ms(), "a", {"total": 3}, (("trace", b"1"),)),
        ConsumedRecord("table", 0, 1, 5, "b", None),
    ]


def test_should_open_and_close_a_log_of_its_own_for_an_address(tmp_path: Path) -> None:
    address = f"embedded:{tmp_path}"
    log = open_log(address)
    log.create_topics([NewTopic("orders", 3)])
    log.close()
    with RecordProducer(address, STRING, STRING) as producer:
        for number in range(10):
            producer.send("orders", str(number), "of that key")

    assert sorted(record.key or "" for record in read_topic(address, "orders", STRING, STRING)) == list("0123456789")


def test_should_write_what_was_sent_after_linger_ms_without_a_flush(log: InMemoryLog) -> None:
    """As the log on disk, this one has no thread that would do so."""
    written = log._signals.new_event()
    with RecordProducer(log, STRING, STRING) as producer:
        for value in ("first", "second"):
            producer.send("orders", "k", value)
            assert written.wait(10)
            written.clear()
        assert [record.value for record in read_topic(log, "orders", STRING, STRING)] == ["first", "second"]


def test_should_let_records_come_together_for_linger_ms(tmp_path: Path) -> None:
    address = f"embedded:{tmp_path}"
    with closing(open_log(address)) as log:
        log.create_topics([NewTopic("orders", 1)])
        with RecordProducer(address, STRING, STRING, properties={"linger.ms": "3600000"}) as producer:
            producer.send("orders", "k", "waits")
            assert list(read_topic(log, "orders", STRING, STRING)) == []
        with RecordProducer(address, STRING, STRING, properties={"linger.ms": "0"}) as producer:
            producer.send("orders", "k", "does not wait")
            assert [found.value for found in read_topic(log, "orders", STRING, STRING)] == ["waits", "does not wait"]
    with pytest.raises(InputError, match=r"linger\.ms: must be a whole number, not 'soon'"):
        RecordProducer(address, STRING, STRING, properties={"linger.ms": "soon"})


def test_should_write_nothing_after_linger_ms_that_was_discarded(log: InMemoryLog) -> None:
    producer = RecordProducer(log, STRING, STRING)
    producer.send("orders", "k", "a bad record follows")
    timer = producer._timer
    assert timer is not None
    producer.discard()
    timer.join(10)
    producer.close()
    assert list(read_topic(log, "orders", STRING, STRING)) == []


def test_should_try_again_to_write_what_the_log_did_not_take_after_linger_ms(
    log: InMemoryLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written, failed = log._signals.new_event(), threading.Event()

    def fail(*_: object) -> NoReturn:
        failed.set()
        raise LogTimeout("busy")

    with RecordProducer(log, STRING, STRING) as producer:
        with monkeypatch.context() as patched:
            patched.setattr(InMemoryLog, "append", fail)
            producer.send("orders", "k", "late")
            assert failed.wait(10)
        assert written.wait(10)
        assert [record.value for record in read_topic(log, "orders", STRING, STRING)] == ["late"]
    assert "records that were sent are not in the log after linger.ms: busy" in caplog.messages


def test_should_say_what_it_cannot_write(log: InMemoryLog) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        with pytest.raises(UnknownTopicOrPartition, match="there is no topic missing"):
            producer.send("missing", "a", "b")
        with pytest.raises(UnknownTopicOrPartition, match="topic orders has partitions 0 to 6, no 7"):
            producer.send("orders", "a", "b", partition=7)
        with pytest.raises(InvalidRecord, match="the topic is compacted by key"):
            producer.send("table", None, "b")
        untyped: RecordProducer[Any, Any] = producer
        with pytest.raises(SerdeMismatch, match=r"topic orders: the serdes .* key serde StringSerde was given a int, "):
            untyped.send("orders", 5, "b")
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic missing"):
        next(read_topic(log, "missing", STRING, STRING))


def test_should_read_what_is_there_and_name_what_a_serde_cannot_read(log: InMemoryLog) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        for number in range(5):
            producer.send("orders", "k", str(number), partition=number % 2)
        producer.flush()
        reading = read_topic(log, "orders", STRING, STRING)
        first = next(reading)
        producer.send("orders", "k", "later", partition=0)
        producer.flush()

        found = [first, *reading]
    assert sorted((record.partition, record.offset, record.value) for record in found) == [
        (0, 0, "0"), (0, 1, "2"), (0, 2, "4"), (1, 0, "1"), (1, 1, "3"),
    ]  # fmt: skip
    with pytest.raises(UndecodableRecord, match=r"orders-\d at offset 0: LongSerde cannot read the value, 1 byte: 3"):
        list(read_topic(log, "orders", STRING, LONG))
