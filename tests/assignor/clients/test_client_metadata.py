"""Step 0: subscriptions gathered by process."""

from __future__ import annotations

import pytest

from assignor.clients.client_metadata import DEFAULT_FUTURE_PROCESS_ID, group_metadata, host_of
from assignor.errors import ConfigError, DecodeError, IllegalStateError, KafkaError, NumberFormatError
from assignor.java.hash_codes import process_hash, string_hash
from assignor.java.order import hash_set_order
from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.snapshot import Member
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, HostInfo, ProcessId, TaskId, TopicPartition
from tests.group_model import member, process_id

A, B = process_id(1), process_id(2)
TASK, OTHER_TASK = TaskId(0, 0), TaskId(0, 1)
PARTITION = TopicPartition("topic-0", 0)


def bytes_of(members: dict[str, Member]) -> dict[str, bytes]:
    return {member_id: each.subscription for member_id, each in members.items()}


def future_member(version: int = 12, latest: int = 13) -> Member:
    user_data = version.to_bytes(4, "big") + latest.to_bytes(4, "big") + b"what only the future can read"
    return Member(encode_subscription(Subscription((), user_data, (PARTITION,))))


def test_should_gather_members_by_process() -> None:
    members = {
        "b-1": member(B, endpoint="b:1"),
        "a-2": member(A, endpoint="a:1", owned=[PARTITION], offset_sums={TASK: LATEST_OFFSET}),
        "a-1": member(A, endpoint="a:1", offset_sums={OTHER_TASK: 7}),
    }
    group = group_metadata(bytes_of(members), None)
    assert set(group.clients) == {A, B}
    client = group.clients[A]
    assert client.consumers == ("a-1", "a-2")
    assert client.host == HostInfo("a", 1)
    assert client.owned_partitions == {PARTITION: "a-2"}
    assert client.offset_sums == {TASK: LATEST_OFFSET, OTHER_TASK: 7}
    assert client.reported_tasks == {"a-1": (OTHER_TASK,), "a-2": (TASK,)}
    assert group.owners == {PARTITION: ("a-2",)}


def test_should_walk_members_and_processes_in_javas_order() -> None:
    names = [f"member-{number}" for number in range(40)]
    members = {name: member(process_id(number)) for number, name in enumerate(names)}
    group = group_metadata(bytes_of(members), None)
    walked = [process_id(names.index(name)) for name in hash_set_order(names, string_hash)]
    assert list(group.clients) == hash_set_order(walked, process_hash)


def test_should_take_endpoint_and_tags_of_the_first_member_and_claims_of_the_last() -> None:
    members = {
        name: member(A, endpoint=f"{name}:1", tags={"zone": name}, owned=[PARTITION], offset_sums={TASK: number})
        for number, name in enumerate(["one", "two", "three"])
    }
    client = group_metadata(bytes_of(members), None).clients[A]
    first, *_, last = hash_set_order(members, string_hash)
    assert client.host == HostInfo(first, 1)
    assert client.tags == {"zone": first}
    assert client.owned_partitions == {PARTITION: last}
    assert client.offset_sums == {TASK: list(members).index(last)}


@pytest.mark.parametrize(
    ("racks", "expected"),
    [(("r1", "r1"), "r1"), (("r1", "r2"), None), (("r1", None), None), ((None, None), None)],
)
def test_should_know_a_rack_only_when_all_members_agree(racks: tuple[str | None, ...], expected: str | None) -> None:
    members = {f"m-{number}": member(A, rack=rack) for number, rack in enumerate(racks)}
    assert group_metadata(bytes_of(members), None).clients[A].rack == expected


def test_should_speak_the_lowest_version_and_know_none_beyond_version_2() -> None:
    members = {
        "new": member(A),
        "old": member(B, version=2, latest_supported_version=-1, offset_sums={TASK: LATEST_OFFSET, OTHER_TASK: 5}),
    }
    group = group_metadata(bytes_of(members), None)
    assert (group.versions.min_received, group.versions.min_supported, group.versions.future) == (2, -1, None)
    assert group.clients[B].offset_sums == {TASK: LATEST_OFFSET, OTHER_TASK: UNKNOWN_OFFSET_SUM}


