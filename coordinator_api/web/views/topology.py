"""A group's topology as a picture: topics and subtopologies in columns, with what is known of their work.

The coordinator knows no processors: a subtopology is one box with its stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignor.topology.group_topology import GroupTopology, Subtopology
from coordinator_api.web.views.words import count, plural

if TYPE_CHECKING:
    import networkx as nx

BOX_WIDTH, COLUMN_WIDTH, LINE, GAP, MARGIN = 250, 340, 22, 26, 12
LONGEST_LABEL = 27
_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class TopicRow:
    """`kind`: input, repartition or output. `partitions`: None when they are not known."""

    name: str
    kind: str
    partitions: int | None
    read_by: tuple[int, ...]
    written_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoreRow:
    """`changelog`: its topic; None for a store that is not logged."""

    name: str
    changelog: str | None


@dataclass(frozen=True, slots=True)
class SubtopologyRow:
    """`lag`: records that its copies are behind, None when nothing is known. `running` of `tasks` active ones."""

    number: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    stores: tuple[StoreRow, ...]
    tasks: int
    running: int
    standbys: int
    warm_ups: int
    lag: int | None

    @property
    def work(self) -> str:
        """In words."""
        if not self.tasks:
            return "no member has its tasks"
        said = f"{count(self.running)} of {plural(self.tasks, 'task')} run"
        if self.standbys:
            said += f", {plural(self.standbys, 'standby')}"
        return said + (f", {plural(self.warm_ups, 'warm-up')}" if self.warm_ups else "")


@dataclass(frozen=True, slots=True)
class NodeBox:
    """A shape of the picture, its corner in pixels. `lines`: shortened; `title`: everything."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    title: str


@dataclass(frozen=True, slots=True)
class Edge:
    """`path`: of an SVG."""

    path: str
    title: str


