"""The assignments of one rebalance, with the bytes that all of them share kept once.

Every assignment of a rebalance ends with the same host maps, which are by far its longest part: with 500 processes and
50,000 tasks each of 500 assignments has 800 KB, of which 2 KB are its own. So an assignment is kept as three pieces,
and joined only when somebody asks for its bytes. Source: `AssignmentInfo.encode`, whose host maps follow the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple


class AssignmentParts(NamedTuple):
    """ConsumerProtocolAssignment of one member in three pieces: `head + shared + tail`.

    `shared`: the one object that all members of a rebalance refer to; empty when nothing is shared.
    """

    head: bytes
    shared: bytes = b""
    tail: bytes = b""

    def __bytes__(self) -> bytes:
        return b"".join(self)

    @property
    def size(self) -> int:
        """In bytes, joined."""
        return len(self.head) + len(self.shared) + len(self.tail)


class SharedAssignments(Mapping[str, bytes]):
    """Member id to the bytes of its assignment, which are joined on each look."""

    def __init__(self, parts: Mapping[str, AssignmentParts]) -> None:
        """`parts`: by member, in the order of the members."""
        self.parts = parts

    def __getitem__(self, member_id: str) -> bytes:
        return bytes(self.parts[member_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.parts

    def __eq__(self, other: object) -> bool:
        """The same bytes for the same members, in any order and however they are cut."""
        if not isinstance(other, Mapping):
            return NotImplemented
        if self.keys() != other.keys():
            return False
        if isinstance(other, SharedAssignments):
            pairs = ((parts, other.parts[member_id]) for member_id, parts in self.parts.items())
            return all(ours == theirs or bytes(ours) == bytes(theirs) for ours, theirs in pairs)
        return all(self[member_id] == raw for member_id, raw in other.items())

    def __reduce__(self) -> tuple[Callable[..., SharedAssignments], tuple[list[str], list[list[bytes]]]]:
        """In columns: thousands of parts, each pickled alone, would take many times as long."""
        columns = list(map(list, zip(*self.parts.values(), strict=True)))
        return _from_columns, (list(self.parts), columns)

    __hash__ = None  # type: ignore[assignment]  # as every mapping


def _from_columns(member_ids: list[str], columns: list[list[bytes]]) -> SharedAssignments:
    return SharedAssignments(dict(zip(member_ids, map(AssignmentParts, *columns), strict=True)) if columns else {})


NO_ASSIGNMENTS = SharedAssignments({})
