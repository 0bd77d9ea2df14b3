"""Backs up a coordinator's store while the coordinator runs, and restores a backup into an empty database. An SQLite
backup can be restored into PostgreSQL, and the reverse.

All rows of a backup are read in one transaction, so the backup has the state of the database at one moment. A backup
takes no lock that blocks writers. The whole restore is one write transaction. During a restore, no coordinator of the
database may run. If a restore is killed, the database stays empty.

A backup does not contain the owners of groups, so a restored group has no owner.

A damaged log is backed up and restored unchanged, and the command reports the damage. A coordinator does not lead a
group with a damaged log, but leads all other groups. If the database cannot read a record as text, the backup has only
the readable part of the record. The checksum of an unreadable record in the backup does not match the readable part.
"""

import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Column, LargeBinary, Select, Table, func, insert, select, text, true, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assignor.errors import InputError
from coordinator_api.group.snapshot import LogDoesNotReplay, log_after_a_loss
from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.backup_file import BackupReader, BackupWriter, Header, Progress
from coordinator_api.store.engine import at_one_moment, parse_url, sqlite_file
from coordinator_api.store.lease_store import renewing, rows_of
from coordinator_api.store.opening import exclusive_engine, exclusive_transaction, note_set_up
from coordinator_api.store.recordings import read_only_engine
from coordinator_api.store.schema import group_records, groups, rebalances, tokens
from coordinator_api.store.store_errors import StoreError, StoreInUse, reason
from coordinator_api.store.stored_logs import (
    NUMBERS_OF_A_LOG,
    StoredLog,
    StoredRecord,
    checksum,
    damage_of_log,
    read_log,
    rows_of_log,
)
from operating_system.private_files import create_private_file
from rebalance_analysis.reading.sources import shown

_TABLES: Mapping[str, Table] = {table.name: table for table in (groups, group_records, rebalances, tokens)}
"""The tables of a backup, in the order of the file. The other tables of the database contain no state of groups or
callers.
"""

_OF_OWNERS = frozenset({groups.c.owner, groups.c.epoch, groups.c.members})
"""The columns that a backup leaves out, because they describe the distribution of groups over coordinators."""

_COLUMNS: Mapping[str, Sequence[Column[Any]]] = {
    name: [column for column in table.c if column not in _OF_OWNERS] for name, table in _TABLES.items()
}
_BINARY = {
    name: frozenset(column.name for column in columns if isinstance(column.type, LargeBinary))
    for name, columns in _COLUMNS.items()
}
_PAGE = 32
"""The number of rows that a backup or restore has in memory at one time. The row of a large recorded rebalance may have
several megabytes. Only the log of a group is read as a whole.
"""

_COUNT_BYTES = text(
    "UPDATE groups SET stored_bytes = "
    "(SELECT COALESCE(SUM(LENGTH(body)), 0) FROM group_records WHERE group_records.group_id = groups.group_id) + "
    "(SELECT COALESCE(SUM(LENGTH(document)), 0) FROM rebalances WHERE rebalances.group_id = groups.group_id)"
)

RowOfTable = tuple[str, dict[str, Any]]


class Done(NamedTuple):
    """The result of a backup or a restore. `damaged`: a description of the damage of each damaged log, by group id. A
    damaged log is copied unchanged.
    """

    header: Header
    damaged: Mapping[str, str]


# --- back up


async def back_up(settings: Settings, file: Path, *, replace: bool, progress: Progress) -> tuple[Done, str]:
    """Write the database to `file`. Returns the result, and the SHA-256 of the file's lines. `replace`: True if an
    existing file may be replaced.

    Raises InputError, whose message names the fault of the database or the file.
    """
    _check_place(settings, file, replace)
    called = shown(settings.database_url)
    engine = read_only_engine(settings.database_url)
    try:
        async with _one_moment(engine, called) as connection:
            header = await _header(connection, called)
            with BackupWriter(file, header, progress) as writer:
                damaged = await _write_tables(connection, writer)
                return Done(header, damaged), writer.finish()
    except (SQLAlchemyError, OSError) as error:
        raise InputError(f"cannot be read: {reason(error)}", called) from None
    finally:
        await engine.dispose()


