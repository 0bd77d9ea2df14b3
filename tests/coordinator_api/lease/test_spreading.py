"""Who takes what is free, and what moves to whom."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from coordinator_api.lease.decisions import TOLERANCE, HandOver, Take, hand_over_of, hand_overs_of_all, takes_of, weight
from coordinator_api.store.lease_rows import CoordinatorRow, GroupOwner, LeaseView
from tests.coordinator_api.lease.table import view

BOTH = {"a": 1, "b": 1}


def test_should_give_the_heaviest_to_who_carries_least() -> None:
    seen = view(BOTH, ("own", "a", 1, 9), ("large", None, 0, 20), ("middle", None, 0, 9), ("small", None, 0, 2))
    assert takes_of(seen, "b") == [Take("large", None, 0)]
    assert takes_of(seen, "a") == [Take("middle", None, 0), Take("small", None, 0)]


def test_should_plan_nothing_for_who_is_silent_unless_it_is_itself() -> None:
    seen = view(BOTH, ("free", None, 0))
    assert takes_of(seen, "b", {"a"}) == [Take("free", None, 0)]
    assert takes_of(seen, "a", {"a"}) == [Take("free", None, 0)]


def test_should_hand_over_what_makes_the_largest_load_smallest() -> None:
    seen = view(BOTH, ("x", "a", 1, 9), ("y", "a", 5, 4), ("z", "a", 1, 1))
    assert hand_over_of(seen, "a", {"x", "y", "z"}) == HandOver("x", 1, "b")
    assert hand_over_of(seen, "a", {"y", "z"}) == HandOver("y", 5, "b")


def test_should_keep_what_is_not_movable() -> None:
    seen = view(BOTH, ("x", "a", 1), ("y", "a", 1), ("not mine", "b", 1))
    assert hand_over_of(seen, "a", set()) is None
    assert hand_over_of(seen, "a", {"not mine", "nowhere"}) is None


def test_should_not_move_for_a_quarter_more_than_its_share() -> None:
    seen = view(BOTH, *((f"a{n}", "a", 1) for n in range(5)), *((f"b{n}", "b", 1) for n in range(3)))
    assert hand_over_of(seen, "a", {f"a{n}" for n in range(5)}) is None


def test_should_not_move_the_only_group_from_one_to_the_other() -> None:
    assert hand_over_of(view(BOTH, ("x", "a", 1, 100)), "a", {"x"}) is None


def test_should_leave_all_to_who_carries_least() -> None:
    seen = view({"a": 1, "b": 1, "c": 1}, ("x", "a", 1, 4), ("y", "a", 2, 3), ("z", "b", 1, 9))
    assert hand_overs_of_all(seen, "a") == [HandOver("x", 1, "c"), HandOver("y", 2, "c")]
    assert hand_overs_of_all(seen, "a", {"c"}) == [HandOver("x", 1, "b"), HandOver("y", 2, "b")]
    assert hand_overs_of_all(seen, "a", {"b", "c"}) == []
    assert hand_overs_of_all(view({"a": 1}, ("x", "a", 1)), "a") == []


# --- whatever the view


def views() -> st.SearchStrategy[LeaseView]:
    coordinators = st.integers(1, 5).map(lambda n: [f"c{number}" for number in range(n)])

    def with_groups(names: list[str]) -> st.SearchStrategy[LeaseView]:
        owners = st.sampled_from([*names, "gone", None])
        groups = st.lists(st.tuples(owners, st.integers(0, 9), st.integers(0, 60)), max_size=25)
        return groups.map(
            lambda rows: LeaseView(
                {each: CoordinatorRow(each, f"http://{each}", 1, "1") for each in names},
                {f"g{n}": GroupOwner(f"g{n}", *row) for n, row in enumerate(rows)},
            )
        )

    return coordinators.flatmap(with_groups)


def owned_by(seen: LeaseView, group_id: str, owner: str) -> LeaseView:
    group = seen.groups[group_id]
    return replace(seen, groups={**seen.groups, group_id: group._replace(owner=owner, epoch=group.epoch + 1)})


def loads(seen: LeaseView) -> Counter[str]:
    counted = Counter(dict.fromkeys(seen.coordinators, 0))
    for group in seen.groups.values():
        if group.owner is not None and group.owner in counted:
            counted[group.owner] += weight(group)
    return counted


def all_taken(seen: LeaseView) -> LeaseView:
    for each in sorted(seen.coordinators):
        for take in takes_of(seen, each):
            seen = owned_by(seen, take.group_id, each)
    return seen


@given(views())
def test_should_take_each_free_group_once(seen: LeaseView) -> None:
    planned = [take.group_id for each in seen.coordinators for take in takes_of(seen, each)]
    assert sorted(planned) == sorted(each.group_id for each in seen.groups.values() if seen.is_free(each))


@given(views())
def test_should_spread_what_is_free_so_that_none_has_more_than_a_group_above_another(seen: LeaseView) -> None:
    nobody_has_any = replace(seen, groups={key: group._replace(owner=None) for key, group in seen.groups.items()})
    plans = {each: takes_of(nobody_has_any, each) for each in seen.coordinators}
    carried = {each: sum(weight(seen.groups[take.group_id]) for take in plan) for each, plan in plans.items()}
    heaviest = max(map(weight, seen.groups.values()), default=0)
    assert max(carried.values()) - min(carried.values()) <= heaviest


@given(views())
def test_should_come_to_rest_after_few_moves_and_move_nothing_back(seen: LeaseView) -> None:
    seen = all_taken(seen)
    largest, moves = max(loads(seen).values()), Counter[str]()
    had = {(each.group_id, each.owner) for each in seen.groups.values()}
    while True:
        planned = [hand_over_of(seen, each, seen.groups.keys()) for each in seen.coordinators]
        wanted = [move for move in planned if move is not None]
        if not wanted:
            break
        (move,) = wanted
        assert (move.group_id, move.to) not in had, "it was there before"
        had.add((move.group_id, move.to))
        moves[move.group_id] += 1
        seen = owned_by(seen, move.group_id, move.to)
        assert max(loads(seen).values()) <= largest
        largest = max(loads(seen).values())
    assert moves.total() <= len(seen.groups)
    final = loads(seen)
    least, (most, owner) = min(final.values()), max((load, each) for each, load in final.items())
    if most * len(final) > TOLERANCE * final.total():
        assert all(least + weight(each) >= most for each in seen.groups.values() if each.owner == owner)


@given(views())
def test_should_move_each_group_at_most_once_when_a_coordinator_comes(seen: LeaseView) -> None:
    everybody = [*seen.coordinators, "z new"]
    nobody_has_any = replace(seen, groups={key: group._replace(owner=None) for key, group in seen.groups.items()})
    rows = {each: CoordinatorRow(each, f"http://{each}", 1, "1") for each in everybody}
    seen = replace(all_taken(nobody_has_any), coordinators=rows)
    moved: set[str] = set()
    while wanted := [move for each in everybody if (move := hand_over_of(seen, each, seen.groups.keys())) is not None]:
        (move,) = wanted
        assert move.group_id not in moved
        moved.add(move.group_id)
        seen = owned_by(seen, move.group_id, move.to)


@given(views())
def test_should_leave_nothing_behind(seen: LeaseView) -> None:
    me = next(iter(seen.coordinators))
    moves = hand_overs_of_all(seen, me)
    own = {each.group_id for each in seen.groups.values() if each.owner == me}
    assert {move.group_id for move in moves} == (own if len(seen.coordinators) > 1 else set())
    assert all(move.to != me and move.to in seen.coordinators for move in moves)


def without(seen: LeaseView, *coordinators: str) -> LeaseView:
    """They do not serve yet, or not any more."""
    rows = {name: row._replace(takes=name not in coordinators) for name, row in seen.coordinators.items()}
    return LeaseView(rows, seen.groups)


def test_should_give_nothing_to_who_does_not_serve() -> None:
    seen = view({"a": 1, "b": 1, "c": 1}, ("x", "a", 1, 9), ("y", "a", 2, 9), ("z", "a", 3, 9), ("free", None, 0))

    assert hand_over_of(without(seen, "b"), "a", seen.groups.keys()) == HandOver("x", 1, "c")
    assert hand_over_of(without(seen, "b", "c"), "a", seen.groups.keys()) is None
    assert {each.to for each in hand_overs_of_all(without(seen, "b"), "a")} == {"c"}
    assert hand_overs_of_all(without(seen, "b", "c"), "a") == []
    assert takes_of(without(seen, "b"), "b") == []
    assert takes_of(without(seen, "b"), "c") == [Take("free", None, 0)]


def test_should_leave_nothing_to_nobody_when_all_have_just_begun() -> None:
    seen = view({"a": 1, "b": 1}, ("x", None, 0), ("y", None, 0))

    planned = [take for each in "ab" for take in takes_of(without(seen, "a", "b"), each)]

    assert sorted(take.group_id for take in planned) == ["x", "y"]
