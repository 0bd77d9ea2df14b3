"""decode(encode(x)) == x, for every message and version, in all that the version carries."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info, encode_assignment_info
from assignor.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    wire_version,
)
from assignor.protocol.subscription_info import SubscriptionInfo, decode_subscription_info, encode_subscription_info
from assignor.types import TopicPartition, utf16_order
from tests.assignor.protocol import messages


@given(messages.subscription_infos())
def test_should_read_back_a_subscription_info(info: SubscriptionInfo) -> None:
    assert decode_subscription_info(encode_subscription_info(info)) == messages.subscription_info_as_carried(info)


@given(messages.subscription_infos().filter(lambda info: info.version >= 10))
def test_should_keep_the_order_of_tasks_on_the_wire(info: SubscriptionInfo) -> None:
    decoded = decode_subscription_info(encode_subscription_info(info))

    assert list(decoded.task_offset_sums.items()) == list(info.task_offset_sums.items())


@given(messages.assignment_infos())
def test_should_read_back_an_assignment_info_in_the_same_order(info: AssignmentInfo) -> None:
    decoded = decode_assignment_info(encode_assignment_info(info))

    assert decoded == messages.assignment_info_as_carried(info)
    assert list(decoded.standby_tasks) == list(info.standby_tasks)
    assert list(decoded.partitions_by_host) == list(messages.assignment_info_as_carried(info).partitions_by_host)


@given(messages.SUBSCRIPTIONS, messages.CONSUMER_VERSIONS)
def test_should_read_back_a_sorted_subscription(subscription: Subscription, version: int) -> None:
    raw = encode_subscription(subscription, version)
    owned = tuple(sorted(subscription.owned_partitions, key=utf16_key))
    expected = replace(
        subscription,
        topics=tuple(sorted(subscription.topics, key=utf16_order)),
        owned_partitions=owned if version >= 1 else (),
        generation_id=subscription.generation_id if version >= 2 else None,
        rack=subscription.rack if version >= 3 else None,
    )

    assert (wire_version(raw), decode_subscription(raw)) == (version, expected)


def utf16_key(partition: TopicPartition) -> tuple[bytes, int]:
    return utf16_order(partition.topic), partition.partition


@given(messages.ASSIGNMENTS, messages.CONSUMER_VERSIONS)
def test_should_read_back_an_assignment_grouped_by_topic(assignment: Assignment, version: int) -> None:
    raw = encode_assignment(assignment, version)
    topics = list(dict.fromkeys(partition.topic for partition in assignment.partitions))
    grouped = sorted(assignment.partitions, key=lambda partition: topics.index(partition.topic))

    assert (wire_version(raw), decode_assignment(raw)) == (version, replace(assignment, partitions=tuple(grouped)))
