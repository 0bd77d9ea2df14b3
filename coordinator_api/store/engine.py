"""The connection to the database: SQLite in WAL mode by default, PostgreSQL with the same code.

What the coordinator has answered must be durable, so SQLite syncs every commit (`synchronous=FULL`) unless a setting
says otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from coordinator_api.settings import Settings
from coordinator_api.store.errors import StoreError

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}


def parse_url(text: str) -> URL:
    """`sqlite:///file` or `postgresql://...` with the asynchronous driver filled in. Raises StoreError."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise StoreError("database.url is not a URL: expected sqlite:///file or postgresql://host/name") from None
    backend = url.drivername.partition("+")[0]
    if backend not in _DRIVERS:
        raise StoreError(f"database.url: {backend} is not supported: expected sqlite:///file or postgresql://host/name")
    return url.set(drivername=_DRIVERS[backend])


def sqlite_file(url: URL) -> Path | None:
    """The file behind an SQLite URL; None for one in memory and for other databases."""
    if not url.drivername.startswith("sqlite") or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database)).resolve()


def create_engine(settings: Settings) -> AsyncEngine:
    """Connects when it is first used. Raises StoreError."""
    url = parse_url(settings.database_url)
    file = sqlite_file(url)
    if file is not None and not file.parent.is_dir():
        raise StoreError(f"database.url: the directory {file.parent} does not exist: create it, or name another file")
    try:
        engine = create_async_engine(url)
    except ModuleNotFoundError as error:
        raise StoreError(f"database.url: {url.drivername} needs the package {error.name}: install it") from None
    if url.drivername.startswith("sqlite"):
        _set_up_sqlite(engine, settings)
    return engine


def reason(error: SQLAlchemyError | OSError) -> str:
    """The database's own message, without SQLAlchemy's text around it."""
    return str(getattr(error, "orig", None) or error)


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
        connection.exec_driver_sql("BEGIN")

    event.listen(engine.sync_engine, "connect", set_pragmas)
    event.listen(engine.sync_engine, "begin", begin)
