"""Two recorded rebalances beside each other: what moved, as arrows and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROWS_SHOWN = 500
ARROWS_SHOWN = 60
_TOP, _STEP = 30, 20
_NOBODY = ""
WIDTH, _LEFT_X, _RIGHT_X = 720, 230, 490
LONGEST_LABEL = 22


@dataclass(frozen=True, slots=True)
class Moved:
    """`role`: of the copy. `why`: what the later rebalance decided; None when that is not known."""

    task: str
    role: str
    source: str
    target: str
    why: str | None


@dataclass(frozen=True, slots=True)
class MemberLine:
    """A member on one side of the picture. `tasks`: how many active ones it has there. `still`: none of them moved."""

    name: str
    tasks: int
    y: float
    still: bool

    @property
    def label(self) -> str:
        """What there is room for: the end of a name tells threads apart."""
        return self.name if len(self.name) <= LONGEST_LABEL else f"…{self.name[1 - LONGEST_LABEL :]}"


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a member on the left to one on the right."""

    task: str
    words: str
    from_y: float
    to_y: float


@dataclass(frozen=True, slots=True)
class ComparedRebalances:
    """`active_moved`: tasks whose active copy another member has.

    `rows_more`, `arrows_more`: how many are not shown.
    """

    before: int
    after: int
    tasks: int
    active_moved: int
    standbys_only: int
    rows: tuple[Moved, ...]
    rows_more: int
    left: tuple[MemberLine, ...]
    right: tuple[MemberLine, ...]
    arrows: tuple[Arrow, ...]
    arrows_more: int
    height: int
    width: int
    left_x: int
    right_x: int


def comparison(before: int, after: int, answer: Mapping[str, Any]) -> ComparedRebalances:
    """`before`, `after`: generations. `answer`: of `page_computations.compare_two`."""
    names: Mapping[str, str] = answer["names"]
    moves, why = answer["moves"], answer["why"]
    rows = [row for move in moves for row in _rows(move, names, why.get(move["task"]))]
    active = [move for move in moves if move["active"] is not None]
    left = _lines(answer["before"]["active"], {name for move in active for name in move["active"]["from"]}, names)
    right = _lines(answer["after"]["active"], {name for move in active for name in move["active"]["to"]}, names)
    if any(not move["active"]["from"] for move in active):
        left[_NOBODY] = MemberLine("nobody", 0, _TOP + _STEP * len(left), False)
    if any(not move["active"]["to"] for move in active):
        right[_NOBODY] = MemberLine("nobody", 0, _TOP + _STEP * len(right), False)
    arrows = [
        Arrow(move["task"], f"{move['task']}: {left[giver].name} to {right[taker].name}", left[giver].y, right[taker].y)
        for move in active
        for giver in move["active"]["from"] or [_NOBODY]
        for taker in move["active"]["to"] or [_NOBODY]
        if giver in left and taker in right
    ]
    return ComparedRebalances(
        before,
        after,
        answer["tasks"],
        len(active),
        len(moves) - len(active),
        tuple(rows[:ROWS_SHOWN]),
        max(0, len(rows) - ROWS_SHOWN),
        tuple(left.values()),
        tuple(right.values()),
        tuple(arrows[:ARROWS_SHOWN]),
        max(0, len(arrows) - ARROWS_SHOWN),
        _TOP + _STEP * max(len(left), len(right), 1),
        WIDTH,
        _LEFT_X,
        _RIGHT_X,
    )


def _rows(move: Mapping[str, Any], names: Mapping[str, str], why: str | None) -> list[Moved]:
    def named(members: list[str]) -> str:
        return ", ".join(names.get(each, each) for each in members) or "nobody"

    rows = []
    if move["active"] is not None:
        rows.append(Moved(move["task"], "active", named(move["active"]["from"]), named(move["active"]["to"]), why))
    standby = move["standby"]
    if standby["gone"] or standby["new"]:
        rows.append(Moved(move["task"], "standby", named(standby["gone"]), named(standby["new"]), why))
    return rows


def _lines(owners: Mapping[str, list[str]], moving: set[str], names: Mapping[str, str]) -> dict[str, MemberLine]:
    counts: dict[str, int] = {}
    for members in owners.values():
        for member in members:
            counts[member] = counts.get(member, 0) + 1
    return {
        member: MemberLine(names.get(member, member), counts[member], _TOP + _STEP * number, member not in moving)
        for number, member in enumerate(sorted(counts, key=lambda each: (names.get(each, each), each)))
    }
