"""A record is a rebalance if its generation was placed. Other records of a broker are none."""

from dataclasses import replace

import pytest

from assignor.errors import DecodeError
from assignor.protocol.group_metadata import GroupKind, GroupMetadataKey, GroupMetadataValue
from kafka_client.offsets_topic import GroupRecord
from kafka_groups.recorder.generations import GroupGenerations, LastSeen, NotStreams
from tests.kafka_groups.recorder.group_records import other_record, record, records, value_of
from tests.known import known
from tests.recorded import documents

STATIC = "recordings/static.jsonl.gz"
FIRST, SECOND, THIRD = (value_of(document) for document in documents(STATIC)[:3])
CREATED = GroupMetadataValue("", 0, None, None, ())


def ids(values: list[GroupMetadataValue | None]) -> list[str]:
    """Of the rebalances in these records."""
    generations = GroupGenerations("static")
    taken = [generations.take(each) for each in records("static", values)]
    return [each.id for each in taken if each is not None]


def without_members(generation: int) -> GroupMetadataValue:
    return GroupMetadataValue("consumer", generation, None, None, (), 1)


def with_new_member_id(value: GroupMetadataValue) -> GroupMetadataValue:
    """As a static member leaves it that comes back."""
    first, *others = value.members
    return replace(value, members=(replace(first, member_id="back-again"), *others))


def test_should_take_every_generation_once() -> None:
    assert ids([CREATED, FIRST, SECOND, THIRD]) == ["static.1@3:1", "static.2@3:2", "static.3@3:3"]


def test_should_pass_over_a_generation_that_a_static_member_rewrites() -> None:
    assert ids([FIRST, with_new_member_id(FIRST), with_new_member_id(FIRST), SECOND]) == [
        "static.1@3:0",
        "static.2@3:3",
    ]


def test_should_pass_over_generations_without_members_and_take_the_next() -> None:
    assert ids([FIRST, without_members(2), replace(FIRST, generation=3)]) == ["static.1@3:0", "static.3@3:2"]


def test_should_know_which_generations_never_got_an_assignment_and_whether_their_leader_is_gone() -> None:
    generations = GroupGenerations("static")
    gone = replace(SECOND, generation=4, members=tuple(m for m in SECOND.members if m.member_id != FIRST.leader))
    values = [FIRST, gone, without_members(5), replace(FIRST, generation=7), replace(SECOND, generation=8), None, THIRD]
    taken = [generations.take(each) for each in records("static", values)]
    assert [(list(each.interrupted), each.leader_is_gone) for each in taken if each is not None] == [
        ([], False),
        ([2, 3], True),
        ([6], False),
        ([], FIRST.leader not in {member.member_id for member in SECOND.members}),
        ([], False),
    ]


def test_should_pass_over_a_generation_until_all_members_have_an_assignment() -> None:
    empty = replace(FIRST, members=tuple(replace(member, assignment=b"") for member in FIRST.members))
    partial = replace(FIRST, members=(replace(FIRST.members[0], assignment=b""), *FIRST.members[1:]))
    assert ids([empty, partial, FIRST]) == ["static.1@3:2"]


def test_should_take_generation_one_again_when_the_group_was_gone() -> None:
    assert ids([FIRST, SECOND, None, FIRST]) == ["static.1@3:0", "static.2@3:1", "static.1@3:3"]


def test_should_take_a_generation_again_when_its_assignments_are_others() -> None:
    assert ids([FIRST, replace(THIRD, generation=1)]) == ["static.1@3:0", "static.1@3:1"]


def test_should_go_on_where_an_earlier_run_stopped() -> None:
    before = GroupGenerations("static")
    before.take(record("static", 7, FIRST))
    after = GroupGenerations("static", before.seen)
    assert before.seen == LastSeen(7, 1, 6, before.seen.digest)
    assert [after.take(record("static", 7, FIRST)), after.take(record("static", 8, with_new_member_id(FIRST)))] == [
        None,
        None,
    ]
    assert known(after.take(record("static", 9, SECOND))).id == "static.2@3:9"


def test_should_pass_over_a_rewritten_generation_of_which_only_the_line_is_known() -> None:
    generations = GroupGenerations("static")
    generations.wrote(1, 7)
    assert generations.take(record("static", 8, with_new_member_id(FIRST))) is None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (GroupKind.STREAMS, "speaks the streams rebalance protocol (KIP-1071)"),
        (GroupKind.CONSUMER, "speaks the consumer rebalance protocol (KIP-848)"),
        (GroupKind.SHARE, "is a share group (KIP-932)"),
    ],
)
def test_should_refuse_groups_of_other_protocols(kind: GroupKind, words: str) -> None:
    generations = GroupGenerations("static")
    with pytest.raises(NotStreams) as refused:
        generations.take(other_record("static", 0, kind))
    assert str(refused.value).startswith(f"group static: {words}")


def test_should_follow_a_group_that_came_back_to_the_classic_protocol() -> None:
    generations = GroupGenerations("static")
    assert generations.take(other_record("static", 0, GroupKind.CONSUMER, None)) is None
    assert generations.take(record("static", 1, FIRST)) is not None


@pytest.mark.parametrize(("protocol_type", "protocol"), [("consumer", "range"), ("connect", "sessioned")])
def test_should_refuse_groups_that_are_not_kafka_streams(protocol_type: str, protocol: str) -> None:
    value = replace(FIRST, protocol_type=protocol_type, protocol=protocol)
    with pytest.raises(NotStreams, match=f"is of protocol type '{protocol_type}' with assignor '{protocol}'"):
        GroupGenerations("static").take(record("static", 0, value))


def test_should_go_on_after_a_value_that_cannot_be_read() -> None:
    generations = GroupGenerations("static")
    with pytest.raises(DecodeError):
        generations.take(GroupRecord(GroupMetadataKey("static"), b"\0\x09", 3, 0, 1))
    assert generations.take(record("static", 1, FIRST)) is not None
