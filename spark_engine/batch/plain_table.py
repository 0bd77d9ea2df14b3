"""A table without lines, so that it fits 80 columns. Text that is too wide continues in the next line; no text is
cut.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

GAP = 2
"""Columns of the terminal between two of the table."""


def plain_table(*, show_header: bool = True) -> Table:
    """Give its columns `overflow="fold"`: rich cuts the words of others."""
    return Table(show_header=show_header, box=None, pad_edge=False, padding=(0, GAP, 0, 0))


def titled(title: str, table: Table, *notes: str) -> Group:
    """The title above and the notes below, which may be wider than the table is."""
    parts: list[RenderableType] = [Text(title), table, *map(Text, notes)]
    return Group(*parts)
