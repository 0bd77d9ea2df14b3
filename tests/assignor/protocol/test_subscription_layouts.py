"""Subscriptions of one group, read together: the same values as field by field."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError
from assignor.protocol.consumer_protocol import Subscription, decode_subscription_by_fields, encode_subscription
from assignor.protocol.subscription_info import (
    SubscriptionInfo,
    decode_subscription_info_by_fields,
    encode_subscription_info,
)
from assignor.protocol.subscription_layouts import MemberFields, member_fields, usual_members
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
    raws = list(dict.fromkeys(data.draw(st.permutations([*whole, *changed]))))
    read = usual_members(raws)
    assert set(read) <= set(raws)
    for raw, member in read.items():
        if isinstance(member, MemberFields):
            assert member == by_fields(raw)
        else:
            assert Subscription(*member) == decode_subscription_by_fields(raw)


def test_should_read_what_the_members_of_a_large_group_send() -> None:
    """Members of three sizes; those of each size differ in all that may differ in one layout."""
    expected: dict[bytes, MemberFields] = {}
    for number in range(9):
        tasks = number % 3
        sums = {TaskId(subtopology, number): 10 * number + subtopology for subtopology in range(tasks)}
        info = SubscriptionInfo(11, 11, ProcessId(number, -number), f"host:{number}", sums, number, number)
        owned = (TopicPartition("one", number), TopicPartition("two", 2 * number), TopicPartition("two", 99))[:tasks]
        subscription = Subscription(("one", "two"), encode_subscription_info(info), owned, 7, f"rack-{number}")
        expected[encode_subscription(subscription)] = member_fields(subscription, info)
    assert usual_members(expected) == expected
    assert len(set(map(len, expected))) == 3


def test_should_read_alone_what_has_the_size_of_others_and_another_layout() -> None:
    """A topic with a longer name and an end point that is shorter by as much."""
    expected: dict[bytes, MemberFields] = {}
    for number in range(6):
        end_point, topic = [("host:1", "t"), ("host", "ttt"), ("", "ttttttt")][number % 3]
        sums = dict.fromkeys([TaskId(0, number) for number in range(30 * number)], LATEST_OFFSET) if number > 3 else {}
        info = SubscriptionInfo(11, 11, ProcessId(0, number), end_point or None, sums, 1, 0)
        subscription = Subscription((topic,), encode_subscription_info(info), (), 7, None)
        expected[encode_subscription(subscription)] = member_fields(subscription, info)
    assert usual_members(expected) == expected
