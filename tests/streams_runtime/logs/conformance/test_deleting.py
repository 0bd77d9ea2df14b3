"""Begin offsets rise by `delete_records` and by retention; end offsets never go back.

Retention is tested on this project's own logs only: brokers delete when they choose to, by their own clock.
"""

from collections.abc import Mapping

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.log_errors import OffsetOutOfRange, UnknownTopicOrPartition
from tests.streams_runtime.logs.kafka.namespaced_log import NamespacedLog
from tests.streams_runtime.logs.reading_and_writing import NOW_MS, T0, T1, values_of, write
from tests.streams_runtime.manual_clock import ManualClock

KEPT = TopicPartition("kept", 0)


def test_should_raise_the_begin_offset_and_never_lower_it(log: Log) -> None:
    write(log, T0, b"0", b"1", b"2")
    write(log, T0, b"3", b"4")
    log.delete_records({T0: 4, T1: 0})
    assert log.begin_offsets([T0, T1]) == {T0: 4, T1: 0}
    assert values_of(log, T0, 4) == [(4, b"4")]
    log.delete_records({T0: 2})
    assert log.begin_offsets([T0]) == {T0: 4}
    assert log.end_offsets([T0]) == {T0: 5}


def test_should_go_on_with_the_next_offset_when_all_records_are_deleted(log: Log) -> None:
    write(log, T0, b"0", b"1", b"2")
    log.delete_records({T0: 3})
    log.maintain()
    assert (log.begin_offsets([T0]), log.end_offsets([T0])) == ({T0: 3}, {T0: 3})
    write(log, T0, b"3")
    assert values_of(log, T0, 3) == [(3, b"3")]


def test_should_delete_nothing_at_all_when_one_offset_is_beyond_the_end(log: Log) -> None:
    write(log, T0, b"0", b"1")
    write(log, T1, b"0")
    with pytest.raises(OffsetOutOfRange, match="no such offset: topic-1 at 2"):
        log.delete_records({T0: 1, T1: 2})
    assert log.begin_offsets([T0, T1]) == {T0: 0, T1: 0}
    log.delete_records({})


@pytest.mark.parametrize(
    ("configs", "begin"),
    [
        ({}, 0),
        ({"retention.ms": "9000"}, 0),
        ({"retention.ms": "8999"}, 2),
        ({"retention.ms": "7999"}, 4),
        ({"retention.ms": "0"}, 6),
        ({"retention.ms": "-1"}, 0),
        ({"retention.bytes": "0"}, 6),
        ({"retention.bytes": "-1"}, 0),
        ({"retention.bytes": "100000"}, 0),
        ({"retention.bytes": "2010"}, 2),
        ({"cleanup.policy": "compact", "retention.ms": "0"}, 0),
        ({"cleanup.policy": "compact, delete", "retention.ms": "8999"}, 0),  # the newest is 8,999 ms after the oldest
        ({"cleanup.policy": "compact, delete", "retention.ms": "8998"}, 2),
        ({"cleanup.policy": "compact,delete", "retention.ms": "0"}, 4),
        ({"cleanup.policy": "compact,delete", "retention.bytes": "0"}, 6),
    ],
)
def test_should_delete_oldest_batches(own_log: Log, clock: ManualClock, configs: Mapping[str, str], begin: int) -> None:
    own_log.create_topics([NewTopic("kept", 1, configs)])
    for age_ms in (9_000, 8_000, 1):
        write(own_log, KEPT, bytes(500), bytes(500), timestamp_ms=NOW_MS + 10_000 - age_ms)
    clock.advance(10_000)
    own_log.maintain()
    assert own_log.begin_offsets([KEPT]) == {KEPT: begin}
    assert [offset for offset, _ in values_of(own_log, KEPT, begin)] == list(range(begin, 6))
    assert own_log.end_offsets([KEPT]) == {KEPT: 6}


def test_should_keep_records_of_any_age_in_a_topic_that_names_no_retention(own_log: Log, clock: ManualClock) -> None:
    own_log.create_topics([NewTopic("kept", 1), NewTopic("week", 1, {"retention.ms": "604800000"})])
    for topic in ("kept", "week"):
        write(own_log, TopicPartition(topic, 0), b"x", timestamp_ms=NOW_MS)
    clock.advance(400 * 86_400_000)
    own_log.maintain()
    assert own_log.begin_offsets([KEPT, TopicPartition("week", 0)]) == {KEPT: 0, TopicPartition("week", 0): 1}


