from coordinator_api.group.reported_flow import FlowPoint
from coordinator_api.web.flow_plot import flow_plot

HOUR_MS = 3_600_000


def points(*at: tuple[int, int]) -> list[FlowPoint]:
    """`at`: pairs of seconds and a lag."""
    return [FlowPoint(1_000 * seconds, lag, 0, 0.0) for seconds, lag in at]


def test_should_draw_a_line_from_an_hour_ago_to_now() -> None:
    plot = flow_plot(points((0, 0), (1_800, 50), (1_810, 100)), HOUR_MS)
    assert plot is not None
    assert plot.line == "M0.0 60.0M300.0 30.0L301.7 0.0"
    assert plot.most == 100
    assert plot.text == "Input lag in the last 30 min 10 s: 0 records at first, 100 records at most, 100 records now."


def test_should_draw_nothing_without_two_points_of_the_last_hour() -> None:
    assert flow_plot(points((0, 1)), HOUR_MS) is None
    assert flow_plot(points((0, 1), (10, 1)), HOUR_MS + 5_000) is None


def test_should_draw_ten_minutes_at_least() -> None:
    plot = flow_plot(points((0, 0), (10, 0)), 10_000)
    assert plot is not None
    assert (plot.line, plot.span_ms, plot.most) == ("M590.0 60.0L600.0 60.0", 600_000, 0)
    plot = flow_plot(points((0, 0), (1_200, 0)), 1_200_000)
    assert plot is not None
    assert (plot.line, plot.span_ms) == ("M0.0 60.0M600.0 60.0", 1_200_000)
