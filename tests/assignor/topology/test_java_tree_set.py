"""The tree set keeps the order that was true when members came in."""

from hypothesis import given
from hypothesis import strategies as st

from assignor.java.tree_set import JavaTreeSet


@given(st.lists(st.integers(0, 60)))
def test_should_be_sorted_without_duplicates_when_keys_do_not_change(items: list[int]) -> None:
    members: JavaTreeSet[int] = JavaTreeSet(lambda one, other: one - other)
    for item in items:
        members.add(item)

    assert list(members) == sorted(set(items))


def test_should_stay_shallow_when_members_come_in_order() -> None:
    comparisons = 0

    def compare(one: int, other: int) -> int:
        nonlocal comparisons
        comparisons += 1
        return one - other

    members: JavaTreeSet[int] = JavaTreeSet(compare)
    for item in range(1_024):
        members.add(item)

    assert comparisons <= 1_024 * 20  # the depth of a red-black tree: at most twice the logarithm


def test_should_not_move_members_when_their_keys_change() -> None:
    keys = {"a": 1, "b": 2, "c": 3}
    members: JavaTreeSet[str] = JavaTreeSet(lambda one, other: keys[one] - keys[other])
    for item in keys:
        members.add(item)
    keys["a"] = 9

    assert list(members) == ["a", "b", "c"]
