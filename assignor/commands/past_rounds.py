"""The rounds a story is told of: the last ones of one group, out of files or from a running coordinator.

Files may have many groups, in any order; of each group only the newest rounds are kept while they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from assignor.commands.console import say
from assignor.errors import AssignorFault, InputError
from assignor.reading.lines import Line, as_read
from assignor.reading.own_assignors import load_own_assignor
from assignor.reading.sources import RawLine
from assignor.recording import PLACEMENT_FORMAT
from assignor.rerun import run
from assignor.story import PastRebalance

ENTRY_POINT_GROUP = "assignor.histories"
GROUPS_LISTED = 20
UNCHAINED = "placements"
"""The group of placement problems that do not say what chain they belong to."""


@dataclass(slots=True)
class Chosen:
    """`lines`: the group's newest, oldest first; one more than asked for where there is one, to compare the first with.
    `recorded`: how many rounds of the group there were to choose from. `unusable`: lines that were set aside so far.
    """

    group_id: str
    lines: list[tuple[int, Line]]
    recorded: int
    unusable: int

    def run(self) -> Iterator[PastRebalance]:
        """One after the other. A round that cannot be run again is said and left out."""
        for generation, line in self.lines:
            try:
                assert line.document is not None
                yield PastRebalance(generation, run(line.document, load_own_assignor))
            except AssignorFault as error:
                self.unusable += 1
                say(f"{line.where}: {error}")


@dataclass(slots=True)
class _Newest:
    """The newest rounds of one group, by generation and time, at most `limit` of them."""

    limit: int
    rounds: dict[tuple[int, int], Line] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)

    def add(self, generation: int | None, now_ms: int, line: Line) -> None:
        place = (len(self.seen) + 1 if generation is None else generation, now_ms)
        self.seen.add(place)
        self.rounds[place] = line
        if len(self.rounds) > 2 * self.limit:
            self.rounds = dict(sorted(self.rounds.items())[-self.limit :])

    def lines(self) -> list[tuple[int, Line]]:
        return [(generation, line) for (generation, _), line in sorted(self.rounds.items())[-self.limit :]]


def from_coordinator(url: str, token_file: str | None, group: str | None, last: int) -> Chosen:
    """Raises InputError: no coordinator answers, no such group, several groups and none named."""
    return _choose(map(as_read, _ask(url, group, last + 1, token_file)), group, last)


def from_lines(lines: Iterable[Line], group: str | None, last: int) -> Chosen:
    """Raises InputError: no such group, several groups and none named."""
    return _choose(lines, group, last)


def _choose(lines: Iterable[Line], group: str | None, last: int) -> Chosen:
    groups: dict[str, _Newest] = {}
    unusable = 0
    for line in lines:
        try:
            name, generation, now_ms = _place(line)
        except InputError as error:
            unusable += 1
            say(f"{line.where}: {error}")
            continue
        newest = groups.setdefault(name, _Newest(last + 1))
        if group is None and len(groups) > 1:
            newest.rounds.clear()  # it ends with the list of groups
        elif group in (None, name):
            newest.add(generation, now_ms, line)
    if group is None:
        if len(groups) > 1:
            raise InputError(f"there are several groups, name one: {_listed(groups)}", "--group")
        group = next(iter(groups), "")
    if group not in groups:
        if unusable:
            return Chosen(group, [], 0, unusable)
        if not groups:
            raise InputError("there are no recorded rounds to tell of")
        raise InputError(f"there is no round of {group!r}, only of {_listed(groups)}", "--group")
    return Chosen(group, groups[group].lines(), len(groups[group].seen), unusable)


def _place(line: Line) -> tuple[str, int | None, int]:
    """Group, generation (None: after the one read before), time. Raises InputError for a line that is no round."""
    if line.document is None:
        raise InputError(line.problem or "is not usable")
    if line.document.get("format") == PLACEMENT_FORMAT:
        meta = line.document.get("meta")
        chain = meta.get("chain") if isinstance(meta, Mapping) else None
        return chain if isinstance(chain, str) else UNCHAINED, None, 0
    group_id, generation, now_ms = (line.document.get(name) for name in ("group_id", "generation_id", "now_ms"))
    if not (isinstance(group_id, str) and isinstance(generation, int) and isinstance(now_ms, int)):
        raise InputError("is no recorded round: it has no group_id, generation_id and now_ms")
    return group_id, generation, now_ms


def _listed(groups: Iterable[str]) -> str:
    names = sorted(groups)
    more = f" and {len(names) - GROUPS_LISTED} more" if len(names) > GROUPS_LISTED else ""
    return ", ".join(names[:GROUPS_LISTED]) + more


def _ask(url: str, group: str | None, last: int, token_file: str | None) -> Iterator[RawLine]:
    try:
        yield from _history()(url, group, last, token_file)
    except ImportError as error:
        raise InputError(f"to ask a coordinator: pip install 'assignor[coordinator]' ({error})") from None


def _history() -> Callable[[str, str | None, int, str | None], Iterable[RawLine]]:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name="coordinator"):
        read: Callable[[str, str | None, int, str | None], Iterable[RawLine]] = entry_point.load()
        return read
    raise ImportError("no installed package registers it")
