"""Which faults happen, how long a group had no service, and what the report says of it."""

import random
from collections import Counter

import pytest

from tests.acceptance.fleet.witness import Service, Witness
from tests.cluster.fault_kinds import KINDS, drawn
from tests.cluster.report import Findings, Happened, report
from tests.cluster.running import EVICTED, OWNED_TWICE

NAMES = [each.name for each in KINDS]


@pytest.mark.parametrize("count, least", [(len(NAMES), 1), (20, 2), (200, 20)])
def test_should_draw_each_kind_equally_often(count: int, least: int) -> None:
    found = drawn(NAMES, count, random.Random(7))

    times = Counter(found)
    assert len(found) == count
    assert set(times) == set(NAMES)
    assert least <= min(times.values()) <= max(times.values()) <= least + 1
    assert found == drawn(NAMES, count, random.Random(7))
    assert found != drawn(NAMES, count, random.Random(8))


def test_should_measure_from_the_first_call_that_was_missed_to_the_first_that_was_answered() -> None:
    service = Service()
    for at_ms in (1_000, 2_000):
        service.answered(at_ms)
    for at_ms in (2_100, 2_050, 4_000):  # one was found out late
        service.missed(at_ms)
    service.answered(5_000)

    assert service.longest_away_ms(0, 9_000) == 5_000 - 2_050
    assert service.longest_away_ms(2_060, 9_000) == 5_000 - 2_100
    service.missed(6_000)
    assert service.longest_away_ms(0, 9_500) == 3_500, "it is still away"
    service.forget()
    assert service.longest_away_ms(0, 9_500) == 0


def test_should_see_what_is_taken_back() -> None:
    witness = Witness()
    witness.told("heartbeat", "a", 4)
    witness.told("join", "a", 3)
    witness.told("fetch", "a", 4, frozenset({1, 2}))
    witness.told("fetch", "a", 4, frozenset({2, 1}))
    assert witness.taken_back == []

    witness.told("heartbeat", "a", 3)
    witness.told("fetch", "a", 4, frozenset({1}))

    assert witness.taken_back == [
        "heartbeat of a: generation 3 after 4",
        "fetch of a: [1] after [1, 2] in generation 4",
    ]


def happened(kind: str, away_ms: float, *, needs_rebalances: bool = False) -> Happened:
    return Happened(kind, "it", {"g-0": away_ms, "g-1": 1.0}, 400.0, 2, 5.0, needs_rebalances)


def test_should_say_what_broke() -> None:
    faults = [happened("a", 100), happened("a", 300, needs_rebalances=True), happened("b", 200)]

    said = list(report(faults, Findings({EVICTED: [], OWNED_TWICE: []}, left_out=("disk full",))))
    assert said[-1] == "valid"
    assert [line.split() for line in said if line.startswith(("a ", "g-0"))] == [
        ["a", "2", "0.30", "0.20", "0.40", "4", "2", "5.0"],
        ["g-0", "0.30", "a"],
    ]
    assert "left out: disk full, which needs root, or the word count" in said

    said = list(report(faults, Findings({EVICTED: ["x of g-0"], OWNED_TWICE: []})))
    assert said[-1] == f"NOT valid: {EVICTED}: 1 times"
    assert f"  {EVICTED}: x of g-0" in said
