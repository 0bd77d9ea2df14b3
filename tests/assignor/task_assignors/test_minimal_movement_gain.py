"""How much less moves with MinimalMovementTaskAssignor than with Kafka's while a group grows.

Both start from a stable group of their own and grow it until it is stable again. `benchmarks/minimal_movement.py` has
the figures over 30 seeds.
"""

import pytest

from benchmarks.minimal_movement import KAFKAS, MINIMAL, fifty_to_fifty_five, ten_to_eleven, twelve_to_fifteen_on_racks
from tests.properties.growing_group import Grown, Growth, grow, least_cross_rack_reads

SEEDS = range(6)


def ten_to_eleven_with_standbys(seed: int) -> Growth:
    """As `fifty_to_fifty_five`, in a size that Kafka's assignor is through with in a second."""
    return Growth(10, 11, threads=4, subtopologies=4 if seed % 2 else 1, tasks=200, standbys=1, seed=seed)


def assert_as_balanced_as_kafkas(growth: Growth, kafkas: Grown, minimal: Grown) -> None:
    assert minimal.skew <= 1
    assert minimal.skew <= kafkas.skew or minimal.skew == pytest.approx(kafkas.skew), growth
    assert minimal.uneven <= 1


@pytest.mark.parametrize("growth", [ten_to_eleven(seed) for seed in SEEDS], ids=lambda growth: f"seed {growth.seed}")
def test_should_grow_from_10_to_11_clients_with_at_most_10_moves_in_at_most_8_rebalances(growth: Growth) -> None:
    kafkas, minimal = grow(growth, KAFKAS), grow(growth, MINIMAL)
    assert minimal.active_moves <= 10
    assert minimal.rounds <= 8
    assert_as_balanced_as_kafkas(growth, kafkas, minimal)


@pytest.mark.parametrize(
    "growth",
    [
        *(ten_to_eleven_with_standbys(seed) for seed in SEEDS[:4]),
        *(pytest.param(fifty_to_fifty_five(seed), marks=[pytest.mark.long, pytest.mark.soak]) for seed in SEEDS[:2]),
    ],
    ids=lambda growth: f"{growth.clients} to {growth.grown_to}, seed {growth.seed}",
)
def test_should_grow_with_less_than_a_twentieth_of_kafkas_moves(growth: Growth) -> None:
    kafkas, minimal = grow(growth, KAFKAS), grow(growth, MINIMAL)
    assert minimal.moves < 0.05 * kafkas.moves
    assert_as_balanced_as_kafkas(growth, kafkas, minimal)


@pytest.mark.parametrize("seed", SEEDS)
def test_should_read_a_quarter_across_racks_without_one_move_more(seed: int) -> None:
    """Of what it reads when it does not look at racks; no placement with even shares reads less than the bound."""
    growth = twelve_to_fifteen_on_racks(seed)
    without, with_racks = grow(growth, MINIMAL), grow(growth, MINIMAL, "min_traffic")
    assert with_racks.moves == without.moves
    assert with_racks.cross_rack_reads is not None
    assert without.cross_rack_reads is not None
    assert least_cross_rack_reads(growth) <= with_racks.cross_rack_reads < 0.25 * without.cross_rack_reads
    assert (with_racks.skew, with_racks.uneven) == (without.skew, without.uneven)
