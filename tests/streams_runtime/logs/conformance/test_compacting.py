"""Compaction of changelogs: the latest record of each key stays where it is; offsets get gaps.

Only for this project's own logs: brokers compact when they choose to, by their own clock.
"""

import random

from assignor.types import TopicPartition
from streams_runtime.logs.base import NewTopic
from tests.streams_runtime.logs.reading_and_writing import (
    C0,
    NOW_MS,
    T0,
    OwnLog,
    Read,
    compact,
    read_from,
    records_of,
    write,
    write_pairs,
)
from tests.streams_runtime.manual_clock import ManualClock


def pairs_of(log: OwnLog, partition: TopicPartition = C0) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_from(log, partition)]


def test_should_keep_the_latest_record_of_each_key_and_leave_the_head_alone(own_log: OwnLog) -> None:
    write_pairs(own_log, C0, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    write_pairs(own_log, C0, (b"c", b"4"), (b"b", b"5"))
    write_pairs(own_log, C0, (b"c", b"6"), (b"c", b"7"))  # the last batch is the head
    compact(own_log, "changelog")
    assert pairs_of(own_log) == [(2, b"a", b"3"), (3, b"c", b"4"), (4, b"b", b"5"), (5, b"c", b"6"), (6, b"c", b"7")]
    assert (own_log.begin_offsets([C0]), own_log.end_offsets([C0])) == ({C0: 0}, {C0: 7})
    write_pairs(own_log, C0, (b"d", b"8"))
    compact(own_log, "changelog")
    assert pairs_of(own_log) == [(2, b"a", b"3"), (4, b"b", b"5"), (6, b"c", b"7"), (7, b"d", b"8")]


def test_should_leave_as_much_alone_as_segment_bytes_says(own_log: OwnLog) -> None:
    segmented = TopicPartition("segmented", 0)
    own_log.create_topics([NewTopic("segmented", 1, {"cleanup.policy": "compact", "segment.bytes": "2500"})])
    for _ in range(4):
        write(own_log, segmented, bytes(1_000))
    compact(own_log, "segmented")
    assert [record.offset for record in read_from(own_log, segmented)] == [1, 2, 3]


def test_should_leave_alone_what_is_younger_than_min_compaction_lag(own_log: OwnLog, clock: ManualClock) -> None:
    lagging = TopicPartition("lagging", 0)
    configs = {"cleanup.policy": "compact", "segment.bytes": "1", "min.compaction.lag.ms": "1000"}
    own_log.create_topics([NewTopic("lagging", 1, configs)])
    for timestamp_ms in (NOW_MS, NOW_MS + 1, NOW_MS + 500, NOW_MS + 10):
        write(own_log, lagging, b"x", timestamp_ms=timestamp_ms)
    clock.advance(1_001)
    compact(own_log, "lagging")
    assert [record.offset for record in read_from(own_log, lagging)] == [1, 2, 3]
    clock.advance(1_000)
    compact(own_log, "lagging")
    assert [record.offset for record in read_from(own_log, lagging)] == [2, 3]


def test_should_keep_timestamps_and_headers_of_what_stays(own_log: OwnLog) -> None:
    producer = own_log.producer()
    producer.send(C0, b"a", b"1", 1)
    producer.send(C0, b"b", b"2", 2, (("h", b"x"),))
    producer.send(C0, b"a", b"3", 3)
    producer.flush()
    producer.send(C0, b"z", b"4", 4)
    producer.close()
    compact(own_log, "changelog")
    assert read_from(own_log, C0) == [
        Read(1, 2, b"b", b"2", (("h", b"x"),)),
        Read(2, 3, b"a", b"3"),
        Read(3, 4, b"z", b"4"),
    ]


def test_should_keep_a_tombstone_for_delete_retention_once_seen(own_log: OwnLog, clock: ManualClock) -> None:
    write_pairs(own_log, C0, (b"a", b"1"), (b"b", b"2"), (b"a", None))
    write_pairs(own_log, C0, (b"z", b"3"))
    clock.advance(1_000_000)  # before compaction sees it, time does not count
    compact(own_log, "changelog")
    assert pairs_of(own_log) == [(1, b"b", b"2"), (2, b"a", None), (3, b"z", b"3")]
    clock.advance(999)
    write_pairs(own_log, C0, (b"z", b"4"))
    compact(own_log, "changelog")
    assert pairs_of(own_log) == [(1, b"b", b"2"), (2, b"a", None), (3, b"z", b"3"), (4, b"z", b"4")]
    clock.advance(1)
    compact(own_log, "changelog")
    assert pairs_of(own_log) == [(1, b"b", b"2"), (3, b"z", b"3"), (4, b"z", b"4")]


def test_should_forget_a_key_when_its_tombstone_was_all_that_was_left(own_log: OwnLog, clock: ManualClock) -> None:
    write_pairs(own_log, C0, (b"a", b"1"))
    write_pairs(own_log, C0, (b"a", None))
    write_pairs(own_log, C0, (b"z", b"2"))
    compact(own_log, "changelog")
    clock.advance(1_000)
    compact(own_log, "changelog")
    assert pairs_of(own_log) == [(2, b"z", b"2")]
    assert own_log.begin_offsets([C0]) == {C0: 0}


def test_should_continue_when_a_consumer_stands_in_a_gap(own_log: OwnLog) -> None:
    write_pairs(own_log, C0, *[(b"a", b"%d" % number) for number in range(10)])
    write_pairs(own_log, C0, (b"z", b"10"))
    compact(own_log, "changelog")
    consumer = own_log.consumer()
    consumer.assign([C0])
    for position in (0, 4, 9):
        consumer.seek(C0, position)
        assert [(record.offset, record.value) for record in records_of(consumer.poll(0, 1))] == [(9, b"9")]
        assert consumer.position(C0) == 10
    (batch,) = consumer.poll(0, 10)
    assert list(batch.offsets) == [10]
    consumer.seek(C0, 0)
    (batch,) = consumer.poll(0, 10)
    assert list(batch.offsets) == [9, 10]


def test_should_not_compact_a_topic_whose_policy_is_delete(own_log: OwnLog) -> None:
    write(own_log, T0, b"1", b"2")
    write(own_log, T0, b"3")
    compact(own_log, "topic")
    assert [record.offset for record in read_from(own_log, T0)] == [0, 1, 2]


def test_should_compact_by_itself_when_half_of_it_is_dirty(own_log: OwnLog) -> None:
    keys = [b"%02d" % number for number in range(20)]
    write_pairs(own_log, C0, *[(key, bytes(100)) for key in keys])
    write_pairs(own_log, C0, (b"z", b""))
    own_log.maintain()
    assert len(read_from(own_log, C0)) == 21  # nothing was superseded, but all of it but the head is clean now
    write_pairs(own_log, C0, *[(key, bytes(100)) for key in keys[:10]])
    write_pairs(own_log, C0, (b"z", b""))
    own_log.maintain()
    assert len(read_from(own_log, C0)) == 32  # a third is dirty
    write_pairs(own_log, C0, *[(key, bytes(100)) for key in keys[:15]])
    write_pairs(own_log, C0, (b"z", b""))
    own_log.maintain()
    assert [record.offset for record in read_from(own_log, C0)] == [15, 16, 17, 18, 19, *range(31, 48)]


def test_should_hold_the_latest_value_of_every_key_at_any_time(own_log: OwnLog, clock: ManualClock) -> None:
    chance = random.Random(7)
    expected: dict[bytes, bytes | None] = {}
    end = 0
    for _ in range(60):
        pairs: list[tuple[bytes, bytes | None]] = []
        for _ in range(chance.randint(1, 30)):
            key = b"%d" % chance.randint(0, 25)
            pairs.append((key, None if chance.random() < 0.3 else chance.randbytes(chance.randint(0, 40))))
        expected.update(pairs)
        write_pairs(own_log, C0, *pairs)
        end += len(pairs)
        clock.advance(chance.choice((0, 1, 400, 2_000)))
        chance.choice((own_log.maintain, lambda: compact(own_log, "changelog"), lambda: None))()
        assert own_log.end_offsets([C0]) == {C0: end}
    compact(own_log, "changelog")
    clock.advance(2_000)
    write_pairs(own_log, C0, (b"z", b""))
    compact(own_log, "changelog")
    records = read_from(own_log, C0)
    seen = {record.key: record.value for record in records if record.value is not None and record.key != b"z"}
    assert seen == {key: value for key, value in expected.items() if value is not None}
    assert len(records) == len({record.key for record in records})
    assert [record.offset for record in records] == sorted({record.offset for record in records})
