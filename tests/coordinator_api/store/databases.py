"""A store on a real database, for tests within one process; without a name, on an SQLite file."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.engine import create_engine
from coordinator_api.store.repository import Repository


def settings_for(directory: Path, **changes: object) -> Settings:
    return Settings(database_url=f"sqlite:///{directory / 'store.sqlite3'}", **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def open_engine(database: Path | Settings) -> AsyncIterator[AsyncEngine]:
    """`database`: settings, or the directory of an SQLite file."""
    engine = create_engine(settings_for(database) if isinstance(database, Path) else database)
    try:
        yield engine
    finally:
        await engine.dispose()


async def upgraded(engine: AsyncEngine) -> tuple[str | None, str]:
    """The schema version before and after."""
    async with engine.begin() as connection:
        return await connection.run_sync(schema.upgrade)


@asynccontextmanager
async def open_repository(database: Path | Settings, retained_rebalances: int = 10) -> AsyncIterator[Repository]:
    async with open_engine(database) as engine:
        await upgraded(engine)
        yield Repository(engine, retained_rebalances)


def execute(file: Path, *statements: str) -> list[Any]:
    """Executes the statements on an SQLite file, in one transaction. Returns the rows of the last statement."""
    with closing(sqlite3.connect(file)) as connection, connection:
        return [connection.execute(each).fetchall() for each in statements][-1]


def lose_the_page_of(file: Path, marker: bytes) -> None:
    """As a bad sector does: the page that has these bytes is all zeros. Nobody may have the file open, nor its log."""
    raw = bytearray(file.read_bytes())
    size = int.from_bytes(raw[16:18], "big")
    start = raw.index(marker) // size * size
    raw[start : start + size] = bytes(size)
    file.write_bytes(raw)
