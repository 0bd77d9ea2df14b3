"""Several coordinators on one table, whatever goes wrong (`model`)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coordinator_api.lease.model import LEASE_MS, TIMES, Fault, Kind, Model

FAULTS_MS = 20_000
COORDINATORS = 3
GROUPS = 4
RATES = (1.0, 0.98, 1.02)

seeds = st.integers(0, 2**32)
anything = st.lists(
    st.builds(
        Fault,
        st.integers(0, FAULTS_MS),
        st.sampled_from(list(Kind)),
        st.integers(0, COORDINATORS - 1),
        st.integers(1, 8_000),
    ),
    max_size=12,
)


@given(seeds, anything, st.sampled_from([(1.0,), RATES]))
def test_should_never_let_two_answer_for_a_group_and_serve_all_of_them_in_the_end(
    seed: int, faults: list[Fault], rates: tuple[float, ...]
) -> None:
    model = Model(COORDINATORS, GROUPS, Random(seed), faults, rates=rates)
    model.run_until(FAULTS_MS + 8_000 + 2 * LEASE_MS)
    assert model.all_are_served()
    assert all(one.is_up for one in model.coordinators)


@given(seeds, st.lists(st.integers(1, 30_000), min_size=1, max_size=5))
def test_should_end_nobody_because_the_database_was_away(seed: int, lengths: list[int]) -> None:
    """However often and however long, if in between it answers for as long as an attempt takes that hangs."""
    faults, at_ms = [], 5_000
    for for_ms in lengths:
        faults.append(Fault(at_ms, Kind.OUTAGE, 0, for_ms))
        at_ms += for_ms + round(TIMES.valid_ms / 2 + TIMES.renewal_ms)
    model = Model(COORDINATORS, GROUPS, Random(seed), faults)
    model.run_until(at_ms + LEASE_MS)
    assert model.table.ended == []
    assert model.all_are_served()
    assert all(one.read_again for one in model.coordinators if one.open and max(lengths) > TIMES.valid_ms)


@given(
    seeds,
    st.lists(st.tuples(st.integers(1_000, 15_000), st.integers(0, COORDINATORS - 2)), min_size=1, max_size=4),
)
def test_should_serve_all_groups_again_within_the_lease_timeout_after_a_crash(
    seed: int, crashes: list[tuple[int, int]]
) -> None:
    """The last coordinator lives on."""
    faults = [Fault(at_ms, Kind.KILLED, who, 60_000) for at_ms, who in crashes]
    model = Model(COORDINATORS, GROUPS, Random(seed), faults)
    model.run_until(max(at_ms for at_ms, _ in crashes) + LEASE_MS)
    assert model.all_are_served()


@given(seeds, st.integers(0, COORDINATORS - 1), st.integers(1_000, 6_000))
def test_should_serve_all_groups_all_but_at_once_when_one_stops_in_good_order(seed: int, who: int, at_ms: int) -> None:
    model = Model(COORDINATORS, GROUPS, Random(seed), [Fault(at_ms, Kind.STOPPED, who, 60_000)])
    model.run_until(at_ms + 3 * TIMES.renewal_ms)
    assert model.all_are_served()
    assert model.table.ended == []


@given(seeds, st.integers(2, 24))
def test_should_share_the_groups_and_then_leave_them_where_they_are(seed: int, groups: int) -> None:
    model = Model(COORDINATORS, groups, Random(seed), [Fault(0, Kind.KILLED, 2, 4_000)])
    model.run_until(5_000 + groups * TIMES.renewal_ms)
    loads = sorted(model.loads())
    assert sum(loads) == groups
    assert loads[-1] <= max(1.25 * groups / COORDINATORS, loads[0] + 1)
    owners = dict(model.table.groups)
    model.run_until(model.now_ms + 20 * TIMES.renewal_ms)
    assert model.table.groups == owners


@pytest.mark.parametrize("kind", [Kind.FROZEN, Kind.CUT, Kind.DEAF, Kind.SLOW])
def test_should_take_from_who_cannot_renew_and_let_it_enter_again(kind: Kind) -> None:
    model = Model(2, 2, Random(1), [Fault(3_000, kind, 0, 9_000)])
    model.run_until(2_999)
    first = model.coordinators[0].holder.coordinator_id
    assert len(model.coordinators[0].open) == 1
    model.run_until(3_000 + LEASE_MS)
    if kind in (Kind.FROZEN, Kind.CUT):
        assert model.table.ended == [first]
        assert len(model.coordinators[1].open) == 2
    model.run_until(20_000)
    assert model.all_are_served()
    assert sorted(model.loads()) == [1, 1]
