"""A group's log as its rows say: whether it is whole, and which of its records are.

Rules: the numbers of a log follow each other without a gap, and the last one is the group's sequence number. The
checksum of a record covers its group, its number and its body, so that a record that was changed, moved or copied to
another place is noticed. A record without a checksum was written by an earlier release.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_api.store.errors import DamagedLog


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One row. `checksum` None: an earlier release wrote it."""

    sequence: int
    body: str
    checksum: int | None


def checksum(group_id: str, sequence: int, body: str) -> int:
    """CRC-32, as Kafka's record batches have one (CRC-32C there)."""
    return zlib.crc32(f"{group_id}\n{sequence}\n{body}".encode("utf-8", "surrogatepass"))


def intact_records(group_id: str, records: Sequence[StoredRecord]) -> tuple[list[str], str | None]:
    """The bodies before the first record that is damaged or missing, and what is wrong with that one; None: nothing."""
    bodies: list[str] = []
    for place, record in enumerate(records):
        expected = records[0].sequence + place
        if record.sequence != expected:
            return bodies, f"record {expected} is missing"
        if record.checksum is not None and record.checksum != checksum(group_id, record.sequence, record.body):
            return bodies, f"record {record.sequence} has been changed: its checksum does not fit"
        bodies.append(record.body)
    return bodies, None


def checked_log(group_id: str, sequence: int, records: Sequence[StoredRecord]) -> tuple[str, ...]:
    """All bodies, oldest first. `sequence`: the number that the last one must have. Raises DamagedLog."""
    bodies, problem = intact_records(group_id, records)
    last = records[-1].sequence if records else 0
    if problem is None and last != sequence:
        problem = f"its last record is {last}, and {sequence} is expected"
    if problem is not None:
        raise DamagedLog(f"the log of group {group_id} is damaged: {problem}")
    return tuple(bodies)
