"""`/ui/groups/{group}/topology`: a group's subtopologies, topics and stores, as a picture and as tables.

A group's definition has no processors, so each subtopology is one box with its stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import Request
from starlette.responses import Response

from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.types import LATEST_OFFSET
from coordinator_api.group.image import GroupImage
from coordinator_api.http.dependencies import GroupId, TheCoordinator, named_router
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.definitions import Definition
from coordinator_api.web.grid import running_tasks
from coordinator_api.web.group_documents import TheDocument
from coordinator_api.web.rendering import page
from rebalance_analysis.presentation.quantities import count_text, counted

if TYPE_CHECKING:
    import networkx as nx

router = named_router(include_in_schema=False)

BOX_WIDTH, COLUMN_WIDTH, LINE, GAP, MARGIN = 250, 340, 22, 26, 12
LONGEST_LABEL = 27
DEAD_LETTER = "dead-letter"
_COUNTS_KEPT_S, _MOST_KEPT = 60.0, 100
_SWEEPS = 8


@router.get("/ui/groups/{group}/topology")
async def topology(request: Request, group_id: GroupId, coordinator: TheCoordinator, document: TheDocument) -> Response:
    """The page of the group's topology, with the present tasks and lags of the members."""
    definition = await coordinator.group(group_id).definition(document.image)
    written: WrittenTopics = request.app.state.written_topics
    partitions = {**await written.of(group_id, definition), **partition_counts(definition.snapshot, document.image)}
    snapshot = definition.snapshot
    view = await asyncio.to_thread(topology_view, snapshot.topology, partitions, document.values)
    return page(request, "topology", group_id=group_id, topology=view, digest=document.digest)


def partition_counts(snapshot: RebalanceSnapshot, image: GroupImage) -> Mapping[str, int]:
    """Returns the partition counts by topic. The counts come from the definition. If the definition names a cluster
    instead of topics, the counts come from the last rebalance.
    """
    last = image.last_rebalance
    found = {} if last is None else {name: number for name, number in last.basis.topics.items() if number}
    internal = {name: topic.partitions for name, topic in snapshot.existing_internal_topics.items()}
    return {**found, **internal, **{name: topic.partitions for name, topic in snapshot.cluster.topics.items()}}


