"""Assignments of members with one task: the same bytes as the encoder's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import InputError, TaskAssignmentError
from assignor.protocol.assignment_info_encoder import AssignmentInfoEncoder
from assignor.protocol.consumer_protocol import assignment_parts
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.protocol.single_task_assignments import SingleTaskAssignments
from assignor.types import HostInfo, TaskId, TopicPartition

INT32 = st.integers(-(2**31), 2**31 - 1)
TASKS = st.builds(TaskId, INT32, INT32, st.none())
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "topic", "\u00e4\u0000\U0001f600"]), INT32)


def encoder_of(version: int) -> AssignmentInfoEncoder:
    hosts = {HostInfo("host", 1): (TopicPartition("topic", 1),)}
    return AssignmentInfoEncoder(version, version, hosts, hosts)


@given(version=st.integers(3, 11), tasks=st.lists(st.tuples(TASKS, PARTITIONS), min_size=1, max_size=4))
def test_should_write_what_the_encoder_writes(version: int, tasks: list[tuple[TaskId, TopicPartition]]) -> None:
    single = SingleTaskAssignments(encoder_of(version))
    for task, partition in tasks:
        encoder = encoder_of(version)
        active = assignment_parts((partition,), encoder.parts((task,), {}))
        standby = assignment_parts((), encoder.parts((), {task: (partition,)}))
        assert single.active(task, partition) == active
        assert single.standby(task, partition) == standby
        assert type(single.active(task, partition)) is AssignmentParts


@pytest.mark.parametrize("task", [TaskId(0, 1, "named"), TaskId(2**31, 0), TaskId(0, -(2**31) - 1)])
def test_should_leave_to_the_encoder_what_has_more_than_numbers_or_does_not_fit(task: TaskId) -> None:
    single = SingleTaskAssignments(encoder_of(11))
    assert single.active(task, TopicPartition("topic", 0)) is None
    assert single.standby(task, TopicPartition("topic", 0)) is None


def test_should_refuse_a_topic_whose_name_is_too_long() -> None:
    single = SingleTaskAssignments(encoder_of(11))
    with pytest.raises(InputError, match="takes 70000 bytes"):
        single.active(TaskId(0, 0), TopicPartition("t" * 70_000, 0))
    with pytest.raises(TaskAssignmentError, match="takes 70000 bytes"):
        single.standby(TaskId(0, 0), TopicPartition("t" * 70_000, 0))
