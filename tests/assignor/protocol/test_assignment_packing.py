"""Assignments in parts: joined they are the bytes of before, packed and unpacked they share what they shared."""

import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError
from assignor.protocol.assignment_info import (
    AssignmentInfoEncoder,
    TasksOfMember,
    decode_assignment_info,
    read_error_code,
    read_tasks,
    split_assignment,
)
from assignor.protocol.assignment_packing import pack, share, unpack
from assignor.protocol.consumer_protocol import Assignment, assignment_parts, decode_assignment, encode_assignment
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.protocol.versions import FIRST_VERSION_WITH_ASSIGNMENT_ERROR, LATEST_SUPPORTED_VERSION
from assignor.types import HostInfo, TaskId, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
HOSTS = {HostInfo("one", 1): (A, B), HostInfo("two", 2): (B,)}
VERSIONS = range(1, LATEST_SUPPORTED_VERSION + 1)


def of_a_rebalance(version: int) -> dict[str, AssignmentParts]:
    encoder = AssignmentInfoEncoder(version, 11, HOSTS, {HostInfo("two", 2): (A,)})
    return {
        "first": assignment_parts((A, B), encoder.parts((TaskId(0, 0), TaskId(0, 0)), {TaskId(1, 1): (B,)}, 7)),
        "second": assignment_parts((), encoder.parts((), {})),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_parts_joined_are_the_bytes_that_are_encoded_whole(version: int) -> None:
    encoder = AssignmentInfoEncoder(version, 11, HOSTS, {HostInfo("two", 2): (A,)})
    user_data = encoder.encode((TaskId(0, 0), TaskId(0, 0)), {TaskId(1, 1): (B,)}, 7)
    parts = of_a_rebalance(version)
    assert bytes(parts["first"]) == encode_assignment(Assignment((A, B), user_data))
    assert parts["first"].size == len(bytes(parts["first"]))
    assert parts["first"].shared is parts["second"].shared


@pytest.mark.parametrize("version", VERSIONS)
def test_the_head_alone_tells_the_tasks_as_the_whole_does(version: int) -> None:
    for parts in of_a_rebalance(version).values():
        whole = decode_assignment_info(decode_assignment(bytes(parts)).user_data or b"")
        tasks = TasksOfMember(tuple(dict.fromkeys(whole.active_tasks)), tuple(whole.standby_tasks))
        assert read_tasks(parts.head) == read_tasks(bytes(parts)) == tasks


def test_an_assignment_without_user_data_has_no_tasks_and_a_cut_off_one_is_an_error() -> None:
    assert read_tasks(encode_assignment(Assignment((A,), None))) == TasksOfMember()
    head = of_a_rebalance(11)["first"].head
    for end in range(len(head)):
        with pytest.raises(DecodeError):
            read_tasks(head[:end])


@pytest.mark.parametrize("version", VERSIONS)
def test_assignments_from_elsewhere_are_cut_where_the_encoder_cuts_them(version: int) -> None:
    parts = of_a_rebalance(version)
    found = share({member_id: bytes(each) for member_id, each in parts.items()})
    assert found.parts == parts
    assert found.parts["first"].shared is found.parts["second"].shared


@pytest.mark.parametrize("version", VERSIONS)
def test_the_error_code_is_found_without_decoding_what_is_before_it(version: int) -> None:
    encoder = AssignmentInfoEncoder(version, 11, HOSTS, {}, 5)
    parts = assignment_parts((A,), encoder.parts((TaskId(0, 0),), {}))
    assert read_error_code(parts) == (5 if version >= FIRST_VERSION_WITH_ASSIGNMENT_ERROR else 0)
    assert read_error_code(split_assignment(bytes(parts) + b"ignored")) == read_error_code(parts)
    assert read_error_code(AssignmentParts(encode_assignment(Assignment((A,), None)))) == 0


@given(st.dictionaries(st.text(), st.binary()))
def test_any_bytes_can_be_shared_packed_and_unpacked(assignments: Mapping[str, bytes]) -> None:
    shared = share(assignments)
    assert shared == assignments
    unpacked = unpack(pack(shared))
    assert unpacked == assignments
    assert list(unpacked) == list(assignments)
    assert pack(unpacked) == pack(shared)


def test_what_is_shared_is_packed_once_and_is_one_object_when_it_comes_back() -> None:
    shared = b"s" * 10_000
    assignments = SharedAssignments({f"m{n}": AssignmentParts(b"h%d" % n, shared, b"tail") for n in range(100)})
    packed = pack(assignments)
    assert len(packed) < len(shared) + 100 * 40
    assert len({id(parts.shared) for parts in unpack(packed).parts.values()}) == 1
    assert len(pickle.dumps(assignments)) < 2 * len(shared)


@given(st.binary())
def test_other_bytes_are_a_decode_error(data: bytes) -> None:
    packed = pack(share({"a": b"x"}))
    for wrong in (packed + b"\0" + data, packed[:-1], b"\7" + data):
        with pytest.raises(DecodeError):
            unpack(wrong)


def test_shared_assignments_equal_any_mapping_of_the_same_bytes() -> None:
    ours = SharedAssignments({"a": AssignmentParts(b"12", b"34"), "b": AssignmentParts(b"5")})
    assert ours == {"b": b"5", "a": b"1234"}
    assert ours == {"b": b"5", "a": b"1234"}
    assert ours == SharedAssignments({"a": AssignmentParts(b"1", b"2", b"34"), "b": AssignmentParts(b"", b"5")})
    assert ours != {"a": b"1234"}
    assert ours != {"a": b"1234", "b": b"6"}
    assert ours != [("a", b"1234")]
