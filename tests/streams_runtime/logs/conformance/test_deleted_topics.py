"""A topic that is deleted is gone for everybody, and one of the same name that is made later has nothing of it."""

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.log_errors import CommitFenced, OffsetOutOfRange, UnknownTopicOrPartition
from tests.streams_runtime.logs.reading_and_writing import T0, T1, offsets, reading, values_of, write
from tests.waiting import wait_until


def test_should_delete_a_topic_with_its_records(log: Log) -> None:
    write(log, T0, b"0", b"1")
    log.delete_topics(["topic"])
    assert "topic" not in log.topics()
    assert "changelog" in log.topics()
    with pytest.raises(UnknownTopicOrPartition, match="there is no partition topic-0"):
        log.end_offsets([T0])


def test_should_begin_anew_under_the_same_name(log: Log) -> None:
    write(log, T0, b"old", b"old")
    producer = log.producer()
    producer.send(T0, b"k", b"old", 0)
    producer.flush()
    log.delete_topics(["topic"])
    log.create_topics([NewTopic("topic", 3)])
    assert log.topics()["topic"].partitions == 3
    assert log.end_offsets([T0, T1, TopicPartition("topic", 2)]) == dict.fromkeys(
        [T0, T1, TopicPartition("topic", 2)], 0
    )
    write(log, T0, b"new")
    assert values_of(log, T0) == [(0, b"new")]


def test_should_have_another_id_under_the_same_name(log: Log) -> None:
    ids = log.topic_ids(["topic", "changelog", "none"])
    assert ids.keys() == {"topic", "changelog"}
    assert len(set(ids.values())) == 2
    log.delete_topics(["topic"])
    log.create_topics([NewTopic("topic", 1)])
    again = log.topic_ids(["topic", "changelog"])
    assert again["topic"] not in ids.values()
    assert again["changelog"] == ids["changelog"]
    assert log.cluster_id() is not None


def test_should_forget_the_offsets_of_every_group(log: Log) -> None:
    claim = log.claim("group", [T0])
    log.producer().commit_offsets(offsets(claim, T0, 3))
    assert set(log.committed_offsets("group", None)) == {T0}
    log.delete_topics(["topic"])
    wait_until(lambda: not log.committed_offsets("group", None), "a broker forgets them a moment after the topic")


def test_should_delete_nothing_when_one_of_the_topics_is_not_there(log: Log) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=r"there is no topic .*missing"):
        log.delete_topics(["topic", "missing"])
    assert "topic" in log.topics()
    log.delete_topics([])


def test_should_tell_a_consumer_that_its_topic_is_gone_or_another_one(own_log: Log) -> None:
    write(own_log, T0, b"0", b"1")
    consumer = reading(own_log, T0)
    assert len(consumer.poll(0, 10)[0]) == 2
    own_log.delete_topics(["topic"])
    with pytest.raises(UnknownTopicOrPartition):
        consumer.poll(0, 10)
    own_log.create_topics([NewTopic("topic", 1)])
    with pytest.raises(OffsetOutOfRange):
        consumer.poll(0, 10)
    consumer.seek(T0, 0)
    write(own_log, T0, b"new")
    assert consumer.poll(0, 10)[0].values == [b"new"]


def test_should_let_an_open_producer_write_to_the_new_topic_and_to_no_other(own_log: Log) -> None:
    producer = own_log.producer()
    producer.send(T0, None, b"old", 0)
    producer.flush()
    own_log.delete_topics(["topic"])
    own_log.create_topics([NewTopic("another", 2)])
    producer.send(T0, None, b"lost", 0)
    with pytest.raises(UnknownTopicOrPartition, match="there is no partition topic-0"):
        producer.flush()
    assert own_log.end_offsets([TopicPartition("another", 0), TopicPartition("another", 1)]) == {
        TopicPartition("another", 0): 0,
        TopicPartition("another", 1): 0,
    }
    own_log.create_topics([NewTopic("topic", 1)])
    producer.flush()
    assert values_of(own_log, T0) == [(0, b"lost")]


def test_should_fence_who_had_claimed_a_partition_of_it(own_log: Log) -> None:
    claim = own_log.claim("group", [T0])
    own_log.delete_topics(["topic"])
    own_log.create_topics([NewTopic("topic", 2)])
    with pytest.raises(CommitFenced):
        own_log.producer().commit_offsets(offsets(claim, T0, 7))
    assert own_log.committed_offsets("group", None) == {}


def test_should_find_the_first_offset_since_a_time(log: Log) -> None:
    for timestamp_ms in (1_000, 3_000, 2_000):
        write(log, T0, b"a", b"b", timestamp_ms=timestamp_ms)
    write(log, T1, b"a", timestamp_ms=500)
    assert log.offsets_for_time([T0, T1], 500) == {T0: 0, T1: 0}
    assert log.offsets_for_time([T0, T1], 501) == {T0: 0}
    assert log.offsets_for_time([T0], 1_500) == {T0: 2}
    assert log.offsets_for_time([T0], 3_001) == {}
    log.delete_records({T0: 3})
    assert log.offsets_for_time([T0], 1_500) == {T0: 3}
    with pytest.raises(UnknownTopicOrPartition):
        log.offsets_for_time([TopicPartition("missing", 0)], 1)
