"""Draws the Pareto front as a picture. The x axis shows the time to stable, and the y axis shows the moves. A mark
shows the number of standbys by its colour, and the skew by its size.

Each mark has a number. The table and the list beside the plot show this number for the combinations of the mark. A line
joins the points of the front that have the same number of standbys. Along such a line, a shorter time to stable means
more moves. Points that are not on the front are shown as faint marks. If there is room, labels do not cover marks or
other labels. All lengths in this module are in typographic points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_analysis.figures import new_figure, save_figure
from rebalance_analysis.presentation.quantities import duration_text
from rebalance_analysis.sweep.front_tables import AlikeCombinations, alike_on_front, front_title
from rebalance_analysis.sweep.totals import CombinationTotal, SweepResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

_SIZE_INCHES = (10.0, 5.6)
_KEY_LINES = 16
_MOST_NUMBERS = 99
_FEW_LEVELS = 5
_WIDE = 30
_MANY_POINTS = 2_000
_SMALL, _LARGE = 45.0, 260.0
_LABEL_POINTS = 9.0
_DEFAULTS_COLOUR = "#c0262d"
_LINE_COLOUR = "#555555"
_COLOURS = "viridis_r"


class _Point(NamedTuple):
    time_ms: float
    moves: int
    standbys_per_task: float
    skew: int


def draw_front(result: SweepResult, path: Path) -> None:
    """Draws the Pareto front, and saves the picture. Raises InputError if the file cannot be written, or if matplotlib
    is not installed.
    """
    figure = new_figure(*_SIZE_INCHES)
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (3.4, 1)})
    blocks = alike_on_front(result)
    _draw_key(right, result, blocks)
    if blocks:
        _draw_plot(figure, (left, right), result, blocks)
    else:
        left.text(0.5, 0.5, "no combination lets every episode settle", ha="center", transform=left.transAxes)
        left.set_axis_off()
    left.set_title(front_title(result), loc="left", fontsize=11)
    save_figure(figure, path)


def _draw_plot(
    figure: Figure, plot_and_key: tuple[Axes, Axes], result: SweepResult, blocks: Sequence[AlikeCombinations]
) -> None:
    from matplotlib.colors import Normalize

    axes, key = plot_and_key
    front = [_point(result.totals[block.numbers[0]]) for block in blocks]
    on_front = set(result.front)
    others = sorted({_point(each) for each in result.totals if each.point and each.combination.number not in on_front})
    every = [*front, *others]
    sizes = _Sizes(point.skew for point in every)
    levels = sorted({point.standbys_per_task for point in every})
    colours = Normalize(levels[0] - 0.25, levels[-1] + 0.25)
    _draw_marks(axes, others, sizes, colours, faint=True)
    for level in levels:
        joined = sorted(point for point in set(front) if point.standbys_per_task == level)
        axes.plot([p.time_ms for p in joined], [p.moves for p in joined], color=_LINE_COLOUR, linewidth=0.9, zorder=3)
    drawn = _draw_marks(axes, front, sizes, colours, faint=False)
    handles = [*_draw_defaults(axes, result, sizes), *sizes.handles(axes)]
    if len(levels) > _FEW_LEVELS:
        figure.colorbar(drawn, ax=axes, pad=0.02, aspect=30).set_label("standbys per stateful task")
    else:
        handles += [_level_handle(axes, level, drawn.cmap(float(colours(level)))) for level in levels]
    key.legend(handles=handles, loc="lower left", fontsize=8, frameon=False, labelspacing=0.8, handletextpad=0.8)
    _scale(axes, [point.time_ms for point in every])
    axes.set_ylabel("tasks and standbys moved, all episodes")
    axes.margins(0.09)
    axes.grid(color="#dddddd", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    _number(figure, axes, front, others, sizes)


def _draw_marks(
    axes: Axes, points: Sequence[_Point], sizes: _Sizes, colours: Normalize, *, faint: bool
) -> PathCollection:
    return axes.scatter(
        [point.time_ms for point in points],
        [point.moves for point in points],
        s=[sizes.of(point.skew) for point in points],
        c=[point.standbys_per_task for point in points],
        norm=colours,
        cmap=_COLOURS,
        alpha=0.28 if faint else 1,
        edgecolors="none" if faint else "black",
        linewidths=0 if faint else 0.9,
        rasterized=faint and len(points) > _MANY_POINTS,
        zorder=2 if faint else 4,
    )


class _Sizes:
    """Computes the area of a mark from the skew of its combination."""

    def __init__(self, skews: Iterable[int]) -> None:
        self.skews = sorted(set(skews))

    def of(self, skew: int) -> float:
        low, high = self.skews[0], self.skews[-1]
        return _SMALL if low == high else _SMALL + (_LARGE - _SMALL) * (skew - low) / (high - low)

    def handles(self, axes: Axes) -> list[PathCollection]:
        """Returns the legend entries for mark sizes. Every skew has an entry. But if there are many skews, only the
        lowest, the middle and the highest skew have an entry.
        """
        few = len(self.skews) <= _FEW_LEVELS
        shown = self.skews if few else [self.skews[0], self.skews[len(self.skews) // 2], self.skews[-1]]
        return [
            axes.scatter([], [], s=self.of(skew), facecolors="none", edgecolors="black", label=f"skew {skew}")
            for skew in shown
        ]


def _level_handle(axes: Axes, level: float, colour: Any) -> PathCollection:
    return axes.scatter([], [], s=_LARGE / 2, color=colour, marker="s", label=f"{level:.2f} standbys a task")


def _draw_defaults(axes: Axes, result: SweepResult, sizes: _Sizes) -> list[PathCollection]:
    """Draws a ring around the mark for Kafka's defaults. Returns a list with the ring, for the legend; an empty list if
    there is no such mark.
    """
    total = None if result.defaults is None else result.totals[result.defaults]
    if total is None or total.point is None:
        return []
    point = _point(total)
    ring = axes.scatter(
        [point.time_ms],
        [point.moves],
        s=sizes.of(point.skew) * 2 + 90,
        facecolors="none",
        edgecolors=_DEFAULTS_COLOUR,
        linewidths=1.6,
        zorder=5,
        label="Kafka's defaults",
    )
    return [ring]


def _scale(axes: Axes, times_ms: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    low, high = min(times_ms), max(times_ms)
    if low > 0 and high / low > _WIDE:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration_text(value)))
    axes.set_xlabel("time until stable, mean of all episodes")


def _number(figure: Figure, axes: Axes, front: Sequence[_Point], others: Sequence[_Point], sizes: _Sizes) -> None:
    """Writes a label with its number beside each mark. Marks at the same position share a label."""
    at: dict[tuple[float, int], list[int]] = {}
    for number, point in enumerate(front[:_MOST_NUMBERS], start=1):
        at.setdefault((point.time_ms, point.moves), []).append(number)
    figure.draw_without_rendering()  # computes the layout, which determines the positions of texts
    to_points = 72 / figure.dpi

    def mark(point: _Point) -> Mark:
        x, y = axes.transData.transform((point.time_ms, point.moves))
        return float(x) * to_points, float(y) * to_points, (sizes.of(point.skew) / math.pi) ** 0.5

    largest = {(point.time_ms, point.moves): mark(point) for point in sorted(front, key=lambda point: point.skew)}
    obstacles = [mark(point) for point in (*front[_MOST_NUMBERS:], *others)][:_MANY_POINTS]
    texts = [", ".join(map(str, numbers)) for numbers in at.values()]
    for label, place in zip(place_labels(texts, [largest[p] for p in at], obstacles, _LABEL_POINTS), at, strict=True):
        _write_label(axes, label, place)


def _write_label(axes: Axes, label: Label, place: tuple[float, int]) -> None:
    axes.annotate(
        label.text,
        place,
        xytext=(label.dx, label.dy),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=_LABEL_POINTS,
        fontweight="bold",
        zorder=6,
        arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": _LINE_COLOUR} if label.is_far else None,
    )


def _draw_key(axes: Axes, result: SweepResult, blocks: Sequence[AlikeCombinations]) -> None:
    axes.set_axis_off()
    lines = [f"{number:>3}   {' × '.join(block.texts(result.grid))}" for number, block in enumerate(blocks, start=1)]
    if len(lines) > _KEY_LINES:
        lines = [*lines[: _KEY_LINES - 1], f"      and {len(lines) - _KEY_LINES + 1} more"]
    unsettled = len(result.totals) - result.settled
    if unsettled:
        lines += ["", f"{unsettled} of {len(result.totals)} do not settle"]
    heading = "\n× ".join(result.grid.keys)
    axes.text(0, 1, heading, va="top", fontsize=9, fontweight="bold", transform=axes.transAxes)
    down = 1 - 0.042 * (len(result.grid.keys) + 0.3)
    axes.text(0, down, "\n".join(lines), va="top", fontsize=9, family="monospace", transform=axes.transAxes)


def _point(total: CombinationTotal) -> _Point:
    assert total.time_to_stable_ms is not None
    return _Point(total.time_to_stable_ms, total.moves, round(total.standbys_per_task, 6), total.skew)


Mark = tuple[float, float, float]
"""A mark as a tuple of three numbers: x, y and radius."""

_GAP = 3.0
_DIRECTIONS = 16
_RINGS = 7
_LETTER_WIDTH = 0.66
_FAR = 8.0
_MARGIN = 2.0


class Label(NamedTuple):
    """The label of a mark. `dx`, `dy`: the offset of the centre of the text from the centre of the mark. `is_far`: True
    if the text is so far from the mark that a line should join them.
    """

    text: str
    dx: float
    dy: float
    is_far: bool


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float

    def shared(self, other: _Box) -> float:
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0) * max(height, 0)


def place_labels(
    texts: Sequence[str], marks: Sequence[Mark], obstacles: Sequence[Mark], font_size: float
) -> list[Label]:
    """Places one label for each mark, in the order of the marks. A label gets the nearest free position. If no position
    is free, the label gets the position at which it covers the smallest area of marks and other labels. `obstacles`:
    marks that get no label.
    """
    taken = [_Box(x - radius, y - radius, x + radius, y + radius) for x, y, radius in (*marks, *obstacles)]
    labels = []
    for text, mark in zip(texts, marks, strict=True):
        label, box = _best(text, mark, marks, taken, font_size)
        taken.append(_Box(box.left - _MARGIN, box.bottom - _MARGIN, box.right + _MARGIN, box.top + _MARGIN))
        labels.append(label)
    return labels


def _best(text: str, mark: Mark, marks: Sequence[Mark], taken: Sequence[_Box], font_size: float) -> tuple[Label, _Box]:
    """Returns the best position of a label. The first aim is that the label covers the smallest possible area of marks
    and other labels. The second aim is that the label's own mark is the nearest mark. The third aim is a short distance
    between the label and its own mark.
    """
    x, y, radius = mark
    reach = radius + _GAP + _RINGS * font_size + len(text) * font_size
    around = _Box(x - reach, y - reach, x + reach, y + reach)
    near = [other for other in taken if around.shared(other) > 0]
    near_marks = [other for other in marks if other != mark and math.dist(other[:2], mark[:2]) < 2 * reach]
    best: tuple[float, bool, float, float, _Box] | None = None
    for dx, dy in _places(text, radius, font_size):
        box = _box(text, x + dx, y + dy, font_size)
        covered = sum(box.shared(other) for other in near)
        is_astray = any(math.dist((x + dx, y + dy), other[:2]) < math.hypot(dx, dy) for other in near_marks)
        if best is None or (covered, is_astray) < best[:2]:
            best = (covered, is_astray, dx, dy, box)
        if (covered, is_astray) == (0, False):
            break
    assert best is not None, "there is a first place"
    _, is_astray, dx, dy, box = best
    return Label(text, dx, dy, is_astray or math.hypot(dx, dy) > radius + font_size + _FAR), box


def _box(text: str, x: float, y: float, font_size: float) -> _Box:
    half_width, half_height = len(text) * font_size * _LETTER_WIDTH / 2, font_size / 2
    return _Box(x - half_width, y - half_height, x + half_width, y + half_height)


def _places(text: str, radius: float, font_size: float) -> Iterator[tuple[float, float]]:
    """Yields positions around a mark for its label. The positions are on rings, and the innermost ring is first. Each
    ring begins at the upper right.
    """
    half_width, half_height = len(text) * font_size * _LETTER_WIDTH / 2, font_size / 2
    for ring in range(_RINGS):
        away = radius + _GAP + ring * font_size
        for step in range(_DIRECTIONS):
            angle = math.pi / 4 + step * 2 * math.pi / _DIRECTIONS
            yield (away + half_width) * math.cos(angle), (away + half_height) * math.sin(angle)
