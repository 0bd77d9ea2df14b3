"""Reads the recorded rebalances from the database of a running coordinator, for the commands that read recordings.

The reader changes nothing: it makes no migration, takes no lock and leaves no new file. Each page of recordings is read
in a separate short transaction. With short transactions, the use of memory is limited. Between two transactions, SQLite
can checkpoint its write-ahead log. If the coordinator deletes a rebalance during the reading
(`rebalances.retained.count`), the rebalance is left out.
"""

import atexit
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anyio.from_thread import start_blocking_portal
from sqlalchemy import URL, Row, Select, select, tuple_
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from assignor.errors import AssignorFault, InputError
from coordinator_api.store import schema, sqlite
from coordinator_api.store.engine import missing, parse_url, sqlite_file
from coordinator_api.store.recorded_documents import expanded
from coordinator_api.store.repository import HELD
from coordinator_api.store.schema import rebalances
from coordinator_api.store.store_errors import StoreError, reason
from rebalance_analysis.reading.sources import RawLine, shown

PAGE = 32
"""The number of stored documents in memory at one time. Most stored documents have a few kilobytes, but a large
document has several megabytes.
"""


def read_only_engine(name: str, busy_timeout_ms: int = 30_000) -> AsyncEngine:
    """Returns an engine whose connections cannot write. `name`: the path of an SQLite file, or a URL.
    `busy_timeout_ms`: the longest time for which a read waits for a locked SQLite file. Raises InputError if `name`
    does not name a database.
    """
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
        sqlite.set_up(engine, "query_only=ON", f"busy_timeout={busy_timeout_ms}")
    return engine


def _read_only_url(file: Path, name: str) -> URL:
    """Returns the URL for reading an SQLite file. After the read, there is no new file beside the database.

    While SQLite reads a database in WAL mode, two files are beside the database, `-wal` and `-shm`. An existing `-wal`
    file belongs to a coordinator that is running or was killed, so the connection must not remove it. If there is no
    `-wal` file, SQLite creates a new `-wal` file. When a read-only connection closes, it cannot remove the new `-wal`
    file. So the connection may write if there is no `-wal` file.
    """
    if not file.is_file():
        raise InputError("cannot be opened: No such file", shown(name))
    options = {"uri": "true", "mode": "ro"}
    if not sqlite.write_ahead_log_of(file).exists():
        options["mode"] = "rw"
        if not os.access(file.parent, os.W_OK):
            # SQLite could not create `-wal` and `-shm`, because the directory cannot be written, for example on a
            # read-only disk.
            options |= {"mode": "ro", "immutable": "1"}
    return URL.create("sqlite+aiosqlite", database=f"file:{quote(str(file))}", query=options)


def read(name: str) -> Iterator[RawLine]:
    """Yields the recorded rebalances as lines of JSON, ordered by group and generation. Rebalances that wait for
    approval are left out.

    `name`: the path of an SQLite file, or a URL. The field `where` of each line has the form name:group:generation.
    Raises InputError when the database cannot be read.
    """
    called = shown(name)
    with ExitStack() as resources:
        # Run the event loop in a separate thread. The caller may be inside another event loop, for example in a
        # notebook.
        event_loop = resources.enter_context(start_blocking_portal())
        # A program may end while this generator is open. Python would then stop the thread before it closes the
        # generator. A call to the stopped thread would never return.
        atexit.register(resources.close)
        resources.callback(atexit.unregister, resources.close)
        engine = read_only_engine(name)
        resources.callback(lambda: event_loop.call(engine.dispose))
        try:
            event_loop.call(_check_schema, engine, called)
            after: Row[Any] | None = None
            while page := event_loop.call(_page, engine, after):
                for stored in page:
                    if not _is_held(stored.summary):
                        yield RawLine(f"{called}:{stored.group_id}:{stored.generation_id}", _unpacked(stored.document))
                after = page[-1]
        except (SQLAlchemyError, OSError) as error:
            raise InputError(f"cannot be read: {reason(error)}", called) from None


async def _check_schema(engine: AsyncEngine, called: str) -> None:
    async with engine.connect() as connection:
        found = await connection.run_sync(schema.version_of)
        is_usable = await connection.run_sync(schema.takes_this_release, found)
    if found is None:
        raise InputError("is not a coordinator's database: it has no schema version", called)
    if not is_usable:
        unknown = schema.why_unknown(found)
        raise InputError(unknown or f"has schema version {found}: run `assignor migrate` on it first", called)


async def _page(engine: AsyncEngine, after: Row[Any] | None) -> Sequence[Row[Any]]:
    place = (rebalances.c.group_id, rebalances.c.generation_id)
    query: Select[Any] = select(*place, rebalances.c.document, rebalances.c.summary).order_by(*place).limit(PAGE)
    if after is not None:
        query = query.where(tuple_(*place) > (after.group_id, after.generation_id))
    async with engine.connect() as connection:
        rows: Sequence[Row[Any]] = (await connection.execute(query)).all()
    return rows


def _is_held(summary: str) -> bool:
    try:
        return bool(json.loads(summary)["outcome"] == HELD)
    except (ValueError, KeyError, TypeError):
        return False


def _unpacked(document: bytes) -> bytes:
    """Returns the expanded document. A damaged document is returned unchanged. The caller finds that a damaged document
    is not JSON, skips the document and reports it.
    """
    try:
        return b"".join(expanded(document))
    except AssignorFault:
        return document
