"""A group's log as its rows say: whether it is whole, and which of its records are.

Rules: the numbers of a log follow each other without a gap, and the last one is the group's sequence number. The
checksum of a record covers its group, its number and its body, so that a record that was changed, moved or copied to
another place is noticed.

A repair begins a new log. Its numbers begin at the next multiple of `NUMBERS_OF_A_LOG`, and only those records of a
group count that have numbers of its present log. So what is left of the old one, because the file is damaged where it
is and nothing can be deleted there, is never read again.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_api.store.errors import DamagedLog

NUMBERS_OF_A_LOG = 2**32


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One row. `body` None: it is no text; then `raw` has its bytes.

    For a row that the database cannot read, `unreadable` says why, and the other fields are None.
    """

    sequence: int
    body: str | None
    checksum: int | None
    ends_commit: bool | None = None
    raw: bytes | None = None
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class StoredLog:
    """All rows of one group, damaged or not. `sequence`: the number that the last one must have.

    `recorded_generation`: the highest generation of its recorded rebalances; 0 for none. `stored_bytes`: of these
    records and the recorded rebalances, as the group's row has it. `epoch`: in which it has to be written.
    """

    group_id: str
    sequence: int
    records: tuple[StoredRecord, ...]
    recorded_generation: int = 0
    stored_bytes: int = 0
    epoch: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no such group, or a deleted one of which something could not be removed."""
        return not self.records and self.sequence < first_number(self.sequence)

    @property
    def problem(self) -> str | None:
        """Why it cannot be read as it was written; None when it can."""
        _, problem = intact_records(self.group_id, self.records)
        last = self.records[-1].sequence if self.records else first_number(self.sequence) - 1
        if problem is None and last != self.sequence:
            problem = f"its last record is {last}, and {self.sequence} is expected"
        return problem


def first_number(sequence: int) -> int:
    """The lowest number that a record of the log may have whose last number is `sequence`."""
    return sequence // NUMBERS_OF_A_LOG * NUMBERS_OF_A_LOG + 1


def before_next_log(sequence: int) -> int:
    """After this number, a new log begins in place of the one whose last number is `sequence`."""
    return (sequence // NUMBERS_OF_A_LOG + 1) * NUMBERS_OF_A_LOG


def checksum(group_id: str, sequence: int, body: str) -> int:
    """CRC-32, as Kafka's record batches have one (CRC-32C there)."""
    return zlib.crc32(f"{group_id}\n{sequence}\n{body}".encode("utf-8", "surrogatepass"))


def read_body(raw: object) -> tuple[str | None, bytes | None]:
    """A body as the database gives it: the text, or else the bytes that are none."""
    if isinstance(raw, str):
        return raw, None
    if not isinstance(raw, bytes):
        return None, None
    try:
        return raw.decode("utf-8"), None
    except UnicodeDecodeError:
        return None, raw


def damage_of(group_id: str, record: StoredRecord) -> str | None:
    """What is wrong with a record; None when it is as it was written."""
    name = f"record {record.sequence}"
    if record.unreadable is not None:
        return f"{name} cannot be read: {record.unreadable}"
    if record.body is None:
        return f"{name} has been changed: it is no text in UTF-8"
    if record.checksum != checksum(group_id, record.sequence, record.body):
        return f"{name} has been changed: its checksum does not fit"
    return None


def intact_records(group_id: str, records: Sequence[StoredRecord]) -> tuple[list[str], str | None]:
    """The bodies before the first record that is damaged or missing, and what is wrong with that one; None: nothing."""
    bodies: list[str] = []
    for place, record in enumerate(records):
        expected = records[0].sequence + place
        if record.sequence != expected:
            return bodies, f"record {expected} is missing"
        damage = damage_of(group_id, record)
        if damage is not None or record.body is None:
            return bodies, damage
        bodies.append(record.body)
    return bodies, None


def checked_log(stored: StoredLog) -> tuple[str, ...]:
    """All bodies, oldest first. Raises DamagedLog."""
    problem = stored.problem
    if problem is not None:
        raise DamagedLog(f"the log of group {stored.group_id} is damaged: {problem}")
    return tuple(record.body for record in stored.records if record.body is not None)
