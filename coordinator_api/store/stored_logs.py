"""Reads the rows of a group's log, even from a damaged file. Checks whether the log is complete.

The record numbers of a log have no gap. The number of the last record is the group's sequence number. The checksum of a
record covers its group, its number and its body. The checksum reveals a record that was changed, moved or copied.

A repair begins a new log. The record numbers of the new log begin after the next multiple of `NUMBERS_OF_A_LOG`.
Records with lower numbers are ignored. Records of the old log are therefore never read again, even if the file is so
damaged that they cannot be deleted. The module `group/snapshot` decides which records a repair keeps.

One query reads the whole log. If the database cannot read the whole log, each row is read by its own query. With one
query for each row, a damaged row does not hide the other rows.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, LargeBinary, Row, Select, cast, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from coordinator_api.errors import LogBeyondRepair
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.snapshot import LoggedRecord, LogRepair, NothingToKeep, plan_repair
from coordinator_api.store.schema import group_records, groups, rebalances
from coordinator_api.store.store_errors import DamagedDatabase, DamagedLog, kind_of, reason

NUMBERS_OF_A_LOG = 2**32


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One row of a log. `body`: the record as text; None if the stored body is not text. `raw`: the stored bytes of a
    body that is not text.

    If the database cannot read the row, `unreadable` is the reason, and all fields except `sequence` and `unreadable`
    are None.
    """

    sequence: int
    body: str | None
    checksum: int | None
    ends_commit: bool | None = None
    raw: bytes | None = None
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class StoredLog:
    """All rows of one group's log, including damaged rows. `sequence`: the number that the last row must have.

    `recorded_generation`: the highest generation of the group's recorded rebalances; 0 if the group has none.
    `stored_bytes`: the size of the records and recorded rebalances according to the group's row. `epoch`: the epoch
    that a write has to name.
    """

    group_id: str
    sequence: int
    records: tuple[StoredRecord, ...]
    recorded_generation: int = 0
    stored_bytes: int = 0
    epoch: int = 0

    @property
    def is_empty(self) -> bool:
        """True if the group does not exist or was deleted. A deleted group may still have rows that could not be
        removed.
        """
        return not self.records and self.sequence < first_number(self.sequence)

    @property
    def problem(self) -> str | None:
        """A description of the log's damage; None if the log is not damaged."""
        for place, record in enumerate(self.records):
            expected = self.records[0].sequence + place
            if record.sequence != expected:
                return f"record {expected} is missing"
            damage = damage_of(self.group_id, record)
            if damage is not None:
                return damage
        last = self.records[-1].sequence if self.records else first_number(self.sequence) - 1
        return None if last == self.sequence else f"its last record is {last}, and {self.sequence} is expected"


def first_number(sequence: int) -> int:
    """Returns the lowest record number of a log. `sequence`: the last number of the log."""
    return sequence // NUMBERS_OF_A_LOG * NUMBERS_OF_A_LOG + 1


