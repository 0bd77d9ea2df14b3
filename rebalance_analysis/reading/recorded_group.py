"""Reads the last recorded rebalances of a group, from recordings of many groups or from a running coordinator.

The input lines may have any order. Only the newest lines of each group are kept in memory. To read the recordings of a
running coordinator, this package calls a function of `coordinator_api`. `coordinator_api` registers this function in
the entry-point group `assignor.histories`, so this package does not depend on `coordinator_api`. The parameters of the
registered function are address, group, last and token file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from assignor.errors import AssignorFault, InputError
from assignor.recording import PLACEMENT_FORMAT
from rebalance_analysis.history import PastRebalance
from rebalance_analysis.reading.lines import Line, as_read
from rebalance_analysis.reading.own_assignors import load_own_assignor
from rebalance_analysis.reading.sources import RawLine, plug_in
from rebalance_analysis.rerun import run

ENTRY_POINT_GROUP = "assignor.histories"
GROUPS_LISTED = 20
UNCHAINED = "placements"
"""The group name of placement problems that have no `meta.chain`."""

SetAside = Callable[[str, AssignorFault], None]
"""A function that is called for each line that cannot be used. The arguments of the function are the position
(file:line) and the error.
"""

_AskCoordinator = Callable[[str, str | None, int, str | None], Iterable[RawLine]]


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """The newest recorded rebalances of one group. `lines`: the generation and the line of each rebalance, oldest
    first. If the rebalance before the requested rebalances is recorded, it is the first element of `lines`. It is used
    only for comparison. `recorded`: the number of all recorded rebalances of the group; None if it is not known.
    `interrupted`: the generations that are recorded as interrupted, because they never got an assignment. Interrupted
    generations are not in `lines`.
    """

    group_id: str
    lines: tuple[tuple[int, Line], ...]
    recorded: int | None
    interrupted: frozenset[int] = frozenset()

    def only(self, id: str) -> Self | None:
        """Returns a copy of the group that has only the rebalance with this id and the rebalance before it. Returns
        None if no rebalance has this id.
        """
        for index, (_, line) in enumerate(self.lines):
            if line.has_id(id):
                return replace(self, lines=self.lines[max(index - 1, 0) : index + 1], recorded=None)
        return None

    def run_again(self, set_aside: SetAside) -> Iterator[PastRebalance]:
        """Runs each rebalance of the group again, and yields the results in order. Calls `set_aside` for each rebalance
        that cannot be run.
        """
        before: int | None = None
        for generation, line in self.lines:
            interrupted = 0 if before is None else sum(1 for each in self.interrupted if before < each < generation)
            try:
                yield PastRebalance(generation, run(line.usable_document(), load_own_assignor), interrupted)
                before = generation
            except AssignorFault as error:
                set_aside(line.where, error)


def history_from_coordinator(url: str, token_file: str | None, group: str | None, last: int) -> Iterator[Line]:
    """Yields the lines of the newest rebalances of a group. `last`: the number of rebalances. For comparison, also
    yields the line of the rebalance before these rebalances. Raises InputError if no coordinator answers, or if the
    coordinator does not have the group. Also raises InputError if no group is named and the coordinator has several
    groups.
    """
    try:
        ask: _AskCoordinator = plug_in(ENTRY_POINT_GROUP, "coordinator")
        yield from map(as_read, ask(url, group, last + 1, token_file))
    except ImportError as error:
        raise InputError(f"to ask a coordinator: pip install 'assignor[coordinator]' ({error})") from None


def history_of(lines: Iterable[Line], group: str | None, last: int, set_aside: SetAside) -> RecordedGroup:
    """Returns the newest recorded rebalances of a group. `group`: the group; None if the lines have only one group.
    `set_aside`: a function that is called for each line that cannot be used. If the group is not found and some lines
    could not be used, the result has no lines. If the group is not found and all lines could be used, raises
    InputError. Also raises InputError if `group` is None and the lines have several groups.
    """
    found = histories_of(lines, group, last, set_aside)
    if len(found) > 1:
        names = _listed(history.group_id for history in found)
        raise InputError(f"there are several groups, name one: {names}", "--group")
    return found[0]


def histories_of(lines: Iterable[Line], group: str | None, last: int, set_aside: SetAside) -> list[RecordedGroup]:
    """Returns the newest recorded rebalances of one group or of every group. `group`: the group; None for every group
    in the lines. The groups are in the order in which they appear in the lines. The returned list has at least one
    element. Raises InputError if all lines could be used and no line has a rebalance of the chosen groups.
    """
    groups: dict[str, _Newest] = {}
    any_set_aside = False
    for line in lines:
        try:
            name, generation, now_ms = _place(line)
        except InputError as error:
            any_set_aside = True
            set_aside(line.where, error)
            continue
        newest = groups.setdefault(name, _Newest(last + 1))
        if group not in (None, name):
            continue
        if generation is not None and line.usable_document().get("interrupted") is True:
            newest.interrupted.add(generation)
        else:
            newest.add(generation, now_ms, line)
    chosen = [name for name in groups if group in (None, name)]
    if not chosen:
        if any_set_aside:
            return [RecordedGroup(group or "", (), 0)]
        if not groups:
            raise InputError("there are no recorded rebalances to tell the history of")
        raise InputError(f"there is no rebalance of {group!r}, only of {_listed(groups)}", "--group")
    return [
        RecordedGroup(name, groups[name].newest(), len(groups[name].seen), frozenset(groups[name].interrupted))
        for name in chosen
    ]


@dataclass(slots=True)
class _Newest:
    """The newest lines of one group. `limit`: the largest number of lines. Each line is stored under its generation and
    time.
    """

    limit: int
    lines: dict[tuple[int, int], Line] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)
    interrupted: set[int] = field(default_factory=set)

    def add(self, generation: int | None, now_ms: int, line: Line) -> None:
        place = (len(self.seen) + 1 if generation is None else generation, now_ms)
        self.seen.add(place)
        self.lines[place] = line
        if len(self.lines) > 2 * self.limit:
            self.lines = dict(sorted(self.lines.items())[-self.limit :])

    def newest(self) -> tuple[tuple[int, Line], ...]:
        return tuple((generation, line) for (generation, _), line in sorted(self.lines.items())[-self.limit :])


def _place(line: Line) -> tuple[str, int | None, int]:
    """Returns the group, generation and time of a line. For a placement problem, the generation is None. The caller
    then uses the position of the line among the lines of its group. Raises InputError if the line is neither a
    rebalance nor a placement problem.
    """
    document = line.usable_document()
    if document.get("format") == PLACEMENT_FORMAT:
        chain = chain_of(document)
        return UNCHAINED if chain is None else chain, None, 0
    group_id, generation, now_ms = (document.get(name) for name in ("group_id", "generation_id", "now_ms"))
    if not (isinstance(group_id, str) and isinstance(generation, int) and isinstance(now_ms, int)):
        raise InputError("is no recorded rebalance: it has no group_id, generation_id and now_ms")
    return group_id, generation, now_ms


def chain_of(document: Mapping[str, object]) -> str | None:
    """Returns the chain that the `meta` field of a placement problem names; None if `meta` names no chain."""
    meta = document.get("meta")
    chain = meta.get("chain") if isinstance(meta, Mapping) else None
    return chain if isinstance(chain, str) else None


def _listed(groups: Iterable[str]) -> str:
    names = sorted(groups)
    more = f" and {len(names) - GROUPS_LISTED} more" if len(names) > GROUPS_LISTED else ""
    return ", ".join(names[:GROUPS_LISTED]) + more
