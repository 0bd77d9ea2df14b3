"""A rebalance that is led from outside: who is in it, who carries the probing deadline, and that it can be run again;
and the bytes of the leader as a member.
"""

from dataclasses import replace

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError
from assignor.pipeline.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info
from assignor.protocol.assignment_packing import share
from assignor.protocol.consumer_protocol import Assignment, decode_assignment, decode_subscription
from assignor.protocol.subscription_info import decode_subscription_info
from assignor.protocol.versions import FIRST_VERSION_WITH_NEXT_REBALANCE
from assignor.recording import rebalance_document
from assignor.types import LATEST_OFFSET, ProcessId, TaskId, TopicPartition
from kafka_groups.leader.led_rebalance import (
    LedRebalance,
    all_assignments,
    group_members,
    is_leader_of_ours,
    lead_rebalance,
    own_assignment,
    own_process_id,
    own_subscription,
    spoken_version,
)
from kafka_groups.leader.rebalance_records import progress_text
from rebalance_analysis.presentation.quantities import time_text
from rebalance_analysis.rerun import run
from tests.group_model import NOW_MS, SimulatedGroup, member, next_rebalance, topology_of
from tests.known import known

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


DEADLINE_MS = NOW_MS + 600_000
OWNED = tuple(TopicPartition("topic-0", number) for number in range(4))
RUNNING = {TaskId(0, number): LATEST_OFFSET for number in range(4)}


def _snapshot(members: dict[str, Member]) -> RebalanceSnapshot:
    topology, cluster = topology_of([4])
    group = SimulatedGroup(topology, cluster, AssignmentConfigs(acceptable_recovery_lag=0), leader_in_group=False)
    return replace(group.snapshot(), members=members)


def _scaled_out() -> LedRebalance:
    """All tasks run on process 5; process 3 is new and has to warm up, which takes a probing rebalance."""
    return lead_rebalance(
        _snapshot(
            {"five": member(ProcessId(0, 5), owned=OWNED, offset_sums=RUNNING), "three": member(ProcessId(0, 3))}
        ),
        NOW_MS,
    )


def test_should_give_the_deadline_to_the_lowest_process() -> None:
    led = _scaled_out()
    assert led.snapshot.leader_process_id == ProcessId(0, 3)
    assert led.result.probing_rebalance_at_ms == DEADLINE_MS
    told = {name: next_rebalance(assignment) for name, assignment in led.result.assignments.items()}
    assert told == {"five": None, "three": DEADLINE_MS}


def test_should_sum_up_a_rebalance_and_say_who_probes_when() -> None:
    assert progress_text(7, _scaled_out(), "b joined", 12) == (
        "generation 7: 2 members of 2 processes, 4 active, 0 standby, 2 warm-up tasks, 0 moved, probing at "
        f"{time_text(DEADLINE_MS)} by process 00000000; because b joined; 12 ms"
    )


def test_should_name_the_topics_that_are_missing() -> None:
    cluster = replace(_snapshot({}).cluster, topics={})
    led = lead_rebalance(replace(_snapshot({"one": member(ProcessId(0, 1))}), cluster=cluster), NOW_MS)
    assert progress_text(7, led, "", 12) == (
        "generation 7: 1 member; sent INCOMPLETE_SOURCE_TOPIC_METADATA to every member (missing: topic-0); 12 ms"
    )


def test_should_give_the_deadline_to_the_next_process_when_the_lowest_rejoins_at_once() -> None:
    """Process 1 gets stateless tasks that others own, so it has to rejoin at once and cannot carry a deadline."""
    topology, cluster = topology_of([4], [4])
    group = SimulatedGroup(topology, cluster, AssignmentConfigs(acceptable_recovery_lag=0), leader_in_group=False)
    owned = (*OWNED, *(TopicPartition("topic-1", number) for number in range(4)))
    members = {"five": member(ProcessId(0, 5), owned=owned, offset_sums=RUNNING), "one": member(ProcessId(0, 1))}
    led = lead_rebalance(replace(group.snapshot(), members=members), NOW_MS)
    assert {name: next_rebalance(each) for name, each in led.result.assignments.items()} == {
        "five": DEADLINE_MS,
        "one": 0,
    }
    assert led.snapshot.leader_process_id == ProcessId(0, 5)
    assert led.result.followup_rebalance


def test_should_keep_the_deadline_when_no_member_can_carry_it() -> None:
    version = FIRST_VERSION_WITH_NEXT_REBALANCE - 1
    five = member(ProcessId(0, 5), owned=OWNED, offset_sums=RUNNING, version=version)
    led = lead_rebalance(_snapshot({"five": five, "three": member(ProcessId(0, 3), version=version)}), NOW_MS)
    assert (led.snapshot.leader_process_id, led.result.probing_rebalance_at_ms) == (None, DEADLINE_MS)


def test_should_be_led_again_from_its_recording_to_the_byte() -> None:
    led = _scaled_out()
    document = rebalance_document(
        id="app-2",
        group_id="app",
        generation_id=2,
        now_ms=NOW_MS,
        source="kafka",
        snapshot=led.snapshot,
        result=led.result,
    )
    assert known(run(document).comparison()).bytes_equal


def test_should_leave_members_of_this_program_out_of_the_rebalance_and_hand_them_no_tasks() -> None:
    ours = own_subscription("app", "app-assignor-leader", ("topic-0",), 11)
    stream = member(ProcessId(0, 5), version=9)
    members = group_members(
        "app", [("me", "app-assignor-leader", ours), ("a", None, stream.subscription), ("idle", "i", ours)], "me"
    )
    assert (dict(members.streams), members.ours) == ({"a": stream}, ("me", "idle"))
    led = lead_rebalance(_snapshot(dict(members.streams)), NOW_MS)
    assignments = all_assignments(members, led.result)
    assert assignments == {"a": led.result.assignments["a"], "me": own_assignment(9), "idle": own_assignment(9)}


@pytest.mark.parametrize("assignments", [{}, {"a": b""}, {"a": b"x", "b": b"x"}])
def test_should_never_hand_out_a_rebalance_without_a_member_or_with_one_too_many(
    assignments: dict[str, bytes],
) -> None:
    members = group_members("app", [("a", None, member(ProcessId(0, 5)).subscription)], "me")
    with pytest.raises(IllegalStateError):
        all_assignments(members, RebalanceResult(share(assignments)))
