"""What assignments say of standby tasks, made for all of them at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import InputError
from assignor.protocol.assignment_info_encoder import AssignmentInfoEncoder
from assignor.threads.partition_order import PartitionsInJavaOrder
from assignor.threads.standby_rows import StandbyRows
from assignor.types import TaskId, TopicPartition

NUMBERS = st.integers(0, 40)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["one", "two", "\u00e4"]), NUMBERS)
TASKS = st.dictionaries(
    st.builds(TaskId, st.integers(0, 2), NUMBERS, st.none()), st.lists(PARTITIONS, max_size=2, unique=True).map(tuple)
)
SOURCE_TOPICS = tuple((subtopology, ("one", "two", "\u00e4")) for subtopology in range(3))


@given(tasks=TASKS, version=st.integers(7, 11), others=st.lists(st.builds(TaskId, st.just(7), NUMBERS, st.none())))
def test_should_be_what_the_encoder_says_of_each(
    tasks: dict[TaskId, tuple[TopicPartition, ...]], version: int, others: list[TaskId]
) -> None:
    in_java_order = PartitionsInJavaOrder(SOURCE_TOPICS, tasks)
    rows = StandbyRows(version, in_java_order)

    rows.make([*tasks, *others])

    encoder = AssignmentInfoEncoder(version, version, {}, {})
    assert {task: rows[task] for task in tasks} == {
        task: encoder.standby(task, in_java_order.of(task)) for task in tasks
    }
    assert rows.keys() == tasks.keys()


def test_should_leave_a_number_that_does_not_fit_to_whoever_asks_for_it() -> None:
    small, large = TaskId(0, 0), TaskId(0, 2**31)
    partitions = {small: (TopicPartition("one", 0),), large: (TopicPartition("one", 1),)}
    rows = StandbyRows(11, PartitionsInJavaOrder(SOURCE_TOPICS, partitions))

    rows.make(list(partitions))

    assert rows[small] == AssignmentInfoEncoder(11, 11, {}, {}).standby(small, partitions[small])
    with pytest.raises(InputError, match="does not fit an int32"):
        rows[large]


def test_should_write_the_name_of_a_topology() -> None:
    named, topic = TaskId(0, 3, "name"), (TopicPartition("one", 3),)
    rows = StandbyRows(11, PartitionsInJavaOrder(SOURCE_TOPICS, {named: topic}))

    rows.make([named])

    assert rows[named] == AssignmentInfoEncoder(11, 11, {}, {}).standby(named, topic)
