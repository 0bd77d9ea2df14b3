"""The wanted number of instances. Every point of the history covers ten seconds."""

import pytest

from assignor.types import TaskId
from coordinator_api.group.reported_flow import Flow, FlowHistory, FlowPoint, GroupFlow
from coordinator_api.group.scale import Scale, scale


def flow_of(*points: tuple[int, float], tasks: int = 8, threads: int = 2, hot: int = 0) -> GroupFlow:
    """`points`: lag and processed records per second. `hot`: records that wait in the first task alone."""
    history = FlowHistory(tuple(FlowPoint(10_000 * at, lag, 0, rate, threads) for at, (lag, rate) in enumerate(points)))
    flows = {TaskId(0, number): Flow(hot if number == 0 else 1, 0, None, None) for number in range(tasks)}
    return GroupFlow(flows, history)


def test_should_keep_the_instances_of_a_group_that_reports_nothing() -> None:
    assert scale(GroupFlow({}, FlowHistory()), 3, 3) == Scale(
        3, 3, 3, None, None, "No instance has reported the flow of its input."
    )


def test_should_want_one_instance_where_there_is_none() -> None:
    assert scale(GroupFlow({}, FlowHistory()), 0, 0).wanted == 1


def test_should_keep_the_instances_until_a_thread_was_busy() -> None:
    found = scale(flow_of((0, 100.0), (50, 100.0)), 2, 2)
    assert (found.wanted, found.capacity_per_s) == (2, None)
    assert "capacity of an instance is not known" in found.reason


def test_should_want_instances_for_what_arrives_and_waits() -> None:
    # 2 threads process 200 a second, and the lag grows by 100 a second: 300 a second arrive, and 6,000 wait
    found = scale(flow_of((5_000, 200.0), (6_000, 200.0)), 2, 2, catch_up_ms=60_000)
    assert (found.arrival_per_s, found.capacity_per_s, found.wanted) == (300.0, 100.0, 4)
    assert (
        found.reason
        == "300 records arrive per second, and 6,000 records wait. An instance processes 100 records per second."
    )


def test_should_want_no_more_instances_than_tasks() -> None:
    found = scale(flow_of((5_000, 200.0), (6_000, 200.0), tasks=3), 2, 2, catch_up_ms=60_000)
    assert (found.wanted, found.most) == (3, 3)
    assert "More than 3 instances would be idle, because the group has 3 active tasks." in found.reason


def test_should_count_the_threads_of_an_instance() -> None:
    found = scale(flow_of((5_000, 200.0), (6_000, 200.0), threads=4), 2, 4, catch_up_ms=60_000)
    assert (found.capacity_per_s, found.wanted, found.most) == (100.0, 4, 4)


@pytest.mark.parametrize(("arriving", "wanted"), [(79.0, 1), (81.0, 2), (160.0, 2), (250.0, 4)])
def test_should_take_an_instance_away_only_if_the_others_stay_a_fifth_free(arriving: float, wanted: int) -> None:
    busy_once = (10_000, 400.0)  # 4 instances with a thread each: 100 a second
    points = (busy_once, *[(0, arriving)] * 7)
    assert scale(flow_of(*points, threads=4), 4, 4).wanted == wanted


def test_should_name_a_task_that_has_most_of_the_lag() -> None:
    found = scale(flow_of((5_000, 200.0), (6_000, 200.0), hot=93), 2, 2)
    assert found.reason.endswith("Task 0_0 has 93% of the waiting records, and one task runs on one thread only.")
