"""The session time-outs of a leader."""

from __future__ import annotations

import pytest

from kafka_groups.leader.lead_settings import OwnSession


def test_should_have_the_least_session_and_a_longer_one_while_a_standby_waits() -> None:
    session = OwnSession(None)
    assert (session.in_election_ms, session.in_group_ms(has_standby=False)) == (6_000, 6_000)
    assert session.in_group_ms(has_standby=True) == 9_000


def test_should_try_other_sessions_once_the_brokers_have_refused_one() -> None:
    session = OwnSession(None)
    assert session.try_another()
    assert (session.in_election_ms, session.in_group_ms(has_standby=False)) == (10_000, 10_000)
    tried = [session.in_election_ms]
    while session.try_another():
        tried.append(session.in_election_ms)
    assert (max(tried), min(tried)) == (1_800_000, 1_000)


@pytest.mark.parametrize("given_ms, in_election_ms", [(45_000, 6_000), (9_000, 6_000), (3_000, 2_000), (1, 1)])
def test_should_take_the_session_of_the_user_and_elect_before_it_expires(given_ms: int, in_election_ms: int) -> None:
    session = OwnSession(given_ms)
    assert session.in_election_ms == in_election_ms
    assert [session.in_group_ms(has_standby=each) for each in (False, True)] == [given_ms, given_ms]
    assert not session.try_another()
