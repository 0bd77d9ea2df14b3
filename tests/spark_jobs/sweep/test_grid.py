"""`--grid`: what it accepts, in which order, and what it says of the rest."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assignor.errors import InputError
from rebalance_analysis.sweep.grid import Axis, Combination, Grid, parse_grid

NUMBER_KEYS = ("max.warmup.replicas", "num.standby.replicas", "acceptable.recovery.lag", "topic.retention.ms")


def test_should_have_one_axis_a_key_and_every_value_of_a_range() -> None:
    grid = parse_grid(["max.warmup.replicas=1..4,num.standby.replicas=0..2"])

    assert grid == Grid((Axis("max.warmup.replicas", (1, 2, 3, 4)), Axis("num.standby.replicas", (0, 1, 2))))
    assert len(grid) == 12


@pytest.mark.parametrize(
    "written, values",
    [
        ("7", (7,)),
        ("1..16:5", (1, 6, 11, 16)),
        ("1..15:5", (1, 6, 11)),
        ("1..3|8|16", (1, 2, 3, 8, 16)),
        (" 4 | 2 ", (4, 2)),
        ("3..3", (3,)),
        ("+5", (5,)),
    ],
)
def test_should_take_ranges_steps_and_single_values(written: str, values: tuple[int, ...]) -> None:
    assert parse_grid([f"max.warmup.replicas={written}"]) == Grid((Axis("max.warmup.replicas", values),))


def test_should_take_text_where_a_config_is_text() -> None:
    grid = parse_grid(["assignor=HighAvailabilityTaskAssignor|my.module:Mine", "rack.aware.assignment.tags=zone|rack"])

    assert grid.axes == (
        Axis("assignor", ("HighAvailabilityTaskAssignor", "my.module:Mine")),
        Axis("rack.aware.assignment.tags", ("zone", "rack")),
    )
    assert [axis.is_number for axis in grid.axes] == [False, False]


def test_should_make_all_values_text_when_one_of_them_is() -> None:
    assert parse_grid(["topic.cleanup.policy=1|compact"]).axes == (Axis("topic.cleanup.policy", ("1", "compact")),)


@pytest.mark.parametrize(
    "text, number",
    [
        ("max.warmup.replicas=1..16,num.standby.replicas=0..2", 3),
        ("num.standby.replicas=2|1|0,max.warmup.replicas=4..1000|2", 3 * 998 - 1),
        ("assignor=LegacyStickyTaskAssignor|HighAvailabilityTaskAssignor", 1),
        ("max.warmup.replicas=3..16", None),
        ("topic.retention.ms=1|2", None),
    ],
)
def test_should_know_which_combination_is_kafkas_own(text: str, number: int | None) -> None:
    assert parse_grid([text]).kafkas_defaults() == number


@st.composite
def axes(draw: st.DrawFn) -> list[tuple[str, list[int]]]:
    keys = draw(st.lists(st.sampled_from(NUMBER_KEYS), min_size=1, max_size=3, unique=True))
    return [(key, draw(st.lists(st.integers(1, 99), min_size=1, max_size=6, unique=True))) for key in keys]


@given(axes())
def test_should_count_combinations_as_nested_loops_do(written: list[tuple[str, list[int]]]) -> None:
    grid = parse_grid([",".join(f"{key}={'|'.join(map(str, values))}" for key, values in written)])

    in_loops = [Combination(number, values) for number, values in enumerate(product(*(v for _, v in written)))]
    assert [grid.combination(number) for number in range(len(grid))] == in_loops
    assert grid.keys == tuple(key for key, _ in written)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 60))
def test_should_read_a_range_as_python_counts_it(first: int, more: int, step: int) -> None:
    grid = parse_grid([f"acceptable.recovery.lag={first}..{first + more}:{step}"])

    assert grid.axes[0].values == tuple(range(first, first + more + 1, step))


@given(st.text(max_size=40) | st.from_regex(r"max\.warmup\.replicas=[0-9.:|]{1,9}", fullmatch=True))
@example("0\x850=")  # a line break to Python, although no terminal shows it
def test_should_answer_any_text_with_a_grid_or_one_line(text: str) -> None:
    try:
        found = str(len(parse_grid([text])))
    except InputError as error:
        found = str(error)

    assert found.isdigit() or (found.startswith("--grid") and len(found.splitlines()) == 1)
