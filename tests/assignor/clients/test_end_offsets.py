"""End-offset sums of stateful tasks."""

import pytest

from assignor.clients.client_state import EndOffsets, EndOffsetSums, end_offset_sums
from assignor.types import JAVA_LONG_MAX, UNKNOWN_OFFSET_SUM, TaskId

TASKS = (TaskId(0, 0), TaskId(0, 1))
SOURCE = "source"


def sums(topics: tuple[str, ...], offsets: EndOffsets) -> EndOffsetSums:
    return end_offset_sums(TASKS, {0: topics}, frozenset([SOURCE]), offsets)


def test_should_stop_at_the_largest_long_when_a_sum_overflows() -> None:
    offsets = EndOffsets({"a": (JAVA_LONG_MAX, 1), "b": (1, 1), "c": (JAVA_LONG_MAX, 1)}, {})
    assert sums(("a", "b", "c"), offsets).by_task == {TASKS[0]: JAVA_LONG_MAX, TASKS[1]: 3}


@pytest.mark.parametrize(
    ("topics", "offsets"),
    [
        (("a",), EndOffsets(None, {})),
        (("a",), EndOffsets({"a": (1, 2)}, {}, frozenset({"changelog_end_offsets"}))),
        (("a",), EndOffsets({"other": (1, 2)}, {})),
        (("a",), EndOffsets({"a": (1,)}, {})),
        (("a", SOURCE), EndOffsets({"a": (1, 2)}, {SOURCE: (1, 2)}, frozenset({"committed_offsets"}))),
    ],
)
def test_should_know_no_sum_at_all_when_a_look_up_failed(topics: tuple[str, ...], offsets: EndOffsets) -> None:
    assert sums(topics, offsets) == EndOffsetSums(dict.fromkeys(TASKS, UNKNOWN_OFFSET_SUM), known=False)


def test_should_not_mind_a_failed_look_up_that_was_not_needed() -> None:
    assert sums((SOURCE,), EndOffsets(None, {SOURCE: (4, 5)})).by_task == {TASKS[0]: 4, TASKS[1]: 5}
    failed = EndOffsets({"a": (1, 2)}, {}, frozenset({"committed_offsets"}))
    assert sums(("a",), failed).by_task == {TASKS[0]: 1, TASKS[1]: 2}