def before_next_log(sequence: int) -> int:
    """Returns the number that comes directly before the first record number of the next log. `sequence`: the last
    number of the present log.
    """
    return (sequence // NUMBERS_OF_A_LOG + 1) * NUMBERS_OF_A_LOG


def checksum(group_id: str, sequence: int, body: str) -> int:
    """The CRC-32 of a record. Kafka's record batches have a CRC-32C."""
    return zlib.crc32(f"{group_id}\n{sequence}\n{body}".encode("utf-8", "surrogatepass"))


def damage_of(group_id: str, record: StoredRecord) -> str | None:
    """Returns a description of a record's damage; None if the record is not damaged."""
    name = f"record {record.sequence}"
    if record.unreadable is not None:
        return f"{name} cannot be read: {record.unreadable}"
    if record.body is None:
        return f"{name} has been changed: it is no text in UTF-8"
    if record.checksum != checksum(group_id, record.sequence, record.body):
        return f"{name} has been changed: its checksum does not fit"
    return None


def damage_of_log(stored: StoredLog) -> str | None:
    """Returns a description of the log's damage that names the group; None if the log is not damaged."""
    problem = stored.problem
    return None if problem is None else f"the log of group {stored.group_id} is damaged: {problem}"


def checked_log(stored: StoredLog) -> tuple[str, ...]:
    """Returns the bodies of all records of the log, oldest first. Raises DamagedLog."""
    damage = damage_of_log(stored)
    if damage is not None:
        raise DamagedLog(damage)
    return tuple(record.body for record in stored.records if record.body is not None)


def rows_of_log(group_id: str, after: int, records: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the rows of the table `group_records` for records that one transaction writes. The first record has the
    number `after` + 1.
    """
    return [
        {
            "group_id": group_id,
            "sequence": sequence,
            "body": record,
            "checksum": checksum(group_id, sequence, record),
            "ends_commit": sequence == after + len(records),
        }
        for sequence, record in enumerate(records, start=after + 1)
    ]


# --- reading the rows


async def read_log(connection: AsyncConnection, group_id: str, first_epoch: int = 0) -> StoredLog:
    """Reads the rows of a group's log. If the group does not exist, the result has sequence 0, no records and
    `first_epoch`.
    """
    found = select(groups.c.sequence, groups.c.stored_bytes, groups.c.epoch).where(groups.c.group_id == group_id)
    sequence, stored_bytes, epoch = (await connection.execute(found)).one_or_none() or (0, 0, first_epoch)
    records = tuple(await _records(connection, group_id, sequence))
    return StoredLog(group_id, sequence, records, stored_bytes=stored_bytes, epoch=epoch)


async def highest_recorded_generation(connection: AsyncConnection, group_id: str) -> int:
    """The highest generation of the group's recorded rebalances; 0 if there are none, or if the database cannot read
    them.
    """
    highest = select(func.max(rebalances.c.generation_id)).where(rebalances.c.group_id == group_id)
    try:
        return (await _rows(connection, highest))[0][0] or 0
    except DamagedDatabase:
        return 0


async def _records(connection: AsyncConnection, group_id: str, sequence: int) -> list[StoredRecord]:
    present = (group_records.c.group_id == group_id) & (group_records.c.sequence >= first_number(sequence))
    try:
        return await _matching(connection, present)
    except DamagedDatabase:
        pass
    numbers = select(group_records.c.sequence).where(present).order_by(group_records.c.sequence)
    try:  # this query reads only the index, which may be intact although the table is damaged
        known = [row[0] for row in await _rows(connection, numbers)]
    except DamagedDatabase:
        return await _without_index(connection, group_id, sequence)
    return [await _one(connection, group_id, number) for number in known]


async def _one(connection: AsyncConnection, group_id: str, number: int) -> StoredRecord:
    try:
        (record,) = await _matching(
            connection, (group_records.c.group_id == group_id) & (group_records.c.sequence == number)
        )
    except DamagedDatabase as error:
        return StoredRecord(number, None, None, unreadable=str(error))
    return record


async def _without_index(connection: AsyncConnection, group_id: str, sequence: int) -> list[StoredRecord]:
    """Reads every row of the table, because the index is damaged. Returns no records if neither the index nor the table
    can be read.
    """
    try:
        found = await _matching(connection, group_records.c.group_id.concat("") == group_id)
    except DamagedDatabase:
        return []
    return [record for record in found if record.sequence >= first_number(sequence)]


async def _matching(connection: AsyncConnection, condition: ColumnElement[bool]) -> list[StoredRecord]:
    body: ColumnElement[Any] = group_records.c.body
    if connection.dialect.name == "sqlite":
        # Read the body as bytes, because the SQLite driver raises an error for text that is not UTF-8. PostgreSQL
        # stores only UTF-8 text. If PostgreSQL cast the text to bytes, it would interpret backslashes as escapes.
        body = cast(body, LargeBinary)
    query = select(group_records.c.sequence, body, group_records.c.checksum, group_records.c.ends_commit)
    rows = await _rows(connection, query.where(condition).order_by(group_records.c.sequence))
    return [_record(row) for row in rows]


def _record(row: Sequence[Any]) -> StoredRecord:
    sequence, raw, checksum, ends_commit = row
    if isinstance(raw, bytes):
        try:
            raw = raw.decode("utf-8")
        except UnicodeDecodeError:
            return StoredRecord(sequence, None, checksum, ends_commit, raw)
    return StoredRecord(sequence, raw if isinstance(raw, str) else None, checksum, ends_commit)


async def _rows(connection: AsyncConnection, query: Select[Any]) -> Sequence[Row[Any]]:
    """Executes the query. Raises DamagedDatabase, with the database's own message, when rows cannot be read.

    The query runs in a savepoint. If there were no savepoint, PostgreSQL would refuse all further statements of the
    transaction after a failed query.
    """
    try:
        async with connection.begin_nested():
            rows: Sequence[Row[Any]] = (await connection.execute(query)).all()
    except SQLAlchemyError as error:
        if kind_of(error) is DamagedDatabase:
            raise DamagedDatabase(reason(error)) from error
        raise
    return rows


@dataclass(frozen=True, slots=True)
class GroupRepair:
    """A repair. `problem`: a description of the log's damage. `executed`: True if the repair was carried out."""

    group_id: str
    problem: str
    executed: bool
    plan: LogRepair


def planned_repair(stored: StoredLog, limits: GroupLimits, now_ms: int) -> LogRepair:
    """Plans the repair of a log that cannot be read. Raises LogBeyondRepair."""
    records = [
        LoggedRecord(
            record.sequence,
            None if damage_of(stored.group_id, record) is not None else record.body,
            bool(record.ends_commit),
        )
        for record in stored.records
    ]
    recorded = (stored.recorded_generation,)
    try:
        return plan_repair(stored.group_id, limits, records, stored.sequence, recorded, now_ms)
    except NothingToKeep as error:
        raise LogBeyondRepair(str(error)) from None


def nothing_lost(stored: StoredLog, image: GroupImage) -> LogRepair:
    """Returns the plan of a repair that drops no record, because the whole state of the group is in memory."""
    return LogRepair(
        kept_records=len(stored.records),
        last_kept=stored.sequence,
        kept_generation=image.generation_id,
        revision=image.revision,
        generation_id=image.generation_id,
    )