@pytest.mark.parametrize("pinned", [None, process_id(77)])
def test_should_collect_members_of_a_future_version_in_one_dummy_client(pinned: ProcessId | None) -> None:
    members = {"now": member(A), "future-1": future_member(), "future-2": future_member(14, 14)}
    group = group_metadata(bytes_of(members), pinned)
    dummy = group.clients[pinned or DEFAULT_FUTURE_PROCESS_ID]
    assert dummy.consumers == ("future-1", "future-2")
    assert (dummy.host, dummy.tags, dummy.offset_sums) == (None, {}, {})
    assert group.owners == {PARTITION: tuple(hash_set_order(["future-1", "future-2"], string_hash))}
    assert group.versions.min_received == 11
    assert group.versions.future in (12, 14)


def test_should_notice_that_a_member_asks_for_shutdown() -> None:
    members = {"a": member(A), "b": member(B, error_code=4)}
    assert group_metadata(bytes_of(members), None).shutdown_requested
    assert not group_metadata(bytes_of({"a": member(A)}), None).shutdown_requested


@pytest.mark.parametrize(
    "subscription", [b"", b"\x00", member(A).subscription[:-12], encode_subscription(Subscription(()))]
)
def test_should_name_the_member_whose_bytes_cannot_be_read(subscription: bytes) -> None:
    with pytest.raises(DecodeError, match="subscription of member broken"):
        group_metadata({"broken": subscription, "fine": member(A).subscription}, None)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (None, None),
        ("", None),
        (" \t", None),
        ("host:80", HostInfo("host", 80)),
        ("http://host.example:8080", HostInfo("host.example", 8080)),
        ("[::1]:9092", HostInfo("::1", 9092)),
        ("PLAINTEXT://[2001:db8::1]:007", HostInfo("2001:db8::1", 7)),
        (":1", HostInfo("", 1)),
    ],
)
def test_should_read_an_endpoint_as_kafka_does(endpoint: str | None, expected: HostInfo | None) -> None:
    assert host_of(endpoint) == expected


@pytest.mark.parametrize(
    ("endpoint", "error"),
    [("host", ConfigError), ("host:", ConfigError), ("ho st:1", ConfigError), ("h:9999999999", NumberFormatError)],
)
def test_should_refuse_an_endpoint_that_is_not_host_and_port(endpoint: str, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        host_of(endpoint)


def test_should_read_what_all_consumers_sent_before_it_looks_for_endpoints() -> None:
    members = bytes_of({"a": member(A, endpoint="no port"), "z": Member(b"\0")})
    for order in (members, dict(reversed(members.items()))):
        with pytest.raises(DecodeError, match="member z: ConsumerProtocolSubscription"):
            group_metadata(order, None)


def test_should_refuse_tasks_of_a_named_topology_beside_others_in_one_process_only() -> None:
    named = member(A, offset_sums={TaskId(0, 0, "orders"): 1, TaskId(0, 0, "users"): 2})
    assert set(group_metadata(bytes_of({"a-1": named, "b": member(B, offset_sums={TASK: 1})}), None).clients) == {A, B}
    with pytest.raises(IllegalStateError, match="Can't compare a TaskId with a namedTopology"):
        group_metadata(bytes_of({"a-1": named, "a-2": member(A, offset_sums={TASK: 1})}), None)


def test_should_name_all_members_that_claim_a_partition_and_those_of_the_others() -> None:
    other = TopicPartition("topic-0", 1)
    members = {"a": member(A, owned=[PARTITION, other, PARTITION]), "b": member(B, owned=[PARTITION])}

    owners = group_metadata(bytes_of(members), None).owners

    assert owners == {PARTITION: tuple(hash_set_order(["a", "b"], string_hash)), other: ("a",)}
