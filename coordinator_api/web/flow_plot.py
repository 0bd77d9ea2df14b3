"""The plot of a group's input lag in the last hour, as the numbers that an SVG needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_api.group.reported_flow import FlowPoint
from rebalance_analysis.presentation.quantities import counted, duration_text

WIDTH, HEIGHT = 600, 60
LONGEST_SPAN_MS, SHORTEST_SPAN_MS = 3_600_000, 600_000
"""The plot begins with the oldest point, but not longer ago than the one, and at least as long ago as the other."""

_LONGEST_GAP_MS = 60_000
"""If no point came for longer, the line is interrupted."""


@dataclass(frozen=True, slots=True)
class FlowPlot:
    """`line`: the data of the path. `span_ms`: the time from the left edge of the plot to the right edge, which is now.
    `most`: the number at the upper edge of the plot. `text`: the plot in words.
    """

    line: str
    span_ms: int
    most: int
    text: str


def flow_plot(points: Sequence[FlowPoint], now_ms: int) -> FlowPlot | None:
    """Returns the plot of the last hour before `now_ms`; None if there are fewer than two points."""
    shown = [point for point in points if now_ms - point.at_ms <= LONGEST_SPAN_MS]
    if len(shown) < 2:
        return None
    span_ms = max(SHORTEST_SPAN_MS, now_ms - shown[0].at_ms)
    most = max(point.lag for point in shown)
    parts: list[str] = []
    before_ms = None
    for point in shown:
        x = WIDTH - WIDTH * (now_ms - point.at_ms) / span_ms
        y = HEIGHT - HEIGHT * point.lag / (most or 1)
        is_next = before_ms is not None and point.at_ms - before_ms <= _LONGEST_GAP_MS
        parts.append(f"{'L' if is_next else 'M'}{x:.1f} {y:.1f}")
        before_ms = point.at_ms
    newest, oldest = shown[-1], shown[0]
    text = (
        f"Input lag in the last {duration_text(newest.at_ms - oldest.at_ms)}: {counted(oldest.lag, 'record')} at "
        f"first, {counted(most, 'record')} at most, {counted(newest.lag, 'record')} now."
    )
    return FlowPlot("".join(parts), span_ms, most, text)
