"""What is stored stays: logs of schema 0005 are read, lead to the same state, and are written the same.

Each line of `stored_records.jsonl` holds one group: its log, and the snapshot of its last state, as they were written
when the names of stored records were fixed. A line is added for what is stored newly, and none is ever changed. There
is a group for each scenario that `tests/scenarios` had then, and some more with the fields that no scenario sets.
Together they hold a record of every type.
"""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from coordinator_api.group.group import Group
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import AssignmentsPacked, CoordinatorRecord
from coordinator_api.group.snapshot import snapshot_records

STORED = Path(__file__).with_name("stored_records.jsonl")


class StoredGroup(NamedTuple):
    scenario: str
    log: list[str]
    snapshot: list[str]


def stored_groups() -> list[StoredGroup]:
    return [StoredGroup(**json.loads(line)) for line in STORED.read_text().splitlines()]


def test_should_hold_an_example_of_each_type_of_record() -> None:
    stored = {json.loads(line)["type"] for group in stored_groups() for line in (*group.log, *group.snapshot)}
    assert stored == CoordinatorRecord.types.keys()


@pytest.mark.parametrize("group", stored_groups(), ids=lambda group: group.scenario)
def test_should_write_the_records_that_it_reads_byte_for_byte(group: StoredGroup) -> None:
    for line in (*group.log, *group.snapshot):
        assert encode_record(decode_record(line)) == line


@pytest.mark.parametrize("group", stored_groups(), ids=lambda group: group.scenario)
def test_should_reach_the_state_that_the_log_led_to_then(group: StoredGroup) -> None:
    from_log = replayed(group.log)
    assert [_spelled(record) for record in snapshot_records(from_log.image)] == [
        _spelled(decode_record(x)) for x in group.snapshot
    ]
    assert replayed(group.snapshot).image == from_log.image


def _spelled(record: CoordinatorRecord) -> object:
    """As it is written. What the compression makes of the same assignments may change with its release."""
    return record.assignments if isinstance(record, AssignmentsPacked) else encode_record(record)


def replayed(log: list[str]) -> Group:
    group = Group.replay("shop", GroupLimits(), map(decode_record, log), now_ms=0)
    group.validate_state()
    return group
