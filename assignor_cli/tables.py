"""Makes tables and paragraphs for people, in the style of kubectl.

If a table is wider than the view, columns with `wrap` or `shorten` are narrowed. First, the cells of columns with
`wrap` are wrapped between words. If the table is then still too wide, names in columns with `shorten` are shortened in
their middle. A column without `wrap` and `shorten` is never narrowed, so that programs can extract its values.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assignor.names.printable import lines, one_line
from assignor.names.short_names import shortened

_BETWEEN = "  "
_SHORTEST = 12
"""The smallest width, in characters, to which a column is narrowed."""


class View(NamedTuple):
    """The terminal settings for which a text is made. `width`: the width of the terminal in characters. `wide`: True
    for
    `-o wide`, with full names, all columns and no limit of width. `now_ms`: the present time in milliseconds since the
    epoch, for AGE columns.
    """

    width: int = 80
    wide: bool = False
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `right`: True to align the cells to the right, for numbers. `wide`: True to show the column
    only with `-o wide`. `shorten`: True if names may be shortened in their middle. `wrap`: True if the words of a cell
    may be wrapped to further lines. `optional`: True to omit the column if all its cells are empty. With `-o wide`, the
    column is always shown.
    """

    heading: str
    right: bool = False
    wide: bool = False
    shorten: bool = False
    wrap: bool = False
    optional: bool = False


def table_text(nothing: str, columns: Sequence[Column], rows: Iterable[Sequence[object]], view: View) -> str:
    """Returns the table as text, without the last line end. Returns the text `nothing` if there are no rows. Each row
    of `rows` has a cell for every column, including columns that are not shown. An empty cell is shown as `-`.
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
    """Formats a paragraph: the label, and then the text. Every line of the text begins at the column `indent`. With `-o
    wide` the paragraph is one line.
    """
    text = one_line(text)
    first = f"{label:<{indent - 1}} " if label else " " * indent
    if view.wide:
        return f"{first}{text}"
    return _filled(text, max(view.width, indent + _SHORTEST), first, " " * indent)


def fitted(text: str, view: View) -> str:
    """Wraps each line that is wider than the view. The continuation of a wrapped line is indented by two more
    characters. With `-o wide` the text stays unchanged.
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
    """Wraps the text between words. `first`, `rest`: the indentation of the first line and of all further lines."""
    wrap = textwrap.TextWrapper(width, first, rest, break_long_words=False, break_on_hyphens=False)
    return wrap.fill(text)


def age_text(since_ms: int | None, now_ms: int) -> str:
    """Formats an age as kubectl does: 8s, 3m12s, 12m, 5h3m, 9h, 2d4h, 30d. Returns an empty text if `since_ms` is
    None.
    """
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
    """Narrows the columns until the table has the width `width`. Each step makes the widest column one character
    narrower. Columns with `wrap` are narrowed first, then columns with `shorten`.
    """
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
    """Returns the text lines of one table row."""
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
