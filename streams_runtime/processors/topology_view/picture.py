"""Draws a picture of a topology. Each subtopology is a box, and the boxes are in one column. In a box, records go from
left to right.

Sources, processors, sinks, stores and topics differ by shape and colour. A topic between two subtopologies is drawn
twice: to the right of the subtopology that writes it, and to the left of the subtopology that reads it. A dashed line
around the boxes joins the two shapes. Nodes and topics have the names that the user gave, as in `describe()`.
"""

import itertools
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, FancyArrowPatch, FancyBboxPatch, Patch, PathPatch, Polygon
from matplotlib.path import Path as Stroke

from assignor.errors import InputError
from assignor.topology.definition import TopologyDefinition, node_groups
from streams_runtime.processors.topology_view.layout import Item, Kind, Layout, lay_out

SUFFIXES = (".png", ".svg")

# Lengths in inches: the sizes of shapes, the space between columns and rows, and the space around boxes.
_WIDTH, _HEIGHT = 1.95, 0.62
_COLUMN, _ROW = 2.65, 0.92
_PAD, _TITLE, _LANE = 0.28, 0.34, 0.16
_DOTS_PER_INCH = 150
_LONGEST_SIDE_DOTS = 30_000
_LONGEST_LINE = 22  # characters

_FILL = {
    Kind.SOURCE: "#b9e3c6",
    Kind.PROCESSOR: "#c5dcf7",
    Kind.STORE: "#fdecb2",
    Kind.SINK: "#f9cfae",
    Kind.INPUT_TOPIC: "#e6e6e6",
    Kind.OUTPUT_TOPIC: "#e6e6e6",
}
_REPARTITION_FILL = "#dccdf2"
_REPARTITION_LINE = "#7d4fc4"
_LINE = "#444444"


@dataclass(frozen=True, slots=True)
class _Placed:
    """A subtopology with the position of its box on the page. `top`: the y of the box's upper edge; y grows
    downwards.
    """

    subtopology_id: int
    layout: Layout
    top: float
    left: float

    @property
    def body_top(self) -> float:
        """The upper edge of the first row of nodes."""
        return self.top + _TITLE

    @property
    def bottom(self) -> float:
        return self.body_top + self.layout.height * _ROW + _PAD / 2

    def at(self, item: Item) -> tuple[float, float]:
        x, y = self.layout.places[item]
        return self.left + x * _COLUMN + _WIDTH / 2, self.body_top + y * _ROW


