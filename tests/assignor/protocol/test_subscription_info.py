"""The corners of SubscriptionInfo that random values and the vectors leave out."""

import re

import pytest

from assignor.errors import DecodeError, IllegalArgumentError, IllegalStateError, TaskAssignmentError
from assignor.java.hash_codes import string_hash
from assignor.java.order import hash_set_order
from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.protocol.subscription_info import (
    MemberSubscription,
    SubscriptionInfo,
    decode_member,
    decode_members,
    decode_subscription_info,
    encode_subscription_info,
)
from assignor.types import ProcessId, TaskId, TopicPartition

TASK = TaskId(0, 1)
NAMED_TASK = TaskId(0, 1, "orders")
NO_USER_DATA = encode_subscription(Subscription(("a",)))
NO_SUBSCRIPTION = b"\0"


def sent_by(process: int) -> bytes:
    info = SubscriptionInfo(11, process_id=ProcessId(0, process), task_offset_sums={TaskId(0, process): 7})
    return encode_subscription(
        Subscription(("a", "b"), encode_subscription_info(info), (TopicPartition("a", process),), 7, f"rack-{process}")
    )


@pytest.mark.parametrize("version", range(1, 7))
def test_should_keep_a_task_that_old_versions_list_twice(version: int) -> None:
    info = SubscriptionInfo(version, task_offset_sums={TASK: -3}, listed_twice=frozenset({TASK}))

    decoded = decode_subscription_info(encode_subscription_info(info))

    assert decoded.task_offset_sums == {TASK: -3}
    assert [decoded.prev_tasks, decoded.standby_tasks, decoded.listed_twice] == [frozenset({TASK})] * 3


def test_should_read_only_the_versions_of_a_future_subscription() -> None:
    decoded = decode_subscription_info(b"\0\0\0\x0c\0\0\0\x0d" + b"whatever")

    assert decoded == SubscriptionInfo(12, 13)
    assert decoded.is_future


def test_should_refuse_to_write_a_future_version() -> None:
    with pytest.raises(IllegalStateError) as raised:
        encode_subscription_info(SubscriptionInfo(12, 13))

    assert str(raised.value) == (
        "Should never try to encode a SubscriptionInfo with version [12] > LATEST_SUPPORTED_VERSION [11]"
    )


@pytest.mark.parametrize("version", range(1, 10))
def test_should_refuse_a_named_topology_when_the_version_cannot_say_it(version: int) -> None:
    with pytest.raises(TaskAssignmentError) as raised:
        encode_subscription_info(SubscriptionInfo(version, task_offset_sums={NAMED_TASK: -2}))

    assert str(raised.value) == "Named topologies are not compatible with older protocol versions"


@pytest.mark.parametrize(
    "version, latest, message",
    [
        (0, 11, "version must be between 1 and 11; was: 0"),
        (7, 5, "version must be between 1 and 5; was: 7"),
        (
            3,
            -1,
            "Only versions 1 and 2 are expected to use an UNKNOWN (-1) latest supported version. Got 3.",
        ),
    ],
)
def test_should_refuse_versions_that_contradict_each_other(version: int, latest: int, message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=f"^{re.escape(message)}$"):
        SubscriptionInfo(version, latest)


@pytest.mark.parametrize(
    "raw, message",
    [
        (b"\0\0\0\0", "SubscriptionInfo: unknown version 0 at byte 0"),
        (b"\xff\xff\xff\xff\0\0\0\x0b", "SubscriptionInfo: unknown version -1 at byte 0"),
        (
            b"\0\0\0\x0b\0\0\0\x05",
            "SubscriptionInfo: version must be between 1 and 5; was: 11 at byte 0",
        ),
        (b"\0\0\0\x0c", "SubscriptionInfo: latest supported version needs 4 bytes but 0 remain at byte 4"),
    ],
)
def test_should_refuse_to_read_versions_that_cannot_be(raw: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=f"^{re.escape(message)}$"):
        decode_subscription_info(raw)


def test_should_refuse_a_client_tag_that_comes_twice() -> None:
    info = SubscriptionInfo(11, process_id=ProcessId(1, 2), client_tags={"rack": "a", "zone": "b"})
    raw = encode_subscription_info(info).replace(b"zone", b"rack")

    with pytest.raises(DecodeError, match="client tag 'rack' comes twice"):
        decode_subscription_info(raw)


def test_should_read_a_subscription_with_its_user_data() -> None:
    info = SubscriptionInfo(11, process_id=ProcessId(0, 3), task_offset_sums={TaskId(0, 3): 7})

    decoded = decode_member(sent_by(3))

    assert decoded == MemberSubscription(
        Subscription(("a", "b"), encode_subscription_info(info), (TopicPartition("a", 3),), 7, "rack-3"), info
    )


def test_should_read_the_members_of_a_group_in_the_order_of_javas_map() -> None:
    subscriptions = {f"member-{number}": sent_by(number % 7) for number in range(40)}

    decoded = list(decode_members(subscriptions))

    assert [member_id for member_id, _ in decoded] == hash_set_order(subscriptions, string_hash)
    assert dict(decoded) == {member_id: decode_member(raw) for member_id, raw in subscriptions.items()}


@pytest.mark.parametrize(
    "subscription, message",
    [
        (NO_SUBSCRIPTION, "ConsumerProtocolSubscription: version needs 2 bytes but 1 remain at byte 0"),
        (NO_USER_DATA, "user data: a Kafka Streams member sends a SubscriptionInfo, but there is none at byte 0"),
        (
            encode_subscription(Subscription((), b"\0\0\0\x0b\0")),
            "SubscriptionInfo: latest supported version needs 4 bytes but 1 remain at byte 4",
        ),
    ],
)
def test_should_name_the_member_the_structure_and_the_byte_of_a_mistake(subscription: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as alone:
        decode_member(subscription)
    with pytest.raises(DecodeError) as in_group:
        list(decode_members({"fine": sent_by(1), "broken": subscription}))

    assert str(alone.value) == message
    assert str(in_group.value) == f"subscription of member broken: {message}"
    assert in_group.value.member_id == "broken"


def test_should_name_a_mistake_in_a_subscription_before_any_in_user_data() -> None:
    with pytest.raises(DecodeError, match="subscription of member z: ConsumerProtocolSubscription"):
        list(decode_members({"a": NO_USER_DATA, "z": NO_SUBSCRIPTION}))


def test_should_name_the_first_of_several_members_that_sent_the_same_bytes() -> None:
    with pytest.raises(DecodeError, match="subscription of member first: "):
        list(decode_members({"first": NO_SUBSCRIPTION, "second": NO_SUBSCRIPTION}))
