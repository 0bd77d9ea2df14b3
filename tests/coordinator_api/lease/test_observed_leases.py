"""When another coordinator is over."""

from __future__ import annotations

from math import inf

from coordinator_api.lease.decisions import EndCoordinator
from coordinator_api.lease.lease_holder import ObservedLeases
from coordinator_api.store.lease_rows import LeaseTimes
from tests.coordinator_api.lease.views import view

TIMES = LeaseTimes(renewal_ms=250, valid_ms=2_000)
ENOUGH_MS = 2_100


def looked(observation: ObservedLeases, *, renewals: int, from_ms: int, to_ms: int, every_ms: int = 250) -> None:
    for now_ms in range(from_ms, to_ms + 1, every_ms):
        observation.seen(view({"me": now_ms, "other": renewals}), "me", now_ms)


def test_should_end_who_has_not_renewed_for_as_long_as_was_looked() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=2_000)
    assert observation.expired() == []
    observation.seen(view({"me": 1, "other": 7}), "me", ENOUGH_MS)
    assert observation.expired() == [EndCoordinator("other", 7)]


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


def test_should_say_again_who_is_over_while_its_row_is_there() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=2_500)
    assert observation.expired() == [EndCoordinator("other", 7)]
    looked(observation, renewals=7, from_ms=2_600, to_ms=2_600)
    assert observation.expired() == [EndCoordinator("other", 7)]
    observation.seen(view({"me": 1}), "me", 2_700)
    assert observation.expired() == []


def test_should_say_when_to_look_again() -> None:
    observation = ObservedLeases(TIMES)
    assert observation.next_due_ms() == inf
    looked(observation, renewals=7, from_ms=1_000, to_ms=3_000)
    assert observation.next_due_ms() == 1_000 + ENOUGH_MS


def test_should_tell_who_has_missed_a_few_renewals() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=750)
    assert observation.silent() == frozenset()
    looked(observation, renewals=7, from_ms=800, to_ms=800)
    assert observation.silent() == {"other"}
    looked(observation, renewals=8, from_ms=1_000, to_ms=1_000)
    assert observation.silent() == frozenset()
