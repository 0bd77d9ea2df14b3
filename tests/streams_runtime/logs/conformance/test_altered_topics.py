"""A topic gets more partitions and other configs while it is there, and keeps its records."""

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Log
from streams_runtime.logs.log_errors import InvalidTopic, RecordTooLarge, UnknownTopicOrPartition
from tests.streams_runtime.logs.reading_and_writing import T0, T1, values_of, write

T2 = TopicPartition("topic", 2)


def test_should_add_partitions_and_keep_the_records(log: Log) -> None:
    write(log, T0, b"0", b"1")
    log.alter_topic("topic", 3, {})
    assert log.topics()["topic"].partitions == log.partitions_of("topic") == 3
    write(log, T2, b"new")
    assert log.end_offsets([T0, T1, T2]) == {T0: 2, T1: 0, T2: 1}
    assert values_of(log, T0) == [(0, b"0"), (1, b"1")]
    log.alter_topic("topic", 3, {})  # again: as it is


def test_should_change_some_configs_and_leave_the_others(log: Log) -> None:
    log.alter_topic("topic", None, {"retention.ms": "5000", "max.message.bytes": "1000"})
    log.alter_topic("topic", None, {"max.message.bytes": "900"})
    configs = log.topics()["topic"].configs
    assert (configs["retention.ms"], configs["max.message.bytes"]) == ("5000", "900")
    with pytest.raises(RecordTooLarge, match="900"):
        write(log, T0, b"x" * 2_000)
    log.alter_topic("topic", None, {"retention.ms": None, "max.message.bytes": None})
    assert not {"retention.ms", "max.message.bytes"} & set(log.topics()["topic"].configs)
    write(log, T0, b"x" * 2_000)


def test_should_refuse_what_no_topic_can_have_and_change_nothing(log: Log) -> None:
    before = log.topics()["topic"]
    with pytest.raises(InvalidTopic, match="has 2 partitions and cannot have 1"):
        log.alter_topic("topic", 1, {"retention.ms": "1"})
    with pytest.raises(InvalidTopic, match=r"retention\.ms must be a whole number, not 'soon'"):
        log.alter_topic("topic", 3, {"retention.ms": "soon"})
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic missing"):
        log.alter_topic("missing", 3, {})
    assert log.topics()["topic"] == before
