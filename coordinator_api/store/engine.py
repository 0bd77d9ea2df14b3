"""The connection to the database: SQLite in WAL mode by default, PostgreSQL with the same code.

What the coordinator has answered must be durable, so SQLite syncs every commit (`synchronous=FULL`) unless a setting
says otherwise.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SAWarning
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from assignor.reading.sources import shown
from coordinator_api.settings import Settings
from coordinator_api.store import postgresql
from coordinator_api.store.errors import (
    DamagedDatabase,
    DatabaseOutOfReach,
    DiskFull,
    ReadOnlyDatabase,
    StoreBusy,
    StoreError,
    UnusableDatabase,
)
from coordinator_api.store.hosts import apart, as_written, asyncpg_in_turn
from coordinator_api.store.lease_rows import lease_times

_TAKES_WRITE_LOCK = "takes_write_lock"
"""An execution option, for the event that begins a transaction."""

_MAGIC = b"SQLite format 3\0"
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_KINDS_OF_POSTGRESQL: Mapping[str, type[StoreError]] = {
    "XX001": DamagedDatabase,  # data_corrupted
    "XX002": DamagedDatabase,  # index_corrupted
    "53100": DiskFull,
    "25006": ReadOnlyDatabase,
    "53300": DatabaseOutOfReach,  # too_many_connections
    "57P01": DatabaseOutOfReach,  # admin_shutdown
    "57P02": DatabaseOutOfReach,  # crash_shutdown
    "57P03": DatabaseOutOfReach,  # cannot_connect_now
}
"""By SQLSTATE."""

_NOT_TEXT = "Could not decode to UTF-8"

_KINDS: Mapping[int, type[StoreError]] = {
    sqlite3.SQLITE_BUSY: StoreBusy,  # for longer than `sqlite.busy.timeout.ms`
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_READONLY: ReadOnlyDatabase,
    sqlite3.SQLITE_CORRUPT: DamagedDatabase,
    sqlite3.SQLITE_NOTADB: DamagedDatabase,
}
"""By SQLite's primary result code."""

Begin = Callable[[], AbstractAsyncContextManager[AsyncConnection]]
"""Begins a transaction, and commits it when it is left without an error."""


def parse_url(text: str) -> URL:
    """`sqlite:///file` or `postgresql://...`, of one host or of several, with the asynchronous driver filled in.

    Raises UnusableDatabase.
    """
    text, hosts = apart(text)
    try:
        url = make_url(text).update_query_dict(hosts)
    except (ArgumentError, ValueError):
        raise UnusableDatabase("database.url is not a URL: expected sqlite:///file or postgresql://host/name") from None
    backend = url.drivername.partition("+")[0]
    if backend not in _DRIVERS:
        raise UnusableDatabase(
            f"database.url: {backend} is not supported: expected sqlite:///file or postgresql://host/name"
        )
    if "sslmode" in url.query:  # as libpq has it; the driver's own name for it is `ssl`
        url = url.set(query={"ssl" if name == "sslmode" else name: value for name, value in url.query.items()})
    return url.set(drivername=_DRIVERS[backend])


def sqlite_file(url: URL) -> Path | None:
    """The file behind an SQLite URL; None for one in memory and for other databases."""
    if not url.drivername.startswith("sqlite") or url.database in (None, "", ":memory:"):
        return None
    return Path(os.path.realpath(str(url.database)))


def at_one_moment(engine: AsyncEngine) -> AsyncEngine:
    """Whose transactions read everything as it is when they read first, as those of SQLite do anyway."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def begin_writing(engine: AsyncEngine) -> Begin:
    """Transactions that wait for SQLite's write lock when they begin, not at their first write."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{_TAKES_WRITE_LOCK: True}).begin

    @asynccontextmanager
    async def begin() -> AsyncIterator[AsyncConnection]:
        async with connection_of(engine) as connection, connection.begin():
            yield connection

    return begin


def create_engine(settings: Settings) -> AsyncEngine:
    """For a command, and for a change of the schema. Connects when it is first used. Raises UnusableDatabase."""
    return _engine(settings, postgresql.OF_COMMANDS)


def create_service_engine(settings: Settings) -> AsyncEngine:
    """As `create_engine`, for many callers that do not wait for long."""
    patience = postgresql.of_service(settings.database_statement_timeout_ms, lease_times(settings.lease_timeout_ms))
    limits = {"pool_size": postgresql.POOL_SIZE, "max_overflow": 0, "pool_timeout": patience.statement_s}
    return _engine(settings, patience, limits)


def create_lease_engine(settings: Settings) -> AsyncEngine:
    """One connection, over which one statement goes after the other, each a transaction of its own."""
    patience = postgresql.of_lease(settings.database_statement_timeout_ms, lease_times(settings.lease_timeout_ms))
    limits = {"pool_size": 1, "max_overflow": 0, "pool_timeout": patience.statement_s, "isolation_level": "AUTOCOMMIT"}
    return _engine(settings, patience, limits)


