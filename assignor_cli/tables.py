"""Tables and paragraphs for people, never wider than the view: `NAME ... AGE`, as kubectl has them.

A table that is too wide first gives up what its columns allow: names are shortened in their middle, words are wrapped
inside their column. A column that allows neither stays whole, so that what a program cuts out of it is right.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assignor.names.printable import lines, one_line
from assignor.names.short_names import shortened

_BETWEEN = "  "
_SHORTEST = 12
"""No column is made narrower than this."""


class View(NamedTuple):
    """For whom text is made. `width`: in columns. `wide`: `-o wide`, with full names, all columns and no limit of
    width. `now_ms`: for AGE columns.
    """

    width: int = 80
    wide: bool = False
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """`right`: numbers. `wide`: only with `-o wide`. `shorten`: names, which may lose their middle. `wrap`: words,
    which may go on in the next line. `optional`: left out of the text while all its cells are empty.
    """

    heading: str
    right: bool = False
    wide: bool = False
    shorten: bool = False
    wrap: bool = False
    optional: bool = False


def table_text(nothing: str, columns: Sequence[Column], rows: Iterable[Sequence[object]], view: View) -> str:
    """Without a line end at the end; `nothing` when there are no rows. Each row has a cell for every column, also for
    those that are not shown. An empty cell is shown as `-`.
    """
    cells = [["-" if value is None or value == "" else one_line(str(value)) for value in row] for row in rows]
    if not cells:
        return nothing
    chosen = [
        index
        for index, column in enumerate(columns)
        if view.wide or not (column.wide or (column.optional and all(row[index] == "-" for row in cells)))
    ]
    shown = [columns[index] for index in chosen]
    lines = [[column.heading for column in shown], *([row[index] for index in chosen] for row in cells)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(shown))]
    if not view.wide:
        _narrow(widths, shown, view.width)
    return "\n".join(text for line in lines for text in _lines(line, shown, widths))


def paragraph(label: str, text: str, view: View, *, indent: int) -> str:
    """`label`, and the text from the column `indent` on, wrapped with a hanging indent. With `-o wide`: one line."""
    text = one_line(text)
    first = f"{label:<{indent - 1}} " if label else " " * indent
    if view.wide:
        return f"{first}{text}"
    return _filled(text, max(view.width, indent + _SHORTEST), first, " " * indent)


def fitted(text: str, view: View) -> str:
    """Each line that is wider than the view goes on in the next one, two columns to the right of where it began. With
    `-o wide`: as it is.
    """
    text = lines(text)
    if view.wide:
        return text
    return "\n".join(_fitted_line(line, view.width) for line in text.split("\n"))


def _fitted_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    start = line[: len(line) - len(line.lstrip())]
    return _filled(line.strip(), width, start, f"{start}  ")


def _filled(text: str, width: int, first: str, rest: str) -> str:
    """Wraps the text between words. `first`, `rest`: what its lines begin with."""
    wrap = textwrap.TextWrapper(width, first, rest, break_long_words=False, break_on_hyphens=False)
    return wrap.fill(text)


def age_text(since_ms: int | None, now_ms: int) -> str:
    """As kubectl writes it: 8s, 3m12s, 12m, 5h3m, 9h, 2d4h, 30d. Empty for None."""
    if since_ms is None:
        return ""
    seconds = max(now_ms - since_ms, 0) // 1000
    for unit, name, below, name_below, whole_from in (
        (86_400, "d", 3600, "h", 8),
        (3600, "h", 60, "m", 8),
        (60, "m", 1, "s", 10),
    ):
        count, rest = divmod(seconds, unit)
        if count:
            smaller = rest // below
            return f"{count}{name}{smaller}{name_below}" if smaller and count < whole_from else f"{count}{name}"
    return f"{seconds}s"


def _narrow(widths: list[int], columns: Sequence[Column], width: int) -> None:
    """Takes what is too much from the widest column that may give, again and again: first words, then names."""
    excess = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - width
    for may_give in ([column.wrap for column in columns], [column.shorten for column in columns]):
        while excess > 0:
            giving = [
                index
                for index, column in enumerate(columns)
                if may_give[index] and widths[index] > max(_SHORTEST, len(column.heading))
            ]
            if not giving:
                break
            widths[max(giving, key=widths.__getitem__)] -= 1
            excess -= 1


def _lines(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    """The lines of one row."""
    parts = [
        textwrap.wrap(cell, width, break_on_hyphens=False) if column.wrap else [shortened(cell, width)]
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return [
        _BETWEEN.join(
            f"{text:>{width}}" if column.right else f"{text:<{width}}"
            for text, column, width in zip(
                (part[number] if number < len(part) else "" for part in parts), columns, widths, strict=True
            )
        ).rstrip()
        for number in range(max(map(len, parts)))
    ]
