"""Freshly generated placement problems, solved by Kafka Streams' own task assignors and by those here."""

from __future__ import annotations

from itertools import count

import pytest

from tests.oracle.differential_run import DifferentialRun, cases_of_this_run
from tests.oracle.generated_placements import placement_history
from tests.oracle.oracle import Oracle
from tests.told import Tell

pytestmark = pytest.mark.java


def test_should_place_the_tasks_of_fresh_problems_as_kafka_does(oracle_jars: str, tell: Tell) -> None:
    with Oracle() as oracle:
        fresh = DifferentialRun("placements", oracle.ask)
        for number in count():
            if fresh.compared >= cases_of_this_run() * 13 // 25:
                break
            fresh.features["groups"] += 1
            for line in placement_history(f"{fresh.seed}-{number}", fresh.ask):
                fresh.compare(line)
                fresh.features[line["assignor"]] += 1
                fresh.features["with a rack-aware strategy"] += "partition_racks" in line
                fresh.features["with a probing rebalance"] += line["output"]["probing_rebalance_needed"]
    tell(f"{fresh.as_text()}")
    fresh.check()
