"""A store on a real SQLite file, for tests within one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.engine import begin_writing, create_engine
from coordinator_api.store.sql_repository import SqlRepository


def settings_for(directory: Path, **changes: object) -> Settings:
    return Settings(database_url=f"sqlite:///{directory / 'store.sqlite3'}", **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def open_engine(directory: Path) -> AsyncIterator[AsyncEngine]:
    engine = create_engine(settings_for(directory))
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def open_repository(directory: Path, retained_rebalances: int = 10) -> AsyncIterator[SqlRepository]:
    async with open_engine(directory) as engine:
        await schema.upgrade(engine)
        yield SqlRepository(engine, retained_rebalances, begin_writing(engine))


def lose_the_page_of(file: Path, marker: bytes) -> None:
    """As a bad sector does: the page that has these bytes is all zeros. Nobody may have the file open, nor its log."""
    raw = bytearray(file.read_bytes())
    size = int.from_bytes(raw[16:18], "big")
    start = raw.index(marker) // size * size
    raw[start : start + size] = bytes(size)
    file.write_bytes(raw)
