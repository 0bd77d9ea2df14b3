"""Reading with a progress bar on stderr, when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import Progress, TaskID

from rebalance_analysis.reading.lines import Line, read_lines


def read_with_bar(inputs: Sequence[str]) -> Iterator[Line]:
    """Every line that is not blank, of all inputs. Raises InputError for an input that cannot be opened."""
    if not sys.stderr.isatty():
        yield from read_lines(inputs)
        return
    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        yield from read_lines(inputs, _Bars(progress))


class _Bars:
    """One bar for each source."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar = TaskID(0)

    def begin(self, name: str, size: int | None) -> None:
        self._bar = self._progress.add_task(name, total=size)

    def advance(self, position: int | None) -> None:
        if position is None:
            self._progress.advance(self._bar)
        else:
            self._progress.update(self._bar, completed=position)

    def end(self) -> None:
        self._progress.stop_task(self._bar)
