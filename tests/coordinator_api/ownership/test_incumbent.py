"""What a coordinator does after each of its beats."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_api.ownership.incumbent import Incumbent
from coordinator_api.ownership.values import (
    Action,
    Elsewhere,
    EndCoordinator,
    Enter,
    Free,
    HandOver,
    Here,
    LeaseTimes,
    Lose,
    NoSuchGroup,
    ReadAgain,
    Take,
)
from tests.coordinator_api.ownership.views import view

TIMES = LeaseTimes(beat_ms=250, valid_ms=2_000)
ALONE = {"a": 1}
BOTH = {"a": 1, "b": 1}


def entered(now_ms: float = 0) -> Incumbent:
    incumbent = Incumbent(TIMES)
    incumbent.entered("a", "http://a", now_ms)
    return incumbent


def owner_of(*group_ids: str) -> Incumbent:
    """In epoch 1, since a beat at 0."""
    incumbent = entered()
    taken(incumbent, incumbent.beaten(0, 10, view(ALONE, *((group_id, None, 0) for group_id in group_ids))))
    return incumbent


def taken(incumbent: Incumbent, actions: Sequence[Action]) -> None:
    for action in actions:
        assert isinstance(action, Take)
        incumbent.taken(action)


def test_should_have_nothing_and_answer_nothing_before_its_first_beat() -> None:
    incumbent = entered(now_ms=70)
    assert incumbent.next_beat_ms(70) == 70
    assert not incumbent.may_answer(70)
    assert incumbent.whereabouts("x") == NoSuchGroup()


def test_should_take_what_is_free_and_have_it_once_it_is_taken() -> None:
    incumbent = entered()
    (take,) = incumbent.beaten(0, 10, view(ALONE, ("x", "gone", 4)))
    assert take == Take("x", "gone", 4)
    assert incumbent.whereabouts("x") == Free()
    incumbent.taken(take)
    assert incumbent.whereabouts("x") == Here(5)
    assert incumbent.may_answer(1_999)
    assert not incumbent.may_answer(2_000)


def test_should_know_where_groups_of_others_are() -> None:
    incumbent = entered()
    assert incumbent.beaten(0, 10, view(BOTH, ("x", "b", 4))) == []
    assert incumbent.whereabouts("x") == Elsewhere("http://b")


def test_should_try_again_what_it_could_not_take() -> None:
    incumbent = entered()
    assert incumbent.beaten(0, 10, view(ALONE, ("x", None, 0))) == [Take("x", None, 0)]
    assert incumbent.beaten(250, 260, view(ALONE, ("x", None, 0))) == [Take("x", None, 0)]


def test_should_take_once_more_what_is_its_own_without_its_having_heard_of_it() -> None:
    incumbent = entered()
    assert incumbent.beaten(0, 10, view(BOTH, ("x", "a", 6))) == [Take("x", "a", 6)], "handed over by b"
    assert incumbent.whereabouts("x") == Free()
    incumbent.taken(Take("x", "a", 6))
    assert incumbent.whereabouts("x") == Here(7)


def test_should_believe_what_it_has_done_more_than_a_view_that_may_be_older() -> None:
    incumbent = entered()
    incumbent.beaten(0, 10, view(ALONE, ("x", None, 0)))
    incumbent.taken(Take("x", None, 0))
    assert incumbent.beaten(250, 260, view(ALONE, ("x", None, 0))) == []
    assert incumbent.whereabouts("x") == Here(1)
    assert incumbent.beaten(500, 510, view(ALONE, ("x", None, 0))) == [Lose("x"), Take("x", None, 0)]


def test_should_lose_what_is_gone_from_the_rows() -> None:
    incumbent = owner_of("x", "y", "z")
    incumbent.beaten(250, 260, view(BOTH, ("x", "a", 1), ("y", "a", 1), ("z", "a", 1)))
    assert incumbent.beaten(500, 510, view(BOTH, ("x", "a", 1), ("y", "b", 2))) == [Lose("y"), Lose("z")]
    assert incumbent.whereabouts("y") == Elsewhere("http://b")
    assert incumbent.whereabouts("z") == NoSuchGroup()


def test_should_have_what_it_declares_until_it_is_deleted() -> None:
    incumbent = owner_of()
    incumbent.created("x")
    assert incumbent.whereabouts("x") == Here(1)
    incumbent.beaten(250, 260, view(ALONE))
    assert incumbent.whereabouts("x") == Here(1)
    incumbent.deleted("x")
    assert incumbent.whereabouts("x") == NoSuchGroup()
    assert incumbent.beaten(500, 510, view(ALONE, ("x", "a", 1))) == [], "the view may be older"
    assert incumbent.beaten(750, 760, view(ALONE)) == []


def test_should_end_who_is_over_and_take_what_it_had() -> None:
    incumbent = entered()
    for now_ms in range(0, 2_001, 250):
        assert incumbent.beaten(now_ms, now_ms, view({"a": now_ms, "b": 7}, ("x", "b", 3))) == []
    assert incumbent.next_beat_ms(2_000) == 2_100, "sooner than the next one would be"
    ended = incumbent.beaten(2_100, 2_101, view({"a": 9, "b": 7}, ("x", "b", 3)))
    assert ended == [EndCoordinator("b", 7), Take("x", "b", 3)]
    assert incumbent.whereabouts("x") == Free()


def test_should_enter_anew_when_its_row_is_gone() -> None:
    incumbent = owner_of("x", "y")
    assert incumbent.beaten(250, 260, None) == [Lose("x"), Lose("y"), Enter()]
    assert incumbent.coordinator_id is None
    assert not incumbent.may_answer(261)
    assert incumbent.whereabouts("x") == NoSuchGroup()
    incumbent.entered("a2", "http://a", 300)
    assert not incumbent.may_answer(301)
    assert incumbent.beaten(300, 310, view({"a2": 1}, ("x", "a", 1))) == [Take("x", "a", 1)]
    assert incumbent.may_answer(311)


def test_should_read_all_again_after_its_lease_had_ended_for_a_while() -> None:
    incumbent = owner_of("x")
    incumbent.beaten(250, 260, view(ALONE, ("x", "a", 1)))
    assert not incumbent.may_answer(5_000)
    assert incumbent.beaten(5_000, 5_010, view(ALONE, ("x", "a", 1))) == [ReadAgain()]
    assert incumbent.may_answer(5_010)
    assert incumbent.beaten(5_250, 5_260, view(ALONE, ("x", "a", 1))) == []


def test_should_do_nothing_by_an_answer_that_came_too_late() -> None:
    incumbent = owner_of("x")
    assert incumbent.beaten(1_000, 3_500, view(BOTH, ("x", "b", 2), ("y", None, 0))) == []
    assert incumbent.beaten(4_000, 6_500, view(BOTH, ("x", "b", 2), ("y", None, 0))) == [Lose("x")]


def test_should_not_renew_before_an_answer_comes_in_time_again() -> None:
    incumbent = owner_of("x")
    assert incumbent.renews
    incumbent.beaten(1_000, 3_000, view(ALONE, ("x", "a", 1)))
    assert not incumbent.renews
    assert incumbent.beaten(3_000, 3_100, view(ALONE, ("x", "a", 1))) == [], "it only looked"
    assert not incumbent.may_answer(3_100)
    assert incumbent.renews
    assert incumbent.next_beat_ms(3_100) == 3_100
    assert incumbent.beaten(3_100, 3_200, view(ALONE, ("x", "a", 1))) == [ReadAgain()]
    assert incumbent.may_answer(3_200)


def test_should_not_renew_after_a_beat_that_failed_and_keep_its_lease_as_it_was() -> None:
    incumbent = owner_of("x")
    incumbent.not_beaten()
    assert not incumbent.renews
    assert incumbent.beaten(500, 510, view(ALONE, ("x", "a", 1))) == []
    assert incumbent.may_answer(1_999)
    assert not incumbent.may_answer(2_000)
    assert incumbent.renews


def test_should_look_longer_each_time_that_a_renewal_is_in_vain_until_it_goes_well() -> None:
    incumbent = owner_of()
    now_ms = 0.0

    def looks() -> int:
        """In time, before the row is renewed."""
        nonlocal now_ms
        count = 0
        while not incumbent.renews:
            now_ms += 10
            incumbent.beaten(now_ms, now_ms + 10, view(ALONE))
            count += 1
        return count

    found = []
    for _ in range(4):
        incumbent.not_beaten()
        found.append(looks())
    assert found == [1, 2, 4, 4]
    for _ in range(8):
        assert incumbent.renews
        now_ms += 250
        incumbent.beaten(now_ms, now_ms + 10, view(ALONE))
    incumbent.not_beaten()
    assert looks() == 1


def test_should_take_what_waits_in_vain_for_another_one() -> None:
    incumbent = entered()
    heavy = ("own", "a", 1)
    incumbent.beaten(0, 10, view(BOTH, heavy))
    incumbent.taken(Take("own", "a", 1))
    for now_ms in range(250, 750, 250):
        both = {"a": now_ms, "b": now_ms}
        assert incumbent.beaten(now_ms, now_ms, view(both, ("own", "a", 2), ("x", None, 0))) == [], "b's by the plan"
    later = view({"a": 9, "b": 9}, ("own", "a", 2), ("x", None, 0))
    assert incumbent.beaten(750, 750, later) == [Take("x", None, 0)]


def test_should_beat_regularly_and_sooner_after_one_that_failed() -> None:
    incumbent = owner_of()
    assert incumbent.next_beat_ms(10) == 250
    assert incumbent.next_beat_ms(250) == 250
    assert incumbent.next_beat_ms(251) == 312.5
    assert incumbent.next_beat_ms(312.5) == 312.5
    assert incumbent.next_beat_ms(100_000) == 100_000
    incumbent.beaten(400, 420, view(ALONE))
    assert incumbent.next_beat_ms(420) == 650


def test_should_hand_over_one_movable_group_at_a_time() -> None:
    incumbent = owner_of("x", "y", "z", "w")
    groups = [(each, "a", 1) for each in "xyzw"]
    assert incumbent.beaten(250, 260, view(BOTH, *groups)) == [], "nothing is movable"
    incumbent.movable(["y", "z"])
    assert incumbent.beaten(500, 510, view(BOTH, *groups)) == [HandOver("y", 1, "b")]
    assert incumbent.whereabouts("y") == Free()
    incumbent.given(HandOver("y", 1, "b"))
    assert incumbent.whereabouts("y") == Elsewhere("http://b")
    after = view({"a": 4, "b": 2}, ("x", "a", 1), ("y", "b", 2), ("z", "a", 1), ("w", "a", 1))
    assert incumbent.beaten(750, 760, after) == [HandOver("z", 1, "b")]


def test_should_take_back_what_it_could_not_hand_over() -> None:
    incumbent = owner_of("x", "y")
    groups = [(each, "a", 1) for each in "xy"]
    incumbent.movable(["x"])
    assert incumbent.beaten(250, 260, view(BOTH, *groups)) == [HandOver("x", 1, "b")]
    assert incumbent.beaten(500, 510, view({"a": 3, "b": 2}, *groups)) == [Take("x", "a", 1)]


def test_should_move_nothing_while_somebody_is_silent_or_anything_is_free() -> None:
    incumbent = owner_of("x", "y")
    groups = [(each, "a", 1) for each in "xy"]
    incumbent.movable(["x", "y"])
    incumbent.beaten(250, 260, view(ALONE, *groups))
    taker = view({"a": 3, "b": 1}, *groups, ("free", None, 0))
    assert HandOver not in map(type, incumbent.beaten(500, 510, taker))


def test_should_give_all_away_when_it_leaves_and_take_nothing_more() -> None:
    incumbent = owner_of("x", "y")
    incumbent.beaten(250, 260, view(BOTH, ("x", "a", 1), ("y", "a", 1), ("z", "b", 1)))
    moves = incumbent.leaving()
    assert moves == [HandOver("x", 1, "b"), HandOver("y", 1, "b")]
    assert incumbent.whereabouts("x") == Free()
    incumbent.given(moves[0])
    assert incumbent.whereabouts("x") == Elsewhere("http://b")
    assert incumbent.beaten(500, 510, view(BOTH, ("x", "b", 2), ("y", "a", 1), ("free", None, 0))) == []


def test_should_give_away_only_what_it_has_opened_when_it_leaves() -> None:
    """The rows say that "y" is its own: it asked for it, and has not heard the answer."""
    incumbent = owner_of("x")
    assert incumbent.beaten(250, 260, view(BOTH, ("x", "a", 1), ("y", "a", 3), ("z", "b", 1))) == [Take("y", "a", 3)]
    assert incumbent.leaving() == [HandOver("x", 1, "b")]


def test_should_give_nothing_away_when_it_leaves_alone() -> None:
    incumbent = owner_of("x")
    assert incumbent.leaving() == []
    assert incumbent.whereabouts("x") == Free(), "it is closed before the row is deleted"
    assert Incumbent(TIMES).leaving() == []
