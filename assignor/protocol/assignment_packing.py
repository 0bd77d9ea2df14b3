"""Packs all assignments of one rebalance into one bytes object that contains their common part only once.

The packed bytes have these fields, in this order:

- The version is an int8.
- The number of shared parts is an int32, and each shared part follows as a `bytes` field.
- The number of members is an int32. Four fields for each member follow.
- The four fields of a member are its id (`bytes` in UTF-8), the index of its shared part (int32), its head (`bytes`)
  and its tail (`bytes`).

Numbers are big-endian. A `bytes` field starts with its length (int32). Equal assignments give equal packed bytes if
they are in the same order and split into the same parts. The packed format is not part of Kafka's protocol: it is used
to store a rebalance, and to send a rebalance between processes.
"""

from collections.abc import Mapping

from assignor.errors import DecodeError
from assignor.protocol.assignment_info import split_assignment
from assignor.protocol.primitives import Reader, Writer
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments

_VERSION = 1
_SMALLEST_SHARED = 4
_SMALLEST_MEMBER = 4 * 4


def pack(assignments: SharedAssignments) -> bytes:
    """Returns the bytes that `unpack` reads."""
    indexes: dict[bytes, int] = {}
    members = Writer()
    members.int32(len(assignments), "members")
    for member_id, parts in assignments.parts.items():
        members.nullable_byte_array(member_id.encode("utf-8", "surrogatepass"), "member id")
        members.int32(indexes.setdefault(parts.shared, len(indexes)), "shared part")
        members.nullable_byte_array(parts.head, "head")
        members.nullable_byte_array(parts.tail, "tail")
    writer = Writer()
    writer.int8(_VERSION, "version")
    writer.int32(len(indexes), "shared parts")
    for shared in indexes:
        writer.nullable_byte_array(shared, "shared part")
    writer.raw(members.to_bytes())
    return writer.to_bytes()


def unpack(packed: bytes) -> SharedAssignments:
    """Returns the assignments, with the members in the order in which they were packed. Equal shared parts are one
    object, and equal tails are one object. Raises DecodeError.
    """
    reader = Reader(packed, "packed assignments")
    version = reader.int8("version")
    if version != _VERSION:
        raise reader.error(f"unknown version {version}", 0)
    shared_parts = [reader.byte_array("shared part") for _ in range(reader.count("shared parts", _SMALLEST_SHARED))]
    tails: dict[bytes, bytes] = {}
    members: dict[str, AssignmentParts] = {}
    for _ in range(reader.count("members", _SMALLEST_MEMBER)):
        member_id = _member_id(reader)
        index = reader.int32("index of the shared part")
        if not 0 <= index < len(shared_parts):
            raise reader.error(f"there is no shared part {index}")
        head, tail = reader.byte_array("head"), reader.byte_array("tail")
        members[member_id] = AssignmentParts(head, shared_parts[index], tails.setdefault(tail, tail))
    if reader.remaining:
        raise reader.error(f"{reader.remaining} bytes follow the last member")
    return SharedAssignments(members)


def share(assignments: Mapping[str, bytes]) -> SharedAssignments:
    """Splits assignments that are not split yet, such as those of an old record or a report. Equal shared parts become
    one object.

    The bytes of an application other than Kafka Streams are not split.
    """
    if isinstance(assignments, SharedAssignments):
        return assignments
    known: dict[bytes, bytes] = {}
    parts: dict[str, AssignmentParts] = {}
    for member_id, assignment in assignments.items():
        cut = split_assignment(assignment)
        parts[member_id] = cut._replace(shared=known.setdefault(cut.shared, cut.shared))
    return SharedAssignments(parts)


def _member_id(reader: Reader) -> str:
    start = reader.offset
    try:
        return reader.byte_array("member id").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise DecodeError("packed assignments", "a member id is not UTF-8", start) from None
