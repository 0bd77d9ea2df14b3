"""What all rebalances of a history come to for a task, in rows: the same for a terminal and a page."""

from assignor.names.short_names import InstanceNames
from assignor.types import ProcessId, Role
from rebalance_analysis.history import PlacedCopy
from rebalance_analysis.history.task_history import TaskSummary
from rebalance_analysis.presentation.history_rows import task_summary_rows

A = ProcessId(0, 1)
NAMES = InstanceNames({A: "a"})


def texts(summary: TaskSummary) -> dict[str | None, str]:
    return {row.label: row.text for row in task_summary_rows(summary, NAMES)}


def test_should_sum_up_a_task_that_stays() -> None:
    assert texts(TaskSummary(0, 0, 0, None, (PlacedCopy(Role.ACTIVE, A),), None)) == {
        "moved": "never",
        "warm-ups": "never had a warm-up copy",
        "no owner": "never held back",
        "is now": "active on a",
        "waits for": "nothing",
    }


def test_should_sum_up_a_task_that_moves_and_has_no_owner() -> None:
    found = texts(TaskSummary(2, 1, 2_178, 0, (), None))

    assert found["moved"] == "2 times"
    assert found["warm-ups"] == "1 rebalance had a warm-up copy of it"
    assert found["no owner"] == "at most 2.2 s between rebalances; handed to nobody since 1970-01-01 00:00:00.000Z"
    assert found["is now"] == "nowhere"
