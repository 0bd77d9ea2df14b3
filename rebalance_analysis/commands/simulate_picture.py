"""The picture of a forecast: over time, how many tasks moved so far, are warming up, and have no owner."""

from __future__ import annotations

import textwrap
from itertools import accumulate
from typing import TYPE_CHECKING

from assignor.errors import InputError
from rebalance_analysis.figures import new_figure, plain_text
from rebalance_analysis.simulate.model import Forecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = (("h", 3_600_000), ("min", 60_000), ("s", 1000))
_LINE_WIDTH, _LINES = 125, 3


def draw(title: str, forecast: Forecast) -> Figure:
    """Raises InputError for a forecast without a rebalance, and when matplotlib is not installed."""
    rebalances = forecast.rebalances
    if not rebalances:
        raise InputError(f"there is nothing to draw: {forecast.error}", "--picture")
    unit, ms = next((each for each in _UNITS if rebalances[-1].at_ms >= 2 * each[1]), _UNITS[-1])
    times = [each.at_ms / ms for each in rebalances]
    figure = new_figure(9, 6)
    moves, warm_ups, unowned = figure.subplots(3, 1, sharex=True)
    for axes, label, counts, colour in (
        (moves, "moved so far", list(accumulate(len(each.moved) for each in rebalances)), "#1f6f8b"),
        (warm_ups, "warming up", [len(each.warming_up) for each in rebalances], "#d98324"),
        (unowned, "without owner", [each.unowned for each in rebalances], "#a83232"),
    ):
        if axes is unowned:  # tasks get owners between two rebalances, so a line would be wrong
            axes.vlines(times, 0, counts, color=colour)
        else:
            axes.step(times, counts, where="post", color=colour)
        axes.plot(times, counts, ".", color=colour, markersize=4)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0, top=max(*counts, 1) * 1.1)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.grid(axis="y", alpha=0.3)
    unowned.set_xlabel(f"time since the recorded rebalance, {unit}")
    what = textwrap.fill(title, _LINE_WIDTH, max_lines=_LINES, placeholder=" ...")
    moves.set_title(plain_text(what), fontsize=9, loc="left")
    return figure
