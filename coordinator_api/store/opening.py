"""Opens the store. Takes the lease of an SQLite file, brings the schema up to date, and makes the repository.

The coordinator calls `open_store`, and the command `assignor migrate` calls `migrate`.

Only one process at a time uses an SQLite file. The lease of an SQLite file is a lock on a file beside the database. The
operating system releases the lock when the process ends. So another process can use the database at once, even after a
`kill -9` of the first process.

SQLite treats an empty file as a new database. For this reason, a coordinator also notes in the lock file that the
database was set up. If the database is empty although the note exists, its groups were lost. A coordinator refuses to
use an emptied database as a new database.
"""

import asyncio
import fcntl
import os
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.engine import (
    begin_writing,
    connection_of,
    create_engine,
    create_lease_engine,
    create_service_engine,
    out_of_reach,
    sqlite_file,
)
from coordinator_api.store.lease_rows import LeaseStore
from coordinator_api.store.lease_store import FileLeaseStore, SqlLeaseStore
from coordinator_api.store.recordings import read_only_engine
from coordinator_api.store.repository import Repository
from coordinator_api.store.sqlite import bytes_by_header, log_damage, stat_of, write_ahead_log_of
from coordinator_api.store.store_errors import StoreInUse, UnusableDatabase
from operating_system.private_files import create_private_file, open_lock
from operating_system.processes import advice_of

PATIENCE_S = 60.0
_POLL_S = 0.05
_MIGRATION_LOCK = zlib.crc32(b"assignor coordinator migrates")
"""The key of PostgreSQL's advisory lock for a change of the schema."""

_SET_UP = "set up"
_RESTORE = "Put it back, or restore a backup"


class OpenStore(NamedTuple):
    """An open store. `schema_before`: the version of the schema before `open_store` brought it up to date; None for a
    new database.

    `lease_store`: the store of the lease; call its `enter` before the first group is created or written.
    """

    repository: Repository
    lease_store: LeaseStore
    schema_before: str | None
    schema: str


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[OpenStore]:
    """Opens the store for the block. On SQLite, holds the lease of the file until the block ends. Raises StoreError,
    and StoreInUse while another process holds the lease.
    """
    async with exclusive_engine(settings) as engine:
        before, after = await _upgraded(engine)
        if engine.dialect.name == "sqlite":
            repository = Repository(engine, settings.rebalances_retained_count)
            async with repository.watched():
                lease_store = FileLeaseStore(repository.stored_bytes)
                yield OpenStore(repository, lease_store, before, after)
            return
    engine, for_leases = create_service_engine(settings), create_lease_engine(settings)
    try:
        repository = Repository(engine, settings.rebalances_retained_count)
        sql_lease_store = SqlLeaseStore(for_leases, settings.lease_timeout_ms, repository.owned_by)
        yield OpenStore(repository, sql_lease_store, before, after)
    finally:
        await engine.dispose()
        await for_leases.dispose()


async def migrate(settings: Settings) -> tuple[str | None, str]:
    """Brings the schema up to date. Returns the schema versions before and after the upgrade. Raises StoreError, and
    StoreInUse while a coordinator uses an SQLite file.
    """
    async with exclusive_engine(settings) as engine:
        return await _upgraded(engine)


