"""The leader as a member: bytes that any Kafka Streams leader can read, the same after every restart, and no tasks."""

from __future__ import annotations

import pytest

from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info
from assignor.protocol.consumer_protocol import Assignment, decode_assignment, decode_subscription
from assignor.protocol.subscription_info import decode_subscription_info
from assignor.types import ProcessId
from kafka_groups.leader.own_member import (
    is_leader_of_ours,
    own_assignment,
    own_process_id,
    own_subscription,
    spoken_version,
)
from tests.group_model import member

GROUP, INSTANCE = "word-count", "word-count-assignor-leader"


@pytest.mark.parametrize("version", range(1, 12))
def test_should_send_a_subscription_without_tasks_in_every_version(version: int) -> None:
    sent = decode_subscription(own_subscription(GROUP, INSTANCE, ("lines", "counts-repartition"), version))
    info = decode_subscription_info(sent.user_data or b"")
    assert (sent.topics, sent.owned_partitions) == (("counts-repartition", "lines"), ())
    assert (info.version, info.latest_supported_version) == (version, 11 if version > 2 else -1)
    assert (info.process_id, info.task_offset_sums) == (own_process_id(GROUP, INSTANCE), {})
    assert info.client_tags == ({"assignor-leader": "true"} if version >= 11 else {})


@pytest.mark.parametrize("version", range(1, 12))
def test_should_take_an_assignment_without_tasks_in_every_version(version: int) -> None:
    assignment = decode_assignment(own_assignment(version))
    info = AssignmentInfo(version, 11 if version > 2 else -1)
    assert assignment == Assignment((), assignment.user_data)
    assert decode_assignment_info(assignment.user_data or b"") == info


def test_should_be_the_same_member_after_a_restart() -> None:
    assert own_process_id(GROUP, INSTANCE) == own_process_id(GROUP, INSTANCE)
    assert str(own_process_id(GROUP, INSTANCE)) == "8a63a97b-abb8-55c8-a4b4-76c18401e7a5"
    assert own_process_id("other", INSTANCE) != own_process_id(GROUP, INSTANCE)


@pytest.mark.parametrize("version", range(1, 12))
def test_should_know_a_leader_of_ours_in_every_version(version: int) -> None:
    assert is_leader_of_ours(GROUP, INSTANCE, own_subscription(GROUP, INSTANCE, ("lines",), version))


def test_should_take_nobody_else_for_a_leader_of_ours() -> None:
    assert not is_leader_of_ours(GROUP, INSTANCE, member(ProcessId(0, 1), tags={"zone": "a"}).subscription)
    assert not is_leader_of_ours(GROUP, None, b"no subscription")


def test_should_speak_the_lowest_version_of_the_group() -> None:
    members = [member(ProcessId(0, 1), version=9).subscription, member(ProcessId(0, 2), version=7).subscription]
    assert spoken_version(members) == 7
    assert spoken_version([b"no subscription"]) == spoken_version([]) == 11
