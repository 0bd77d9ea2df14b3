"""Foreign-key joins of tables: bytes, drops, partitions, restarts and misuse. Cases that Kafka has run show more."""

from pathlib import Path
from typing import Any

import pytest

from assignor.errors import StreamsError, TopologyError
from assignor.types import TaskId, TopicPartition
from streams_runtime import (
    LONG,
    STRING,
    Application,
    Materialized,
    NewTopic,
    ProcessingFailed,
    RecordProducer,
    StreamsBuilder,
    TopologyTestDriver,
    read_topic,
)
from streams_runtime.dsl.subscriptions import (
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
)
from streams_runtime.logs.in_memory import InMemoryLog
from tests.streams_runtime.dsl.driven import driven
from tests.streams_runtime.tasks.thread_rig import Rig, rig

HASH = bytes.fromhex("2e7425dec1f8bcdf51e014f04aa41568")
SUBSCRIPTION = SubscriptionWrapperSerde()
RESPONSE = SubscriptionResponseWrapperSerde(STRING)


def right_key(_key: str, value: str) -> str | None:
    """The first word of the left value; None if the value is "none"."""
    word = value.split(" ")[0]
    return None if word == "none" else word


def both(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def joining(*, left_join: bool = False, partitioners: bool = False, **options: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    left = builder.table("left", STRING, STRING, store=Materialized("left-store", caching=False))
    right = builder.table("right", STRING, STRING)
    join = left.foreign_key_left_join if left_join else left.foreign_key_join
    if partitioners:
        options.update(partitioner=by_length, other_partitioner=by_length)
    joined = join(right, right_key, both, value_serde=STRING, name="fk", **options)
    joined.to_stream().to("out", partitioner=by_length if partitioners else None)
    return builder


def by_length(key: Any, _value: object, partitions: int) -> int:
    return len(key) % partitions


# the bytes of Kafka's SubscriptionWrapperSerde and SubscriptionResponseWrapperSerde 4.3.1, which were run once


@pytest.mark.parametrize(
    ("subscription", "data"),
    [
        *(
            (SubscriptionWrapper(HASH, each, b"key", 258), f"01{each:02x}{HASH.hex()}{b'key'.hex()}00000102")
            for each in Instruction
        ),
        (SubscriptionWrapper(None, Instruction.DELETE_KEY_AND_PROPAGATE, b"", 0), "810100000000"),
        (
            SubscriptionWrapper(HASH, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, b"key", None),
            "00022e7425dec1f8bcdf51e014f04aa415686b6579",
        ),
        (SubscriptionWrapper(None, Instruction.DELETE_KEY_NO_PROPAGATE, b"key", None), "80006b6579"),
    ],
)
def test_should_write_and_read_subscriptions_as_kafka_does(subscription: SubscriptionWrapper, data: str) -> None:
    assert SUBSCRIPTION.serialize(subscription).hex() == data
    assert SUBSCRIPTION.deserialize(bytes.fromhex(data)) == subscription


@pytest.mark.parametrize(
    ("response", "data", "read"),
    [
        (
            SubscriptionResponseWrapper(HASH, "right", 7),
            f"00{HASH.hex()}7269676874",
            SubscriptionResponseWrapper(HASH, "right"),
        ),
        (SubscriptionResponseWrapper(HASH, None, 7), f"00{HASH.hex()}", SubscriptionResponseWrapper(HASH, None)),
        (SubscriptionResponseWrapper(HASH, "", 7), f"00{HASH.hex()}", SubscriptionResponseWrapper(HASH, None)),
        (SubscriptionResponseWrapper(None, "right", 7), "807269676874", SubscriptionResponseWrapper(None, "right")),
    ],
)
def test_should_write_and_read_responses_as_kafka_does(
    response: SubscriptionResponseWrapper, data: str, read: SubscriptionResponseWrapper
) -> None:
    assert RESPONSE.serialize(response).hex() == data
    assert RESPONSE.deserialize(bytes.fromhex(data)) == read


@pytest.mark.parametrize(
    ("serde", "data", "message"),
    [
        (SUBSCRIPTION, "", "needs at least 18 bytes, and has 0"),
        (SUBSCRIPTION, "0102aa", "needs at least 18 bytes, and has 3"),
        (SUBSCRIPTION, "8101", "of 2 bytes cannot hold a partition"),
        (SUBSCRIPTION, "8205", "does not support version 2"),
        (SUBSCRIPTION, "8104", "Unknown instruction byte value = 4"),
        (RESPONSE, "", "needs at least 17 bytes, and has 0"),
        (RESPONSE, "01" + HASH.hex(), "does not support version 1"),
    ],
)
def test_should_refuse_bytes_of_no_version_that_it_knows(serde: Any, data: str, message: str) -> None:
    with pytest.raises(StreamsError, match=message):
        serde.deserialize(bytes.fromhex(data))


def test_should_answer_a_subscription_of_an_old_release_by_the_hash_of_the_key() -> None:
    """A subscription of version 0 has no partition. 7 partitions: see `test_partitioner`."""
    nodes = joining().build().definition().nodes
    supplier: Any = nodes["fk-subscription-response-sink"].supplier
    assert supplier.partitioner("foobar", SubscriptionResponseWrapper(HASH, "right", 3), 7) == 3
    assert supplier.partitioner("hello", SubscriptionResponseWrapper(HASH, "right", None), 7) == 4


# records that are left out


def test_should_drop_rows_without_a_right_key_from_an_inner_join_and_remove_their_results() -> None:
    with driven(joining()) as run:
        run.pipe("right", ("a", "A", 1))
        run.pipe("left", ("k", "none", 2), ("k", "a", 3), ("k", "none", 4), ("k", None, 5))
        assert run.read("out") == [("k", "a+A", 3), ("k", None, 4)]
        assert run.driver.dropped_records() == {"null-foreign-key": 2}


def test_should_drop_responses_for_older_values_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with TopologyTestDriver(joining(left_join=True).build()) as driver:
        source = driver.create_input_topic("left", STRING, STRING)
        source.pipe_key_values([("k", "a 1"), ("k", "b 2"), ("k", "a 3")], together=True)
        read = driver.create_output_topic("out", STRING, STRING).read_key_values()
        assert read == [("k", "a 3+None")]
        assert driver.dropped_records() == {"outdated-response": 2}
    assert [record.getMessage() for record in caplog.records] == []


# several partitions, a crash, standbys

TOPICS = {"left": 3, "right": 2, "out": 3}
LEFT = {f"{'k' * (1 + number % 3)}{number}": f"{'r' * (1 + number % 4)} {number}" for number in range(24)}
"""Rows of all partitions. 6 rows each name the right keys r, rr, rrr and rrrr."""


class JoiningGroup:
    """Members of one application on a log in memory. Each member has a directory of its own."""

    def __init__(self, directory: Path, guarantee: str, partitioner: Any) -> None:
        self.directory, self.guarantee, self.partitioner = directory, guarantee, partitioner
        self.topology = joining(left_join=True, partitioners=partitioner is not None).build()
        self.log = InMemoryLog()
        subtopologies = self.topology.group_topology("app").subtopologies
        partitions = {each.id: max(TOPICS.get(topic, 0) for topic in each.source_topics) for each in subtopologies}
        self.inputs = {
            TaskId(each.id, number): frozenset(TopicPartition(topic, number) for topic in each.source_topics)
            for each in subtopologies
            for number in range(partitions[each.id])
        }
        self.log.create_topics([NewTopic(name, count, {"retention.ms": "-1"}) for name, count in TOPICS.items()])
        for each in subtopologies:
            count = partitions[each.id]
            self.log.create_topics([NewTopic(topic.name, count) for topic in each.repartition_source_topics])
            changelogs = [store.changelog_topic for store in each.stores if store.changelog_topic is not None]
            self.log.create_topics([NewTopic(topic, count, {"cleanup.policy": "compact"}) for topic in changelogs])

    def member(self, name: str) -> Rig:
        configs = {
            "application.id": "app",
            "bootstrap.servers": "memory:joining",
            "state.dir": self.directory / name,
            "commit.interval.ms": 1_000,
            "processing.guarantee": self.guarantee,
        }
        application = Application(self.topology, configs)
        return rig(
            self.directory / name, self.guarantee, log=self.log, name=name, topics=False, application=application
        )

    def write(self, topic: str, entries: dict[str, str]) -> None:
        with RecordProducer(self.log, STRING, STRING) as producer:
            for key, value in entries.items():
                chosen = self.partitioner and self.partitioner(key, value, TOPICS[topic])
                producer.send(topic, key, value, timestamp_ms=1_000, partition=chosen)

    def results(self) -> dict[Any, Any]:
        return {record.key: record.value for record in read_topic(self.log, "out", STRING, STRING)}


def joined_rows(right: dict[str, str]) -> dict[str, str]:
    return {key: both(value, right.get(value.split(" ")[0])) for key, value in LEFT.items()}


@pytest.mark.parametrize(
    ("guarantee", "partitioner"), [("at_least_once", None), ("exactly_once_v2", by_length)], ids=["alos", "eos"]
)
def test_should_join_rows_of_all_partitions_and_go_on_at_the_standbys_of_a_crashed_member(
    tmp_path: Path, guarantee: str, partitioner: Any
) -> None:
    group = JoiningGroup(tmp_path, guarantee, partitioner)
    first, second = group.member("first"), group.member("second")
    assert len(group.inputs) == 5
    first.work.manager.handle_assignment(group.inputs, {})
    second.work.manager.handle_assignment({}, group.inputs)
    group.write("left", LEFT)
    group.write("right", {"r": "A", "rr": "B", "rrr": "C"})
    first.passes()
    second.passes()
    assert group.results() == joined_rows({"r": "A", "rr": "B", "rrr": "C"})

    group.write("right", {"r": "D", "rrrr": "E"})
    first.commits = False
    first.passes(1)  # what this member does here is not committed
    first.close()
    second.work.manager.handle_assignment(group.inputs, {})
    second.passes()
    assert {task.state.value for task in second.tasks} == {"running"}
    assert group.results() == joined_rows({"r": "D", "rr": "B", "rrr": "C", "rrrr": "E"})
    second.close()


@pytest.mark.parametrize("commits", [True, False])
def test_should_join_no_row_that_is_put_and_deleted_between_two_commits(tmp_path: Path, commits: bool) -> None:
    """Without a commit between them, in Kafka the result keeps the deleted row: its deletion is never forwarded."""
    group = JoiningGroup(tmp_path, "at_least_once", None)
    member = group.member("first")
    member.work.manager.handle_assignment(group.inputs, {})
    member.passes()
    member.commits = commits
    group.write("right", {"r": "A", "rr": "B"})
    group.write("left", {"k": "r 1", "kk": "rr 2"})
    member.passes()
    with RecordProducer(group.log, STRING, STRING) as producer:
        producer.send("right", "r", None, timestamp_ms=2_000)
    member.passes()
    member.commits = True
    member.passes()
    assert group.results() == {"k": "r 1+None", "kk": "rr 2+B"}
    member.close()


def test_should_refuse_several_partitions_for_a_response() -> None:
    with driven(joining(partitioner=none)) as run:
        run.pipe("right", ("a", "A", 1))
        with pytest.raises(ProcessingFailed, match="must choose one partition for each record"):
            run.pipe("left", ("k", "a", 2))


def none(_key: Any, _value: object, _partitions: int) -> Any:
    return ()


# misuse


def test_should_refuse_what_cannot_be_joined() -> None:
    builder = StreamsBuilder()
    left: Any = builder.table("left", STRING, STRING)
    right: Any = builder.table("right", LONG, STRING)
    for join in (left.foreign_key_join, left.foreign_key_left_join):
        with pytest.raises(TopologyError, match="takes a KTable, not a KStream"):
            join(builder.stream("stream"), right_key, both)
        with pytest.raises(TopologyError, match=r"The foreign_key of KTable.foreign_key_.*join must be a function"):
            join(right, None, both)
        with pytest.raises(TopologyError, match=r"The joiner of KTable.foreign_key_.*join must be a function"):
            join(right, right_key, "both")
        with pytest.raises(TopologyError, match="The partitioner of a foreign-key join must be a function, not 3"):
            join(right, right_key, both, other_partitioner=3)
        with pytest.raises(TopologyError, match="come from different builders"):
            join(StreamsBuilder().table("right", STRING, STRING), right_key, both)


def test_should_give_the_joiner_the_left_key_when_asked() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left", STRING, STRING), builder.table("right", STRING, STRING)
    joined = left.foreign_key_join(
        right, right_key, lambda *values: ":".join(values), with_key=True, value_serde=STRING
    )
    joined.to_stream().to("out")
    with driven(builder) as run:
        run.pipe("left", ("k", "a", 1))
        run.pipe("right", ("a", "A", 2))
        assert run.read("out") == [("k", "k:a:A", 2)]
