"""Draws restore progress: as bars on a terminal, or as lines."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple, Protocol

from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from streams_runtime.clock import Clock

_BARS_MS = 100


class ProgressRow(NamedTuple):
    """`total`, `remaining`: offsets. `records`: applied so far. `per_s`: records per second, of the last seconds."""

    label: str
    total: int
    remaining: int
    records: int
    per_s: float
    finished: bool

    @property
    def percent(self) -> float:
        return 100.0 if self.total == 0 else 100.0 * (self.total - self.remaining) / self.total

    @property
    def time_left(self) -> str:
        """`h:mm:ss`, rounded up; `-:--:--` when nothing moves."""
        if self.finished or self.remaining == 0:
            return "0:00:00"
        if self.per_s <= 0:
            return "-:--:--"
        seconds = -int(-self.remaining // self.per_s)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


class ProgressView(Protocol):
    def is_due(self) -> bool:
        """Whether it is time to call `show`; asked for every batch."""
        ...

    def show(self, rows: list[ProgressRow], total: ProgressRow) -> None:
        """Called when it is due, and at each start and end."""
        ...

    def close(self) -> None:
        """Everything is restored, for now."""
        ...


class BarsView:
    """A bar for each row and one for the total, redrawn in place while anything restores."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._shown_ms = 0
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}

    def is_due(self) -> bool:
        return self._clock.monotonic_ms() - self._shown_ms >= _BARS_MS

    def show(self, rows: list[ProgressRow], total: ProgressRow) -> None:
        self._shown_ms = self._clock.monotonic_ms()
        progress = self._progress or self._start()
        shown = [total, *rows]
        for label in self._bars.keys() - {row.label for row in shown}:
            progress.remove_task(self._bars.pop(label))
        for row in shown:
            if row.label not in self._bars:
                self._bars[row.label] = progress.add_task(row.label, left="", rate="", time="")
            progress.update(
                self._bars[row.label],
                total=max(row.total, 1),
                completed=row.total - row.remaining if row.total else 1,
                left=f"{row.remaining:,}",
                rate=f"{row.per_s:,.0f}",
                time=row.time_left,
            )

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = None
        self._bars.clear()

    def _start(self) -> Progress:
        self._progress = progress = Progress(
            TextColumn("restoring {task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[left]} left"),
            TextColumn("{task.fields[rate]} records/s"),
            TextColumn("{task.fields[time]}"),
            console=self._console,
            refresh_per_second=4,
        )
        with suppress(LiveError):  # something else draws on this terminal, which must not make a restore fail
            progress.start()
        return progress


class LinesView:
    """Every `interval_ms` a line for the total and one for each unfinished row; at the end one for the total."""

    def __init__(self, console: Console, clock: Clock, interval_ms: int) -> None:
        self._console = console
        self._clock = clock
        self._interval_ms = interval_ms
        self._next_ms: int | None = None
        self._started_ms = 0
        self._last: ProgressRow | None = None

    def is_due(self) -> bool:
        return self._next_ms is not None and self._clock.monotonic_ms() >= self._next_ms

    def show(self, rows: list[ProgressRow], total: ProgressRow) -> None:
        now_ms = self._clock.monotonic_ms()
        self._last = total
        if self._next_ms is None:
            self._started_ms = now_ms
            self._next_ms = now_ms + self._interval_ms
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._interval_ms
        for row in (total, *(row for row in rows if not row.finished)):
            self._print(
                f"restoring {row.label}: {row.percent:.0f}%, {row.remaining:,} left, "
                f"{row.per_s:,.0f} records/s, {row.time_left}"
            )

    def close(self) -> None:
        if self._last is not None:
            took_s = (self._clock.monotonic_ms() - self._started_ms) / 1_000
            state = "restored" if self._last.finished else "restoring suspended:"
            self._print(f"{state} {self._last.records:,} records in {took_s:.1f} s")
        self._next_ms = self._last = None

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
