"""Topics: names, partition counts, configs, and topics that do not exist."""

from collections.abc import Callable

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import IsolationLevel, Log, NewTopic, TopicDescription
from streams_runtime.logs.log_errors import InvalidTopic, TopicExists, UnknownTopicOrPartition
from tests.streams_runtime.logs.reading_and_writing import T0, T1, reading, values_of, write

MISSING = TopicPartition("topic", 2)
NO_TOPIC = TopicPartition("no-topic", 0)


def test_should_describe_what_was_created(log: Log, changelog_configs: dict[str, str]) -> None:
    assert log.topics() == {
        "changelog": TopicDescription("changelog", 1, changelog_configs),
        "topic": TopicDescription("topic", 2, {}),
    }


def test_should_leave_a_topic_as_it_is_when_it_exists_with_the_same_number_of_partitions(log: Log) -> None:
    write(log, T0, b"there")
    log.create_topics([NewTopic("topic", 2, {"retention.ms": "5"}), NewTopic("another", 1)])
    assert log.topics()["topic"] == TopicDescription("topic", 2, {})
    assert log.topics()["another"] == TopicDescription("another", 1, {})
    assert values_of(log, T0) == [(0, b"there")]


def test_should_refuse_another_number_of_partitions_and_then_create_none(log: Log) -> None:
    with pytest.raises(TopicExists, match="topic topic has 2 partitions, not 3"):
        log.create_topics([NewTopic("another", 1), NewTopic("topic", 3)])
    with pytest.raises(TopicExists, match="topic twice has 1 partitions, not 2"):
        log.create_topics([NewTopic("twice", 1), NewTopic("twice", 2)])
    assert sorted(log.topics()) == ["changelog", "topic"]


def test_should_say_how_many_partitions_a_topic_has(log: Log) -> None:
    assert [log.partitions_of(topic) for topic in ("topic", "changelog", "no-topic")] == [2, 1, 0]
    log.create_topics([NewTopic("no-topic", 3)])
    assert log.partitions_of("no-topic") == 3, "that it was not there is not remembered"


@pytest.mark.parametrize("name", ["", ".", "..", "with space", "ä", "x" * 250, "a/b"])
def test_should_refuse_names_that_kafka_refuses(log: Log, name: str) -> None:
    with pytest.raises(InvalidTopic, match="is not a topic name"):
        log.create_topics([NewTopic(name, 1)])
    assert sorted(log.topics()) == ["changelog", "topic"]


def test_should_refuse_a_topic_without_partitions(log: Log) -> None:
    with pytest.raises(InvalidTopic, match="topic none must have at least one partition, not 0"):
        log.create_topics([NewTopic("none", 0)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "compress"),
        ("retention.ms", "-2"),
        ("delete.retention.ms", "soon"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "half"),
        ("segment.bytes", "0"),
    ],
)
def test_should_refuse_configs_that_mean_nothing(log: Log, key: str, value: str) -> None:
    with pytest.raises(InvalidTopic, match=f"topic another: {key} must be .*, not '{value}'"):
        log.create_topics([NewTopic("another", 1, {key: value})])
    assert "another" not in log.topics()


def test_should_begin_and_end_at_zero_when_nothing_was_written(log: Log) -> None:
    assert log.begin_offsets([T0, T1]) == {T0: 0, T1: 0}
    assert log.end_offsets([T0, T1]) == {T0: 0, T1: 0}
    assert log.end_offsets([]) == {}
    assert log.begin_offsets([]) == {}


def _produce(log: Log, partition: TopicPartition) -> None:
    log.producer().send(partition, b"k", b"v", 0)


def _consume(log: Log, partition: TopicPartition) -> None:
    consumer = reading(log, T0, partition)
    for _ in range(100):  # a broker on a busy machine may not have said yet which partitions there are
        consumer.poll(100, 1)


@pytest.mark.parametrize("partition", [MISSING, NO_TOPIC], ids=str)
@pytest.mark.parametrize(
    "use",
    [
        lambda log, partition: log.begin_offsets([T0, partition]),
        lambda log, partition: log.end_offsets([T0, partition]),
        lambda log, partition: log.end_offsets([T0, partition], IsolationLevel.READ_UNCOMMITTED),
        lambda log, partition: log.delete_records({T0: 0, partition: 0}),
        _produce,
        _consume,
    ],
    ids=["begin_offsets", "end_offsets", "end_offsets uncommitted", "delete_records", "send", "poll"],
)
def test_should_name_unknown_ones(
    log: Log, partition: TopicPartition, use: Callable[[Log, TopicPartition], object]
) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=f"there is no partition {partition}"):
        use(log, partition)


def test_should_find_a_topic_that_was_created_after_it_was_missed(log: Log) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        log.end_offsets([NO_TOPIC])
    log.create_topics([NewTopic("no-topic", 1)])
    write(log, NO_TOPIC, b"now")
    assert values_of(log, NO_TOPIC) == [(0, b"now")]
