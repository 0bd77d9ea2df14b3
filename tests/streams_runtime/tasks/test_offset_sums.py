"""Offset sums: what counts, and what happens at the limits of Java's numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assignor.types import JAVA_LONG_MAX, TopicPartition
from streams_runtime.task_manager.tasks import sum_of
from streams_runtime.tasks.checkpoint_file import OFFSET_UNKNOWN


def offsets(*values: int) -> dict[TopicPartition, int]:
    return {TopicPartition("changelog", number): value for number, value in enumerate(values)}


def test_should_add_the_offsets_of_all_changelogs() -> None:
    assert sum_of(offsets(3, 0, 4)) == 7


def test_should_count_an_unknown_offset_as_nothing() -> None:
    assert sum_of(offsets(3, OFFSET_UNKNOWN)) == 3


def test_should_stop_at_the_largest_long_when_the_sum_overflows() -> None:
    assert sum_of(offsets(JAVA_LONG_MAX, 1)) == JAVA_LONG_MAX


@given(st.lists(st.integers(OFFSET_UNKNOWN, JAVA_LONG_MAX)))
def test_should_always_be_a_java_long_that_is_not_negative(values: list[int]) -> None:
    assert 0 <= sum_of(offsets(*values)) <= JAVA_LONG_MAX
