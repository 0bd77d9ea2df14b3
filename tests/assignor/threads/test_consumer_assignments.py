"""What every member is sent: revocation, temporary standbys, follow-up and probing rebalances."""

from __future__ import annotations

import pytest

from assignor.clients.client_metadata import GroupMetadata, ReceivedVersions
from assignor.configs import AssignmentConfigs
from assignor.decisions import DecisionKind
from assignor.errors import IllegalStateError
from assignor.pipeline import assign
from assignor.snapshot import RebalanceResult, RebalanceSnapshot
from assignor.threads import consumer_assignments as step_four
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.types import LATEST_OFFSET, AssignorErrorCode, ProcessId, TaskId, TopicPartition
from tests.group_model import (
    LOG_END,
    NOW_MS,
    SimulatedGroup,
    decode,
    member,
    next_rebalance,
    process_id,
    topology_of,
)

A, B = process_id(1), process_id(2)
TASK_0, TASK_1 = TaskId(0, 0), TaskId(0, 1)
PARTITION_0, PARTITION_1 = TopicPartition("topic-0", 0), TopicPartition("topic-0", 1)


def group_of(
    stateful: list[int], stateless: list[int] | None = None, configs: AssignmentConfigs | None = None
) -> SimulatedGroup:
    topology, cluster = topology_of(stateful, stateless or [])
    return SimulatedGroup(topology, cluster, configs or AssignmentConfigs())


def test_should_hold_back_what_another_member_owns_and_call_the_receiver_back_at_once() -> None:
    group = group_of([], [2])
    first = group.add_process(1)
    group.rebalance()
    second = group.add_process(2)
    result = assign(group.snapshot(), NOW_MS)

    (keeper,) = group.processes[first].threads
    (receiver,) = group.processes[second].threads
    assert decode(result.assignments[keeper])[0] == (PARTITION_0,)
    assert next_rebalance(result.assignments[keeper]) is None
    partitions, info = decode(result.assignments[receiver])
    assert (partitions, info.active_tasks, info.next_rebalance_ms) == ((), (), 0)
    assert result.followup_rebalance
    waiting = [each for each in result.decisions if each.kind is DecisionKind.WAITING_FOR_REVOCATION]
    assert [(each.task, each.process, each.consumer, each.other_consumer) for each in waiting] == [
        (TASK_1, second, receiver, keeper)
    ]

    group.receive(result.assignments)
    follow_up = group.rebalance()
    assert group.owners() == {TASK_0: keeper, TASK_1: receiver}
    assert not follow_up.followup_rebalance


def test_should_move_a_task_between_threads_of_one_process_only_after_it_is_revoked() -> None:
    group = group_of([2])
    process = group.add_process(1)
    group.rebalance()
    group.processes[process].threads["app-1-StreamThread-2-consumer"] = type(
        next(iter(group.processes[process].threads.values()))
    )()
    result = group.rebalance()
    assert result.followup_rebalance
    assert len(group.owners()) == 1
    group.rebalance()
    assert len(group.owners()) == 2


def test_should_withhold_a_task_whole_when_one_of_its_partitions_is_still_owned() -> None:
    topology = GroupTopology((Subtopology(0, ("left", "right")),))
    _, cluster = topology_of([])
    cluster = cluster.with_topics({topic: topology_of([1])[1].topics["topic-0"] for topic in ("left", "right")})
    left, right = TopicPartition("left", 0), TopicPartition("right", 0)
    members = {"a": member(A, owned=[left]), "b": member(B, owned=[right])}
    snapshot = RebalanceSnapshot("HighAvailabilityTaskAssignor", AssignmentConfigs(), "app", topology, cluster, members)
    result = assign(snapshot, NOW_MS)
    assert [decode(raw)[0] for raw in result.assignments.values()] == [(), ()]
    assert result.followup_rebalance


def test_should_keep_the_state_of_a_held_back_task_open_as_a_temporary_standby() -> None:
    group = group_of([2])
    first = group.add_process(1)
    group.rebalance()
    second = group.add_process(2)
    group.processes[second].restored = {TASK_1: LOG_END}
    result = assign(group.snapshot(), NOW_MS)
    (receiver,) = group.processes[second].threads
    partitions, info = decode(result.assignments[receiver])
    assert partitions == ()
    assert dict(info.standby_tasks) == {TASK_1: (PARTITION_1,)}
    assert info.next_rebalance_ms == 0
    kinds = [each.kind for each in result.decisions if each.task == TASK_1 and each.process == second]
    assert DecisionKind.TEMPORARY_STANDBY in kinds
    assert first != second