@pytest.mark.parametrize("age_days", [0.5, 1.2, 2, 30, 400])
def test_should_delete_windows_by_stream_time_not_by_the_clock(
    own_log: Log, clock: ManualClock, age_days: float
) -> None:
    """Its records are a backlog: behind the clock by more than `retention.ms`, and close to each other."""
    own_log.create_topics([NewTopic("kept", 1, {"cleanup.policy": "compact,delete", "retention.ms": "86400000"})])
    clock.advance(int((1 + age_days) * 86_400_000))
    write(own_log, KEPT, b"first", timestamp_ms=NOW_MS)
    write(own_log, KEPT, b"late", b"newest", timestamp_ms=NOW_MS + 86_400_000)
    write(own_log, KEPT, b"late again", timestamp_ms=NOW_MS)
    own_log.maintain()
    assert own_log.begin_offsets([KEPT]) == {KEPT: 0}
    write(own_log, KEPT, b"stream time goes on", timestamp_ms=NOW_MS + 86_400_001)
    own_log.maintain()
    assert own_log.begin_offsets([KEPT]) == {KEPT: 1}


def test_should_keep_the_newest_records_of_a_changelog_of_windows(own_log: Log, clock: ManualClock) -> None:
    own_log.create_topics([NewTopic("kept", 2, {"cleanup.policy": "compact,delete", "retention.ms": "1000"})])
    other = TopicPartition("kept", 1)
    write(own_log, KEPT, b"x", timestamp_ms=NOW_MS)
    for timestamp_ms in (NOW_MS, NOW_MS * 1_000_000):  # nanoseconds, in this partition only
        write(own_log, other, b"x", timestamp_ms=timestamp_ms)
    own_log.maintain()
    clock.advance(400 * 86_400_000)
    own_log.maintain()
    assert own_log.begin_offsets([KEPT, other]) == {KEPT: 0, other: 1}


def test_should_stop_at_the_first_batch_that_retention_keeps(own_log: Log, clock: ManualClock) -> None:
    own_log.create_topics([NewTopic("kept", 1, {"retention.ms": "100"})])
    for timestamp_ms in (NOW_MS, NOW_MS + 1_000, NOW_MS):
        write(own_log, KEPT, b"x", timestamp_ms=timestamp_ms)
    clock.advance(1_000)
    own_log.maintain()
    assert own_log.begin_offsets([KEPT]) == {KEPT: 1}


@pytest.mark.parametrize(
    ("configs", "own_ms", "kafka_ms"),
    [
        ({"retention.ms": "86400000"}, 86_400_000, 86_400_000),
        ({"retention.ms": "-1"}, None, None),
        ({"cleanup.policy": "compact", "retention.ms": "86400000"}, None, None),
        ({"cleanup.policy": "compact,delete", "retention.ms": "86400000"}, None, 86_400_000),
    ],
)
def test_should_say_how_old_by_the_clock_a_record_has_to_be_to_be_deleted(
    log: Log, configs: Mapping[str, str], own_ms: int | None, kafka_ms: int | None
) -> None:
    log.create_topics([NewTopic("kept", 1, configs)])
    assert log.deletes_after_ms("kept") == (kafka_ms if isinstance(log, NamespacedLog) else own_ms)
    with pytest.raises(UnknownTopicOrPartition):
        log.deletes_after_ms("no-such-topic")


@pytest.mark.parametrize(
    ("configs", "kept"),
    [
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, "5000"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "5001"}, "5001"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "-1"}, "-1"),
        ({"cleanup.policy": "delete", "retention.ms": "1000"}, "1000"),  # that is what the user asked for
    ],
)
def test_should_keep_windows_as_long_as_the_store_does(own_log: Log, configs: Mapping[str, str], kept: str) -> None:
    """The grace was raised, say, after the topic was made."""
    own_log.create_topics([NewTopic("kept", 2, configs)])
    for _ in range(2):
        own_log.keep_windows("kept", 5_000)
        assert own_log.topics()["kept"].configs == {**configs, "retention.ms": kept}
    for timestamp_ms in (NOW_MS, NOW_MS + 5_000):
        write(own_log, KEPT, b"x", timestamp_ms=timestamp_ms)
    own_log.maintain()
    assert own_log.begin_offsets([KEPT]) == {KEPT: 0}
    with pytest.raises(UnknownTopicOrPartition):
        own_log.keep_windows("no-such-topic", 5_000)
