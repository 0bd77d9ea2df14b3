"""Freshly generated streams groups, placed by the assignor of Kafka's own brokers and by the one here (KIP-1071)."""

import pytest

from assignor.errors import InputError
from tests.oracle.differential_run import cases_of_this_run, fresh_cases
from tests.oracle.generated_streams_groups import FORMAT, streams_group_history
from tests.oracle.jars import RELEASES
from tests.oracle.oracle import STREAMS_GROUPS, Line, Oracle
from tests.recorded import documents
from tests.streams_group_lines import placed_here
from tests.told import Tell

pytestmark = pytest.mark.java


def test_should_place_the_tasks_of_fresh_streams_groups_as_the_broker_does(oracle_jars: str, tell: Tell) -> None:
    """By member: which tasks are active and standby there, and that there are no warm-ups."""
    with fresh_cases("streams groups", tell, STREAMS_GROUPS) as fresh:
        for line in fresh.histories(cases_of_this_run(), streams_group_history):
            fresh.figures_of(line).compared += 1
            members = line["members"].values()
            fresh.features["with standbys"] += any(each["standby"] for each in line["output"].values())
            fresh.features["with offsets"] += any(member["task_offsets"] for member in members)
            fresh.features["with several members in a process"] += len(members) > len(
                {member["process_id"] for member in members}
            )
            here = placed_here(line)
            if here != line["output"]:
                other = sorted(member for member in here if here[member] != line["output"][member])
                fresh.failed(line, f"{len(other)} of {len(here)} members have other tasks: {other[0]}")


@pytest.mark.parametrize("release", RELEASES)
def test_should_differ_from_the_broker_in_two_corners_alone(oracle_jars: str, release: str) -> None:
    """Tasks without members are refused with the broker's text, but another class. As many standbys as an int holds
    make Java's list of processes refuse its size; here every other process gets a standby.
    """
    group: Line = {"format": FORMAT, "id": "corner", "subtopologies": {"0": {"partitions": 2, "stateful": True}}}
    group |= {"kafka_version": release, "num_standby_replicas": 0, "members": {}}
    member = {"process_id": "p", "active": ["0_0"], "standby": []}
    most = {"members": {"a": member, "b": {**member, "process_id": "q"}}, "num_standby_replicas": 2**31 - 1}
    with Oracle(harness=STREAMS_GROUPS, release=release) as oracle:
        nobody, overflow = oracle.ask(group), oracle.ask(group | most)
    text = "No process available to assign active task 0_0."
    assert nobody["error"] == f"TaskAssignorException: {text}"
    with pytest.raises(InputError, match=f"IllegalStateException: {text}"):
        placed_here(group)
    assert overflow["error"] == "IllegalArgumentException: Illegal Capacity: -2"
    assert placed_here(group | most) == {
        "a": {"active": ["0_1"], "standby": ["0_0"], "warm_up": []},
        "b": {"active": ["0_0"], "standby": ["0_1"], "warm_up": []},
    }


@pytest.mark.parametrize("release", RELEASES)
def test_should_be_given_the_committed_placements_again(oracle_jars: str, release: str) -> None:
    lines = documents(f"kafka-4.4/streams_groups_{release}.jsonl.gz")
    with Oracle(harness=STREAMS_GROUPS, release=release) as oracle:
        assert [oracle.ask({**line, "output": None}) for line in lines] == lines