def test_should_not_make_a_temporary_standby_of_a_task_whose_state_the_process_never_had() -> None:
    group = group_of([2], configs=AssignmentConfigs(acceptable_recovery_lag=LOG_END))
    group.add_process(1)
    group.rebalance()
    second = group.add_process(2)
    result = assign(group.snapshot(), NOW_MS)
    (receiver,) = group.processes[second].threads
    info = decode(result.assignments[receiver])[1]
    assert (info.active_tasks, dict(info.standby_tasks), info.next_rebalance_ms) == ((), {}, 0)


def warming_up(leader: ProcessId | None) -> tuple[SimulatedGroup, RebalanceResult]:
    """Process 2 joins process 1 and has to restore first, so the leader asks for a probing rebalance."""
    group = group_of([4], configs=AssignmentConfigs(probing_rebalance_interval_ms=60_000))
    group.add_process(1, threads=2)
    group.rebalance()
    group.add_process(2)
    snapshot = group.snapshot()
    members = dict(snapshot.members)
    return group, assign(
        RebalanceSnapshot(
            snapshot.assignor,
            snapshot.configs,
            snapshot.application_id,
            snapshot.topology,
            snapshot.cluster,
            members,
            snapshot.existing_internal_topics,
            snapshot.changelog_end_offsets,
            leader_process_id=leader,
        ),
        NOW_MS,
    )


def test_should_tell_the_probing_time_to_the_first_member_of_the_leaders_process() -> None:
    group, result = warming_up(A)
    told = {name: next_rebalance(raw) for name, raw in result.assignments.items()}
    first, second = sorted(group.processes[A].threads)
    assert told == {first: NOW_MS + 60_000, second: None, "app-2-StreamThread-1-consumer": None}
    assert result.probing_rebalance_at_ms == NOW_MS + 60_000


def test_should_keep_the_probing_time_out_of_the_bytes_when_the_leader_is_out_of_process() -> None:
    _, result = warming_up(None)
    assert {next_rebalance(raw) for raw in result.assignments.values()} == {None}
    assert result.probing_rebalance_at_ms == NOW_MS + 60_000


def test_should_tell_nobody_the_probing_time_when_the_leaders_process_has_left() -> None:
    _, result = warming_up(process_id(99))
    assert {next_rebalance(raw) for raw in result.assignments.values()} == {None}
    assert result.probing_rebalance_at_ms is None


def test_should_drop_the_probing_time_when_the_member_to_tell_has_to_rejoin_at_once() -> None:
    """The leader's first thread waits for the other thread's task; nobody of that process gets the deadline."""
    topology, cluster = topology_of([3])
    members = {
        "a1": member(A),
        "a2": member(
            A,
            owned=[PARTITION_0, PARTITION_1, TopicPartition("topic-0", 2)],
            offset_sums=dict.fromkeys([TASK_0, TASK_1, TaskId(0, 2)], LATEST_OFFSET),
        ),
        "b1": member(B),
    }
    snapshot = RebalanceSnapshot(
        "HighAvailabilityTaskAssignor",
        AssignmentConfigs(),
        "app",
        topology,
        cluster,
        members,
        {"app-store-0-changelog": cluster.topics["topic-0"]},
        {"app-store-0-changelog": (LOG_END,) * 3},
        leader_process_id=A,
    )
    result = assign(snapshot, NOW_MS)
    assert result.placement is not None
    assert result.placement.probing_rebalance_needed
    assert {name: next_rebalance(raw) for name, raw in result.assignments.items()} == {"a1": 0, "a2": None, "b1": None}
    assert (result.probing_rebalance_at_ms, result.followup_rebalance) == (None, True)


@pytest.mark.parametrize("version", [1, 2, 3, 6])
def test_should_tell_no_time_to_members_of_versions_that_cannot_carry_one(version: int) -> None:
    topology, cluster = topology_of([], [2])
    latest = 11 if version > 2 else -1
    members = {
        "a": member(A, owned=[PARTITION_0, PARTITION_1], version=version, latest_supported_version=latest),
        "b": member(B, version=version, latest_supported_version=latest),
    }
    snapshot = RebalanceSnapshot(
        "HighAvailabilityTaskAssignor", AssignmentConfigs(), "app", topology, cluster, members, leader_process_id=A
    )
    result = assign(snapshot, NOW_MS)
    partitions, info = decode(result.assignments["b"])
    assert (partitions, info.version, info.commonly_supported_version) == ((), version, latest)
    assert not result.followup_rebalance


