"""The assignor of streams groups (KIP-1071): by member equal to that of Kafka 4.3.1 and 4.4.0, and what a leader makes
of it: also in `small_groups/StreamsGroupStickyTaskAssignor.toml`.

`kafka-4.4/streams_groups_*` are placements of Kafka's own classes, and 17 of a real broker: some of crowded ids, some
in which any number of members claim a task, or report offsets.
"""

from dataclasses import replace

import pytest

from assignor.configs.kafka_versions import KafkaVersion
from assignor.errors import IllegalStateError, InputError
from assignor.pipeline import assign
from assignor.recording.rebalance import parse_recorded_rebalance
from assignor.task_assignors.base import PlacementClient
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.streams_groups.adapter import StreamsGroupStickyTaskAssignor
from assignor.task_assignors.streams_groups.member_sticky import StreamsGroupPlacement
from assignor.types import TaskId
from tests.assignor.task_assignors.high_availability_cases import process, tasks
from tests.assignor.task_assignors.test_sticky import client, problem
from tests.recorded import document, documents
from tests.streams_group_lines import placed_here

ASSIGNOR = StreamsGroupStickyTaskAssignor()


@pytest.mark.parametrize("release", ["4.3.1", "4.4.0", "real_4.4.0"])
def test_should_place_every_task_with_the_member_that_kafka_chose(release: str) -> None:
    """Two lines of each version have an error: no process for a task, and 2,147,483,647 standbys of each task."""
    lines = [line for line in documents(f"kafka-4.4/streams_groups_{release}.jsonl.gz") if "output" in line]
    different = [line["id"] for line in lines if placed_here(line) != line["output"]]
    assert (len(lines), different) == (17 if release == "real_4.4.0" else 1198, [])


def test_should_refuse_tasks_that_no_member_can_get() -> None:
    with pytest.raises(IllegalStateError, match="No process available to assign active task 10_0"):
        StreamsGroupPlacement({}, tasks("2_0 10_0"), (), 0, KafkaVersion.V4_4.rules).solved()


@pytest.mark.parametrize("clients", [(), (client(1, capacity=0),)], ids=["no clients", "no threads"])
def test_should_refuse_a_group_without_threads(clients: tuple[PlacementClient, ...]) -> None:
    with pytest.raises(InputError):
        ASSIGNOR.assign(problem("0_0", *clients), DecisionLog())


@pytest.mark.parametrize("owners, kept", [({}, "0_0 0_1 0_2"), (dict.fromkeys(tasks("0_0 0_1 0_2"), "x"), "0_0 0_1")])
def test_should_count_what_a_thread_owned_as_that_threads_own(owners: dict[TaskId, str], kept: str) -> None:
    """One thread of three keeps two of four tasks; where nothing is known, both threads of the process had some."""
    known = replace(client(1, "0_0 0_1 0_2", capacity=2), consumers=("x", "y"), active_owners=owners)
    placement = ASSIGNOR.assign(problem("0_0 0_1 0_2 0_3", known, client(2)), DecisionLog())
    assert set(tasks(kept)) == known.previous_active & placement.clients[process(1)].active


def test_should_hear_from_a_recorded_group_which_thread_owned_which_task() -> None:
    recorded = parse_recorded_rebalance(document("recordings/threads2.jsonl.gz", "threads2.14"))
    result = assign(recorded.snapshot, 0, ASSIGNOR)
    assert result.problem is not None
    for each in result.problem.clients.values():
        assert each.active_owners.keys() == each.previous_active
        assert set(each.active_owners.values()) <= set(each.consumers)
    assert max(len(set(each.active_owners.values())) for each in result.problem.clients.values()) > 1
