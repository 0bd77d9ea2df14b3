"""What a coordinator does after each of its polls."""

from collections.abc import Sequence
from math import inf

from coordinator_api.lease.decisions import (
    Action,
    Elsewhere,
    EndCoordinator,
    Free,
    HandOver,
    Here,
    Lose,
    NoSuchGroup,
    ReadAgain,
    Take,
)
from coordinator_api.lease.lease_holder import Expiry, LeaseHolder, ObservedLeases
from coordinator_api.store.lease_rows import LeaseTimes, lease_times
from tests.coordinator_api.lease.table import view

TIMES = LeaseTimes(renewal_ms=250, valid_ms=2_000)
ALONE = {"a": 1}
BOTH = {"a": 1, "b": 1}


def entered(now_ms: float = 0) -> LeaseHolder:
    holder = LeaseHolder(TIMES)
    holder.entered("a", "http://a", now_ms)
    return holder


def owner_of(*group_ids: str) -> LeaseHolder:
    """In epoch 1, since a poll at 0."""
    holder = entered()
    taken(holder, holder.polled(0, 10, view(ALONE, *((group_id, None, 0) for group_id in group_ids))))
    return holder


def taken(holder: LeaseHolder, actions: Sequence[Action]) -> None:
    for action in actions:
        assert isinstance(action, Take)
        holder.own(action.group_id, action.epoch + 1)


def test_should_have_nothing_and_answer_nothing_before_its_first_poll() -> None:
    holder = entered(now_ms=70)
    assert holder.next_poll_ms(70) == 70
    assert not holder.may_answer(70)
    assert holder.whereabouts("x") == NoSuchGroup()


def test_should_take_what_is_free_and_have_it_once_it_is_taken() -> None:
    holder = entered()
    (take,) = holder.polled(0, 10, view(ALONE, ("x", "gone", 4)))
    assert take == Take("x", "gone", 4)
    assert holder.whereabouts("x") == Free()
    holder.own(take.group_id, take.epoch + 1)
    assert holder.whereabouts("x") == Here(5)
    assert holder.may_answer(1_999)
    assert not holder.may_answer(2_000)


def test_should_know_where_groups_of_others_are() -> None:
    holder = entered()
    assert holder.polled(0, 10, view(BOTH, ("x", "b", 4))) == []
    assert holder.whereabouts("x") == Elsewhere("http://b")


def test_should_try_again_what_it_could_not_take() -> None:
    holder = entered()
    assert holder.polled(0, 10, view(ALONE, ("x", None, 0))) == [Take("x", None, 0)]
    assert holder.polled(250, 260, view(ALONE, ("x", None, 0))) == [Take("x", None, 0)]


def test_should_take_once_more_what_is_its_own_without_its_having_heard_of_it() -> None:
    holder = entered()
    assert holder.polled(0, 10, view(BOTH, ("x", "a", 6))) == [Take("x", "a", 6)], "handed over by b"
    assert holder.whereabouts("x") == Free()
    holder.own("x", 7)
    assert holder.whereabouts("x") == Here(7)


def test_should_believe_what_it_has_done_more_than_a_view_that_may_be_older() -> None:
    holder = entered()
    holder.polled(0, 10, view(ALONE, ("x", None, 0)))
    holder.own("x", 1)
    assert holder.polled(250, 260, view(ALONE, ("x", None, 0))) == []
    assert holder.whereabouts("x") == Here(1)
    assert holder.polled(500, 510, view(ALONE, ("x", None, 0))) == [Lose("x"), Take("x", None, 0)]


def test_should_lose_what_is_gone_from_the_rows() -> None:
    holder = owner_of("x", "y", "z")
    holder.polled(250, 260, view(BOTH, ("x", "a", 1), ("y", "a", 1), ("z", "a", 1)))
    assert holder.polled(500, 510, view(BOTH, ("x", "a", 1), ("y", "b", 2))) == [Lose("y"), Lose("z")]
    assert holder.whereabouts("y") == Elsewhere("http://b")
    assert holder.whereabouts("z") == NoSuchGroup()


