"""Contenders measured in turns, so that other load on the machine affects all of them alike."""

import multiprocessing
import os
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")


def medians(contenders: Mapping[K, Callable[[], float]], runs: int, what: str) -> dict[K, float]:
    """Of each contender the median of what its `runs` runs answered. `what`: said beside the progress bar."""
    with progress() as bar:
        work = bar.add_task(what, total=runs * len(contenders))

        def shown(name: K, run: Callable[[], float]) -> float:
            bar.update(work, description=f"{what}: {name}")
            answer = run()
            bar.advance(work)
            return answer

        answers = in_turns({name: partial(shown, name, run) for name, run in contenders.items()}, runs)
    return {name: statistics.median(of_it) for name, of_it in answers.items()}


def in_turns(contenders: Mapping[K, Callable[[], T]], runs: int) -> dict[K, list[T]]:
    """Of each contender what its `runs` runs answered; everybody runs once before anybody runs again."""
    answers: dict[K, list[T]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, run in contenders.items():
            answers[name].append(run())
    return answers


def in_fresh_process(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a new process and return its result. `work`: a function of a module, with arguments that can be
    pickled. An error of `work` is raised here.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def load_average() -> str:
    """What a reader has to know of the machine before comparing a figure with one of another run."""
    return f"load average of the last 5 minutes {os.getloadavg()[1]:.1f}, with the benchmark's own"


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
