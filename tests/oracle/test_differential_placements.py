"""Freshly generated placement problems, solved by Kafka Streams' own task assignors and by those here."""

from __future__ import annotations

from itertools import count

import pytest

from tests.oracle.differential_run import DifferentialRun, cases_of_this_run
from tests.oracle.generated_configs import Groups
from tests.oracle.generated_placements import placement_history
from tests.oracle.oracle import Oracle
from tests.told import Tell

pytestmark = pytest.mark.java


@pytest.mark.parametrize("groups", Groups)
def test_should_place_the_tasks_of_fresh_problems_as_kafka_does(oracle_jars: str, tell: Tell, groups: Groups) -> None:
    with Oracle() as oracle:
        fresh = DifferentialRun(groups.named("placements"), oracle.ask)
        for number in count():
            if fresh.compared >= cases_of_this_run(groups) * 13 // 25:
                break
            fresh.features["groups"] += 1
            for line in placement_history(f"{fresh.seed}-{number}", fresh.ask, groups):
                fresh.compare(line)
                fresh.note_kind(line["assignor"], "partition_racks" in line)
                fresh.features["with a probing rebalance"] += line["output"]["probing_rebalance_needed"]
    tell(f"{fresh.as_text()}")
    fresh.check()