def _check_place(settings: Settings, file: Path, replace: bool) -> None:
    if file.is_dir():
        raise InputError("is a directory: name a file in it", str(file))
    if Path(os.path.realpath(file)) == sqlite_file(parse_url(settings.database_url)):
        raise InputError("is the database itself: name another file", str(file))
    if file.exists() and not replace:
        raise InputError("is there already: name another file, or replace it by --force", str(file))


@asynccontextmanager
async def _one_moment(engine: AsyncEngine, called: str) -> AsyncIterator[AsyncConnection]:
    """Opens a transaction whose reads all see the state that the database had at the first read. Raises InputError."""
    try:
        connection = await at_one_moment(engine).connect()
    except Exception as error:  # while no connection is open, SQLAlchemy does not wrap errors of the driver
        raise InputError(f"cannot be opened: {reason(error)}", called) from None
    try:
        yield connection
    finally:
        await connection.close()


def _refuse_unknown(found: str, where: str) -> None:
    unknown = schema.why_unknown(found)
    if unknown is not None:
        raise InputError(unknown, where)


async def _header(connection: AsyncConnection, called: str) -> Header:
    """Returns the header of a backup. Raises InputError if this release cannot read the schema of the database."""
    found = await connection.run_sync(schema.version_of)
    if found is None:
        raise InputError("is not a coordinator's database: it has no schema version", called)
    _refuse_unknown(found, called)
    counts = {name: (await connection.execute(_count_of(table))).scalar_one() for name, table in _TABLES.items()}
    return Header(version("assignor"), found, int(time.time() * 1000), connection.dialect.name, counts)


def _count_of(table: Table) -> Select[int]:
    counted = select(func.count()).select_from(table)
    if table is not group_records:
        return counted
    # do not count records of an earlier log that could not be deleted
    before_present = groups.c.sequence // NUMBERS_OF_A_LOG * NUMBERS_OF_A_LOG
    of_group = (groups.c.group_id == group_records.c.group_id) & (group_records.c.sequence > before_present)
    return counted.join(groups, of_group)


async def _write_tables(connection: AsyncConnection, writer: BackupWriter) -> Mapping[str, str]:
    """Writes all rows. Returns a description of the damage of each damaged log, by group id."""
    group_ids = []
    async for row in _rows(connection, groups):
        group_ids.append(row["group_id"])
        writer.add("groups", row)
    damaged = {}
    for group_id in group_ids:
        log = await read_log(connection, group_id)
        problem = damage_of_log(log)
        if problem is not None:
            damaged[group_id] = problem
        for record in log.records:
            writer.add("group_records", _row_of(group_id, record))
    for table in (rebalances, tokens):
        async for row in _rows(connection, table):
            writer.add(table.name, row)
    return damaged


def _row_of(group_id: str, record: StoredRecord) -> dict[str, Any]:
    body, fits = record.body, record.checksum
    if body is None:
        body = (record.raw or b"").decode("utf-8", "replace")
        # the text is incomplete, so make a checksum that does not match the text
        fits = checksum(group_id, record.sequence, body) ^ 1
    values = (group_id, record.sequence, body, fits, bool(record.ends_commit))
    return dict(zip(group_records.c.keys(), values, strict=True))


async def _rows(connection: AsyncConnection, table: Table) -> AsyncIterator[dict[str, Any]]:
    """Yields the rows in the order of the primary key. Only a few rows are in memory at one time."""
    query = select(*_COLUMNS[table.name]).order_by(*table.primary_key.columns)
    found = await connection.stream(query, execution_options={"yield_per": _PAGE})
    async for row in found.mappings():
        yield dict(row)


# --- restore


async def restore(settings: Settings, file: Path, *, keep_members: bool, progress: Progress) -> Done:
    """Read and check `file` completely, and then restore it into the database, which has to be empty.

    `keep_members`: True if nothing was written to the old database after the backup. If `keep_members` is False, each
    group begins without members. The new generation of each group is above any generation that the group may have
    reached since the backup (`group/snapshot.py`).

    Raises InputError and StoreError. Raises StoreInUse while a coordinator uses the database.
    """
    header = _verified(file)
    async with exclusive_engine(settings) as engine:
        target = sqlite_file(engine.url)
        try:
            if target is not None:
                create_private_file(target)
            async with exclusive_transaction(engine) as connection:
                await connection.run_sync(schema.upgrade)
                await _refuse_unless_unused(connection)
                await _refuse_unless_empty(connection, settings)
                with BackupReader(file, progress) as reader:
                    damaged = await _restore_rows(connection, reader.rows(_BINARY), keep_members)
                    await connection.execute(_COUNT_BYTES)
            if target is not None:
                note_set_up(target)
        except (SQLAlchemyError, OSError) as error:
            raise StoreError(f"the database (setting database.url) cannot be written: {reason(error)}") from None
    return Done(header, damaged)


