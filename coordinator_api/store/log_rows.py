"""Reads the rows of one group's log, also where the database's file is damaged.

The whole log is one query. When the database cannot answer it, each row is asked for on its own, and those that cannot
be read are told apart from the others. Bodies come as bytes, because SQLite's driver raises for a text that is not
UTF-8, whatever else it was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import LargeBinary, Row, Select, cast, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from coordinator_api.store.engine import is_damage, reason
from coordinator_api.store.stored_logs import StoredLog, StoredRecord, first_number, read_body
from coordinator_api.store.tables import group_records, groups, rebalances


async def read_log(connection: AsyncConnection, group_id: str, first_epoch: int = 0) -> StoredLog:
    """Sequence 0, no records and `first_epoch` when there is no such group."""
    found = select(groups.c.sequence, groups.c.stored_bytes, groups.c.epoch).where(groups.c.group_id == group_id)
    sequence, stored_bytes, epoch = (await connection.execute(found)).one_or_none() or (0, 0, first_epoch)
    records = tuple(await _records(connection, group_id, sequence))
    return StoredLog(group_id, sequence, records, stored_bytes=stored_bytes, epoch=epoch)


async def highest_recorded_generation(connection: AsyncConnection, group_id: str) -> int:
    """Of the recorded rebalances of the group; 0 for none, and where the database cannot read them."""
    highest = select(func.max(rebalances.c.generation_id)).where(rebalances.c.group_id == group_id)
    try:
        return next(iter(await _rows(connection, highest)))[0] or 0
    except SQLAlchemyError as error:
        if not is_damage(error):
            raise
        return 0


async def _records(connection: AsyncConnection, group_id: str, sequence: int) -> list[StoredRecord]:
    present = (group_records.c.group_id == group_id) & (group_records.c.sequence >= first_number(sequence))
    whole = _select(connection).where(present).order_by(group_records.c.sequence)
    try:
        return [_record(row) for row in await _rows(connection, whole)]
    except SQLAlchemyError as error:
        if not is_damage(error):
            raise
    numbers = select(group_records.c.sequence).where(present).order_by(group_records.c.sequence)
    try:  # the index alone answers this
        known = [row[0] for row in await _rows(connection, numbers)]
    except SQLAlchemyError as error:
        if not is_damage(error):
            raise
        return await _without_index(connection, group_id, sequence)
    return [await _one(connection, group_id, number) for number in known]


async def _one(connection: AsyncConnection, group_id: str, number: int) -> StoredRecord:
    this = (group_records.c.group_id == group_id) & (group_records.c.sequence == number)
    try:
        return _record(next(iter(await _rows(connection, _select(connection).where(this)))))
    except SQLAlchemyError as error:
        if not is_damage(error):
            raise
        return StoredRecord(number, None, None, unreadable=reason(error))


async def _without_index(connection: AsyncConnection, group_id: str, sequence: int) -> list[StoredRecord]:
    """The index is damaged: look at every row. No records when that is not possible either."""
    scanned = _select(connection).where(group_records.c.group_id.concat("") == group_id)
    try:
        found = [_record(row) for row in await _rows(connection, scanned)]
    except SQLAlchemyError as error:
        if not is_damage(error):
            raise
        return []
    present = (record for record in found if record.sequence >= first_number(sequence))
    return sorted(present, key=lambda record: record.sequence)


def _select(connection: AsyncConnection) -> Select[Any]:
    body = group_records.c.body
    # PostgreSQL reads nothing that is not UTF-8 into a text, and would take backslashes for escapes here
    as_stored = cast(body, LargeBinary) if connection.dialect.name == "sqlite" else body
    return select(group_records.c.sequence, as_stored, group_records.c.checksum, group_records.c.ends_commit)


def _record(row: Sequence[Any]) -> StoredRecord:
    sequence, raw, checksum, ends_commit = row
    body, no_text = read_body(raw)
    return StoredRecord(sequence, body, checksum, ends_commit, no_text)


async def _rows(connection: AsyncConnection, query: Select[Any]) -> Sequence[Row[Any]]:
    """In a savepoint: PostgreSQL answers nothing more in a transaction in which a statement failed."""
    async with connection.begin_nested():
        rows: Sequence[Row[Any]] = (await connection.execute(query)).all()
    return rows
