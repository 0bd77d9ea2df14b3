"""How much less moves with MinimalMovementTaskAssignor than with Kafka's, over 30 seeds, printed side by side.

Both start from a stable group of their own and grow it until it is stable again. Kafka's needs about a thousand rounds
for the larger growth, so the seeds are spread over all cores.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median

import pytest

from tests.properties.growing_group import Grown, Growth, grow

KAFKAS = "HighAvailabilityTaskAssignor"
MINIMAL = "MinimalMovementTaskAssignor"
SEEDS = range(30)

Pair = tuple[Growth, Grown, Grown]
"""The growth, with Kafka's assignor, with the minimal one."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


def ten_to_eleven(seed: int) -> Growth:
    """Odd seeds have four subtopologies."""
    return Growth(10, 11, threads=1, subtopologies=4 if seed % 2 else 1, tasks=100, standbys=0, seed=seed)


def fifty_to_fifty_five(seed: int) -> Growth:
    return Growth(50, 55, threads=4, subtopologies=4 if seed % 2 else 1, tasks=1_000, standbys=1, seed=seed)


def run_both(pool: ProcessPoolExecutor, growth_of: Callable[[int], Growth]) -> list[Pair]:
    growths = [growth_of(seed) for seed in SEEDS]
    asked = [(growth, pool.submit(grow, growth, KAFKAS), pool.submit(grow, growth, MINIMAL)) for growth in growths]
    return [(growth, kafkas.result(), minimal.result()) for growth, kafkas, minimal in asked]


def table(title: str, pairs: list[Pair]) -> str:
    """Minimum, median and maximum over the seeds."""
    measures: list[tuple[str, Callable[[Grown], float]]] = [
        ("rounds until stable", lambda grown: grown.rounds),
        ("active tasks moved", lambda grown: grown.active_moves),
        ("copies restored", lambda grown: grown.copies_restored),
        ("skew in the end", lambda grown: grown.skew),
    ]
    lines = ["", f"{title}, {len(pairs)} seeds: min / median / max", f"{'':22}{KAFKAS:>32}{MINIMAL:>32}"]
    for name, measure in measures:
        columns = [[measure(pair[1]) for pair in pairs], [measure(pair[2]) for pair in pairs]]
        cells = [f"{min(values):g} / {median(values):g} / {max(values):g}" for values in columns]
        lines.append(f"{name:22}{cells[0]:>32}{cells[1]:>32}")
    shares = [minimal.moves / kafkas.moves for _, kafkas, minimal in pairs]
    lines.append(f"{'moves, of Kafka’s':54}{f'{min(shares):.1%} / {median(shares):.1%} / {max(shares):.1%}':>32}")
    return "\n".join(lines)


def assert_as_balanced_as_kafkas(growth: Growth, kafkas: Grown, minimal: Grown) -> None:
    assert minimal.skew <= 1
    assert minimal.skew <= kafkas.skew or minimal.skew == pytest.approx(kafkas.skew), growth
    assert minimal.uneven <= 1


def test_should_grow_from_10_to_11_clients_with_at_most_10_moves_in_at_most_8_rounds(
    pool: ProcessPoolExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = run_both(pool, ten_to_eleven)
    with capsys.disabled():
        print(table("10 to 11 clients of 1 thread, 100 stateful tasks, no standbys", pairs))
    for growth, kafkas, minimal in pairs:
        assert minimal.active_moves <= 10, growth
        assert minimal.rounds <= 8, growth
        assert_as_balanced_as_kafkas(growth, kafkas, minimal)


@pytest.mark.timeout(3_600)
def test_should_grow_from_50_to_55_clients_with_less_than_a_twentieth_of_kafkas_moves(
    pool: ProcessPoolExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = run_both(pool, fifty_to_fifty_five)
    with capsys.disabled():
        print(table("50 to 55 clients of 4 threads, 1,000 stateful tasks, 1 standby", pairs))
    for growth, kafkas, minimal in pairs:
        assert minimal.moves < 0.05 * kafkas.moves, growth
        assert_as_balanced_as_kafkas(growth, kafkas, minimal)
