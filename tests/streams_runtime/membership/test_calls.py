"""What a repeated call carries, which answers are final, and the pauses between calls: by values alone."""

from __future__ import annotations

import pytest

from streams_runtime.membership.calls import (
    CoordinatorError,
    CoordinatorUnavailable,
    JoinRequest,
    UnknownMemberId,
    failure,
    join_body,
    pause_before_repetition_ms,
)
from streams_runtime.membership.member_events import (
    CallRefused,
    CallUnanswered,
    MemberFailed,
    SendFetch,
    event_of_failure,
)
from tests.simulation.wire import join_event

FIRST_JOIN = JoinRequest(b"subscription", 6_000, 30_000, None, "i1", 3, "t1", "join-1", True)
REJOIN = JoinRequest(b"subscription", 6_000, 30_000, member_id="m1")
FETCH = SendFetch(5, "m1", 2)


@pytest.mark.parametrize("request_", [FIRST_JOIN, REJOIN])
def test_should_arrive_as_the_join_that_the_member_wanted(request_: JoinRequest) -> None:
    arrived = join_event(request_, "new")
    for name in JoinRequest.__slots__:
        assert getattr(arrived, name) == getattr(request_, name)


def test_should_repeat_calls_that_the_coordinator_did_not_take_and_no_others() -> None:
    assert isinstance(failure("UNKNOWN_MEMBER_ID", 404, "", may_be_repeated=False), UnknownMemberId)
    repeated = failure(None, 503, "starting", may_be_repeated=True, retry_after_s=2.0)
    assert isinstance(repeated, CoordinatorUnavailable)
    assert (str(repeated), repeated.retry_after_ms) == ("HTTP_503 (503): starting", 2_000)


def test_should_tell_the_member_what_became_of_its_call() -> None:
    refused, fault = CoordinatorError("ANY", 409, ""), RuntimeError("a fault")
    assert event_of_failure(FETCH, CoordinatorUnavailable("", 1.5), 0.25) == CallUnanswered(5, 1_500, 0.25)
    assert event_of_failure(FETCH, CoordinatorUnavailable(""), 0.25) == CallUnanswered(5, None, 0.25)
    assert event_of_failure(FETCH, refused, 0.25) == CallRefused(5, refused)
    assert event_of_failure(FETCH, fault, 0.25) == MemberFailed(fault)


def test_should_repeat_a_members_call_at_once_and_then_more_and_more_slowly() -> None:
    assert [pause_before_repetition_ms(times, None, 0.0) for times in (1, 2, 3, 4, 50)] == [0, 25, 50, 100, 250]
    assert [pause_before_repetition_ms(50, None, 1.0), pause_before_repetition_ms(1, 800, 0.5)] == [500, 1_200]


def test_should_write_the_same_body_each_time() -> None:
    assert join_body(FIRST_JOIN) == join_body(FIRST_JOIN)
    assert "join_id" not in join_body(REJOIN)
    assert "member_id" not in join_body(FIRST_JOIN)