@dataclass(frozen=True, slots=True)
class TopologyView:
    """`boxes`, `edges`: the picture, `width` times `height`; the rows say the same in words."""

    topics: tuple[TopicRow, ...]
    subtopologies: tuple[SubtopologyRow, ...]
    boxes: tuple[NodeBox, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int


def topology_view(
    topology: GroupTopology, partitions: Mapping[str, int], document: Mapping[str, Any] | None = None
) -> TopologyView:
    """`partitions`: of the topics that are known. `document`: the group, as `GET /v1/groups/{group}` answers it."""
    work = _work(document)
    rows = tuple(_row(each, work) for each in topology.subtopologies)
    topics = _topics(topology, partitions)
    boxes, edges, width, height = _picture(topics, rows)
    return TopologyView(topics, rows, boxes, edges, width, height)


class _SubtopologyWork:
    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.running = self.standbys = self.warm_ups = 0
        self.lag: int | None = None


def _work(document: Mapping[str, Any] | None) -> dict[str, _SubtopologyWork]:
    found: dict[str, _SubtopologyWork] = {}
    if document is None:
        return found
    goes_on = document.get("held_rebalance") is not None
    fetched = {member["member_id"]: member["fetched"] or goes_on for member in document["members"]}
    for copy in document["tasks"]:
        of = found.setdefault(copy["task"].partition("_")[0], _SubtopologyWork())
        of.tasks.add(copy["task"])
        lag = copy["lag"]
        match copy["role"]:
            case "active":
                of.running += lag in (None, -2) and fetched[copy["member_id"]]
            case "standby":
                of.standbys += 1
            case _:
                of.warm_ups += 1
        if lag is not None and (lag >= 0 or lag == -2):
            of.lag = (of.lag or 0) + max(lag, 0)
    return found


def _row(of: Subtopology, work: Mapping[str, _SubtopologyWork]) -> SubtopologyRow:
    done = work.get(str(of.id), _SubtopologyWork())
    stores = tuple(StoreRow(each.name, each.changelog_topic or each.source_topic_as_changelog) for each in of.stores)
    sinks = tuple(dict.fromkeys((*of.sink_topics, *of.repartition_sink_topics)))
    numbers = (len(done.tasks), done.running, done.standbys, done.warm_ups)
    return SubtopologyRow(of.id, tuple(of.source_topics), sinks, stores, *numbers, done.lag)


def _topics(topology: GroupTopology, partitions: Mapping[str, int]) -> tuple[TopicRow, ...]:
    read: dict[str, list[int]] = {}
    written: dict[str, list[int]] = {}
    repartition: set[str] = set()
    for each in topology.subtopologies:
        repartition |= {topic.name for topic in each.repartition_source_topics} | set(each.repartition_sink_topics)
        for topic in each.source_topics:
            read.setdefault(topic, []).append(each.id)
        for topic in dict.fromkeys((*each.sink_topics, *each.repartition_sink_topics)):
            written.setdefault(topic, []).append(each.id)
    return tuple(
        TopicRow(
            name,
            "repartition" if name in repartition else "input" if name in read else "output",
            partitions.get(name),
            tuple(read.get(name, ())),
            tuple(written.get(name, ())),
        )
        for name in dict.fromkeys((*read, *written))
    )


_Node = tuple[str, str]


def _picture(
    topics: Sequence[TopicRow], rows: Sequence[SubtopologyRow]
) -> tuple[tuple[NodeBox, ...], tuple[Edge, ...], int, int]:
    import networkx as nx  # takes a part of a second, which the service need not wait for

    graph: nx.DiGraph[_Node] = nx.DiGraph()
    for row in rows:
        graph.add_node(("subtopology", str(row.number)))
    for topic in topics:
        node = (topic.kind, topic.name)
        graph.add_node(node)
        graph.add_edges_from((node, ("subtopology", str(each))) for each in topic.read_by)
        graph.add_edges_from((("subtopology", str(each)), node) for each in topic.written_by)
    columns = _columns(graph)
    box_of = _boxes(columns, {row.number: row for row in rows}, {topic.name: topic for topic in topics})
    edges = tuple(
        Edge(_path(box_of[start], box_of[end]), f"{_called(start)} to {_called(end)}") for start, end in graph.edges
    )
    width = len(columns) * COLUMN_WIDTH - (COLUMN_WIDTH - BOX_WIDTH) + 2 * MARGIN
    height = max((box.y + box.height for box in box_of.values()), default=0) + MARGIN
    return tuple(box_of.values()), edges, max(round(width), BOX_WIDTH), round(height)


def _columns(graph: nx.DiGraph[_Node]) -> list[list[_Node]]:
    """From left to right by the longest path. What is in a circle shares a column: an application may read what it
    writes.
    """
    import networkx as nx

    whole = nx.condensation(graph)
    columns: list[list[_Node]] = []
    for generation in nx.topological_generations(whole):
        members = [node for part in generation for node in whole.nodes[part]["members"]]
        columns.append(sorted(members, key=_order))
    _bring_near(columns, graph)
    for sweep in range(_SWEEPS):  # by the mean place of the neighbours, there and back: fewer edges cross
        place = {node: at - len(column) / 2 for column in columns for at, node in enumerate(column)}
        for column in columns[:: 1 if sweep % 2 == 0 else -1]:
            around = graph.pred if sweep % 2 == 0 else graph.succ
            mean = {
                node: sum(place[each] for each in around[node]) / len(around[node]) if around[node] else place[node]
                for node in column
            }
            column.sort(key=mean.__getitem__)
    return columns


def _bring_near(columns: list[list[_Node]], graph: nx.DiGraph[_Node]) -> None:
    """What nobody here writes stands right before the first that reads it, so that its edge crosses no box."""
    at = {node: number for number, column in enumerate(columns) for node in column}
    for node in columns[0][:]:
        nearest = min((at[each] for each in graph.succ[node]), default=0) - 1
        if nearest > 0:
            columns[0].remove(node)
            columns[nearest].append(node)


def _order(node: _Node) -> tuple[str, int, str]:
    kind, name = node
    return ("", int(name), "") if kind == "subtopology" else (kind, 0, name)


def _boxes(
    columns: Sequence[Sequence[_Node]], rows: Mapping[int, SubtopologyRow], topics: Mapping[str, TopicRow]
) -> dict[_Node, NodeBox]:
    texts = {node: _texts(node, rows, topics) for column in columns for node in column}
    heights = {node: LINE * len(lines) + 16.0 for node, (lines, _) in texts.items()}
    tall = [sum(heights[node] + GAP for node in column) - GAP for column in columns]
    found: dict[_Node, NodeBox] = {}
    for number, column in enumerate(columns):
        y = MARGIN + (max(tall) - tall[number]) / 2
        for node in column:
            lines, title = texts[node]
            found[node] = NodeBox(node[0], MARGIN + number * COLUMN_WIDTH, y, BOX_WIDTH, heights[node], lines, title)
            y += heights[node] + GAP
    return found


def _texts(
    node: _Node, rows: Mapping[int, SubtopologyRow], topics: Mapping[str, TopicRow]
) -> tuple[tuple[str, ...], str]:
    kind, name = node
    if kind != "subtopology":
        topic = topics[name]
        of = "" if topic.partitions is None else f", {plural(topic.partitions, 'partition')}"
        lines = [_short(name), f"{kind} topic{of}"]
        return tuple(lines), f"{name}: {kind} topic{of}"
    row = rows[int(name)]
    lag = "lag not known" if row.lag is None else "caught up" if row.lag == 0 else f"{count(row.lag)} behind"
    stores = [f"▤ {_short(store.name)}" for store in row.stores]
    lines = [f"Subtopology {name}", row.work, *([lag] if row.stores else []), *stores]
    return tuple(lines), "; ".join([f"Subtopology {name}", row.work, *(f"store {each.name}" for each in row.stores)])


def _called(node: _Node) -> str:
    return f"subtopology {node[1]}" if node[0] == "subtopology" else f"topic {node[1]}"


def _short(name: str) -> str:
    half = LONGEST_LABEL // 2
    return name if len(name) <= LONGEST_LABEL else f"{name[:half]}…{name[1 - half :]}"


def _path(start: NodeBox, end: NodeBox) -> str:
    y1, y2 = start.y + start.height / 2, end.y + end.height / 2
    if end.x > start.x:
        x1, x2 = start.x + start.width, end.x
        bend = (x2 - x1) / 2
        return f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2 - 7:.0f} {y2:.0f}"
    x = start.x + start.width  # in a circle: out and in again on the right
    return f"M{x:.0f} {y1 - 6:.0f}C{x + 45:.0f} {y1:.0f} {x + 45:.0f} {y2:.0f} {x + 7:.0f} {y2 + 6:.0f}"
