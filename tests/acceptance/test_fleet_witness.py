"""What the fleet holds against the service, and what against a machine that gave its members no processor."""

import pytest

from tests.acceptance.fleet.witness import Eviction, Witness

ALLOWED_MS = 6_000


def eviction(silent_ms: float, starved_ms: float) -> Eviction:
    return Eviction("p1-t0", "p1-t0-x", "heartbeat", 20_000, silent_ms, starved_ms, ALLOWED_MS)


@pytest.mark.parametrize(
    "silent_ms, starved_ms, starved",
    [
        pytest.param(3_000, 2_900, False, id="it was heard in time"),
        pytest.param(9_000, 0, False, id="it could speak, and was not heard"),
        pytest.param(9_000, 2_000, False, id="it could speak long enough"),
        pytest.param(9_000, 4_000, True, id="it would have been in time with a processor"),
    ],
)
def test_should_blame_the_service_unless_want_of_a_processor_explains_the_silence(
    silent_ms: float, starved_ms: float, starved: bool
) -> None:
    witness = Witness()
    witness.evicted(eviction(silent_ms, starved_ms))
    assert (len(witness.starved), len(witness.evictions)) == (starved, not starved)


@pytest.mark.parametrize("starved_ms, overlaps", [(0, 1), (4_000, 0)])
def test_should_not_count_what_a_starved_member_owned_until_it_was_told(starved_ms: float, overlaps: int) -> None:
    witness = Witness()
    witness.owns(1, "p1-t0", "p1-t0-x", 1, [0], at_ms=10_000)
    witness.owns(2, "p2-t0", "p2-t0-x", 2, [0], at_ms=19_000)
    witness.evicted(eviction(9_000, starved_ms))
    witness.owns(1, "p1-t0", None, 0, [], at_ms=20_000)
    assert len(witness.owned_twice()) == overlaps
