"""The plot of a group's input lag in the last hour, as the numbers that an SVG needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_api.group.reported_flow import FlowPoint
from rebalance_analysis.presentation.quantities import counted, duration_text

WIDTH, HEIGHT = 600, 60
SPAN_MS = 3_600_000
_LONGEST_GAP_MS = 60_000
"""If no point came for longer, the line is interrupted."""


@dataclass(frozen=True, slots=True)
class FlowPlot:
    """`line`: the data of the path. `most`: the number at the upper edge of the plot. `text`: the plot in words."""

    line: str
    most: int
    text: str


def flow_plot(points: Sequence[FlowPoint], now_ms: int) -> FlowPlot | None:
    """Returns the plot of the last hour before `now_ms`; None if there are fewer than two points."""
    shown = [point for point in points if now_ms - point.at_ms <= SPAN_MS]
    if len(shown) < 2:
        return None
    most = max(point.lag for point in shown)
    parts: list[str] = []
    before_ms = None
    for point in shown:
        x = WIDTH - WIDTH * (now_ms - point.at_ms) / SPAN_MS
        y = HEIGHT - HEIGHT * point.lag / (most or 1)
        is_next = before_ms is not None and point.at_ms - before_ms <= _LONGEST_GAP_MS
        parts.append(f"{'L' if is_next else 'M'}{x:.1f} {y:.1f}")
        before_ms = point.at_ms
    newest, oldest = shown[-1], shown[0]
    text = (
        f"Input lag in the last {duration_text(newest.at_ms - oldest.at_ms)}: {counted(oldest.lag, 'record')} at "
        f"first, {counted(most, 'record')} at most, {counted(newest.lag, 'record')} now."
    )
    return FlowPlot("".join(parts), most, text)
