"""The connection to the database: SQLite in WAL mode by default, PostgreSQL with the same code.

What the coordinator has answered must be durable, so SQLite syncs every commit (`synchronous=FULL`) unless a setting
says otherwise.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError, SAWarning
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from coordinator_api.settings import Settings
from coordinator_api.store.errors import DatabaseOutOfReach, UnusableDatabase

_TAKES_WRITE_LOCK = "takes_write_lock"
"""An execution option, for the event that begins a transaction."""

_MAGIC = b"SQLite format 3\0"
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_TIMES_OF_POSTGRESQL = {"timeout": 10, "command_timeout": 30}
"""Seconds to connect, and to answer a statement. asyncpg waits a minute for whoever listens there and is no PostgreSQL,
and for ever for a database that says nothing any more.
"""

Begin = Callable[[], AbstractAsyncContextManager[AsyncConnection]]
"""Begins a transaction, and commits it when it is left without an error."""


def parse_url(text: str) -> URL:
    """`sqlite:///file` or `postgresql://...` with the asynchronous driver filled in. Raises UnusableDatabase."""
    try:
        url = make_url(text)
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
    return Path(str(url.database)).resolve()


def begin_writing(engine: AsyncEngine) -> Begin:
    """Transactions that wait for SQLite's write lock when they begin, not at their first write."""
    return engine.execution_options(**{_TAKES_WRITE_LOCK: True}).begin


def create_engine(settings: Settings) -> AsyncEngine:
    """Connects when it is first used. Raises UnusableDatabase."""
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
                # a connection that broke while nobody used it is noticed before a statement goes over it
                engine = create_async_engine(url, pool_pre_ping=True, connect_args=_TIMES_OF_POSTGRESQL)
    except ModuleNotFoundError as error:
        raise UnusableDatabase(f"database.url: {missing(error)}") from None
    except (ArgumentError, SAWarning) as error:
        raise UnusableDatabase(f"database.url: {str(error).partition(chr(10))[0].partition(';')[0]}") from None
    if url.drivername.startswith("sqlite"):
        _set_up_sqlite(engine, settings)
    return engine


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
    shown = url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)
    return DatabaseOutOfReach(f"database.url: {shown} cannot be opened: {reason(error)}")


def is_locked(error: Exception) -> bool:
    """Whether somebody else had SQLite's write lock for longer than `sqlite.busy.timeout.ms`."""
    code: int = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_BUSY  # the higher bits say more about it


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
