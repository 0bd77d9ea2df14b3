"""What every member is sent: revocation, temporary standbys, follow-up and probing rebalances."""

from dataclasses import replace

import pytest

from assignor.clients.client_metadata import GroupMetadata, ReceivedVersions
from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError
from assignor.java.hash_codes import string_hash
from assignor.java.order import hash_set_order
from assignor.pipeline import assign
from assignor.pipeline import consumer_assignments as step_four
from assignor.pipeline.snapshot import RebalanceResult
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import ProcessId, TaskId, TopicPartition
from rebalance_analysis.rerun import run
from tests.group_model import LOG_END, NOW_MS, SimulatedGroup, decode, next_rebalance, process_id, topology_of
from tests.recorded import REBALANCES, documents

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


def warming_up(leader: ProcessId | None) -> tuple[SimulatedGroup, RebalanceResult]:
    """Process 2 joins process 1 and has to restore first, so the leader asks for a probing rebalance."""
    group = group_of([4], configs=AssignmentConfigs(probing_rebalance_interval_ms=60_000))
    group.add_process(1, threads=2)
    group.rebalance()
    group.add_process(2)
    return group, assign(replace(group.snapshot(), leader_process_id=leader), NOW_MS)


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


def test_should_refuse_to_give_a_member_what_another_still_owns() -> None:
    """The last line of defence: the rule above keeps it from ever being reached."""
    group = GroupMetadata({}, {PARTITION_0: ("owner",)}, ReceivedVersions(), False)
    step_four._check_cooperative(group, "owner", [PARTITION_0])
    step_four._check_cooperative(group, "other", [PARTITION_1])
    with pytest.raises(IllegalStateError, match="topic-0-0 was given to other while owner still owns it"):
        step_four._check_cooperative(group, "other", [PARTITION_0])


def test_should_write_the_same_bytes_in_whatever_order_a_topology_lists_its_topics() -> None:
    """The two partitions of a task often lie in one bucket of Kafka's set. They keep the order of the set of topics,
    which has its own order unless two names share a bucket.
    """
    compared, different = 0, []
    for line in documents(REBALANCES):
        subtopologies = line["input"]["topology"]["subtopologies"]
        for each in subtopologies:
            backwards = each["source_topics"][::-1]
            if hash_set_order(backwards, string_hash) == each["source_topics"] != backwards:
                each["source_topics"] = backwards
                compared += 1
        comparison = run(line).comparison()
        assert comparison is not None
        if not comparison.bytes_equal:
            different.append(line["id"])
    assert (compared > 500, different) == (True, [])
