"""The recorded lines of a command: the options that choose them, and a progress bar while they are read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from rebalance_analysis.reading.lines import Line, LineChoice, read_lines

Recordings = Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings, or - for stdin.")]


def choice_from_options(
    *,
    id: Annotated[str | None, typer.Option("--id", help="Only the rebalance with this id.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="G", help="Only rebalances of this group.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every rebalance, not only the last one of each group.")] = False,
) -> LineChoice:
    return LineChoice(id, group, all)


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
