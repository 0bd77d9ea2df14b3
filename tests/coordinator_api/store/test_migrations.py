"""Which releases run with a schema, on both databases; what is refused, and what to do then."""

import asyncio
import re
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from assignor.errors import InputError
from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.opening import OpenStore, migrate, open_store, take_to_migrate
from coordinator_api.store.recordings import read
from coordinator_api.store.store_errors import StoreInUse, UnusableDatabase
from tests.coordinator_api.store.databases import open_engine

OUTDATED = ("0001", "0004")


async def in_database(settings: Settings, work: Callable[[Connection], None]) -> None:
    async with open_engine(settings) as engine, engine.begin() as connection:
        await connection.run_sync(work)


async def mark_as(settings: Settings, version: str, oldest: str | None) -> None:
    """As another release leaves it, with which `oldest` may run; None: it does not say so."""

    def mark(connection: Connection) -> None:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
        if oldest is None:
            connection.execute(text("DROP TABLE schema_support"))
        else:
            connection.execute(text(f"UPDATE schema_support SET oldest = '{oldest}'"))
            connection.execute(text("ALTER TABLE groups ADD COLUMN later VARCHAR(9)"))

    await in_database(settings, mark)


@pytest.mark.parametrize("version", OUTDATED)
async def test_should_refuse_a_schema_of_before_and_say_what_to_do(database: Settings, version: str) -> None:
    await migrate(database)
    await mark_as(database, version, version)
    refused = (
        f"the database has schema version {version}, from before the names of stored records were fixed, and cannot be "
        "read any more (0005 and later can): export its recordings with the release that wrote it "
        "(`assignor rebalances show GROUP GENERATION --format json`), and start with an empty database"
    )

    for _ in range(2):
        with pytest.raises(UnusableDatabase, match=re.escape(refused)):
            async with open_store(database):
                pass
    with pytest.raises(InputError, match=f"has schema version {version}, from before"):
        next(read(database.database_url))


@pytest.mark.parametrize("oldest", [schema.VERSION, "0002"])
async def test_should_run_with_a_later_schema_that_takes_this_release(database: Settings, oldest: str) -> None:
    await migrate(database)
    await mark_as(database, "0006", oldest)

    async with open_store(database) as opened:
        assert (opened.schema_before, opened.schema) == ("0006", "0006")
        await opened.repository.append("g", 0, ["1"], epoch=0)
        await opened.repository.check()
    assert await migrate(database) == ("0006", "0006"), "it is not migrated back"
    assert list(read(database.database_url)) == []


@pytest.mark.parametrize("oldest", ["0006", None])
async def test_should_refuse_a_later_schema_that_does_not(database: Settings, oldest: str | None) -> None:
    await migrate(database)
    await mark_as(database, "0006", oldest)

    for _ in range(2):
        with pytest.raises(UnusableDatabase, match="schema version 0006, which this release does not know"):
            async with open_store(database):
                pass


# --- on PostgreSQL, while others run


async def test_should_let_all_up_that_start_at_once(on_postgresql: Settings) -> None:
    async def start(number: int) -> OpenStore:
        async with open_store(on_postgresql) as opened:
            await opened.repository.append(f"of {number}", 0, ["1"], epoch=0)
            return opened

    started = await asyncio.gather(*map(start, range(4)))

    assert {each.schema for each in started} == {schema.VERSION}
    assert None in {each.schema_before for each in started}


async def test_should_say_so_when_another_one_does_not_come_to_its_end(on_postgresql: Settings) -> None:
    async with open_engine(on_postgresql) as engine, engine.begin() as one, engine.begin() as another:
        await take_to_migrate(one)
        with pytest.raises(StoreInUse, match="another process has been changing the schema of the database for 0 s"):
            await take_to_migrate(another, patience_s=0)
