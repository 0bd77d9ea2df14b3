"""Every HighAvailability placement that Kafka Streams 4.3.1 computed must come out equal."""

from __future__ import annotations

import gzip
import json

import pytest

from assignor.decisions import DecisionLog
from assignor.recording.placement import parse_recorded_placement
from assignor.task_assignors.base import Placement
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor
from tests.checkout import VECTORS


@pytest.mark.parametrize("name, lines", [("placements", 1298), ("placements_tags", 430), ("placements_heap", 186)])
def test_should_place_every_task_where_kafka_did(name: str, lines: int) -> None:
    compared, different = 0, []
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            document = json.loads(line)
            if document["assignor"] != HighAvailabilityTaskAssignor.name:
                continue
            recorded = parse_recorded_placement(document)
            assert recorded.output is not None
            compared += 1
            placed = HighAvailabilityTaskAssignor().assign(recorded.problem, DecisionLog())
            if _without_warm_ups(placed) != _without_warm_ups(recorded.output):
                different.append(recorded.id)
    assert (compared, different) == (lines, [])


def _without_warm_ups(placement: Placement) -> tuple[bool, dict[object, object]]:
    """Kafka does not tell warm-ups from other standbys in what it returns."""
    return placement.probing_rebalance_needed, {
        process: (client.active, client.standby) for process, client in placement.clients.items()
    }
