"""Contenders measured in turns, so that other load on the machine affects all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

K = TypeVar("K")


def medians(contenders: Mapping[K, Callable[[], float]], runs: int, what: str) -> dict[K, float]:
    """Of each contender the median of what its `runs` runs answered. `what`: said beside the progress bar."""
    answers: dict[K, list[float]] = {name: [] for name in contenders}
    with progress() as bar:
        work = bar.add_task(what, total=runs * len(contenders))
        for _ in range(runs):
            for name, run in contenders.items():
                bar.update(work, description=f"{what}: {name}")
                answers[name].append(run())
                bar.advance(work)
    return {name: statistics.median(of_it) for name, of_it in answers.items()}


def progress() -> Progress:
    """A bar on standard error, gone when the work is done; nothing where that is no terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
