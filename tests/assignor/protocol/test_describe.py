"""Bytes shown as plain data that JSON can hold."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError, InputError
from assignor.protocol.assignment_info import AssignmentInfo, encode_assignment_info
from assignor.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from assignor.protocol.describe import KINDS, describe
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition
from tests.assignor.protocol.messages import ENCODED_BY_KIND

DESCRIBED = json.loads((Path(__file__).parent / "described.json").read_text())
PROCESS, SUMS = ProcessId(0, 7), {TaskId(1, 0, "orders"): 5, TaskId(0, 1): -2}
INFO = encode_subscription_info(SubscriptionInfo(11, 11, PROCESS, "h:1", SUMS, 3, 4, {"zone": "a"}))
PARTITION = TopicPartition("t", 2)
ASSIGNED = encode_assignment_info(
    AssignmentInfo(11, 11, (TaskId(0, 2),), {TaskId(0, 3): (PARTITION,)}, {HostInfo("h", 1): (PARTITION,)}, {}, 99, 0)
)
NOTHING: dict[str, object] = {"topics": [], "owned_partitions": [], "generation_id": None, "rack": None}
FIELDS = {"topics": ["t"], "owned_partitions": [["t", 2]], "generation_id": 8, "rack": "r"}


@pytest.mark.parametrize(
    "kind, raw, expected",
    [
        ("subscription-info", INFO, DESCRIBED["subscription-info"]),
        ("subscription-info", b"\0\0\0\x0c\0\0\0\x0d", {"version": 12, "latest_supported_version": 13}),
        ("assignment-info", ASSIGNED, DESCRIBED["assignment-info"]),
        (
            "subscription",
            encode_subscription(Subscription(("t",), INFO, (PARTITION,), 8, "r"), 3),
            {"version": 3, **FIELDS, "user_data": DESCRIBED["subscription-info"]},
        ),
        ("subscription", encode_subscription(Subscription(()), 0), {"version": 0, **NOTHING, "user_data": None}),
        (
            "assignment",
            encode_assignment(Assignment((PARTITION,), ASSIGNED)),
            {"version": 3, "partitions": [["t", 2]], "user_data": DESCRIBED["assignment-info"]},
        ),
    ],
)
def test_should_show_every_field(kind: str, raw: bytes, expected: dict[str, object]) -> None:
    assert describe(kind, raw) == expected


def test_should_show_no_time_when_no_rebalance_is_asked_for() -> None:
    assert describe("assignment-info", encode_assignment_info(AssignmentInfo(11)))["next_rebalance_ms"] is None


def test_should_show_an_unpaired_surrogate_as_a_replacement() -> None:
    raw = encode_assignment_info(AssignmentInfo(2, partitions_by_host={HostInfo("\ud800", 1): ()}))

    assert describe("assignment-info", raw)["partitions_by_host"] == {"\ufffd:1": []}


@pytest.mark.parametrize("kind", KINDS)
def test_should_raise_decode_error_when_the_bytes_are_cut(kind: str) -> None:
    with pytest.raises(DecodeError):
        describe(kind, b"\0")


def test_should_name_the_kinds_when_it_is_none_of_them() -> None:
    with pytest.raises(InputError, match="'x' is not one of subscription, assignment, subscription-info"):
        describe("x", b"")


@given(st.data())
def test_should_be_the_same_after_json(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["subscription-info", "assignment-info"]))
    described = describe(kind, data.draw(ENCODED_BY_KIND[kind]))

    assert json.loads(json.dumps(described)) == described
