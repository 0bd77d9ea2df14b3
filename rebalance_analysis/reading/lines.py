"""Reads recordings line by line from the sources that `sources.py` finds. If a line cannot be used, the result has a
problem instead of a document. Reading then continues with the next line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assignor.errors import InputError
from assignor.recording import document_of_line
from rebalance_analysis.reading.sources import (
    NO_PROGRESS,
    DamagedSource,
    RawLine,
    ReadingProgress,
    find_sources,
    raw_lines,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a recording. If the line has a `problem`, its `document` is None. `where`: the position of the line
    in the form file:line. `content`: the bytes of the line; None if this is not a line but an error that ends the
    source.
    """

    where: str
    document: Mapping[str, object] | None = None
    problem: str | None = None
    content: bytes | None = None

    def usable_document(self) -> Mapping[str, object]:
        """Returns the document of the line. If the line has no document, raises InputError with the line's problem."""
        if self.document is None:
            raise InputError(self.problem or "is not usable")
        return self.document

    def has_id(self, id: str) -> bool:
        """True if the line's document has this id. A recorder makes ids of the form
        `group.generation@partition:offset`. The argument may also be a shorter id, without the `@` and the text after
        it.
        """
        own = None if self.document is None else self.document.get("id")
        return own == id or (isinstance(own, str) and own.rpartition("@")[0] == id)


def read_lines(inputs: Sequence[str], progress: ReadingProgress = NO_PROGRESS) -> Iterator[Line]:
    """Yields every line of all inputs except blank lines. Raises InputError for an input that cannot be opened."""
    for source in find_sources(inputs):
        try:
            for line in raw_lines(source, progress):
                yield as_read(line)
        except DamagedSource as error:
            yield Line(error.where or source.name, problem=error.reason)
        progress.end()


def as_read(raw: RawLine) -> Line:
    """Parses a line of JSON. The result has either a document or a problem."""
    try:
        return Line(raw.where, document_of_line(raw.content), content=raw.content)
    except InputError as error:
        return Line(raw.where, problem=str(error), content=raw.content)


@dataclass(frozen=True, slots=True)
class LineChoice:
    """Chooses lines of the input. `id`: the id of the line; None for any id. `group`: the group of the line; None for
    any group. `all`: True to choose every rebalance; False to choose only the last rebalance of each group.

    The last rebalance of a group is the rebalance with the latest `now_ms`. So the files of a history may have any
    order. If several rebalances have the latest `now_ms`, the last of these rebalances in the input is chosen.
    Placement problems have no time and no group. So the last placement problem of the input is chosen.
    """

    id: str | None = None
    group: str | None = None
    all: bool = False

    def among(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yields the chosen lines of the input. A line without a document is always chosen, so that the command can
        report it.
        """
        last: dict[str, tuple[int, Line]] = {}
        for line in lines:
            if line.document is None:
                yield line
                continue
            if self.id is not None and not line.has_id(self.id):
                continue
            group = line.document.get("group_id")
            if self.group is not None and group != self.group:
                continue
            if self.all:
                yield line
                continue
            now_ms = line.document.get("now_ms")
            at_ms = now_ms if isinstance(now_ms, int) else 0
            if at_ms >= last.get(str(group), (at_ms, line))[0]:
                last[str(group)] = (at_ms, line)
        for _, line in last.values():
            yield line
