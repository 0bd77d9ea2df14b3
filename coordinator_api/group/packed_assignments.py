"""The assignments of a rebalance together with their stored form, in which the part that they share stands once.

The stored form is made where the rebalance is computed, and kept as it is: what members were given is never computed
again, because a later release may decide or compress differently.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.protocol.assignment_packing import pack, unpack
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from coordinator_api.compression import compress, decompress

MAX_UNPACKED_BYTES = 2**31 - 1
"""The lengths inside are 32-bit numbers."""


class PackedAssignments(SharedAssignments):
    """`packed`: the stored form of `parts`."""

    def __init__(self, parts: Mapping[str, AssignmentParts], packed: bytes) -> None:
        super().__init__(parts)
        self.packed = packed


def packed_assignments(assignments: SharedAssignments) -> PackedAssignments:
    """Takes time in proportion to the bytes that are not shared."""
    return PackedAssignments(assignments.parts, compress(pack(assignments)))


def unpacked_assignments(packed: bytes) -> PackedAssignments:
    """Raises InputError."""
    return PackedAssignments(unpack(decompress(packed, MAX_UNPACKED_BYTES)).parts, packed)
