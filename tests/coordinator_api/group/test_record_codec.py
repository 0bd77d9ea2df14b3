"""Records survive being written; what is not a record is refused."""

import json
import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import InputError
from assignor.pipeline.snapshot import Member
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.types import TaskId
from coordinator_api.group import group_levers, image, records
from coordinator_api.group.events import LastJoin, MemberFailure
from coordinator_api.group.record_codec import decode_record, encode_record


def with_every_field(made: type) -> st.SearchStrategy[Any]:
    """Also with those fields that have defaults."""
    return st.builds(made, **{each.name: ... for each in fields(made)})


OF_SEVERAL_PARTS = st.builds(AssignmentParts, st.binary(), st.binary(), st.binary())
OF_TYPES: dict[type, st.SearchStrategy[Any]] = {
    TaskId: st.builds(TaskId, st.integers(0, 9), st.integers(0, 9), st.none() | st.just("named")),
    Member: st.builds(Member, st.binary(), st.none() | st.text(), st.none() | st.text()),
    AssignmentParts: st.binary().map(AssignmentParts),
    image.PackedAssignments: st.dictionaries(st.text(), OF_SEVERAL_PARTS).map(
        lambda parts: image.packed_assignments(SharedAssignments(parts))
    ),
    LastJoin: st.builds(
        LastJoin,
        group_instance_id=...,
        incarnation=...,
        client_id=...,
        join_id=st.none() | st.text(min_size=1),
        leave_on_disconnect=...,
    ),
    **{
        each: with_every_field(each)
        for each in (
            *(group_levers.Lever, group_levers.OperatorDecision, image.ClassicGroupMember, image.DefinitionOrigin),
            *(image.HeldRebalance, image.LastAssignment, image.LastRebalance, image.RebalanceBasis),
            *(image.RebalanceCause, image.RebalanceEnd, image.InstanceEnd, MemberFailure),
        )
    },
}
for made, strategy in OF_TYPES.items():
    st.register_type_strategy(made, strategy)


@given(st.one_of(list(map(with_every_field, records.CoordinatorRecord.types.values()))))
def test_should_read_back_what_was_written(record: records.CoordinatorRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_should_write_a_record_as_one_line_of_plain_json() -> None:
    member = image.ClassicGroupMember(
        "a", LastJoin(None, 3, "c", 1, 2, b"\x00\xff", 4), image.LastAssignment(3, None, (TaskId(0, 1),)), ("z",)
    )
    assert json.loads(encode_record(records.MemberRestored(member))) == {
        "type": "MemberRestored",
        "member": {
            "member_id": "a",
            "last_join": {
                "group_instance_id": None,
                "incarnation": 3,
                "client_id": "c",
                "session_timeout_ms": 1,
                "rebalance_timeout_ms": 2,
                "subscription": "AP8=",
                "generation_id": 4,
            },
            "last_assignment": {"generation_id": 3, "warm_ups": ["0_1"]},
            "fenced_member_ids": ["z"],
        },
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "record: None is not a type of record"),
        ('{"type": "Strange"}', "record: 'Strange' is not a type of record"),
        ('{"type": "GroupEmptied"}', "record GroupEmptied: expected the fields generation_id, not "),
        (
            '{"type": "GroupEmptied", "generation_id": 1, "more": 2}',
            "record GroupEmptied: expected the fields generation_id, not generation_id, more",
        ),
        ('{"type": "GroupEmptied", "generation_id": "1"}', "record GroupEmptied: expected int, not '1'"),
        ('{"type": "GroupEmptied", "generation_id": true}', "record GroupEmptied: expected int, not True"),
        (
            '{"type": "MemberRemoved", "member_id": "a", "reason": "bored"}',
            "record MemberRemoved: 'bored' is not a valid RemovalReason",
        ),
        (
            '{"type": "RebalanceStarted", "cause": {"detail": "a detail of no reason"}, "initial": true}',
            "record RebalanceStarted: expected the fields reason, detail, not detail",
        ),
        (
            '{"type": "RebalanceStarted", "cause": "member-joined", "initial": true}',
            "record RebalanceStarted: expected dict, not 'member-joined'",
        ),
        ("not json", "record: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_should_refuse_what_is_not_a_record(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        decode_record(text)