def _engine(
    settings: Settings, patience: postgresql.Deadlines, limits: Mapping[str, object] | None = None
) -> AsyncEngine:
    """`limits`: of the pool, on PostgreSQL."""
    url = parse_url(settings.database_url)
    file = sqlite_file(url)
    if file is not None:
        _check_file(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SAWarning)  # a parameter of the URL that nobody knows
            if url.get_backend_name() == "sqlite":
                engine = create_async_engine(url)
            else:
                arguments = {**postgresql.connect_args(patience), "async_creator_fn": asyncpg_in_turn()}
                engine = create_async_engine(url, connect_args=arguments, **(limits or {}))
    except ModuleNotFoundError as error:
        raise UnusableDatabase(f"database.url: {missing(error)}") from None
    except (ArgumentError, SAWarning) as error:
        raise UnusableDatabase(f"database.url: {str(error).partition(chr(10))[0].partition(';')[0]}") from None
    if url.drivername.startswith("sqlite"):
        _set_up_sqlite(engine, settings)
    else:
        postgresql.watch(engine, patience)
    return engine


@asynccontextmanager
async def connection_of(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Raises DatabaseOutOfReach when PostgreSQL lets nobody in, for which its driver has errors of any kind."""
    async with AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(engine.connect())
        except StoreError:
            raise
        except Exception as error:
            if engine.dialect.name == "sqlite":
                raise
            raise out_of_reach(engine.url, error) from error
        yield connection


def missing(error: ModuleNotFoundError) -> str:
    """Which extra has the driver of a URL."""
    return f"needs the package {error.name}: pip install 'assignor[postgres]'"


def _check_file(file: Path) -> None:
    """What SQLite would say of each of these is that it is "unable to open database file"."""
    if not file.parent.is_dir():
        problem = f"the directory {file.parent} does not exist: create it, or name another file"
    elif file.is_dir():
        problem = f"{file} is a directory: name a file in it"
    elif not os.access(file.parent, os.W_OK):  # SQLite and the lease write files beside the database
        problem = f"the directory {file.parent} cannot be written: name a file elsewhere, or change its permissions"
    elif file.exists() and not os.access(file, os.R_OK | os.W_OK):
        problem = f"{file} cannot be read and written: name another file, or change its permissions"
    elif file.exists() and not _begins_like_a_database(file):
        problem = f"{file} is not an SQLite database, and is left as it is: name another file"
    else:
        return
    raise UnusableDatabase(f"database.url: {problem}")


def _begins_like_a_database(file: Path) -> bool:
    """An empty file becomes one."""
    with file.open("rb") as opened:
        return opened.read(len(_MAGIC)) in (b"", _MAGIC)


def reason(error: Exception) -> str:
    """The database's own message in one line, without SQLAlchemy's text around it."""
    said = str(getattr(error, "orig", None) or error)
    return " ".join(said.split()) or type(error).__name__


def out_of_reach(url: URL, error: Exception) -> DatabaseOutOfReach:
    """What is raised when the database at `url` cannot be opened, because of `error`."""
    # SQLAlchemy itself hides only the password before the host, and of that only what is before its first @
    text = as_written(url.set(drivername=url.get_backend_name()))
    return DatabaseOutOfReach(f"database.url: {shown(text)} cannot be opened: {reason(error)}")


def kind_of(error: Exception) -> type[StoreError]:
    """What the database's error means for whoever asked."""
    if isinstance(error, ConnectionError | TimeoutError):
        return DatabaseOutOfReach
    if _NOT_TEXT in str(error):
        return DamagedDatabase  # Python's own error, without a code of SQLite
    cause = getattr(error, "orig", None)
    sqlstate: str = getattr(cause, "sqlstate", None) or ""
    if sqlstate in _KINDS_OF_POSTGRESQL:
        return _KINDS_OF_POSTGRESQL[sqlstate]
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return DatabaseOutOfReach
    code: int = getattr(cause, "sqlite_errorcode", 0)
    return _KINDS.get(code & 0xFF, StoreError)  # the higher bits say more about it


def is_damage(error: Exception) -> bool:
    """Whether what is stored cannot be read, where this was asked for; the rest of the database may be well."""
    return kind_of(error) is DamagedDatabase


def _set_up_sqlite(engine: AsyncEngine, settings: Settings) -> None:
    pragmas = (
        f"busy_timeout={settings.sqlite_busy_timeout_ms}",
        "journal_mode=WAL",
        f"synchronous={settings.sqlite_synchronous}",
        "foreign_keys=ON",
    )

    def set_pragmas(connection: Any, _record: object) -> None:
        # the driver begins no transaction before DDL, so a migration that is cut short would leave half of its tables;
        # `begin` below does it instead
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def begin(connection: Connection) -> None:
        takes_lock = connection.get_execution_options().get(_TAKES_WRITE_LOCK, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if takes_lock else "BEGIN")

    event.listen(engine.sync_engine, "connect", set_pragmas)
    event.listen(engine.sync_engine, "begin", begin)
