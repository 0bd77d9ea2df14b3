"""Bytes shown as plain data that JSON can hold."""

import json

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

INFO = encode_subscription_info(
    SubscriptionInfo(
        version=11,
        process_id=ProcessId(0, 7),
        user_end_point="h:1",
        task_offset_sums={TaskId(1, 0, "orders"): 5, TaskId(0, 1): -2},
        unique_field=3,
        error_code=4,
        client_tags={"zone": "a"},
    )
)
DESCRIBED_INFO = {
    "version": 11,
    "latest_supported_version": 11,
    "process_id": "00000000-0000-0000-0000-000000000007",
    "user_end_point": "h:1",
    "task_offset_sums": {"orders__1_0": 5, "0_1": -2},
    "prev_tasks": ["0_1"],
    "standby_tasks": ["orders__1_0"],
    "unique_field": 3,
    "error_code": 4,
    "error": "SHUTDOWN_REQUESTED",
    "client_tags": {"zone": "a"},
}
PARTITION = TopicPartition("t", 2)
ASSIGNED = encode_assignment_info(
    AssignmentInfo(11, 11, (TaskId(0, 2),), {TaskId(0, 3): (PARTITION,)}, {HostInfo("h", 1): (PARTITION,)}, {}, 99, 0)
)
DESCRIBED_ASSIGNED = {
    "version": 11,
    "commonly_supported_version": 11,
    "active_tasks": ["0_2"],
    "standby_tasks": {"0_3": [["t", 2]]},
    "partitions_by_host": {"h:1": [["t", 2]]},
    "standby_partitions_by_host": {},
    "error_code": 99,
    "error": None,
    "next_rebalance_ms": 0,
}


@pytest.mark.parametrize(
    "kind, raw, expected",
    [
        ("subscription-info", INFO, DESCRIBED_INFO),
        ("subscription-info", b"\0\0\0\x0c\0\0\0\x0d", {"version": 12, "latest_supported_version": 13}),
        ("assignment-info", ASSIGNED, DESCRIBED_ASSIGNED),
        (
            "subscription",
            encode_subscription(Subscription(("t",), INFO, (PARTITION,), 8, "r"), 3),
            {
                "version": 3,
                "topics": ["t"],
                "owned_partitions": [["t", 2]],
                "generation_id": 8,
                "rack": "r",
                "user_data": DESCRIBED_INFO,
            },
        ),
        (
            "subscription",
            encode_subscription(Subscription(()), 0),
            {
                "version": 0,
                "topics": [],
                "owned_partitions": [],
                "generation_id": None,
                "rack": None,
                "user_data": None,
            },
        ),
        (
            "assignment",
            encode_assignment(Assignment((PARTITION,), ASSIGNED)),
            {"version": 3, "partitions": [["t", 2]], "user_data": DESCRIBED_ASSIGNED},
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
