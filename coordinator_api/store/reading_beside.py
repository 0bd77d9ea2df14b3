"""A connection that reads a coordinator's database beside it, and cannot write: no migration, no lock, no new file."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from assignor.errors import InputError
from assignor.reading.sources import shown
from coordinator_api.store.engine import missing, parse_url, sqlite_file
from coordinator_api.store.errors import StoreError


def read_only_engine(name: str) -> AsyncEngine:
    """`name`: the path of an SQLite file, or a URL. Raises InputError when it names no database."""
    try:
        url = parse_url(name) if "://" in name else URL.create("sqlite+aiosqlite", database=name)
        file = sqlite_file(url)
        if url.drivername.startswith("sqlite"):
            if file is None:
                raise InputError("names no file: expected sqlite:///file", shown(name))
            url = _read_only_url(file, name)
        engine = create_async_engine(url)
    except StoreError as error:
        raise InputError(f"cannot be opened: {error}", shown(name)) from None
    except ModuleNotFoundError as error:
        raise InputError(missing(error), shown(name)) from None
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _refuse_to_write)
    return engine


def _read_only_url(file: Path, name: str) -> URL:
    """No file is created, and none is left beside the database.

    While SQLite reads a database in WAL mode, it keeps two files beside it, `-wal` and `-shm`. When there is a `-wal`
    already, it belongs to a coordinator that is running or was killed; it stays. When there is none, SQLite would
    create one, and a connection that is read-only could not remove it afterwards, so this one may write.
    """
    if not file.is_file():
        raise InputError("cannot be opened: No such file", shown(name))
    options = {"uri": "true", "mode": "ro", "timeout": "30"}
    if not file.with_name(f"{file.name}-wal").exists():
        options["mode"] = "rw"
        if not os.access(file.parent, os.W_OK):
            # on a read-only disk nobody writes, and SQLite could not create the files
            options |= {"mode": "ro", "immutable": "1"}
    return URL.create("sqlite+aiosqlite", database=f"file:{quote(str(file))}", query=options)


def _refuse_to_write(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only=ON")
    cursor.close()
