"""A line of streams_group/1 as a placement problem gives the result of the broker's assignor, process by process."""

import re
from collections import defaultdict

import pytest

from assignor.recording.streams_group import RecordedStreamsGroup, as_placement, parse_recorded_streams_group
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.streams_groups.adapter import StreamsGroupStickyTaskAssignor
from assignor.types import ProcessId, TaskId
from tests.recorded import documents

MADE_BY = {"4.3.1": "kafka-4.4/streams_groups_4.3.1.jsonl.gz", "4.4.0": "kafka-4.4/streams_groups_4.4.0.jsonl.gz"}
UUID = re.compile(r"[0-9a-fA-F]{1,8}(-[0-9a-fA-F]{1,4}){3}-[0-9a-fA-F]{1,12}")
ANOTHER_ORDER = {"sg431-845101-127.7"}
"""Members of two processes share a bucket here. A placement has its members process by process."""


def has_process_ids(recorded: RecordedStreamsGroup) -> bool:
    """Brokers take any text as the id of a process; half of the vectors have other texts than UUIDs."""
    return all(UUID.fullmatch(member.process_id) for member in recorded.members.values())


@pytest.mark.parametrize("release", MADE_BY)
def test_should_place_the_tasks_on_processes_as_the_broker_does(release: str) -> None:
    compared = 0
    for line in documents(MADE_BY[release])[::4]:
        recorded = parse_recorded_streams_group(line)
        if recorded.output is None or recorded.id in ANOTHER_ORDER or not has_process_ids(recorded):
            continue
        placed = StreamsGroupStickyTaskAssignor().assign(as_placement(recorded).problem, DecisionLog())
        active: dict[ProcessId, set[TaskId]] = defaultdict(set)
        standby: dict[ProcessId, set[TaskId]] = defaultdict(set)
        for member_id, assignment in recorded.output.items():
            process = ProcessId.parse(recorded.members[member_id].process_id)
            active[process] |= assignment.active
            standby[process] |= assignment.standby
        for process, client in placed.clients.items():
            assert client.active == active[process], recorded.id
            assert client.standby == standby[process], recorded.id
        compared += 1
    assert compared > 150
