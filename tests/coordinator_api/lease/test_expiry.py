"""Until when a coordinator may answer."""

from __future__ import annotations

from coordinator_api.lease.lease_holder import Expiry
from coordinator_api.store.lease_rows import LeaseTimes, lease_times

TIMES = LeaseTimes(renewal_ms=250, valid_ms=2_000)


def test_should_not_answer_before_the_first_renewal() -> None:
    assert not Expiry(TIMES).may_answer(0)


def test_should_answer_until_some_time_after_a_renewal_was_sent_however_late_its_answer_came() -> None:
    lease = Expiry(TIMES)
    assert not lease.polled(100, 1_900)
    assert lease.may_answer(2_099)
    assert not lease.may_answer(2_100)


def test_should_have_lapsed_when_the_next_answer_came_after_the_end() -> None:
    lease = Expiry(TIMES)
    lease.polled(0, 10)
    assert not lease.polled(1_990, 1_999)
    assert lease.polled(3_980, 3_990), "it ended at 3,990"
    assert lease.may_answer(3_990)
    assert not lease.polled(4_100, 4_110), "it is told once"


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
