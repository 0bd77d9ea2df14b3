"""Parses the text of `Topology#describe` into subtopologies, nodes and edges. The result has the line number of each
subtopology and node.

The text may be a part of a log file. The parser ignores lines before and after the description. In each line, the
parser ignores CR, tabs, and the prefix that the logger writes. A line may also end with the two characters `\\n`, as in
a JSON log. A line of other text inside the description is an error. An edge to a missing node is an error too, because
it shows that the end of the text is missing.
Source: `TopologyDescription`, `InternalTopologyBuilder`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from assignor.errors import InputError

_WORDS = re.compile(
    r"(?:^|(?<=[\s|>\]\"':]))"
    r"(?:(?P<header>Topologies|Sub-topologies):\s*\Z"
    r"|(?P<kind>Topology|Sub-topology|Source|Processor|Sink): |(?P<arrow>-->|<--) )"
)
"""Matches the beginning of a line of the description. Any text before the match is the prefix that the logger writes.
"""

_SUBTOPOLOGY = re.compile(r"(?P<id>\d+)(?P<global> for global store \(.{0,80}\))?\s*\Z", re.ASCII)
_NAMED = re.compile(r"(?P<name>\S+):\s*\Z")
_MARKS = {"Source": (" (topics: ",), "Processor": (" (stores: [",), "Sink": (" (topic: ", " (extractor class: ")}
_ENDS = {"Source": ")", "Processor": "])", "Sink": ")"}
_DIGITS = re.compile(r"\d+", re.ASCII)
_TOPICS = re.compile(r"[a-zA-Z0-9._-]+(?:, ?[a-zA-Z0-9._-]+)*\Z", re.ASCII)
_LONGEST_EXCERPT = 80


@dataclass(slots=True)
class ReadNode:
    """One node of the description. `items`: the topics of a source, the stores of a processor, or the topic of a sink.
    `pattern`: the pattern of a source that subscribes by pattern. `by_record`: True for a sink that chooses a topic for
    each record.
    """

    kind: str
    name: str
    line: int
    items: tuple[str, ...] = ()
    pattern: str | None = None
    by_record: bool = False
    successors: tuple[str, ...] | None = None
    predecessors: tuple[str, ...] | None = None

    @property
    def parents(self) -> tuple[str, ...]:
        """The parents without duplicates. Kafka may print a parent twice, because it sorts parents in a set and then
        changes their sort keys.
        """
        return tuple(dict.fromkeys(self.predecessors or ()))


@dataclass(slots=True)
class ReadSubtopology:
    """One subtopology of the description. `of_global_store`: True for the subtopology of a global store, which has two
    nodes and no tasks.
    """

    id: int
    line: int
    of_global_store: bool
    nodes: list[ReadNode] = field(default_factory=list)


@dataclass(slots=True)
class _Block:
    """One description in the text. `before`: the text that the logger writes before the last parsed line of the
    description. `strange`: the number and the text of the first later line that does not belong to the description.
    """

    line: int
    named: str | None = None
    subtopologies: list[ReadSubtopology] = field(default_factory=list)
    before: str = ""
    strange: tuple[int, str] | None = None


def read_description(text: str) -> tuple[ReadSubtopology, ...]:
    """Returns all subtopologies of the description, in the order of their ids. Raises InputError for an invalid line.
    The error has the line number.

    The text may contain the same description several times, as the log of a restarted application does. A text with two
    different descriptions is an error.
    """
    if "\n" not in text.strip() and "\\n" in text:
        text = text.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t")
    blocks = [block for block in _blocks(text) if block.subtopologies]
    if not blocks:
        raise InputError(
            "there is no topology in this text: expected what Topology#describe prints, from the line 'Topologies:' on"
        )
    read = [tuple(_checked(block)) for block in blocks]
    for block, other in zip(blocks, read, strict=True):
        if _shape(other) != _shape(read[0]):
            raise InputError(
                f"differs from the topology that starts at line {blocks[0].line}; give only one", _at(block.line)
            )
    return read[0]


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        found = _WORDS.search(line)
        if found is None:
            if blocks:
                _leave_out(blocks[-1], number, line)
            continue
        rest = line[found.end() :].rstrip()
        named = _NAMED.match(rest) if found["kind"] == "Topology" else None
        if found["header"] or named:
            blocks.append(_Block(number, named["name"] if named else None))
        elif found["kind"] == "Sub-topology" and not blocks:
            blocks.append(_Block(number))
        if blocks and not found["header"] and not named:
            _read_line(blocks[-1], number, found, rest)
    return blocks


def _read_line(block: _Block, number: int, found: re.Match[str], rest: str) -> None:
    """Parses a line in which `_WORDS` has matched. `rest`: the rest of the line after the match."""
    kind, arrow = found["kind"], found["arrow"]
    subtopology = _SUBTOPOLOGY.match(rest) if kind == "Sub-topology" else None
    node = _node(kind, number, rest) if kind in _MARKS else None
    if subtopology is None and (not block.subtopologies or (node is None and not (arrow and rest))):
        _leave_out(block, number, found.string)
        return
    if block.named is not None:
        raise InputError(f"named topologies cannot be read (this one is {block.named!r})", _at(block.line))
    if block.strange is not None:
        raise InputError(
            f"is no part of a topology's description, though line {number} is: {_excerpt(block.strange[1])}",
            _at(block.strange[0]),
        )
    block.before = found.string[: found.start()].strip()
    if subtopology is not None:
        block.subtopologies.append(ReadSubtopology(int(subtopology["id"]), number, bool(subtopology["global"])))
    elif node is not None:
        block.subtopologies[-1].nodes.append(node)
    else:
        _add_edges(block.subtopologies[-1], number, found, rest)


def _leave_out(block: _Block, number: int, line: str) -> None:
    """Handles a line that does not belong to the description. If the line is the first unknown line after a line of the
    description, stores the line in `strange`. A line that has only the prefix of the log is treated as empty. The
    digits of the prefix may differ from line to line, for example in a timestamp.
    """
    rest = line.strip()
    if rest and block.subtopologies and _shape_of_prefix(rest) != _shape_of_prefix(block.before):
        block.strange = block.strange or (number, rest)


def _shape_of_prefix(text: str) -> str:
    return _DIGITS.sub("0", text)


def _node(kind: str, number: int, rest: str) -> ReadNode | None:
    """Returns the node that a line describes; None if the line describes no node."""
    for mark in _MARKS[kind]:
        name, found, items = rest.partition(mark)
        if not found or not items.endswith(_ENDS[kind]):
            continue
        items = items[: -len(_ENDS[kind])]
        node = ReadNode(kind, name, number)
        if kind == "Source":
            _read_topics(node, items)
            node.predecessors = ()
        elif kind == "Processor":
            node.items = tuple(items.split(", ")) if items else ()
        else:
            node.by_record = mark != " (topic: "
            node.items = () if node.by_record else (items,)
            node.successors = ()
        return node
    return None


def _read_topics(node: ReadNode, items: str) -> None:
    """Sets the topics or the pattern of a source. Topics are printed as `[a, b]`, or as `a, b` by releases before 2.1.
    A pattern is printed without brackets around it, but may itself contain brackets, such as `[ab].*`.
    """
    inside = items[1:-1] if items.startswith("[") and items.endswith("]") else items
    if _TOPICS.match(inside):
        node.items = tuple(topic.strip() for topic in inside.split(","))
    if inside is items or not node.items:
        node.pattern = items


def _add_edges(subtopology: ReadSubtopology, number: int, found: re.Match[str], rest: str) -> None:
    names = () if rest == "none" else tuple(rest.split(", "))
    node = subtopology.nodes[-1] if subtopology.nodes else None
    down = found["arrow"] == "-->"
    if node is None or (node.successors if down else node.predecessors) is not None:
        raise InputError(f"belongs to no node: {_excerpt(found.string.strip())}", _at(number))
    if down:
        node.successors = names
    else:
        node.predecessors = names


def _checked(block: _Block) -> Iterator[ReadSubtopology]:
    seen: set[str] = set()
    for expected, subtopology in enumerate(block.subtopologies):
        where = _at(subtopology.line)
        if subtopology.id != expected:
            raise InputError(f"expected Sub-topology: {expected}, not {subtopology.id}; is a part missing?", where)
        if not subtopology.nodes:
            raise InputError(f"Sub-topology: {subtopology.id} has no nodes; is the text cut off?", where)
        for node in subtopology.nodes:
            if node.name in seen:
                raise InputError(f"the node {node.name} appears twice", _at(node.line))
            seen.add(node.name)
        _check_edges(subtopology)
        if subtopology.of_global_store:
            _check_global_store(subtopology)
        yield subtopology


def _check_edges(subtopology: ReadSubtopology) -> None:
    for node in subtopology.nodes:
        if node.successors is None or node.predecessors is None:
            arrow = "-->" if node.successors is None else "<--"
            raise InputError(f"the line '{arrow}' of {node.name} is missing; is the text cut off?", _at(node.line))
        if node.kind != "Source" and not node.predecessors:
            raise InputError(f"{node.name} has no node before it", _at(node.line))
    nodes = {node.name: node for node in subtopology.nodes}
    for node in subtopology.nodes:
        for name in node.successors or ():
            _check_edge(subtopology, node, "-->", name, nodes.get(name))
        for name in node.parents:
            _check_edge(subtopology, node, "<--", name, nodes.get(name))


def _check_edge(subtopology: ReadSubtopology, node: ReadNode, arrow: str, name: str, other: ReadNode | None) -> None:
    edge = f"{node.name} {arrow} {name}"
    if other is None:
        raise InputError(
            f"{edge}, but Sub-topology: {subtopology.id} has no such node; is the text cut off?", _at(node.line)
        )
    back, names = ("<--", other.parents) if arrow == "-->" else ("-->", other.successors or ())
    if node.name not in names:
        raise InputError(f"{edge}, but not {name} {back} {node.name} (line {other.line})", _at(node.line))


def _check_global_store(subtopology: ReadSubtopology) -> None:
    kinds = [node.kind for node in subtopology.nodes]
    if kinds != ["Source", "Processor"] or len(subtopology.nodes[0].items) != 1:
        raise InputError("a global store has one source with one topic, and one processor", _at(subtopology.line))


def _shape(subtopologies: Sequence[ReadSubtopology]) -> object:
    return [
        (each.id, each.of_global_store, [(node.kind, node.name, node.items, node.parents) for node in each.nodes])
        for each in subtopologies
    ]


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_EXCERPT else text[:_LONGEST_EXCERPT] + "...")


def _at(line: int) -> str:
    return f"line {line}"