def test_should_have_what_it_declares_until_it_is_deleted() -> None:
    holder = owner_of()
    holder.own("x", 1)
    assert holder.whereabouts("x") == Here(1)
    holder.polled(250, 260, view(ALONE))
    assert holder.whereabouts("x") == Here(1)
    holder.deleted("x")
    assert holder.whereabouts("x") == NoSuchGroup()
    assert holder.polled(500, 510, view(ALONE, ("x", "a", 1))) == [], "the view may be older"
    assert holder.polled(750, 760, view(ALONE)) == []


def test_should_end_who_is_over_and_take_what_it_had() -> None:
    holder = entered()
    for now_ms in range(0, 2_001, 250):
        assert holder.polled(now_ms, now_ms, view({"a": now_ms, "b": 7}, ("x", "b", 3))) == []
    assert holder.next_poll_ms(2_000) == 2_100, "sooner than the next one would be"
    ended = holder.polled(2_100, 2_101, view({"a": 9, "b": 7}, ("x", "b", 3)))
    assert ended == [EndCoordinator("b", 7), Take("x", "b", 3)]
    assert holder.whereabouts("x") == Free()


def test_should_enter_anew_when_its_row_is_gone() -> None:
    holder = owner_of("x", "y")
    assert holder.polled(250, 260, None) == [Lose("x"), Lose("y")]
    assert holder.coordinator_id is None
    assert not holder.may_answer(261)
    assert holder.whereabouts("x") == NoSuchGroup()
    holder.entered("a2", "http://a", 300)
    assert not holder.may_answer(301)
    assert holder.polled(300, 310, view({"a2": 1}, ("x", "a", 1))) == [Take("x", "a", 1)]
    assert holder.may_answer(311)


def test_should_read_all_again_after_its_lease_had_ended_for_a_while() -> None:
    holder = owner_of("x")
    holder.polled(250, 260, view(ALONE, ("x", "a", 1)))
    assert not holder.may_answer(5_000)
    assert holder.polled(5_000, 5_010, view(ALONE, ("x", "a", 1))) == [ReadAgain()]
    assert holder.may_answer(5_010)
    assert holder.polled(5_250, 5_260, view(ALONE, ("x", "a", 1))) == []


def test_should_do_nothing_by_an_answer_that_came_too_late() -> None:
    holder = owner_of("x")
    assert holder.polled(1_000, 3_500, view(BOTH, ("x", "b", 2), ("y", None, 0))) == []
    assert holder.polled(4_000, 6_500, view(BOTH, ("x", "b", 2), ("y", None, 0))) == [Lose("x")]


def test_should_not_renew_before_an_answer_comes_in_time_again() -> None:
    holder = owner_of("x")
    assert holder.renews
    holder.polled(1_000, 3_000, view(ALONE, ("x", "a", 1)))
    assert not holder.renews
    assert holder.polled(3_000, 3_100, view(ALONE, ("x", "a", 1))) == [], "it only looked"
    assert not holder.may_answer(3_100)
    assert holder.renews
    assert holder.next_poll_ms(3_100) == 3_100
    assert holder.polled(3_100, 3_200, view(ALONE, ("x", "a", 1))) == [ReadAgain()]
    assert holder.may_answer(3_200)


def test_should_not_renew_after_a_poll_that_failed_and_keep_its_lease_as_it_was() -> None:
    holder = owner_of("x")
    holder.poll_failed()
    assert not holder.renews
    assert holder.polled(500, 510, view(ALONE, ("x", "a", 1))) == []
    assert holder.may_answer(1_999)
    assert not holder.may_answer(2_000)
    assert holder.renews