class WrittenTopics:
    """The partition counts of the topics that groups write. A rebalance does not need them, so the group does not have
    them: they come from the cluster that the definition names. Use `WrittenTopics` on the service's event loop.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._kept: dict[str, tuple[Definition, float, Mapping[str, int]]] = {}

    async def of(self, group_id: str, definition: Definition) -> Mapping[str, int]:
        """Returns the counts of about the last minute. Returns no counts if the definition describes its cluster
        itself, or if the cluster does not answer.
        """
        runtime, now_s = self._coordinator.group(group_id), asyncio.get_running_loop().time()
        kept = self._kept.get(group_id)
        if kept is not None and kept[0] == definition and now_s - kept[1] < _COUNTS_KEPT_S:
            return kept[2]
        if definition.provider is None or runtime.cluster.error is not None:
            return {}
        counts: Mapping[str, int] = {}
        with suppress(Exception):  # a cluster provider may raise any error
            counts = await self._coordinator.clusters.cluster(definition.provider).written_topics(definition.snapshot)
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[group_id] = definition, now_s, counts
        return counts


class TopicRow(NamedTuple):
    """A topic of the topology. `kind`: input, repartition, output or dead-letter. `partitions`: None if the number is
    not known.
    """

    name: str
    kind: str
    partitions: int | None
    read_by: Sequence[int]
    written_by: Sequence[int]


class SubtopologyRow(NamedTuple):
    """A subtopology. `stores`: the subtopology's stores, each with its changelog; the changelog is None for a store
    without changelog. `work`: the subtopology's running tasks, standbys and warm-ups in words. `lag`: the sum of the
    known lags of its task copies; None if no lag is known.
    """

    number: int
    sources: Sequence[str]
    sinks: Sequence[str]
    stores: Sequence[tuple[str, str | None]]
    work: str
    lag: int | None


class NodeBox(NamedTuple):
    """A box of the picture. `x`, `y`: the top left corner of the box, in pixels. `lines`: the text of the box, with
    shortened names. `title`: the text of the box, with unshortened names.
    """

    kind: str
    x: float
    y: float
    width: float
    height: float
    lines: Sequence[str]
    title: str


class Edge(NamedTuple):
    """An edge of the picture. `path`: the `d` attribute of an SVG path."""

    path: str
    title: str


class TopologyView(NamedTuple):
    """The topology as a picture and as tables. `boxes`, `edges`: the picture, of size `width` times `height`."""

    topics: Sequence[TopicRow]
    subtopologies: Sequence[SubtopologyRow]
    boxes: Sequence[NodeBox]
    edges: Sequence[Edge]
    width: int
    height: int


def topology_view(topology: GroupTopology, partitions: Mapping[str, int], document: Mapping[str, Any]) -> TopologyView:
    """Builds the view. `partitions`: the known partition counts of topics. `document`: the answer of `GET
    /v1/groups/{group}`.
    """
    running = running_tasks(document)
    copies: dict[int, list[Mapping[str, Any]]] = {each.id: [] for each in topology.subtopologies}
    for copy in document["tasks"]:
        copies.setdefault(int(copy["task"].partition("_")[0]), []).append(copy)
    rows = [_row(each, copies[each.id], running) for each in topology.subtopologies]
    return _picture(_topics(topology, partitions), rows)


def _row(of: Subtopology, copies: Sequence[Mapping[str, Any]], running: set[str]) -> SubtopologyRow:
    lags = [copy["lag"] for copy in copies if copy["lag"] is not None]
    known = [max(lag, 0) for lag in lags if lag >= 0 or lag == LATEST_OFFSET]
    return SubtopologyRow(
        of.id,
        of.reads,
        written_topics(of),
        stores_with_changelogs(of),
        _work(copies, running),
        sum(known) if known else None,
    )


def written_topics(of: Subtopology) -> list[str]:
    return list(dict.fromkeys((*of.sink_topics, *of.repartition_sink_topics)))


def stores_with_changelogs(of: Subtopology) -> list[tuple[str, str | None]]:
    """Returns the stores, each with its changelog; None for a store without changelog."""
    return [(each.name, each.changelog_topic or each.source_topic_as_changelog) for each in of.stores]


def _work(copies: Sequence[Mapping[str, Any]], running: set[str]) -> str:
    if not copies:
        return "no member has its tasks"
    tasks = {copy["task"] for copy in copies}
    standbys = sum(copy["role"] == "standby" for copy in copies)
    warm_ups = sum(copy["role"] == "warm-up" for copy in copies)
    parts = [f"{count_text(len(tasks & running))} of {counted(len(tasks), 'task')} run"]
    parts += [counted(standbys, "standby")] if standbys else []
    parts += [counted(warm_ups, "warm-up")] if warm_ups else []
    return ", ".join(parts)


def _topics(topology: GroupTopology, partitions: Mapping[str, int]) -> list[TopicRow]:
    read: dict[str, list[int]] = {}
    written: dict[str, list[int]] = {}
    repartition: set[str] = set()
    for each in topology.subtopologies:
        repartition |= {topic.name for topic in each.repartition_source_topics} | set(each.repartition_sink_topics)
        for topic in each.reads:
            read.setdefault(topic, []).append(each.id)
        for topic in written_topics(each):
            written.setdefault(topic, []).append(each.id)
    if topology.dead_letter_topic is not None:
        written[topology.dead_letter_topic] = [each.id for each in topology.subtopologies]

    def kind_of(name: str) -> str:
        if name == topology.dead_letter_topic:
            return DEAD_LETTER
        if name in repartition:
            return "repartition"
        return "input" if name in read else "output"

    return [
        TopicRow(
            name,
            kind_of(name),
            partitions.get(name),
            read.get(name, ()),
            written.get(name, ()),
        )
        for name in dict.fromkeys((*read, *written))
    ]


_Node = tuple[str, str]


def _picture(topics: Sequence[TopicRow], rows: Sequence[SubtopologyRow]) -> TopologyView:
    # imported here, because the slow import would delay the start of the service
    import networkx as nx

    graph: nx.DiGraph[_Node] = nx.DiGraph()
    for row in rows:
        graph.add_node(("subtopology", str(row.number)))
    for topic in topics:
        node = (topic.kind, topic.name)
        if topic.kind == DEAD_LETTER:
            continue
        graph.add_node(node)
        graph.add_edges_from((node, ("subtopology", str(each))) for each in topic.read_by)
        graph.add_edges_from((("subtopology", str(each)), node) for each in topic.written_by)
    columns = _columns(graph)
    # without edges, because every subtopology may write the topic, and the edges would cross the boxes between
    for last in columns[-1:]:
        last.extend((DEAD_LETTER, topic.name) for topic in topics if topic.kind == DEAD_LETTER)
    box_of = _boxes(columns, {row.number: row for row in rows}, {topic.name: topic for topic in topics})
    edges = tuple(
        Edge(_path(box_of[start], box_of[end]), f"{_called(start)} to {_called(end)}") for start, end in graph.edges
    )
    width = len(columns) * COLUMN_WIDTH - (COLUMN_WIDTH - BOX_WIDTH) + 2 * MARGIN
    height = max((box.y + box.height for box in box_of.values()), default=0) + MARGIN
    return TopologyView(topics, rows, tuple(box_of.values()), edges, max(round(width), BOX_WIDTH), round(height))


def _columns(graph: nx.DiGraph[_Node]) -> list[list[_Node]]:
    """The columns of the picture, from left to right. A node's column is the length of the longest path to it.
    Subtopologies in a cycle share a column. Cycles occur because an application may read topics to which it writes.
    """
    import networkx as nx

    whole = nx.condensation(graph)
    columns: list[list[_Node]] = []
    for generation in nx.topological_generations(whole):
        members = [node for part in generation for node in whole.nodes[part]["members"]]
        columns.append(sorted(members, key=_order))
    _bring_near(columns, graph)
    # Order the nodes of each column by the mean position of their neighbours, so that fewer edges cross. Go forwards
    # and backwards through the columns in turn.
    for sweep in range(_SWEEPS):
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
    """Moves topics to later columns if no subtopology produces them. Each moved topic gets the column before its first
    reader, so that the topic's edge crosses no box.
    """
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
        of = "" if topic.partitions is None else f", {counted(topic.partitions, 'partition')}"
        lines = [_short(name), f"{kind} topic{of}", *(["of every subtopology"] if kind == DEAD_LETTER else [])]
        return tuple(lines), f"{name}: {kind} topic{of}"
    row = rows[int(name)]
    lag = "lag not known" if row.lag is None else "caught up" if row.lag == 0 else f"{count_text(row.lag)} behind"
    stores = [f"▤ {_short(store)}" for store, _ in row.stores]
    lines = [f"Subtopology {name}", row.work, *([lag] if row.stores else []), *stores]
    return tuple(lines), "; ".join([f"Subtopology {name}", row.work, *(f"store {store}" for store, _ in row.stores)])


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
    x = start.x + start.width  # an edge of a cycle begins and ends at the right side of a box
    return f"M{x:.0f} {y1 - 6:.0f}C{x + 45:.0f} {y1:.0f} {x + 45:.0f} {y2:.0f} {x + 7:.0f} {y2 + 6:.0f}"
