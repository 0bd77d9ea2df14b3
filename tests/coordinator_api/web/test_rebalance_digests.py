"""Views of recorded rebalances are told of each that ends, and of one that is held; nothing else makes them look."""

from __future__ import annotations

from dataclasses import replace

from assignor.protocol.shared_assignments import SharedAssignments
from coordinator_api.group.image import GroupImage, HeldRebalance, LastRebalance, RebalanceEnd, packed_assignments
from coordinator_api.group.states import GroupState, RebalanceOutcome
from coordinator_api.web.event_streams import rebalances_digest

SETTLED = RebalanceEnd(RebalanceOutcome.STABLE)
FIRST = GroupImage(GroupState.STABLE, generation_id=1, last_rebalance=LastRebalance(1, None, 1, SETTLED))
COMPUTED = replace(FIRST, state=GroupState.COMPLETING_REBALANCE, generation_id=2)
HELD = replace(COMPUTED, held=HeldRebalance(0, SETTLED, packed_assignments(SharedAssignments({}))))
SECOND = replace(FIRST, generation_id=2, last_rebalance=LastRebalance(2, None, 1, SETTLED))


def test_should_tell_of_a_rebalance_when_it_has_ended_not_when_its_generation_begins() -> None:
    prepared = replace(FIRST, state=GroupState.PREPARING_REBALANCE)

    digests = [rebalances_digest(image) for image in (GroupImage(), FIRST, prepared, COMPUTED, SECOND)]

    assert digests == ["none", "1-stable", "1-stable", "1-stable", "2-stable"]


def test_should_tell_of_a_rebalance_that_waits_for_approval_and_of_what_becomes_of_it() -> None:
    assert [rebalances_digest(image) for image in (COMPUTED, HELD, SECOND)] == [
        "1-stable",
        "1-stable-2-held",
        "2-stable",
    ]
