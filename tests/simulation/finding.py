"""`python -m tests.simulation bugs`: how many seeds it takes until the simulation finds each bug by itself.

    python -m tests.simulation bugs                        every bug, ten starts each
    python -m tests.simulation bugs "fenced" "checkpoint"  those whose names have one of these words
    python -m tests.simulation bugs --starts 3 --most 100  fewer starts; no more seeds than this from each

A start begins at a seed of its own, and goes on until a rule is broken that holds without the bug. The table has the
median of all starts, and the rules that were broken. It fails when a start has not found its bug.
"""

import argparse
import multiprocessing
import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tests.simulation.bug import BUGS, Bug
from tests.simulation.running import run
from tests.simulation.schedule import drawn

STARTS = 10
MOST_SEEDS = 600
SEEDS_BETWEEN_STARTS = 100_000
NEVER_ENDS = "a history ends"
LONGEST_SEED_S = 10
"""Of computing. A bug may have the group go round in circles at one moment of simulated time."""


def named(name: str) -> Bug:
    """Raises KeyError."""
    return {each.name: each for each in BUGS}[name]


Broken = Callable[[int], str | None]
"""Runs a seed. Gives the rule that it broke, None when all is well."""


@dataclass(slots=True)
class Found:
    """`seeds`: that each start took, None when it gave up. `rules`: that were broken."""

    name: str
    seeds: list[int | None] = field(default_factory=list)
    rules: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def is_always(self) -> bool:
        return None not in self.seeds

    @property
    def median(self) -> float | None:
        """None when half of the starts gave up."""
        middle = statistics.median(float("inf") if one is None else one for one in self.seeds)
        return None if middle == float("inf") else middle

    def line(self) -> str:
        found = sum(one is not None for one in self.seeds)
        median = "-" if self.median is None else f"{self.median:g}"
        rules = ", ".join(f"{rule} ({times})" for rule, times in self.rules.most_common(3))
        return f"{self.name:<44}{median:>7}{f'{found}/{len(self.seeds)}':>8}{self.seconds:>8.0f} s  {rules}"


def find(bug: Bug, starts: int, most_seeds: int, broken: Broken) -> Found:
    """Gives up the first start without success, and does not try another one then."""
    found, began_s = Found(bug.name), time.process_time()
    for start in range(starts):
        first = start * SEEDS_BETWEEN_STARTS
        for number, seed in enumerate(range(first, first + most_seeds), start=1):
            with bug.switched_on():
                rule = broken(seed)
            if rule is not None and broken(seed) is None:  # it is the bug that breaks it
                found.seeds.append(number)
                found.rules[rule] += 1
                break
        else:
            found.seeds.append(None)
            if start == 0:
                break
    found.seconds = time.process_time() - began_s
    return found


class _TakesTooLong(BaseException):
    """Nobody below may take it for an error of his own."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise _TakesTooLong

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def broken_by_seed(seed: int) -> str | None:
    try:
        with _limited(LONGEST_SEED_S):
            return run(drawn(seed)).rule
    except _TakesTooLong:
        return NEVER_ENDS


def _find_named(name: str, starts: int, most_seeds: int) -> Found:
    return find(named(name), starts, most_seeds, broken_by_seed)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation bugs", description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", help="bugs whose names have one of these (default: all)")
    parser.add_argument("--starts", type=int, default=STARTS, help=f"(default: {STARTS})")
    parser.add_argument("--most", type=int, default=MOST_SEEDS, help=f"seeds from a start (default: {MOST_SEEDS})")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="(default: one for each core)")
    chosen = parser.parse_args(arguments)
    names = [each.name for each in BUGS if not chosen.words or any(word in each.name for word in chosen.words)]
    print(f"{'bug':<44}{'seeds':>7}{'found':>8}{'time':>10}  broken rules", flush=True)
    with multiprocessing.get_context("forkserver").Pool(chosen.processes, maxtasksperchild=4) as pool:
        task = partial(_find_named, starts=chosen.starts, most_seeds=chosen.most)
        found = _told(pool.imap_unordered(task, names))
    print(f"\n{sum(one.is_always for one in found)} of {len(found)} bugs were found from every start")
    missing = [one.name for one in found if not one.is_always]
    if missing:
        print(f"not found from every start, but it has to be: {', '.join(missing)}")
    return 1 if missing else 0


def _told(results: Iterable[Found]) -> list[Found]:
    """Each, as soon as it is there."""
    found = []
    for one in results:
        found.append(one)
        print(one.line(), flush=True)
    return found
