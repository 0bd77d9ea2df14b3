"""Shows the progress of a run in rows: a bar on a terminal, else a line every few seconds.

It counts the rows of complete parts, including those of earlier runs. The rate is that of the last half minute and
leaves out earlier runs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

LINE_INTERVAL_S = 5.0
RATE_WINDOW_S = 30.0


class RowsProgress:
    """A context manager, which gives the terminal back on exit."""

    def __init__(self, console: Console, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._title = title
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()
        self._next_line_s = clock() + LINE_INTERVAL_S
        self._bar = _bar(console) if console.is_terminal else None
        self._task = None if self._bar is None else self._bar.add_task(title, total=None, status="starting")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, planned: int, rejects: int) -> None:
        """`done` of `planned`: rows and rejects, including those of earlier runs."""
        now_s = self._clock()
        status = self._status(now_s, done, planned, rejects)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=planned, status=status, refresh=True)
        elif now_s >= self._next_line_s:
            self._next_line_s = now_s + LINE_INTERVAL_S
            self.say(status)

    def say(self, text: str) -> None:
        """Print a line that stays above the bar."""
        self._console.print(f"{self._title}: {text}", highlight=False, markup=False, soft_wrap=True)

    def _status(self, now_s: float, done: int, planned: int, rejects: int) -> str:
        if not self._samples or self._samples[-1][1] != done:
            self._samples.append((now_s, done))
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - RATE_WINDOW_S:
            self._samples.popleft()
        began_s, at_first = self._samples[0]
        rate = (done - at_first) / (now_s - began_s) if now_s > began_s else 0.0
        text = f"{done:,} of {planned:,} rows"
        if rejects:
            text += f" ({rejects:,} rejects)"
        if rate > 0:
            text += f", {rate:,.0f} rows/s, {_duration((planned - done) / rate)} left"
        return text


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[status]}"))
    return Progress(*columns, console=console, auto_refresh=False)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
