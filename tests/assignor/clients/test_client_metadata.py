"""Step 0: subscriptions gathered by process."""

import pytest

from assignor.clients.client_metadata import group_metadata
from assignor.errors import DecodeError, IllegalStateError
from assignor.pipeline.snapshot import Member
from assignor.types import TaskId, TopicPartition
from tests.group_model import member, process_id

A, B = process_id(1), process_id(2)
TASK, OTHER_TASK = TaskId(0, 0), TaskId(0, 1)
PARTITION = TopicPartition("topic-0", 0)


def bytes_of(members: dict[str, Member]) -> dict[str, bytes]:
    return {member_id: each.subscription for member_id, each in members.items()}


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
    members = {"b": member(B, owned=[PARTITION]), "a": member(A, owned=[PARTITION, other, PARTITION])}

    owners = group_metadata(bytes_of(members), None).owners

    assert owners == {PARTITION: ("a", "b"), other: ("a",)}, "a comes first in the leader's map"
