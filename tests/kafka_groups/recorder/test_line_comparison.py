"""The line of progress says what a recorded rebalance did and why it came."""

from __future__ import annotations

from kafka_groups.recorder.rebalance_line import LineComparison
from tests.recorded import documents

SMOKE = documents("recordings/smoke.jsonl.gz")


def test_should_say_what_moves_and_because_of_what() -> None:
    comparison = LineComparison()
    assert [comparison.compare_with_last(line).text() for line in SMOKE] == [
        "12 active tasks",
        "no task moves; because the leader saw smoke-by-word-repartition appear, which the rebalance before created",
        "6 tasks move; because b joined with 1 thread",
        "no task moves; because follow-up: 0_1, 0_3, 1_1, 1_3 and 2 more waited to be given up",
    ]


def test_should_count_the_tasks_of_an_instance_that_is_gone() -> None:
    comparison = LineComparison()
    texts = [comparison.compare_with_last(line).text() for line in documents("recordings/optimized.jsonl.gz")]

    assert texts[-1] == "6 tasks move; because a is gone with 2 threads"


def test_should_say_nothing_of_a_line_that_cannot_be_run_again() -> None:
    comparison = LineComparison()
    comparison.compare_with_last(SMOKE[0])
    nobody = {**SMOKE[1], "input": {**SMOKE[1]["input"], "members": {}}}

    assert comparison.compare_with_last(nobody).text() == ""
    assert comparison.compare_with_last(SMOKE[2]).text() == "12 active tasks"