def draw_topology(definition: TopologyDefinition, path: Path) -> Path:
    """Writes the picture to a PNG or SVG file; the suffix of the path gives the format. Returns the path.

    Raises InputError for another suffix or an empty topology.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a picture is {' or '.join(SUFFIXES)}, not {path.suffix or 'without a suffix'}", str(path))
    groups = node_groups(definition)
    if not groups:
        raise InputError("the topology has no nodes to draw", str(path))
    layouts = {subtopology_id: lay_out(definition, names) for subtopology_id, names in groups.items()}
    between = _topics_between(definition, layouts)
    left = _PAD + _LANE * (len(between) + 1)
    placed: list[_Placed] = []
    top = _PAD
    for subtopology_id, layout in layouts.items():
        lanes = sum(reader == subtopology_id for _, _, reader in between)
        placed.append(_Placed(subtopology_id, layout, top + _LANE * lanes, left))
        top = placed[-1].bottom + _PAD + _LANE
    columns = max(layout.columns for layout in layouts.values())
    width = left + (columns - 1) * _COLUMN + _WIDTH + _LANE * (len(between) + 1) + _PAD
    legend_top = top
    axes = _page(max(width, 9.2), legend_top + 0.55)
    for subtopology in placed:
        _draw_subtopology(axes, definition, subtopology)
    _draw_lanes(axes, between, {each.subtopology_id: each for each in placed}, width)
    _draw_legend(axes, legend_top)
    _save(axes, path)
    return path


def _topics_between(definition: TopologyDefinition, layouts: Mapping[int, Layout]) -> list[tuple[str, int, int]]:
    """Returns the topics between two subtopologies. For each topic, the result has a tuple: the name of the topic, the
    id of the subtopology that writes the topic, and the id of the subtopology that reads the topic.
    """
    return [
        (item.name, writer, reader)
        for writer, layout in layouts.items()
        for item in layout.places
        if item.kind is Kind.OUTPUT_TOPIC
        for reader, other in layouts.items()
        if Item(Kind.INPUT_TOPIC, item.name) in other.places
    ]


def _page(width: float, height: float) -> Axes:
    axes = Figure(figsize=(width, height)).add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return axes


def _draw_subtopology(axes: Axes, definition: TopologyDefinition, subtopology: _Placed) -> None:
    layout = subtopology.layout
    columns = [column for item, (column, _) in layout.places.items() if _boxed(item)]
    x = subtopology.left + min(columns) * _COLUMN - _PAD
    box_width = (max(columns) - min(columns)) * _COLUMN + _WIDTH + 2 * _PAD
    axes.add_patch(
        FancyBboxPatch(
            (x, subtopology.top),
            box_width,
            subtopology.bottom - subtopology.top,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="#fafafa",
            edgecolor="#9a9a9a",
            linewidth=1.2,
            zorder=0,
        )
    )
    names = [item.name for item in layout.places if _boxed(item) and item.kind is not Kind.STORE]
    title = f"Subtopology {subtopology.subtopology_id}"
    if not definition.global_nodes().isdisjoint(names):
        title += " for a global store (makes no tasks)"
    axes.text(x + 0.12, subtopology.top + 0.2, title, fontsize=9, fontweight="bold", color="#333333", va="center")
    for chain in layout.edges:
        _draw_edge(axes, [subtopology.at(item) for item in chain])
    for processor, store in layout.store_links:
        _draw_store_link(axes, subtopology.at(processor), subtopology.at(store))
    for item in layout.places:
        if item.kind is not Kind.BEND:
            _draw_item(axes, definition, item, *subtopology.at(item))


def _boxed(item: Item) -> bool:
    return item.kind in (Kind.SOURCE, Kind.PROCESSOR, Kind.STORE, Kind.SINK)


def _draw_edge(axes: Axes, points: list[tuple[float, float]]) -> None:
    """Draws a smooth line from the right side of the first shape, through the bends, to the left side of the last
    shape.
    """
    half = _WIDTH / 2
    x, y = points[0]
    vertices = [(x + half, y)]
    codes = [Stroke.MOVETO]
    for (x, y), (to_x, to_y) in itertools.pairwise(points):
        middle = (x + to_x) / 2
        vertices += [(middle, y), (middle, to_y), (to_x - half, to_y), (to_x + half, to_y)]
        # Each line stays horizontal across the width of a shape, so that it does not cut the shape's corners.
        codes += [Stroke.CURVE4, Stroke.CURVE4, Stroke.CURVE4, Stroke.LINETO]
    del vertices[-1], codes[-1]
    _draw_arrow(axes, Stroke(vertices, codes), _LINE)


def _draw_arrow(axes: Axes, path: Stroke, color: str, line: str | tuple[float, tuple[float, ...]] = "solid") -> None:
    axes.add_patch(
        FancyArrowPatch(
            path=path, arrowstyle="-|>", mutation_scale=11, color=color, linewidth=1.1, linestyle=line, zorder=1
        )
    )


def _draw_store_link(axes: Axes, processor: tuple[float, float], store: tuple[float, float]) -> None:
    axes.plot(
        [processor[0], store[0]], [processor[1], store[1]], color="#b08a1c", linewidth=1.1, linestyle=":", zorder=1
    )


def _draw_item(axes: Axes, definition: TopologyDefinition, item: Item, x: float, y: float) -> None:
    topic = item.kind in (Kind.INPUT_TOPIC, Kind.OUTPUT_TOPIC)
    repartition = topic and item.name in definition.repartition_topics
    fill = _REPARTITION_FILL if repartition else _FILL[item.kind]
    line = _REPARTITION_LINE if repartition else _LINE
    for patch in _shape(item.kind, x, y, _WIDTH, _HEIGHT):
        patch.set(facecolor=fill, edgecolor=line, linewidth=1.0, zorder=2)
        axes.add_patch(patch)
    lines = _wrapped(item.name)
    if item.kind is Kind.STORE:
        lines.append(_changelog_text(definition, item.name))
    size = 7.5 if len(lines) < 3 else 6.4
    axes.text(
        x,
        y + (0.04 if item.kind is Kind.STORE else 0),
        "\n".join(lines),
        fontsize=size,
        ha="center",
        va="center",
        zorder=3,
        linespacing=1.15,
    )


def _shape(kind: Kind, x: float, y: float, width: float, height: float) -> list[Patch]:
    """Returns the matplotlib patches of the shape, from back to front. `x`, `y`: the centre of the shape."""
    left, right, top, bottom = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    tip = height * 0.3
    match kind:
        case Kind.SOURCE:
            points = [(left, top), (right - tip, top), (right, y), (right - tip, bottom), (left, bottom)]
            return [Polygon(points, closed=True)]
        case Kind.SINK:
            points = [(left, top), (right, top), (right, bottom), (left, bottom), (left + tip, y)]
            return [Polygon(points, closed=True)]
        case Kind.STORE:
            lid = height * 0.22
            return [_cylinder(left, right, top, bottom, lid), Ellipse((x, top + lid / 2), width, lid)]
        case Kind.PROCESSOR:
            return [FancyBboxPatch((left, top), width, height, boxstyle=f"round,pad=0,rounding_size={height * 0.2}")]
        case _:
            points = [(left + tip / 2, top), (right, top), (right - tip / 2, bottom), (left, bottom)]
            return [Polygon(points, closed=True)]


def _cylinder(left: float, right: float, top: float, bottom: float, lid: float) -> Patch:
    """Returns the outline of a cylinder's sides and bottom. The caller draws the lid over the outline."""
    # A cubic curve reaches 3/4 of the depth of its control points. So control points at 2/3 of the lid's height make
    # the bottom as deep as the lower half of the lid.
    rim, foot, bulge = top + lid / 2, bottom - lid / 2, lid * 2 / 3
    vertices = [(left, rim), (left, foot), (left, foot + bulge), (right, foot + bulge), (right, foot), (right, rim)]
    return PathPatch(Stroke(vertices, [Stroke.MOVETO, Stroke.LINETO, *[Stroke.CURVE4] * 3, Stroke.LINETO]))


