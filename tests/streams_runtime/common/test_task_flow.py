import pytest

from streams_runtime.common.task_flow import TaskFlow, task_flow


@pytest.mark.parametrize(
    ("lag", "newest_ms", "flow"),
    [
        (0, 700, TaskFlow(0, 0, 5)),  # an old record is no delay if nothing waits
        (3, 700, TaskFlow(3, 300, 5)),
        (3, -1, TaskFlow(3, None, 5)),
        (3, 1_500, TaskFlow(3, 0, 5)),  # a timestamp of the future
        (None, 700, TaskFlow(None, 300, 5)),
    ],
)
def test_should_measure_the_delay_of_what_waits(lag: int | None, newest_ms: int, flow: TaskFlow) -> None:
    assert task_flow(lag, newest_ms, 1_000, 5) == flow