@asynccontextmanager
async def exclusive_engine(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """Yields the engine for an `exclusive_transaction`. If the database is an SQLite file, holds the file's lease for
    the whole block. Raises StoreError.
    """
    engine = create_engine(settings)
    file = sqlite_file(engine.url)
    try:
        if file is None:
            yield engine
        else:
            await _refuse_unusable(settings, file)
            with file_lease(file):
                yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def exclusive_transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Begins a write transaction that changes the schema or fills an empty database. During this transaction, no other
    process can change the schema or fill the database. Raises StoreInUse.
    """
    async with begin_writing(engine)() as connection:
        if engine.dialect.name != "sqlite":
            await take_to_migrate(connection)
        yield connection


async def _upgraded(engine: AsyncEngine) -> tuple[str | None, str]:
    """Brings the schema up to date. Returns the schema versions before and after the upgrade."""
    file = sqlite_file(engine.url)
    try:
        if file is not None:
            _check_leftover_files(file)
            # Create the file here, because SQLite would create it with the mode of the umask. SQLite creates the other
            # files of the database with the mode of this file.
            create_private_file(file)
        async with connection_of(engine) as connection:
            before = await connection.run_sync(schema.version_of)
            is_usable = await connection.run_sync(schema.takes_this_release, before)
        if before is None and file is not None and _was_set_up(file):
            raise _emptied(file, "has no tables")
        if before is not None and is_usable:
            # The schema is usually up to date. With an up-to-date schema, a start on PostgreSQL needs no lock and waits
            # for no other process.
            after = before
        else:
            async with exclusive_transaction(engine) as connection:
                before, after = await connection.run_sync(schema.upgrade)
        if file is not None:
            note_set_up(file)
    except (SQLAlchemyError, OSError) as error:
        raise out_of_reach(engine, error) from None
    return before, after


# --- PostgreSQL


async def take_to_migrate(connection: AsyncConnection, patience_s: float = PATIENCE_S) -> None:
    """Take the lock for changing the schema or filling an empty database. The transaction holds the lock until its end.
    Waits for up to `patience_s` seconds if another process holds the lock, and then raises StoreInUse.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + patience_s
    query = text("SELECT pg_try_advisory_xact_lock(:key)")
    while not (await connection.execute(query, {"key": _MIGRATION_LOCK})).scalar_one():
        if loop.time() >= until_s:
            raise StoreInUse(
                f"another process has been changing the schema of the database for {patience_s:.0f} s, or restores a "
                "backup into it: wait until it has ended"
            )
        await asyncio.sleep(_POLL_S)


# --- an SQLite file


async def _refuse_unusable(settings: Settings, file: Path) -> None:
    """Raises UnusableDatabase if the file is not a coordinator's database, or if its schema cannot be upgraded. A
    refused database is not changed: it gets no lock file, and is not switched to WAL mode.
    """
    found = stat_of(file)
    # `_check_leftover_files` checks an empty file: if SQLite opened the file here, it would delete the write-ahead log
    if found is None or not found.st_size:
        return
    engine = read_only_engine(settings.database_url, settings.sqlite_busy_timeout_ms)
    try:
        async with engine.connect() as connection:
            version = await connection.run_sync(schema.version_of)
            if not await connection.run_sync(schema.takes_this_release, version):
                await connection.run_sync(schema.check_upgradable, version)
    except SQLAlchemyError:
        pass  # the file is damaged or locked; the caller's own connection will report the fault
    finally:
        await engine.dispose()


@contextmanager
def file_lease(database: Path) -> Iterator[None]:
    """Hold the lease of the database within the block. Raises StoreInUse when another process holds the lease."""
    path = _lock_file_of(database)
    try:
        handle = os.fdopen(open_lock(path, database), "r+", encoding="utf-8")
    except OSError as error:
        raise UnusableDatabase(
            f"database.url: the lock file {path} beside the database cannot be opened: {error.strerror}: "
            f"{advice_of(error) or 'name a file in another directory'}"
        ) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            holder = handle.readline().strip() or "unknown"
            raise StoreInUse(
                f"{database} is in use by another coordinator (process {holder}): "
                "stop that one, or name another database"
            ) from None
        handle.seek(0)
        _, _, notes = handle.read().partition("\n")
        handle.seek(0)
        handle.truncate()
        handle.write(f"{os.getpid()}\n{notes}")
        handle.flush()
        yield


def _lock_file_of(file: Path) -> Path:
    """Returns the path of the lock file. The first line of the lock file is the process id of the lease's holder. A
    second line in the lock file means that the database was set up.
    """
    return file.with_name(f"{file.name}.lock")


def note_set_up(file: Path) -> None:
    """Write into the lock file that the database has a coordinator's tables. Raises OSError."""
    if not _was_set_up(file):
        with _lock_file_of(file).open("a", encoding="utf-8") as notes:
            notes.write(f"\n{_SET_UP}\n")


def _was_set_up(file: Path) -> bool:
    """Returns whether the database once had a coordinator's tables. Raises OSError."""
    lock_file = _lock_file_of(file)
    return lock_file.exists() and _SET_UP in lock_file.read_text(encoding="utf-8").splitlines()


def _check_leftover_files(file: Path) -> None:
    """Raises UnusableDatabase if files of the database are missing or damaged. Call `_check_leftover_files` before
    SQLite opens the database. SQLite itself does not report missing or damaged files: it makes a new database, or uses
    older data.

    Raises OSError.
    """
    found, log = stat_of(file), write_ahead_log_of(file)
    newest = stat_of(log)
    has_newest_writes = newest is not None and newest.st_size > 0
    if found is None or not found.st_size:
        what = "is missing" if found is None else "is empty"
        if has_newest_writes:
            and_lock = f" and {_lock_file_of(file).name}" if _was_set_up(file) else ""
            raise UnusableDatabase(
                f"database.url: {file} {what}, and {log.name} beside it has writes that belong to it. {_RESTORE}; to "
                f"begin with an empty database, delete {log.name}{and_lock}"
            )
        if _was_set_up(file):
            raise _emptied(file, what)
        return
    if not has_newest_writes and found.st_size < bytes_by_header(file):
        raise UnusableDatabase(
            f"database.url: {file} was cut short: it has {found.st_size} bytes, and {bytes_by_header(file)} are "
            "expected. Restore a backup"
        )
    problem = log_damage(log)
    if problem is not None:
        raise UnusableDatabase(
            f"database.url: {log} has newest writes, and {problem}. Restore a backup; to go on with the writes before "
            f"the damage, run: sqlite3 {file} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        )


def _emptied(file: Path, what: str) -> UnusableDatabase:
    """Returns the error for a database that lost its groups. `what`: the state of the database's file, in words."""
    return UnusableDatabase(
        f"database.url: {file} {what}, but a coordinator has stored groups in it before. {_RESTORE}; to begin with an "
        f"empty database, delete {_lock_file_of(file).name} beside it"
    )
