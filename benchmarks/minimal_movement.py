"""How much less moves with MinimalMovementTaskAssignor than with Kafka's while a group grows, over 30 seeds.

Both start from a stable group of their own and grow it until it is stable again. Kafka's assignor needs about a
thousand rebalances for the larger growth, so the seeds are spread over all cores. On racks, the bound is what a
placement with even shares has to read across racks, however much moves for it.
"""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.properties.growing_group import Grown, Growth, grow, least_cross_rack_reads

KAFKAS = "HighAvailabilityTaskAssignor"
MINIMAL = "MinimalMovementTaskAssignor"
SEEDS = range(30)
QUICK_SEEDS = range(2)
MEASURES: dict[str, Callable[[Grown], float]] = {
    "rebalances until stable": lambda grown: grown.rounds,
    "active tasks moved": lambda grown: grown.active_moves,
    "copies restored": lambda grown: grown.copies_restored,
    "skew in the end": lambda grown: grown.skew,
}
MOVES = "moves, of Kafka’s"
READS = "partitions read across racks"
ON_RACKS = ((KAFKAS, "min_traffic"), (MINIMAL, "none"), (MINIMAL, "min_traffic"))
"""Assignor, and `rack.aware.assignment.strategy`."""

Pair = tuple[Grown, Grown]
"""With Kafka's assignor, and with the minimal one."""


def ten_to_eleven(seed: int) -> Growth:
    """Odd seeds have four subtopologies."""
    return Growth(10, 11, threads=1, subtopologies=4 if seed % 2 else 1, tasks=100, standbys=0, seed=seed)


def fifty_to_fifty_five(seed: int) -> Growth:
    return Growth(50, 55, threads=4, subtopologies=4 if seed % 2 else 1, tasks=1_000, standbys=1, seed=seed)


def twelve_to_fifteen_on_racks(seed: int) -> Growth:
    return Growth(12, 15, threads=1, subtopologies=4 if seed % 2 else 1, tasks=120, standbys=0, seed=seed, racks=3)


def run(console: Console, *, quick: bool = False) -> None:
    """Print minimum, median and maximum over the seeds for each growth. `quick`: the smaller one, two seeds."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1 if quick else os.cpu_count(), mp_context=spawn) as pool:
        small = _run_both(pool, ten_to_eleven, QUICK_SEEDS if quick else SEEDS)
        console.print(_table("10 to 11 clients of 1 thread, 100 stateful tasks, no standbys", small))
        if not quick:
            large = _run_both(pool, fifty_to_fifty_five, SEEDS)
            console.print(_table("50 to 55 clients of 4 threads, 1,000 stateful tasks, 1 standby", large))
        growths = [twelve_to_fifteen_on_racks(seed) for seed in (QUICK_SEEDS if quick else SEEDS)]
        asked = [[pool.submit(grow, growth, *each) for each in ON_RACKS] for growth in growths]
        on_racks = [[grown.result() for grown in of_seed] for of_seed in asked]
        console.print(_rack_table("12 to 15 clients of 1 thread on 3 racks, 120 stateful tasks", growths, on_racks))


def _run_both(pool: ProcessPoolExecutor, growth_of: Callable[[int], Growth], seeds: range) -> list[Pair]:
    growths = [growth_of(seed) for seed in seeds]
    asked = [(pool.submit(grow, growth, KAFKAS), pool.submit(grow, growth, MINIMAL)) for growth in growths]
    return [(kafkas.result(), minimal.result()) for kafkas, minimal in asked]


def _table(title: str, pairs: list[Pair]) -> Table:
    table = Table(title=f"{title}, {len(pairs)} seeds: min / median / max")
    table.add_column("")
    for name in (KAFKAS, MINIMAL):
        table.add_column(name, justify="right")
    columns = list(zip(*pairs, strict=True))
    for name, measure in MEASURES.items():
        table.add_row(name, *(_spread([measure(grown) for grown in column], "g") for column in columns))
    table.add_row(MOVES, "", _spread([minimal.moves / kafkas.moves for kafkas, minimal in pairs], ".1%"))
    return table


def _rack_table(title: str, growths: list[Growth], grown: list[list[Grown]]) -> Table:
    table = Table(title=f"{title}, {len(grown)} seeds: min / median / max")
    table.add_column("")
    for name, strategy in ON_RACKS:
        table.add_column(f"{name.removesuffix('TaskAssignor')}, {strategy}", justify="right")
    columns = list(zip(*grown, strict=True))
    measures = {**MEASURES, READS: _reads}
    for name, measure in measures.items():
        table.add_row(name, *(_spread([measure(each) for each in column], "g") for column in columns))
    bound = _spread([least_cross_rack_reads(growth) for growth in growths], "g")
    table.add_row("the bound of it", *[bound] * len(ON_RACKS))
    return table


def _reads(grown: Grown) -> float:
    assert grown.cross_rack_reads is not None, "a growth on racks"
    return grown.cross_rack_reads


def _spread(values: list[float], form: str) -> str:
    return f"{min(values):{form}} / {median(values):{form}} / {max(values):{form}}"
