"""Runs schedules: one, or many seeds on all cores. A run gives what it met, and which rule was broken if one was."""

import gc
import logging
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from coordinator_api.group.records import IllegalTransition
from tests.simulation.coverage import Coverage
from tests.simulation.rule_names import Rule
from tests.simulation.rules import RuleBroken
from tests.simulation.schedule import Schedule, drawn
from tests.simulation.world import World

FAILS_WITH = "fails with"
"""The beginning of the name of the rule that no part fails, whatever goes wrong."""

SEEDS_AT_A_TIME = 10


@dataclass(frozen=True, slots=True)
class Run:
    """`rule`: that was broken, None when all is well. `what`: broke it. `history`: the last that happened."""

    schedule: Schedule
    coverage: Coverage
    events: int
    digest: int
    rule: str | None = None
    what: str = ""
    history: tuple[str, ...] = ()


def run(schedule: Schedule) -> Run:
    """What the runtime logs of all that goes wrong is not said."""
    logger = logging.getLogger("streams_runtime")
    before, logger.level = logger.level, logging.CRITICAL + 1
    logging.disable(logging.CRITICAL)
    try:
        return _run(schedule)
    finally:
        logging.disable(logging.NOTSET)
        logger.level = before


def _run(schedule: Schedule) -> Run:
    world = World(schedule)
    timeline = world.timeline
    try:
        world.run()
    except RuleBroken as broken:
        rule, what = broken.rule, str(broken)
    except IllegalTransition as illegal:
        rule, what = Rule.FITS_TOGETHER, str(illegal)
    except Exception as error:
        named, _, _ = str(error).partition(":")  # an assertion of the word count begins with the rule's name
        is_rule = isinstance(error, AssertionError) and " " in named and len(named) < 100
        rule = named if is_rule else f"{FAILS_WITH} {type(error).__name__}"
        what = f"{error}\n{''.join(traceback.format_exception(error)[-8:])}"
    else:
        return Run(schedule, world.coverage, timeline.events, timeline.digest)
    return Run(schedule, world.coverage, timeline.events, timeline.digest, rule, what, tuple(timeline.lines()))


@dataclass(slots=True)
class Runs:
    """Of many seeds. `failed`: their runs, in the order of the seeds."""

    seeds: int = 0
    events: int = 0
    fewest_events: int | None = None
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    failed: list[Run] = field(default_factory=list)

    def add(self, run_of_seed: Run) -> None:
        self.seeds += 1
        self.events += run_of_seed.events
        if run_of_seed.rule is None:  # one that failed has come to no end
            fewest = self.fewest_events
            self.fewest_events = run_of_seed.events if fewest is None else min(fewest, run_of_seed.events)
        self.coverage.add(run_of_seed.coverage)
        if run_of_seed.rule is not None:
            self.failed.append(run_of_seed)


def run_seeds(
    seeds: Iterable[int], *, processes: int | None = None, told: Callable[[Runs], None] | None = None
) -> Runs:
    """On all cores, or so many. `told`: called now and then with what there is so far."""
    runs, began_s = Runs(), time.perf_counter()
    chosen = list(seeds)
    chunks = [chosen[at : at + SEEDS_AT_A_TIME] for at in range(0, len(chosen), SEEDS_AT_A_TIME)]
    for chunk in _results(chunks, processes or os.cpu_count() or 1):
        for one in chunk:
            runs.add(one)
        runs.seconds = time.perf_counter() - began_s
        if told is not None:
            told(runs)
    runs.failed.sort(key=lambda one: one.schedule.seed)
    return runs


def _results(chunks: list[list[int]], processes: int) -> Iterator[list[Run]]:
    if processes == 1 or len(chunks) == 1:
        yield from map(_run_chunk, chunks)
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(processes, _without_garbage, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_run_all, chunks)


def _without_garbage() -> None:
    """A process that soon ends collects none: a world is full of cycles, and large."""
    gc.disable()


def _run_all(seeds: list[int]) -> list[Run]:
    return [run(drawn(seed)) for seed in seeds]


def _run_chunk(seeds: list[int]) -> list[Run]:
    """Garbage is collected once, at the end, and not over and over while a world lives."""
    gc.disable()
    try:
        return _run_all(seeds)
    finally:
        gc.enable()
        gc.collect()
