"""Prints the output of a run: tables, and the progress in rows. On a terminal, the progress is a bar. Without a
terminal, a line is printed every 5 s.

The progress counts the rows of complete parts, including parts of earlier runs. The rate is measured over the last 30
s, and ignores the rows of earlier runs.
"""

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

LINE_INTERVAL_S = 5.0
RATE_WINDOW_S = 30.0
GAP = 2
"""The number of spaces between two columns of a table."""


class RowsProgress:
    """A context manager that shows the progress of a run. The end of the block stops the bar and restores the
    terminal.
    """

    def __init__(self, console: Console, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._title = title
        self._clock = clock
        self._next_line_s = clock() + LINE_INTERVAL_S
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            console=console,
            auto_refresh=False,
            speed_estimate_period=RATE_WINDOW_S,
            get_time=clock,
        )
        self._task = self._bar.add_task(title, total=None, status="starting")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def show(self, done: int, planned: int, rejects: int) -> None:
        """Shows the progress. `done`: the number of finished rows and rejects. `planned`: the number of planned rows
        and rejects. `done` and `planned` include the rows and rejects of earlier runs.
        """
        task = self._bar.tasks[0]
        # `total` is assigned directly, because `update` would reset the rate when the total changes
        task.total = planned
        self._bar.update(self._task, completed=done)
        status = f"{done:,} of {planned:,} rows"
        if rejects:
            status += f" ({rejects:,} rejects)"
        if rate := task.speed:
            status += f", {rate:,.0f} rows/s, {_duration((planned - done) / rate)} left"
        self._bar.update(self._task, status=status, refresh=self._console.is_terminal)
        if not self._console.is_terminal and self._clock() >= self._next_line_s:
            self._next_line_s = self._clock() + LINE_INTERVAL_S
            self.report(status)

    def report(self, text: str) -> None:
        """Prints a line that stays above the bar."""
        self._console.print(f"{self._title}: {text}", highlight=False, markup=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def plain_table(*, show_header: bool = True) -> Table:
    """Returns a table without ruled lines, so that the table fits 80 columns. The caller should add columns with
    `overflow="fold"`. In a column with this option, a wide text continues in the next line. In other columns, rich
    truncates a wide text.
    """
    return Table(show_header=show_header, box=None, pad_edge=False, padding=(0, GAP, 0, 0))


def titled(title: str, table: Table, *notes: str) -> Group:
    """Returns a table with a title above and notes below. The title and the notes may be wider than the table."""
    parts: list[RenderableType] = [Text(title), table, *map(Text, notes)]
    return Group(*parts)
