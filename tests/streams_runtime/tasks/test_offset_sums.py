"""Offset sums: what counts, and what happens at the limits of Java's numbers."""

from hypothesis import given
from hypothesis import strategies as st

from assignor.types import JAVA_LONG_MAX, TopicPartition
from streams_runtime.instance.tasks import sum_of
from streams_runtime.tasks.checkpoint_file import OFFSET_UNKNOWN


@given(st.lists(st.integers(OFFSET_UNKNOWN, 9) | st.integers(OFFSET_UNKNOWN, JAVA_LONG_MAX)))
def test_should_add_the_known_offsets_of_all_changelogs_up_to_the_largest_long(values: list[int]) -> None:
    offsets = {TopicPartition("changelog", number): value for number, value in enumerate(values)}
    assert sum_of(offsets) == min(sum(value for value in values if value > 0), JAVA_LONG_MAX)