def test_should_sort_partitions_and_repeat_a_task_for_each_of_its_partitions() -> None:
    topology = GroupTopology((Subtopology(0, ("z", "a")), Subtopology(1, ("m",))))
    cluster = topology_of([2])[1]
    cluster = cluster.with_topics(dict.fromkeys(("z", "a", "m"), cluster.topics["topic-0"]))
    snapshot = RebalanceSnapshot(
        "HighAvailabilityTaskAssignor", AssignmentConfigs(), "app", topology, cluster, {"a": member(A)}
    )
    partitions, info = decode(assign(snapshot, NOW_MS).assignments["a"])
    assert [str(partition) for partition in partitions] == ["a-0", "a-1", "m-0", "m-1", "z-0", "z-1"]
    assert [str(task) for task in info.active_tasks] == ["0_0", "0_1", "1_0", "1_1", "0_0", "0_1"]


def test_should_answer_a_double_claim_with_the_task_for_the_one_who_claimed_last_in_its_process() -> None:
    """Two processes claim the partition; the one that gets the task claimed it too, so it may go on with it."""
    topology, cluster = topology_of([], [1])
    members = {"a": member(A, owned=[PARTITION_0]), "b": member(B, owned=[PARTITION_0])}
    snapshot = RebalanceSnapshot("HighAvailabilityTaskAssignor", AssignmentConfigs(), "app", topology, cluster, members)
    result = assign(snapshot, NOW_MS)
    given = [name for name, raw in result.assignments.items() if decode(raw)[0] == (PARTITION_0,)]
    assert len(given) == 1
    assert not result.followup_rebalance


def test_should_refuse_to_give_a_member_what_another_still_owns() -> None:
    """The last line of defence: the rule above keeps it from ever being reached."""
    group = GroupMetadata({}, {PARTITION_0: ("owner",)}, ReceivedVersions(), False)
    step_four._check_cooperative(group, "owner", [PARTITION_0])
    step_four._check_cooperative(group, "other", [PARTITION_1])
    with pytest.raises(IllegalStateError, match="topic-0-0 was given to other while owner still owns it"):
        step_four._check_cooperative(group, "other", [PARTITION_0])


def test_should_send_an_error_to_everybody_in_the_latest_version() -> None:
    topology, cluster = topology_of([2])
    members = {"a": member(A, version=6, error_code=0), "b": member(B, error_code=4, owned=[PARTITION_0])}
    snapshot = RebalanceSnapshot("HighAvailabilityTaskAssignor", AssignmentConfigs(), "app", topology, cluster, members)
    result = assign(snapshot, NOW_MS)
    assert list(result.assignments) == ["a", "b"]
    for raw in result.assignments.values():
        partitions, info = decode(raw)
        assert (partitions, info.version, info.err_code) == ((), 11, AssignorErrorCode.SHUTDOWN_REQUESTED)


def test_should_leave_stateless_tasks_out_of_temporary_standbys() -> None:
    topology = GroupTopology((Subtopology(0, ("topic-0",), stores=(SubtopologyStore("not-logged"),)),))
    cluster = topology_of([1])[1]
    members = {
        "a": member(B, owned=[PARTITION_0]),
        "b": member(A, offset_sums={TASK_0: 5}),
    }
    snapshot = RebalanceSnapshot("HighAvailabilityTaskAssignor", AssignmentConfigs(), "app", topology, cluster, members)
    result = assign(snapshot, NOW_MS)
    info = decode(result.assignments["b"])[1]
    assert (dict(info.standby_tasks), info.next_rebalance_ms) == ({}, 0)


def test_should_list_tasks_of_one_partition_in_the_order_in_which_the_thread_got_them() -> None:
    # Both subtopologies read one topic, and stateful tasks are handed out first. Kafka sorts by partition alone.
    subtopologies = (
        Subtopology(0, ("topic-0",)),
        Subtopology(1, ("topic-0",), stores=(SubtopologyStore("store", "app-store-changelog"),)),
    )
    _, cluster = topology_of([], [2])
    group = SimulatedGroup(GroupTopology(subtopologies), cluster, AssignmentConfigs())
    group.add_process(1)
    (assignment,) = assign(group.snapshot(), NOW_MS).assignments.values()
    partitions, info = decode(assignment)
    assert partitions == (PARTITION_0, PARTITION_0, PARTITION_1, PARTITION_1)
    assert info.active_tasks == (TaskId(1, 0), TASK_0, TaskId(1, 1), TASK_1)
