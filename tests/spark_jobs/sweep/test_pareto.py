"""The Pareto front, against the definition tried on every pair."""

from hypothesis import given
from hypothesis import strategies as st

from rebalance_analysis.sweep.totals import Better, Vector, dominates, pareto_front

LESS_AND_MORE = (Better.LESS, Better.MORE)


def test_should_keep_what_nobody_beats_and_ties_together() -> None:
    quick, cheap, beaten, tie = (1.0, 5.0), (3.0, 9.0), (3.0, 8.0), (1.0, 5.0)

    assert pareto_front([beaten, quick, cheap, tie], LESS_AND_MORE) == [1, 2, 3]


def test_should_be_empty_when_there_is_nothing() -> None:
    assert pareto_front([], LESS_AND_MORE) == []


def test_should_beat_only_when_better_in_something_and_worse_in_nothing() -> None:
    assert dominates((1, 5), (2, 5), LESS_AND_MORE)
    assert not dominates((1, 4), (2, 5), LESS_AND_MORE)
    assert not dominates((2, 5), (2, 5), LESS_AND_MORE)


@st.composite
def points(draw: st.DrawFn) -> tuple[list[Vector], list[Better]]:
    directions = draw(st.lists(st.sampled_from(Better), min_size=1, max_size=4))
    coordinate = st.integers(-3, 3) | st.floats(-2, 2)
    vectors = st.lists(st.tuples(*[coordinate for _ in directions]), max_size=40)
    return draw(vectors), directions


@given(points())
def test_should_equal_the_definition_on_every_pair(drawn: tuple[list[Vector], list[Better]]) -> None:
    vectors, directions = drawn

    def beats(one: Vector, other: Vector) -> bool:
        gains = [(b - a) * way.value for a, b, way in zip(one, other, directions, strict=True)]
        return min(gains) >= 0 and max(gains) > 0

    unbeaten = [place for place, one in enumerate(vectors) if not any(beats(other, one) for other in vectors)]
    assert pareto_front(vectors, directions) == unbeaten
    for one in vectors:
        assert all(dominates(other, one, directions) == beats(other, one) for other in vectors)