def _verified(file: Path) -> Header:
    """Returns the header of the file. Raises InputError if any part of the file cannot be restored."""
    with BackupReader(file) as reader:
        _refuse_unknown(reader.header.schema, str(file))
        for number, (name, row) in enumerate(reader.rows(_BINARY), start=2):
            columns = _COLUMNS[name]
            needed = {column.name for column in columns if not column.nullable and column.server_default is None}
            if not needed <= row.keys() <= {column.name for column in columns}:
                raise InputError(
                    f"is damaged: line {number} has not the columns of the table {name}: {', '.join(row)}", str(file)
                )
        return reader.header


async def _refuse_unless_unused(connection: AsyncConnection) -> None:
    """Raises StoreInUse if a coordinator uses a PostgreSQL database. The row of a killed coordinator stays in the
    database, and is not renewed.
    """
    found = await renewing(connection, true(), await rows_of(connection, true()))
    if found is not None:
        raise StoreInUse(
            f"the database is in use by the coordinator {found.url}: stop that one, or name another database"
        )


async def _refuse_unless_empty(connection: AsyncConnection, settings: Settings) -> None:
    for table in (groups, tokens):
        if (await connection.execute(select(func.count()).select_from(table))).scalar_one():
            raise InputError(
                f"is not empty, it has {table.name}. A backup is restored into an empty database: name another one by "
                "--database-url, or put this one away first",
                shown(settings.database_url),
            )


async def _restore_rows(
    connection: AsyncConnection, rows: Iterable[RowOfTable], keep_members: bool
) -> Mapping[str, str]:
    """Restores the rows in their order. Returns a description of the damage of each damaged log, by group id."""
    sequences: dict[str, int] = {}
    damaged: dict[str, str | None] = {}
    for (name, group_id), found in groupby(rows, _belongs_to):
        if name == "group_records":
            log = [row for _, row in found]
            damaged[group_id] = await _restore_log(connection, group_id, sequences.pop(group_id, 0), log, keep_members)
            continue
        for page in _pages(row for _, row in found):
            if name == "groups":
                sequences.update((row["group_id"], row["sequence"]) for row in page)
            await connection.execute(insert(_TABLES[name]), page)
    for group_id, sequence in sequences.items():
        damaged[group_id] = damage_of_log(StoredLog(group_id, sequence, ()))
    return {group_id: problem for group_id, problem in damaged.items() if problem is not None}


async def _restore_log(
    connection: AsyncConnection, group_id: str, sequence: int, log: list[dict[str, Any]], keep_members: bool
) -> str | None:
    """Restores a log. Returns a description of the log's damage, or None. A damaged log is restored unchanged."""
    records = tuple(StoredRecord(row["sequence"], row["body"], row["checksum"]) for row in log)
    problem = damage_of_log(StoredLog(group_id, sequence, records))
    written = log
    if problem is None and not keep_members:
        try:
            # The written records get the next numbers after the old records. In a compaction, the records of a snapshot
            # also get the next numbers.
            written = rows_of_log(group_id, sequence, log_after_a_loss([row["body"] for row in log]))
        except LogDoesNotReplay as fault:
            problem = f"the log of group {group_id} does not replay: {fault}"
    for page in _pages(written):
        await connection.execute(insert(group_records), page)
    if written is not log:
        moved = update(groups).where(groups.c.group_id == group_id)
        await connection.execute(moved.values(sequence=written[-1]["sequence"]))
    return problem


def _belongs_to(row: RowOfTable) -> tuple[str, str]:
    """Returns the key by which successive rows are grouped: the name of the row's table and, for a record of a log, the
    id of its group.
    """
    name, values = row
    return name, values["group_id"] if name == "group_records" else ""


def _pages(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    left = iter(rows)
    while page := list(islice(left, _PAGE)):
        yield page
