"""A rebalance makes no cycles: whoever lets go of its result frees all of it."""

import gc

import pytest

from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import parse_rebalance
from tests.group_model import NOW_MS
from tests.recorded import REBALANCES, documents


@pytest.fixture(scope="module")
def snapshots() -> list[RebalanceSnapshot]:
    return [parse_rebalance(document) for document in documents(REBALANCES)[:200]]


@pytest.mark.parametrize(
    "assignor", ["HighAvailabilityTaskAssignor", "LegacyStickyTaskAssignor", "FallbackPriorTaskAssignor"]
)
def test_should_leave_nothing_to_the_cycle_collector(assignor: str, snapshots: list[RebalanceSnapshot]) -> None:
    # an error has its traceback; and what is kept for the next rebalance is made in this one
    placed = [each for each in snapshots if each.assignor == assignor and assign(each, NOW_MS).error is None]
    gc.collect()
    gc.disable()
    try:
        for snapshot in placed:
            assign(snapshot, NOW_MS)
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert len(placed) > 10
