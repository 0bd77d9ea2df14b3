"""What a client had before, and how far it is behind."""

import pytest

from assignor.clients.client_metadata import ClientMetadata
from assignor.clients.client_state import client_state
from assignor.errors import IllegalStateError
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId, TopicPartition
from tests.group_model import process_id

STATEFUL = [TaskId(0, number) for number in range(5)]
STATELESS = TaskId(1, 0)
GONE = TaskId(9, 9)
PARTITIONS = {TopicPartition("in", task.partition): task for task in STATEFUL} | {TopicPartition("other", 0): STATELESS}
END_OFFSET_SUMS = dict.fromkeys(STATEFUL, 100)


def metadata(
    owned: dict[TopicPartition, str] | None = None,
    sums: dict[TaskId, int] | None = None,
    reported: dict[str, tuple[TaskId, ...]] | None = None,
) -> ClientMetadata:
    return ClientMetadata(process_id(1), None, {}, None, ("c1", "c2"), owned or {}, sums or {}, reported or {})


def test_should_refuse_a_client_that_owns_only_partitions_of_no_task() -> None:
    with pytest.raises(IllegalStateError, match="Must initialize prevActiveTasks from ownedPartitions"):
        client_state(metadata({TopicPartition("gone", 0): "c1"}), PARTITIONS, END_OFFSET_SUMS)


def test_should_give_previous_tasks_of_a_consumer_smallest_lag_first_and_known_ones_only() -> None:
    sums = {
        STATEFUL[0]: 10,
        STATEFUL[1]: 90,
        STATEFUL[2]: LATEST_OFFSET,
        STATEFUL[3]: UNKNOWN_OFFSET_SUM,
        STATEFUL[4]: 90,
    }
    many = (GONE, STATEFUL[4], STATEFUL[0], STATEFUL[1], STATEFUL[2], STATEFUL[3], STATELESS)
    reported: dict[str, tuple[TaskId, ...]] = {"c1": many, "c2": (STATEFUL[2],), "c3": (GONE,)}
    state = client_state(metadata(sums=sums, reported=reported), PARTITIONS, END_OFFSET_SUMS)
    previous = state.previous_tasks_by_lag(["c0", "c1", "c2", "c3"])
    by_lag = [STATEFUL[number] for number in (3, 2, 1, 4, 0)]
    assert {consumer: list(tasks) for consumer, tasks in previous.items()} == {
        "c1": by_lag,
        "c2": by_lag[1:2],
        "c3": [],
    }


def test_should_refuse_tasks_of_a_named_topology_where_there_are_others_to_compare_them_with() -> None:
    named = TaskId(0, 0, "orders")
    state = client_state(metadata(sums={named: 5}), PARTITIONS, {})
    assert state.previous_standby == {named}
    assert list(state.lags) == []
    for owned, end_offset_sums in (({}, END_OFFSET_SUMS), ({TopicPartition("in", 0): "c1"}, {})):
        with pytest.raises(IllegalStateError, match="Can't compare a TaskId with a namedTopology"):
            client_state(metadata(owned, {named: 5}), PARTITIONS, end_offset_sums)