def test_should_look_longer_each_time_that_a_renewal_is_in_vain_until_it_goes_well() -> None:
    holder = owner_of()
    now_ms = 0.0

    def looks() -> int:
        """In time, before the row is renewed."""
        nonlocal now_ms
        count = 0
        while not holder.renews:
            now_ms += 10
            holder.polled(now_ms, now_ms + 10, view(ALONE))
            count += 1
        return count

    found = []
    for _ in range(4):
        holder.poll_failed()
        found.append(looks())
    assert found == [1, 2, 4, 4]
    for _ in range(8):
        assert holder.renews
        now_ms += 250
        holder.polled(now_ms, now_ms + 10, view(ALONE))
    holder.poll_failed()
    assert looks() == 1


def test_should_take_what_waits_in_vain_for_another_one() -> None:
    holder = entered()
    heavy = ("own", "a", 1)
    holder.polled(0, 10, view(BOTH, heavy))
    holder.own("own", 2)
    for now_ms in range(250, 750, 250):
        both = {"a": now_ms, "b": now_ms}
        assert holder.polled(now_ms, now_ms, view(both, ("own", "a", 2), ("x", None, 0))) == [], "b's by the plan"
    later = view({"a": 9, "b": 9}, ("own", "a", 2), ("x", None, 0))
    assert holder.polled(750, 750, later) == [Take("x", None, 0)]


def test_should_poll_regularly_and_sooner_after_one_that_failed() -> None:
    holder = owner_of()
    assert holder.next_poll_ms(10) == 250
    assert holder.next_poll_ms(250) == 250
    assert holder.next_poll_ms(251) == 312.5
    assert holder.next_poll_ms(312.5) == 312.5
    assert holder.next_poll_ms(100_000) == 100_000
    holder.polled(400, 420, view(ALONE))
    assert holder.next_poll_ms(420) == 650


def test_should_hand_over_one_movable_group_at_a_time() -> None:
    holder = owner_of("x", "y", "z", "w")
    groups = [(each, "a", 1) for each in "xyzw"]
    assert holder.polled(250, 260, view(BOTH, *groups)) == [], "nothing is movable"
    assert holder.polled(500, 510, view(BOTH, *groups), ["y", "z"]) == [HandOver("y", 1, "b")]
    assert holder.whereabouts("y") == Free()
    holder.given(HandOver("y", 1, "b"))
    assert holder.whereabouts("y") == Elsewhere("http://b")
    after = view({"a": 4, "b": 2}, ("x", "a", 1), ("y", "b", 2), ("z", "a", 1), ("w", "a", 1))
    assert holder.polled(750, 760, after, ["y", "z"]) == [HandOver("z", 1, "b")]


def test_should_take_back_what_it_could_not_hand_over() -> None:
    holder = owner_of("x", "y")
    groups = [(each, "a", 1) for each in "xy"]
    assert holder.polled(250, 260, view(BOTH, *groups), ["x"]) == [HandOver("x", 1, "b")]
    assert holder.polled(500, 510, view({"a": 3, "b": 2}, *groups)) == [Take("x", "a", 1)]


def test_should_move_nothing_while_somebody_is_silent_or_anything_is_free() -> None:
    holder = owner_of("x", "y")
    groups = [(each, "a", 1) for each in "xy"]
    movable = ["x", "y"]
    holder.polled(250, 260, view(ALONE, *groups), movable)
    taker = view({"a": 3, "b": 1}, *groups, ("free", None, 0))
    assert HandOver not in map(type, holder.polled(500, 510, taker, movable))


def test_should_give_all_away_when_it_leaves_and_take_nothing_more() -> None:
    holder = owner_of("x", "y")
    holder.polled(250, 260, view(BOTH, ("x", "a", 1), ("y", "a", 1), ("z", "b", 1)))
    moves = holder.leaving()
    assert moves == [HandOver("x", 1, "b"), HandOver("y", 1, "b")]
    assert holder.whereabouts("x") == Free()
    holder.given(moves[0])
    assert holder.whereabouts("x") == Elsewhere("http://b")
    assert holder.polled(500, 510, view(BOTH, ("x", "b", 2), ("y", "a", 1), ("free", None, 0))) == []


