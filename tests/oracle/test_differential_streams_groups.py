"""Freshly generated streams groups, placed by the assignor of Kafka's own broker and by the one here (KIP-1071)."""

from __future__ import annotations

from itertools import count

import pytest

from tests.oracle.differential_run import DifferentialRun, cases_of_this_run
from tests.oracle.generated_streams_groups import streams_group_history
from tests.oracle.oracle import STREAMS_GROUPS, Oracle
from tests.recorded import documents
from tests.streams_group_lines import placed_here
from tests.told import Tell

pytestmark = pytest.mark.java


def test_should_place_the_tasks_of_fresh_streams_groups_as_the_broker_does(oracle_jars: str, tell: Tell) -> None:
    """By member: which tasks are active and standby there, and that there are no warm-ups."""
    with Oracle(harness=STREAMS_GROUPS) as oracle:
        fresh = DifferentialRun("streams groups", oracle.ask)
        for number in count():
            if fresh.compared >= cases_of_this_run() // 5:
                break
            fresh.features["groups"] += 1
            for line in streams_group_history(f"{fresh.seed}-{number}", fresh.ask):
                fresh.compared += 1
                fresh.features["with standbys"] += any(each["standby"] for each in line["output"].values())
                fresh.features["with several members in a process"] += len(line["members"]) > len(
                    {member["process_id"] for member in line["members"].values()}
                )
                here = placed_here(line)
                if here != line["output"]:
                    other = sorted(member for member in here if here[member] != line["output"][member])
                    fresh.failed(line, f"{len(other)} of {len(here)} members have other tasks: {other[0]}")
    tell(f"{fresh.as_text()}")
    fresh.check()


def test_should_be_given_the_committed_placements_again(oracle_jars: str) -> None:
    lines = documents("streams_groups.jsonl.gz")
    with Oracle(harness=STREAMS_GROUPS) as oracle:
        assert [oracle.ask({**line, "output": None}) for line in lines] == lines
