"""Records survive being written; what is not a record is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import InputError
from assignor.pipeline.snapshot import Member
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.types import TaskId
from coordinator_api.group.events import LastJoin
from coordinator_api.group.group_levers import Lever, LeverName, OperatorDecision
from coordinator_api.group.image import (
    ClassicGroupMember,
    DefinitionOrigin,
    HeldRebalance,
    LastAssignment,
    LastRebalance,
    RebalanceBasis,
    RebalanceCause,
    RebalanceEnd,
    packed_assignments,
)
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import (
    ApprovalRestored,
    AssignmentsPacked,
    CoordinatorRecord,
    DefinitionChanged,
    DrainChanged,
    GenerationStarted,
    GroupDeleted,
    GroupEmptied,
    GroupRestored,
    HeldRebalanceEnded,
    LastRebalanceRestored,
    LeverChanged,
    MemberAway,
    MemberRemoved,
    MemberReplaced,
    MemberReported,
    MemberRestored,
    MemberSubscribed,
    RebalanceCompleted,
    RebalanceHeld,
    RebalanceKept,
    RebalanceLedElsewhere,
    RebalanceStarted,
    WarmUpsPromoted,
)
from coordinator_api.group.states import (
    GroupState,
    HoldEnd,
    KeptBecause,
    RebalanceOutcome,
    RebalanceReason,
    RemovalReason,
)

task_ids = st.builds(TaskId, st.integers(0, 9), st.integers(0, 9), st.none() | st.just("named"))
task_lists = st.lists(task_ids, max_size=3).map(tuple)
names = st.lists(st.text(), max_size=2).map(tuple)
optional_text = st.none() | st.text(max_size=5)
optional_number = st.none() | st.integers(0, 2**53)
causes = st.builds(RebalanceCause, st.sampled_from(RebalanceReason), optional_text)
whole = st.binary().map(AssignmentParts)
joins = st.builds(
    LastJoin,
    group_instance_id=optional_text,
    incarnation=optional_number,
    client_id=optional_text,
    join_id=st.none() | st.text(min_size=1, max_size=5),
    leave_on_disconnect=st.booleans(),
)
assignments = st.builds(LastAssignment, st.integers(0), st.none() | whole, task_lists)
ends = st.builds(
    RebalanceEnd, st.sampled_from(RebalanceOutcome), st.booleans(), optional_number, optional_text, st.integers()
)
bases = st.builds(RebalanceBasis, st.text(), st.dictionaries(st.text(), st.integers(0, 9)), names)

packed = st.dictionaries(st.text(), st.builds(AssignmentParts, st.binary(), st.binary(), st.binary())).map(
    lambda parts: packed_assignments(SharedAssignments(parts))
)

decisions = st.builds(OperatorDecision, optional_text, st.integers(), optional_text)
levers = st.builds(Lever, st.sampled_from(LeverName), decisions, st.integers(), st.text(), optional_text)

records: dict[str, st.SearchStrategy[CoordinatorRecord]] = {
    "DefinitionChanged": st.builds(
        DefinitionChanged, st.integers(), st.text(), st.builds(DefinitionOrigin, optional_text, optional_number)
    ),
    "DrainChanged": st.builds(DrainChanged, st.booleans()),
    "LeverChanged": st.builds(LeverChanged, levers, st.booleans()),
    "MemberSubscribed": st.builds(MemberSubscribed, st.text(), joins),
    "MemberReplaced": st.builds(MemberReplaced),
    "MemberAway": st.builds(MemberAway),
    "MemberRemoved": st.builds(MemberRemoved, st.text(), st.sampled_from(RemovalReason)),
    "RebalanceStarted": st.builds(RebalanceStarted, causes, st.booleans()),
    "GenerationStarted": st.builds(GenerationStarted),
    "GroupEmptied": st.builds(GroupEmptied),
    "RebalanceCompleted": st.builds(
        RebalanceCompleted, st.integers(), ends, packed, st.dictionaries(st.text(), task_lists), bases
    ),
    "RebalanceHeld": st.builds(
        RebalanceHeld,
        st.integers(),
        st.builds(HeldRebalance, st.integers(), ends, packed, st.dictionaries(st.text(), task_lists), bases),
    ),
    "HeldRebalanceEnded": st.builds(HeldRebalanceEnded, st.integers(), st.sampled_from(HoldEnd), decisions),
    "RebalanceKept": st.builds(RebalanceKept, st.integers(), st.sampled_from(KeptBecause)),
    "ApprovalRestored": st.builds(ApprovalRestored),
    "WarmUpsPromoted": st.builds(WarmUpsPromoted, st.dictionaries(st.text(), task_lists)),
    "RebalanceLedElsewhere": st.builds(RebalanceLedElsewhere, end=ends),
    "MemberReported": st.builds(
        MemberReported,
        st.text(),
        st.builds(Member, st.binary(), optional_text, optional_text),
        st.none() | whole,
        task_lists,
    ),
    "GroupDeleted": st.builds(GroupDeleted),
    "GroupRestored": st.builds(GroupRestored, st.sampled_from(GroupState), cause=st.none() | causes),
    "LastRebalanceRestored": st.builds(
        LastRebalanceRestored, st.builds(LastRebalance, st.integers(), st.none() | causes, st.integers(), ends, bases)
    ),
    "AssignmentsPacked": st.builds(AssignmentsPacked, packed),
    "MemberRestored": st.builds(
        MemberRestored, st.builds(ClassicGroupMember, st.text(), joins, assignments, names, st.none() | st.integers(0))
    ),
}


def test_should_know_every_type_of_record() -> None:
    assert records.keys() == CoordinatorRecord.types.keys()


@given(st.one_of(list(records.values())))
def test_should_read_back_what_was_written(record: CoordinatorRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_should_write_a_record_as_one_line_of_plain_json() -> None:
    member = ClassicGroupMember(
        "a", LastJoin(None, 3, "c", 1, 2, b"\x00\xff", 4), LastAssignment(3, None, (TaskId(0, 1),)), ("z",)
    )
    assert json.loads(encode_record(MemberRestored(member))) == {
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
    with pytest.raises(InputError) as refused:
        decode_record(text)
    assert str(refused.value) == message
