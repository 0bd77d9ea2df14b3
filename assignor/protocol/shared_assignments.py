"""The assignments of one rebalance, stored so that their common bytes exist only once in memory.

All assignments of a rebalance end with the same host maps, which are by far the longest part. With 500 processes and
50,000 tasks, each of the 500 assignments has 800 KB, of which only 2 KB differ. So an assignment is stored in three
parts, which are joined only when the bytes of the assignment are read. Source: `AssignmentInfo.encode`, which writes
the host maps after the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple


class AssignmentParts(NamedTuple):
    """The ConsumerProtocolAssignment of one member in three parts: `head + shared + tail`.

    `shared`: the same object for all members of a rebalance; empty if the assignment has no shared part.
    """

    head: bytes
    shared: bytes = b""
    tail: bytes = b""

    def __bytes__(self) -> bytes:
        return b"".join(self)

    @property
    def size(self) -> int:
        """The length of the joined parts in bytes."""
        return len(self.head) + len(self.shared) + len(self.tail)


class SharedAssignments(Mapping[str, bytes]):
    """The bytes of each member's assignment, by member id. Each access to an assignment joins the assignment's parts
    again.
    """

    def __init__(self, parts: Mapping[str, AssignmentParts]) -> None:
        """`parts`: the parts of each member's assignment, by member id, in the order of the members."""
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
        """True if both mappings have the same members with the same bytes. The order of the members and the split into
        parts make no difference.
        """
        if not isinstance(other, Mapping):
            return NotImplemented
        if self.keys() != other.keys():
            return False
        if isinstance(other, SharedAssignments):
            pairs = ((parts, other.parts[member_id]) for member_id, parts in self.parts.items())
            return all(ours == theirs or bytes(ours) == bytes(theirs) for ours, theirs in pairs)
        return all(self[member_id] == raw for member_id, raw in other.items())

    def __reduce__(self) -> tuple[Callable[..., SharedAssignments], tuple[list[str], list[list[bytes]]]]:
        """Pickles the heads, the shared parts and the tails as three lists. Pickling thousands of single
        AssignmentParts would take many times as long.
        """
        columns = list(map(list, zip(*self.parts.values(), strict=True)))
        return _from_columns, (list(self.parts), columns)

    # The assignments are unhashable, as every mapping is.
    __hash__ = None  # type: ignore[assignment]


def _from_columns(member_ids: list[str], columns: list[list[bytes]]) -> SharedAssignments:
    return SharedAssignments(dict(zip(member_ids, map(AssignmentParts, *columns), strict=True)) if columns else {})


NO_ASSIGNMENTS = SharedAssignments({})