def test_should_give_away_only_what_it_has_opened_when_it_leaves() -> None:
    """The rows say that "y" is its own: it asked for it, and has not heard the answer."""
    holder = owner_of("x")
    assert holder.polled(250, 260, view(BOTH, ("x", "a", 1), ("y", "a", 3), ("z", "b", 1))) == [Take("y", "a", 3)]
    assert holder.leaving() == [HandOver("x", 1, "b")]


def test_should_give_nothing_away_when_it_leaves_alone() -> None:
    holder = owner_of("x")
    assert holder.leaving() == []
    assert holder.whereabouts("x") == Free(), "it is closed before the row is deleted"
    assert LeaseHolder(TIMES).leaving() == []


# --- until when a coordinator may answer


def test_should_answer_until_some_time_after_a_renewal_was_sent_however_late_its_answer_came() -> None:
    lease = Expiry(TIMES)
    assert not lease.polled(100, 1_900)
    assert lease.may_answer(2_099)
    assert not lease.may_answer(2_100)


def test_should_give_nothing_back_by_an_answer_that_is_older_than_the_lease_is_long() -> None:
    lease = Expiry(TIMES)
    lease.polled(0, 10)
    assert not lease.polled(2_500, 4_500)
    assert not lease.may_answer(4_500)
    assert lease.polled(4_510, 4_520), "it is back only now"
    assert lease.may_answer(4_520)


def test_should_not_lose_time_by_the_answer_to_an_earlier_renewal() -> None:
    lease = Expiry(TIMES)
    lease.polled(500, 510)
    lease.polled(100, 520)
    assert lease.may_answer(2_499)


def test_should_leave_time_for_others_to_take_over_within_the_lease_timeout() -> None:
    times = lease_times(3_000)
    assert times == LeaseTimes(250, 2_000)


# --- when another coordinator is over


def looked(observation: ObservedLeases, *, renewals: int, from_ms: int, to_ms: int, every_ms: int = 250) -> None:
    for now_ms in range(from_ms, to_ms + 1, every_ms):
        observation.seen(view({"me": now_ms, "other": renewals}), "me", now_ms)


def test_should_begin_anew_with_each_number() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=2_000)
    looked(observation, renewals=8, from_ms=2_050, to_ms=4_100)
    assert observation.expired() == []
    looked(observation, renewals=8, from_ms=4_200, to_ms=4_200)
    assert observation.expired() == [EndCoordinator("other", 8)]


def test_should_count_an_outage_as_two_intervals_at_most() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=1_500)
    looked(observation, renewals=7, from_ms=900_000, to_ms=900_000)
    assert observation.expired() == []
    looked(observation, renewals=7, from_ms=900_100, to_ms=900_100)
    assert observation.expired() == [EndCoordinator("other", 7)]


def test_should_never_end_itself() -> None:
    observation = ObservedLeases(TIMES)
    for now_ms in range(0, 10_000, 250):
        observation.seen(view({"me": 1}), "me", now_ms)
    assert observation.expired() == []
    assert observation.next_due_ms() == inf


def test_should_look_again_when_the_first_of_the_others_may_be_over() -> None:
    observation = ObservedLeases(TIMES)
    assert observation.next_due_ms() == inf
    observation.seen(view({"me": 0, "other": 7}), "me", 1_000)
    observation.seen(view({"me": 1, "other": 7, "new": 1}), "me", 1_250)
    assert observation.next_due_ms() == 1_000 + 2_100


def test_should_tell_who_has_missed_a_few_renewals() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=750)
    assert observation.silent() == frozenset()
    looked(observation, renewals=7, from_ms=800, to_ms=800)
    assert observation.silent() == {"other"}
    looked(observation, renewals=8, from_ms=1_000, to_ms=1_000)
    assert observation.silent() == frozenset()
