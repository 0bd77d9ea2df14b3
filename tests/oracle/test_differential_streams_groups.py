"""Freshly generated streams groups, placed by the assignor of Kafka's own broker and by the one here (KIP-1071)."""

import pytest

from tests.oracle.differential_run import cases_of_this_run, fresh_cases
from tests.oracle.generated_streams_groups import streams_group_history
from tests.oracle.oracle import STREAMS_GROUPS, Oracle
from tests.recorded import documents
from tests.streams_group_lines import placed_here
from tests.told import Tell

pytestmark = pytest.mark.java


def test_should_place_the_tasks_of_fresh_streams_groups_as_the_broker_does(oracle_jars: str, tell: Tell) -> None:
    """By member: which tasks are active and standby there, and that there are no warm-ups."""
    with fresh_cases("streams groups", tell, STREAMS_GROUPS) as fresh:
        for line in fresh.histories(cases_of_this_run() // 5, streams_group_history):
            fresh.compared += 1
            fresh.features["with standbys"] += any(each["standby"] for each in line["output"].values())
            fresh.features["with several members in a process"] += len(line["members"]) > len(
                {member["process_id"] for member in line["members"].values()}
            )
            here = placed_here(line)
            if here != line["output"]:
                other = sorted(member for member in here if here[member] != line["output"][member])
                fresh.failed(line, f"{len(other)} of {len(here)} members have other tasks: {other[0]}")


def test_should_be_given_the_committed_placements_again(oracle_jars: str) -> None:
    lines = [line for line in documents("kafka-4.4/streams_groups_4.3.1.jsonl.gz") if "output" in line]
    with Oracle(harness=STREAMS_GROUPS) as oracle:
        assert [oracle.ask({**line, "output": None}) for line in lines] == lines
