"""Subscriptions of one group, read by the layout of those before them: the same values as field by field."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError
from assignor.protocol.consumer_protocol import Subscription, decode_subscription_by_fields, encode_subscription
from assignor.protocol.subscription_info import (
    SubscriptionInfo,
    decode_subscription_info_by_fields,
    encode_subscription_info,
)
from assignor.protocol.subscription_layouts import GroupReader, MemberFields, member_fields
from assignor.protocol.usual_subscriptions import UsualSubscription
from assignor.types import LATEST_OFFSET, ProcessId, TaskId, TopicPartition

NUMBERS = st.integers(0, 9)
SHORT = st.sampled_from(["", "a", "b", "ab", "\u00e4", "\u0000"])
TOPICS = st.sampled_from(["one", "two", "three"])
PARTITIONS = st.builds(TopicPartition, TOPICS, NUMBERS)
SUMS = st.dictionaries(st.builds(TaskId, NUMBERS, NUMBERS, st.none()), st.integers(-3, 2**40), max_size=3)


@st.composite
def subscriptions(draw: st.DrawFn) -> bytes:
    info = SubscriptionInfo(
        draw(st.sampled_from([11, 11, 11, 10])),
        11,
        draw(st.builds(ProcessId, NUMBERS, NUMBERS)),
        draw(SHORT),
        draw(SUMS),
        draw(NUMBERS),
        draw(st.integers(0, 4)),
        draw(st.sampled_from([{}, {}, {"zone": "a"}])),
    )
    owned = tuple(draw(st.lists(PARTITIONS, max_size=3, unique=True)))
    topics = draw(st.sampled_from([("one", "two"), ("one", "two"), ("one", "six")]))
    return encode_subscription(Subscription(topics, encode_subscription_info(info), owned, draw(NUMBERS), draw(SHORT)))


@st.composite
def a_byte_changed(draw: st.DrawFn, raw: bytes) -> bytes:
    at = draw(st.integers(0, len(raw) - 1))
    return raw[:at] + bytes([draw(st.sampled_from([0, 1, 0xFF]))]) + raw[at + 1 :]


def by_fields(raw: bytes) -> MemberFields | Subscription | None:
    """What the other reader makes of it; None for bytes with a mistake in the subscription."""
    try:
        subscription = decode_subscription_by_fields(raw)
    except DecodeError:
        return None
    try:
        return member_fields(subscription, decode_subscription_info_by_fields(subscription.user_data or b""))
    except DecodeError:
        return subscription


@given(data=st.data())
def test_should_read_each_member_of_a_group_as_it_is_read_field_by_field(data: st.DataObject) -> None:
    whole = data.draw(st.lists(subscriptions(), min_size=1, max_size=5))
    changed = [data.draw(a_byte_changed(raw)) for raw in whole]
    read = GroupReader().read
    for raw in [*whole, *changed, *whole]:
        fields = read(raw)
        expected = by_fields(raw)
        if isinstance(fields, MemberFields):
            assert fields == expected
        elif isinstance(fields, UsualSubscription):
            assert Subscription(*fields) == decode_subscription_by_fields(raw)


def test_should_read_what_the_members_of_a_large_group_send() -> None:
    """By one reader, so that all but the first have a layout that is known."""
    read = GroupReader().read
    for number in range(4):
        sums = {TaskId(0, number): LATEST_OFFSET, TaskId(1, number): 10 * number}
        info = SubscriptionInfo(11, 11, ProcessId(number, -number), f"host:{number}", sums, number, 0)
        owned = (TopicPartition("one", number), TopicPartition("two", 2 * number), TopicPartition("two", 9))
        subscription = Subscription(("one", "two"), encode_subscription_info(info), owned, 7, f"rack-{number}")
        assert read(encode_subscription(subscription)) == member_fields(subscription, info)
    many = {TaskId(0, number): LATEST_OFFSET for number in range(100)}
    for _ in range(2):
        with_many = replace(info, task_offset_sums=many)
        subscription = replace(subscription, user_data=encode_subscription_info(with_many))
        assert read(encode_subscription(subscription)) == member_fields(subscription, with_many)
