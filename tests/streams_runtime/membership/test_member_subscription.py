"""What a member writes into its subscriptions, and what it reads from an assignment."""

import pytest

from assignor.errors import DecodeError, TaskAssignmentError
from assignor.protocol.assignment_info import AssignmentInfo, encode_assignment_info
from assignor.protocol.consumer_protocol import Assignment, decode_subscription, encode_assignment, wire_version
from assignor.protocol.subscription_info import SubscriptionInfo, decode_subscription_info
from assignor.types import LATEST_OFFSET, AssignorErrorCode, HostInfo, ProcessId, TaskId, TopicPartition
from streams_runtime.membership.member_events import HeldTasks, PartitionHosts
from streams_runtime.membership.member_subscription import ReceivedAssignment, SubscriptionWriter

PROCESS = ProcessId.parse("2230ea3e-4048-4d7d-bee0-e650940ec648")
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def writer() -> SubscriptionWriter:
    return SubscriptionWriter(PROCESS, ("b", "a"), {"executor": "3", "host": "h"}, HostInfo("h", 9), "r1")


def info_of(subscription: bytes) -> SubscriptionInfo:
    user_data = decode_subscription(subscription).user_data
    assert user_data is not None
    return decode_subscription_info(user_data)


def test_should_tell_everything_the_leader_decides_by() -> None:
    sums = {TaskId(0, 0): LATEST_OFFSET, TaskId(1, 3): 17}
    written = writer().next_subscription(sums, frozenset({B0, A1}), 5)
    subscription = decode_subscription(written)
    assert wire_version(written) == 3
    assert subscription.topics == ("a", "b")
    assert set(subscription.owned_partitions) == {A1, B0}
    assert (subscription.generation_id, subscription.rack) == (5, "r1")
    assert info_of(written) == SubscriptionInfo(
        version=11,
        latest_supported_version=11,
        process_id=PROCESS,
        user_end_point="h:9",
        task_offset_sums=sums,
        unique_field=1,
        client_tags={"executor": "3", "host": "h"},
    )


def test_should_own_nothing_when_it_joins_for_the_first_time() -> None:
    subscription = decode_subscription(writer().next_subscription({}, frozenset(), None))
    assert (subscription.owned_partitions, subscription.generation_id) == ((), None)


def test_should_differ_by_the_unique_field_alone_and_wrap_it_as_java_does() -> None:
    one = writer()
    fields = [info_of(one.next_subscription({}, frozenset(), 1)).unique_field for _ in range(257)]
    assert fields == [*range(1, 128), *range(-128, 2)]


def assignment(info: AssignmentInfo, *partitions: TopicPartition) -> bytes:
    return encode_assignment(Assignment(partitions, encode_assignment_info(info)))


def test_should_give_the_nth_partition_to_the_nth_active_task() -> None:
    info = AssignmentInfo(11, 11, (TaskId(0, 0), TaskId(0, 1), TaskId(0, 0)), {TaskId(1, 2): (TopicPartition("c", 2),)})
    # the wire groups by topic, in any order; Kafka sorts the partitions before it deals them out
    received = writer().read(assignment(info, B0, A0, A1), "m", 7)
    assert received == ReceivedAssignment(
        HeldTasks(
            "m",
            7,
            {TaskId(0, 0): frozenset({A0, B0}), TaskId(0, 1): frozenset({A1})},
            {TaskId(1, 2): frozenset({TopicPartition("c", 2)})},
        ),
        frozenset({A0, A1, B0}),
        AssignorErrorCode.NONE,
        rejoin_now=False,
    )


def test_should_know_which_host_answers_for_which_partitions() -> None:
    info = AssignmentInfo(
        11,
        active_tasks=(TaskId(0, 0),),
        partitions_by_host={HostInfo("h", 9): (A0, A1), HostInfo("g", 8): (B0,)},
        standby_partitions_by_host={HostInfo("g", 8): (A0,)},
    )
    assert writer().read(assignment(info, A0), "m", 7).held.hosts == PartitionHosts(
        {HostInfo("h", 9): frozenset({A0, A1}), HostInfo("g", 8): frozenset({B0})}, {HostInfo("g", 8): frozenset({A0})}
    )


def test_should_ask_the_leader_to_end_the_application_when_told_so() -> None:
    asked = writer().next_subscription({}, frozenset(), 1, AssignorErrorCode.SHUTDOWN_REQUESTED)
    assert info_of(asked).error_code == AssignorErrorCode.SHUTDOWN_REQUESTED
    assert info_of(writer().next_subscription({}, frozenset(), 1)).error_code == AssignorErrorCode.NONE


def test_should_rejoin_at_once_when_the_next_rebalance_is_due_now() -> None:
    assert writer().read(assignment(AssignmentInfo(11, next_rebalance_ms=0)), "m", 1).rejoin_now
    assert not writer().read(assignment(AssignmentInfo(11, next_rebalance_ms=1)), "m", 1).rejoin_now


def test_should_go_down_to_the_common_version_when_the_leader_is_older() -> None:
    one = writer()
    assert one.read(assignment(AssignmentInfo(8, 8)), "m", 1).rejoin_now
    assert info_of(one.next_subscription({}, frozenset(), 1)).version == 8
    assert not one.read(assignment(AssignmentInfo(8, 8)), "m", 2).rejoin_now


def test_should_tell_the_error_that_the_leader_sent() -> None:
    received = writer().read(assignment(AssignmentInfo(11, err_code=4)), "m", 1)
    assert received.error_code is AssignorErrorCode.SHUTDOWN_REQUESTED


def test_should_refuse_an_assignment_that_contradicts_itself() -> None:
    with pytest.raises(TaskAssignmentError, match="1 is not equal to the number of active taskIds 0"):
        writer().read(assignment(AssignmentInfo(11), A0), "m", 1)
    with pytest.raises(TaskAssignmentError, match="no AssignmentInfo"):
        writer().read(encode_assignment(Assignment((), None)), "m", 1)
    with pytest.raises(DecodeError):
        writer().read(b"\x00", "m", 1)
