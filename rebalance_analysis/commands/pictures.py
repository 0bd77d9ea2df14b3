"""The pictures of `what-if` and `simulate`.

The what-if picture shows the task copies of every instance. The recorded rebalance is on the left, and the changed
rebalance is on the right. Each instance has one row with two bars, one on each side. All bars have the same scale. The
forecast picture shows three numbers over time: moved tasks, tasks that are warming up, and tasks without an owner.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated

import typer

from assignor.errors import InputError
from assignor.types import ProcessId
from rebalance_analysis.figures import new_figure, plain_text
from rebalance_analysis.presentation.quantities import counted
from rebalance_analysis.rerun import Rerun
from rebalance_analysis.simulate.model import Forecast
from rebalance_analysis.what_if.difference import ProcessCopies, copies_by_process
from rebalance_analysis.what_if.process_names import process_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

PictureOption = Annotated[
    str | None,
    typer.Option("--picture", metavar="F", help="Draw the result of one selected rebalance as a .svg or .png file."),
]

_UNITS = (("h", 3_600_000), ("min", 60_000), ("s", 1000))
_TITLE_WIDTH, _TITLE_LINES = 125, 3
_WIDTH = 11.0
_ROW, _LEAST_ROWS_HEIGHT, _MARGINS = 0.24, 0.9, 1.35  # inches
_MOST_ROWS = 150
_BAR = 0.74
_LINE = "#444444"

# The colour of a part of a bar shows the role of the copies. A light colour with hatches means that the copies are new
# on the instance. With light and dark colours and hatches, the parts can be distinguished in a greyscale print.
_PARTS: tuple[tuple[str, Callable[[ProcessCopies], int], str, str], ...] = (
    ("active, stays", lambda copies: copies.active_kept, "#2b6ca8", ""),
    ("active, new", lambda copies: copies.active_moved_in, "#8fc1ec", "////"),
    ("standby, stays", lambda copies: copies.standby_kept, "#6f9a3e", ""),
    ("standby, new", lambda copies: copies.standby_new, "#c9e3a5", "////"),
    ("warm-up", lambda copies: copies.warm_ups, "#f0b24b", "...."),
)

Copies = Mapping[ProcessId, ProcessCopies]


def draw_what_if(before: Rerun, after: Rerun) -> Figure:
    """Draws the what-if picture. Raises InputError if one of the two rebalances placed no tasks, or if matplotlib is
    not installed.
    """
    sides = _copies(before, "as it is"), _copies(after, "what if")
    labels = process_labels([before, after])
    rows = _rows(*sides, labels)
    figure = new_figure(_WIDTH, max(_LEAST_ROWS_HEIGHT, _ROW * len(rows)) + _MARGINS)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, copies, title in ((left, sides[0], "as it is"), (right, sides[1], "what if")):
        _draw_side(axes, copies, rows)
        axes.set_title(f"{title}: {_total(copies)}", fontsize=9, loc="left")
    left.set_yticks(range(len(rows)), [_row_label(labels[each], each, *sides) for each in rows], fontsize=8)
    longest = max(sum(read(each) for _, read, _, _ in _PARTS) for copies in sides for each in copies.values())
    left.set_xlim(0, max(1, longest) * 1.1)  # leaves room for the numbers at the ends of the bars
    left.set_ylim(len(rows) - 0.4, -0.6)
    handles = [_patch(colour, hatch, name) for name, _, colour, hatch in _PARTS]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(_PARTS), fontsize=8, frameon=False)
    every = len(sides[0].keys() | sides[1].keys())
    shown = "every instance" if every == len(rows) else f"the {len(rows)} of {every:,} instances that change most"
    figure.suptitle(plain_text(f"Copies of tasks on {shown}: {before.id}"), fontsize=11)
    return figure


def _rows(before: Copies, after: Copies, labels: Mapping[ProcessId, str]) -> list[ProcessId]:
    """Returns the instances that get a row, sorted by name. New instances are last. If there are more than `_MOST_ROWS`
    instances, returns only the instances with the largest changes.
    """

    def change(process: ProcessId) -> int:
        pairs = ((read(before[process]) if process in before else 0, read) for _, read, _, _ in _PARTS)
        return sum(abs((read(after[process]) if process in after else 0) - old) for old, read in pairs)

    rows = sorted(before.keys() | after.keys(), key=lambda each: (each not in before, labels[each], each))
    if len(rows) <= _MOST_ROWS:
        return rows
    chosen = frozenset(sorted(rows, key=change, reverse=True)[:_MOST_ROWS])
    return [process for process in rows if process in chosen]


def _copies(ran: Rerun, which: str) -> Copies:
    both = ran.placed
    if both is None:
        raise InputError(f"there is nothing to draw: {which}, no task is placed", "--picture")
    return {copies.process: copies for copies in copies_by_process(*both)}


def _draw_side(axes: Axes, copies: Copies, rows: list[ProcessId]) -> None:
    from matplotlib.ticker import MaxNLocator

    starts = dict.fromkeys(rows, 0)
    for _, read, colour, hatch in _PARTS:
        counts = {process: read(copies[process]) if process in copies else 0 for process in rows}
        axes.barh(
            range(len(rows)),
            [counts[process] for process in rows],
            height=_BAR,
            left=[starts[process] for process in rows],
            color=colour,
            hatch=hatch,
            edgecolor=_LINE,
            linewidth=0.5,
        )
        starts = {process: start + counts[process] for process, start in starts.items()}
    for index, process in enumerate(rows):
        text = f" {starts[process]}" if process in copies else " not there"
        axes.text(
            starts[process], index, text, va="center", fontsize=7, color=_LINE if process in copies else "#999999"
        )
    axes.set_xlabel("copies of tasks", fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _row_label(label: str, process: ProcessId, before: Copies, after: Copies) -> str:
    old, new = before.get(process), after.get(process)
    state = " (new)" if old is None else " (gone)" if new is None else ""
    counts = list(dict.fromkeys(each.threads for each in (old, new) if each is not None))
    return f"{plain_text(label)}{state}, {' -> '.join(map(str, counts))} thread{'' if counts == [1] else 's'}"


def _total(copies: Copies) -> str:
    moved = sum(each.active_moved_in for each in copies.values())
    new = sum(each.standby_new for each in copies.values())
    warm = sum(each.warm_ups for each in copies.values())
    return f"{counted(moved, 'new active task')}, {counted(new, 'new standby')}, {counted(warm, 'warm-up')}"


def _patch(colour: str, hatch: str, name: str) -> Patch:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, hatch=hatch, edgecolor=_LINE, linewidth=0.5, label=name)


def draw_forecast(title: str, forecast: Forecast) -> Figure:
    """Draws the forecast picture. Raises InputError if the forecast has no rebalance, or if matplotlib is not
    installed.
    """
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
        # a step curve would show wrong values, because tasks also get owners between two rebalances
        if axes is unowned:
            axes.vlines(times, 0, counts, color=colour)
        else:
            axes.step(times, counts, where="post", color=colour)
        axes.plot(times, counts, ".", color=colour, markersize=4)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0, top=max(*counts, 1) * 1.1)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.grid(axis="y", alpha=0.3)
    unowned.set_xlabel(f"time since the recorded rebalance, {unit}")
    what = textwrap.fill(title, _TITLE_WIDTH, max_lines=_TITLE_LINES, placeholder=" ...")
    moves.set_title(plain_text(what), fontsize=9, loc="left")
    return figure
