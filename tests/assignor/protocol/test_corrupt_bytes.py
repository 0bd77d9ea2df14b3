"""Whatever bytes come in: a value or DecodeError, with memory and time bounded by their length."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError
from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info, encode_assignment_info
from assignor.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from assignor.protocol.subscription_info import (
    SubscriptionInfo,
    decode_member,
    decode_members,
    decode_subscription_info,
    encode_subscription_info,
)
from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition
from tests.assignor.protocol.messages import ENCODED_BY_KIND

DECODE_BY_KIND: dict[str, Callable[[bytes], Any]] = {
    "subscription": decode_subscription,
    "assignment": decode_assignment,
    "subscription-info": decode_subscription_info,
    "assignment-info": decode_assignment_info,
}

KINDS = pytest.mark.parametrize("kind", DECODE_BY_KIND)


def offset_of_error(kind: str, data: bytes) -> int:
    """Where decoding failed with DecodeError; 0 when it did not fail. Any other exception goes on to the test."""
    try:
        DECODE_BY_KIND[kind](data)
    except DecodeError as error:
        return error.offset
    return 0


@st.composite
def damaged(draw: st.DrawFn, valid: st.SearchStrategy[bytes]) -> bytes:
    """Valid bytes with some overwritten, cut out or put in, and perhaps cut short."""
    data = bytearray(draw(valid))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from([0, 1, 2, 4, 8]))
        piece = draw(st.sampled_from([b"", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80"]) | st.binary(max_size=4))
        data[start : start + length] = piece
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@KINDS
@given(data=st.data())
def test_should_decode_or_raise_decode_error_when_valid_bytes_are_damaged(kind: str, data: st.DataObject) -> None:
    raw = data.draw(damaged(ENCODED_BY_KIND[kind]))

    assert 0 <= offset_of_error(kind, raw) <= len(raw)


def error_of(decode: Callable[[bytes], object], data: bytes) -> DecodeError | None:
    try:
        decode(data)
    except DecodeError as error:
        return error
    return None


@given(data=st.data())
def test_should_name_member_structure_and_byte_of_whatever_is_damaged_in_a_subscription(data: st.DataObject) -> None:
    info = data.draw(ENCODED_BY_KIND["subscription-info"] | damaged(ENCODED_BY_KIND["subscription-info"]))
    whole = st.just(encode_subscription(Subscription(("a", "b"), info, (TopicPartition("a", 1),), 7, "rack")))
    raw = data.draw(whole | damaged(whole))

    alone, in_group = error_of(decode_member, raw), error_of(lambda sent: dict(decode_members({"m": sent})), raw)

    assert (alone is None) == (in_group is None)
    if alone is not None:
        assert alone.what in ("ConsumerProtocolSubscription", "SubscriptionInfo", "user data")
        assert 0 <= alone.offset <= len(raw)
        assert str(in_group) == f"subscription of member m: {alone}"


TASKS = tuple(TaskId(0, partition) for partition in range(3))
NAMED_TASKS = tuple(TaskId(0, partition, "käse") for partition in range(3))
PARTITIONS = tuple(TopicPartition("tøpic", partition) for partition in range(3))
MOST_PLACES = 60
"""In so many places of a message, at most, stands a corrupt count."""

HOSTS = {HostInfo("host", 80): PARTITIONS, HostInfo("hóst", 81): PARTITIONS[:1]}


def info_samples(version: int, tasks: tuple[TaskId, ...]) -> list[tuple[str, bytes]]:
    subscription = SubscriptionInfo(
        version, 11, ProcessId(1, -1), "h:1", dict.fromkeys(tasks, -2) | {TaskId(1, 1): 7}, 1, 0, {"a": "b", "ü": ""}
    )
    assignment = AssignmentInfo(version, 11, tasks, dict.fromkeys(tasks, PARTITIONS), HOSTS, HOSTS)
    return [
        ("subscription-info", encode_subscription_info(subscription)),
        ("assignment-info", encode_assignment_info(assignment)),
    ]


def samples() -> list[tuple[str, bytes]]:
    """Messages of every version in which every kind of count is there."""
    found = [sample for version in range(1, 12) for sample in info_samples(version, TASKS)]
    found += [sample for version in (10, 11) for sample in info_samples(version, NAMED_TASKS)]
    for version in range(4):
        subscription = Subscription(("a", "b"), b"user data", PARTITIONS, 5, "rack")
        found.append(("subscription", encode_subscription(subscription, version)))
        found.append(("assignment", encode_assignment(Assignment(PARTITIONS, b"user data"), version)))
    return found


def sample_id(value: object) -> str:
    return value if isinstance(value, str) else f"version{value[:4].hex()}" if isinstance(value, bytes) else ""


@pytest.mark.parametrize("kind, valid", samples(), ids=sample_id)
def test_should_raise_decode_error_for_every_shorter_piece(kind: str, valid: bytes) -> None:
    DECODE_BY_KIND[kind](valid)

    for end in range(len(valid)):
        with pytest.raises(DecodeError) as raised:
            DECODE_BY_KIND[kind](valid[:end])
        assert 0 <= raised.value.offset <= end


@pytest.mark.parametrize("kind, valid", samples(), ids=sample_id)
def test_should_ignore_bytes_after_the_last_field(kind: str, valid: bytes) -> None:
    assert DECODE_BY_KIND[kind](valid + b"more") == DECODE_BY_KIND[kind](valid)


@pytest.mark.parametrize("kind, valid", samples(), ids=sample_id)
def test_should_not_allocate_what_a_corrupt_count_asks_for(kind: str, valid: bytes) -> None:
    tracemalloc.start()
    try:
        for at in range(0, len(valid) - 3, 1 + len(valid) // MOST_PLACES):
            for count in (b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"):
                offset_of_error(kind, valid[:at] + count + valid[at + 4 :])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 200_000
