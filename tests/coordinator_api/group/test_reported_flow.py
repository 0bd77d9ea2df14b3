from collections.abc import Mapping

import pytest

from assignor.types import TaskId
from coordinator_api.group.reported_flow import (
    MOST_POINTS,
    Flow,
    FlowHistory,
    FlowPoint,
    ReportedFlow,
    ReportedTaskFlow,
    flow_of,
    group_flow,
    total_flow,
)

TASK, OTHER = TaskId.parse("0_0"), TaskId.parse("0_1")


def after(*heartbeats: tuple[int, Mapping[TaskId, ReportedTaskFlow] | None]) -> ReportedFlow:
    """`heartbeats`: the second in which each arrives, and its flows."""
    reported = ReportedFlow()
    for second, flows in heartbeats:
        reported = reported.after_heartbeat(flows, second * 1_000)
    return reported


def test_should_measure_speed_and_growth_over_ten_seconds() -> None:
    begun = (0, {TASK: (100, 500, 1_000)})
    early = after(begun, (5, {TASK: (600, 900, 2_000)}))
    assert flow_of(early, TASK) == Flow(600, 900, None, None)
    assert flow_of(early, OTHER) is None
    late = after(begun, (5, {TASK: (600, 900, 2_000)}), (10, {TASK: (1_100, 900, 3_000)}))
    assert flow_of(late, TASK) == Flow(1_100, 900, 200.0, 1_000)


def test_should_take_missing_flows_as_unchanged() -> None:
    reported = after((0, {TASK: (100, 500, 1_000)}), (10, None))
    assert flow_of(reported, TASK) == Flow(100, 500, 0.0, 0)
    assert after((0, None), (10, None)) == ReportedFlow()


def test_should_measure_no_speed_of_a_task_that_came_back() -> None:
    reported = after((0, {TASK: (100, 500, 1_000)}), (10, {TASK: (None, None, 3)}))
    assert flow_of(reported, TASK) == Flow(None, None, None, None)


@pytest.mark.parametrize(
    ("lag", "growth", "trend"),
    [
        (1_000, 101, "rising"),
        (1_000, 100, "steady"),
        (0, -101, "falling"),
        (20_000, 1_500, "steady"),
        (20_000, 2_500, "rising"),
        (20_000, -2_500, "falling"),
        (None, 5, None),
        (5, None, None),
    ],
)
def test_should_tell_whether_a_lag_rises(lag: int | None, growth: int | None, trend: str | None) -> None:
    assert Flow(lag, 0, 0.0, growth).trend == trend


def test_should_add_up_what_all_tasks_know() -> None:
    known = (Flow(1, 5, 1.5, 2), Flow(10, 70, 2.5, -4))
    assert total_flow(known) == Flow(11, 70, 4.0, -2)
    assert total_flow((*known, Flow(None, None, None, None))) == Flow(None, 70, None, None)
    assert total_flow(()) is None


def test_should_add_up_subtopologies() -> None:
    flows = {TaskId.parse(name): (lag, 0, 0) for name, lag in (("0_0", 1), ("0_1", 2), ("1_0", 4))}
    flow = group_flow([after((0, flows))], FlowHistory())
    assert {name: each.lag for name, each in flow.by_subtopology().items()} == {"0": 3, "1": 4}
    assert flow.total is not None
    assert flow.total.lag == 7


def history(*lags: int) -> FlowHistory:
    """A point every ten seconds."""
    return FlowHistory(tuple(FlowPoint(10_000 * at, lag, 0, 0.0) for at, lag in enumerate(lags)))


def test_should_keep_an_hour_of_points() -> None:
    kept = FlowHistory()
    for at in range(MOST_POINTS + 5):
        assert kept.is_due(10_000 * at)
        kept = kept.with_point([after((0, {TASK: (at, 0, 0)}))], 10_000 * at)
        assert not kept.is_due(10_000 * at + 9_999)
    assert [point.lag for point in kept.points] == list(range(5, MOST_POINTS + 5))
    assert kept.with_point([after((0, {TASK: (None, None, 0)}))], 10**9) == kept


@pytest.mark.parametrize(
    ("lags", "since_ms"),
    [
        ((), None),
        ((0, 100, 200, 300, 400, 500), None),
        ((0, 100, 200, 300, 400, 500, 600), 0),
        ((900, 0, 100, 200, 300, 400, 500, 600), 10_000),
        ((0, 100, 200, 300, 400, 500, 400), None),
        ((0, 1, 2, 3, 4, 5, 6, 7), None),
    ],
)
def test_should_know_since_when_a_lag_grows(lags: tuple[int, ...], since_ms: int | None) -> None:
    assert history(*lags).grows_since_ms() == since_ms
