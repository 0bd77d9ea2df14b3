"""Numbers beside marks: none on another, as long as there is room."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_analysis.sweep.front_picture import Label, Mark, place_labels
from tests.examples import share

FONT = 9.0
RADIUS = 4.0

# ten marks on a line, one font size apart, between two walls of obstacles
CROWDED: list[Mark] = [(100 + FONT * number, 100, RADIUS) for number in range(10)]
WALLS: list[Mark] = [(60 + FONT * number, y, RADIUS) for number in range(20) for y in (88, 112)]


def box(label: Label, mark: Mark) -> tuple[float, float, float, float]:
    x, y = mark[0] + label.dx, mark[1] + label.dy
    half_width, half_height = len(label.text) * FONT * 0.6 / 2, FONT / 2
    return x - half_width, y - half_height, x + half_width, y + half_height


def overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_should_put_a_lonely_label_close_by_and_without_a_line() -> None:
    (label,) = place_labels(["1"], [(50, 50, RADIUS)], [], FONT)

    assert label.text == "1"
    assert not label.is_far
    assert 0 < label.dx < 12
    assert 0 < label.dy < 12


def test_should_lie_on_no_mark_and_no_other_label_in_a_crowd() -> None:
    labels = place_labels([str(number) for number in range(10)], CROWDED, WALLS, FONT)

    boxes = [box(label, mark) for label, mark in zip(labels, CROWDED, strict=True)]
    marks = [(x - r, y - r, x + r, y + r) for x, y, r in (*CROWDED, *WALLS)]
    assert not any(overlap(one, other) for one, other in combinations(boxes, 2))
    assert not any(overlap(one, mark) for one in boxes for mark in marks)


def test_should_go_further_out_and_say_so_when_all_places_close_by_are_taken() -> None:
    around: list[Mark] = [(50 + dx, 50 + dy, 9) for dx in (-16, 0, 16) for dy in (-16, 0, 16)]

    (label,) = place_labels(["1"], [(50, 50, RADIUS)], around, FONT)

    assert label.is_far
    assert not any(overlap(box(label, (50, 50, 0)), (x - r, y - r, x + r, y + r)) for x, y, r in around)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(1, 9)), max_size=9))
@share(0.3)
def test_should_give_every_mark_its_label_even_without_room(marks: list[Mark]) -> None:
    texts = [str(number) for number in range(len(marks))]

    assert [label.text for label in place_labels(texts, marks, marks, FONT)] == texts


def test_should_put_each_label_on_the_side_of_its_own_mark_when_two_marks_nearly_meet() -> None:
    left, right = place_labels(["2", "3"], [(50, 50, RADIUS), (52, 50, RADIUS)], [], FONT)

    assert 50 + left.dx < 51 < 52 + right.dx
    assert not left.is_far
    assert not right.is_far