def _changelog_text(definition: TopologyDefinition, name: str) -> str:
    store = definition.stores.get(name)
    if store is None:
        return "global"
    if store.source_topic is not None:
        return f"restored from {store.source_topic}"
    return "logged" if store.changelog is not None else "not logged"


def _wrapped(name: str) -> list[str]:
    """Breaks the name into at most three lines, after hyphens, underscores or dots where possible."""
    spaced = name
    for mark in "-_.":
        spaced = spaced.replace(mark, mark + "\0")
    lines: list[str] = [""]
    for part in spaced.split("\0"):
        for piece in textwrap.wrap(part, _LONGEST_LINE, break_long_words=True) or [""]:
            if len(lines[-1]) + len(piece) > _LONGEST_LINE:
                lines.append("")
            lines[-1] += piece
    if len(lines) > 3:
        lines = [*lines[:2], lines[2][: _LONGEST_LINE - 1] + "…"]
    return lines


def _draw_lanes(axes: Axes, between: list[tuple[str, int, int]], placed: Mapping[int, _Placed], width: float) -> None:
    """Draws the dashed lines around the boxes. The lines on one side of the boxes have different distances from the
    boxes, so that they do not overlap.
    """
    used: dict[int, int] = {}
    for index, (topic, writer, reader) in enumerate(between):
        lane = used[reader] = used.get(reader, 0) + 1
        start_x, start_y = placed[writer].at(Item(Kind.OUTPUT_TOPIC, topic))
        end_x, end_y = placed[reader].at(Item(Kind.INPUT_TOPIC, topic))
        right = width - _PAD - _LANE * index
        left = _PAD + _LANE * index
        gutter = placed[reader].top - _LANE * lane
        points = [
            (start_x + _WIDTH / 2, start_y),
            (right, start_y),
            (right, gutter),
            (left, gutter),
            (left, end_y),
            (end_x - _WIDTH / 2, end_y),
        ]
        codes = [Stroke.MOVETO, *[Stroke.LINETO] * (len(points) - 1)]
        _draw_arrow(axes, Stroke(points, codes), _REPARTITION_LINE, (0, (4, 2)))


def _draw_legend(axes: Axes, top: float) -> None:
    entries = [
        (Kind.INPUT_TOPIC, _FILL[Kind.INPUT_TOPIC], _LINE, "topic"),
        (Kind.INPUT_TOPIC, _REPARTITION_FILL, _REPARTITION_LINE, "repartition topic"),
        (Kind.SOURCE, _FILL[Kind.SOURCE], _LINE, "source"),
        (Kind.PROCESSOR, _FILL[Kind.PROCESSOR], _LINE, "processor"),
        (Kind.STORE, _FILL[Kind.STORE], _LINE, "state store"),
        (Kind.SINK, _FILL[Kind.SINK], _LINE, "sink"),
    ]
    for index, (kind, fill, line, text) in enumerate(entries):
        x = 0.55 + index * 1.6
        for patch in _shape(kind, x, top + 0.2, 0.42, 0.24):
            patch.set(facecolor=fill, edgecolor=line, linewidth=0.8)
            axes.add_patch(patch)
        axes.text(x + 0.28, top + 0.2, text, fontsize=7.5, va="center")


def _save(axes: Axes, path: Path) -> None:
    figure = axes.figure
    assert isinstance(figure, Figure)
    longest = max(figure.get_size_inches())
    dots = min(_DOTS_PER_INCH, _LONGEST_SIDE_DOTS / longest)
    path.parent.mkdir(parents=True, exist_ok=True)
    # a fixed salt, so that the same topology always gives the same bytes
    with rc_context({"svg.hashsalt": "topology", "svg.fonttype": "none"}):
        figure.savefig(
            path,
            format=path.suffix[1:].lower(),
            dpi=dots,
            facecolor="white",
            metadata={"Date": None} if path.suffix.lower() == ".svg" else None,
        )
