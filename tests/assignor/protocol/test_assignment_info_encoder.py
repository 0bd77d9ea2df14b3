"""One encoder for a round: what it shares, what it keeps apart, and that real leaders' bytes come out of it."""

import pytest

from assignor.errors import DecodeError, IllegalArgumentError, InputError, TaskAssignmentError
from assignor.protocol.assignment_info import (
    AssignmentInfo,
    AssignmentInfoEncoder,
    decode_assignment_info,
    java_topic_dictionary,
)
from assignor.types import HostInfo, TaskId, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ACTIVE_HOSTS = {HostInfo("h", 1): (A0, B0)}
STANDBY_HOSTS = {HostInfo("h", 1): (A1,)}


def test_should_write_the_dictionary_that_is_passed_in() -> None:
    encoder = AssignmentInfoEncoder(11, 11, ACTIVE_HOSTS, STANDBY_HOSTS, topic_dictionary={"b": 7, "a": -1})

    raw = encoder.encode((), {})

    dictionary = b"\0\0\0\2" + b"\0\0\0\7" + b"\0\1b" + b"\xff\xff\xff\xff" + b"\0\1a"
    assert raw[16:].startswith(dictionary)
    assert decode_assignment_info(raw) == AssignmentInfo(
        11, partitions_by_host=ACTIVE_HOSTS, standby_partitions_by_host=STANDBY_HOSTS
    )


def test_should_number_and_write_topics_in_the_order_of_kafkas_hash_maps() -> None:
    partitions = tuple(TopicPartition(topic, 0) for topic in ("orders", "clicks", "users", "rates"))

    dictionary = java_topic_dictionary({HostInfo("h", 1): partitions})

    # as Kafka's AssignmentInfo.encode wrote it for the same partitions in a LinkedHashSet
    assert list(dictionary.items()) == [("rates", 0), ("clicks", 2), ("orders", 1), ("users", 3)]


@pytest.mark.parametrize("version", [-1, 0, 12])
def test_should_refuse_a_version_that_is_not_one(version: int) -> None:
    with pytest.raises(IllegalArgumentError) as raised:
        AssignmentInfoEncoder(version, 11, {}, {})

    assert str(raised.value) == f"version must be between 1 and 11; was: {version}"


def test_should_refuse_a_named_topology_when_the_version_cannot_say_it() -> None:
    encoder = AssignmentInfoEncoder(9, 11, {}, {})

    with pytest.raises(TaskAssignmentError) as raised:
        encoder.encode((TaskId(0, 0, "orders"),), {})

    assert str(raised.value) == "Named topologies are not compatible with protocol version 9"


def test_should_name_the_field_when_a_number_does_not_fit() -> None:
    encoder = AssignmentInfoEncoder(11, 11, {}, {})

    with pytest.raises(InputError, match=r"^task id: a number does not fit an int32$"):
        encoder.encode((TaskId(0, 2**31),), {})


def test_should_refuse_to_read_a_topic_that_the_dictionary_lacks() -> None:
    raw = AssignmentInfoEncoder(11, 11, ACTIVE_HOSTS, {}, topic_dictionary={"a": 0, "b": 1}).encode((), {})
    entry_of_b = b"\0\0\0\1\0\1b"
    assert raw.count(entry_of_b) == 1

    with pytest.raises(DecodeError, match="topic index 1 is not in the dictionary of 2"):
        decode_assignment_info(raw.replace(entry_of_b, b"\0\0\0\5\0\1b"))
