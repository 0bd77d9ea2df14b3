"""The Pareto front, against the definition tried on every pair. Less is better in every measure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_analysis.sweep.totals import Vector, dominates, pareto_front

QUICK, CHEAP, BEATEN = (1.0, -5.0), (3.0, -9.0), (3.0, -8.0)
COORDINATES = st.integers(-3, 3) | st.floats(-2, 2)


@pytest.mark.parametrize(
    "points, front", [([BEATEN, QUICK, CHEAP, QUICK], [1, 2, 3]), ([], [])], ids=["ties together", "nothing"]
)
def test_should_keep_what_nobody_beats(points: list[Vector], front: list[int]) -> None:
    assert pareto_front(points) == front


@given(st.integers(1, 4).flatmap(lambda size: st.lists(st.tuples(*[COORDINATES] * size), max_size=40)))
def test_should_equal_the_definition_on_every_pair(points: list[Vector]) -> None:
    def beats(one: Vector, other: Vector) -> bool:
        gains = [b - a for a, b in zip(one, other, strict=True)]
        return min(gains) >= 0 and max(gains) > 0

    unbeaten = [place for place, one in enumerate(points) if not any(beats(other, one) for other in points)]
    assert pareto_front(points) == unbeaten
    for one in points:
        assert all(dominates(other, one) == beats(other, one) for other in points)
