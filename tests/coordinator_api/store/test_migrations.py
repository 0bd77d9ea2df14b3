"""From the schema of every release to the present one, with what that release stored, on both databases; and which
releases run with a schema at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, MetaData, insert, text

from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.errors import StoreInUse, UnusableDatabase
from coordinator_api.store.migration_lock import take_to_migrate
from coordinator_api.store.opening import OpenStore, migrate, open_store
from coordinator_api.store.recordings import read
from coordinator_api.store.repository import GroupLog
from coordinator_api.store.stored_logs import checksum
from tests.coordinator_api.store.databases import open_engine

RELEASED = ("0001", "0002", "0003")
KEY_OF_EARLIER_RELEASES = 2731496378

_RECORDS: list[dict[str, Any]] = [
    {"group_id": "g", "sequence": number, "body": f"record {number}"} for number in (1, 2)
]
_SUMS = [{**row, "checksum": checksum("g", row["sequence"], row["body"])} for row in _RECORDS]
_REBALANCE = {"group_id": "g", "generation_id": 1, "now_ms": 1, "summary": '{"outcome": "stable"}', "document": b"{}"}
_STORED: Mapping[str, Mapping[str, list[dict[str, Any]]]] = {
    "0001": {"groups": [{"group_id": "g", "sequence": 2}], "group_records": _RECORDS, "rebalances": [_REBALANCE]},
    "0002": {
        "groups": [{"group_id": "g", "sequence": 2}],
        "group_records": _SUMS,
        "rebalances": [_REBALANCE],
        "store_checks": [{"id": 1, "number": 7}],
    },
    "0003": {
        "groups": [{"group_id": "g", "sequence": 2, "stored_bytes": 18}],
        "group_records": [{**row, "ends_commit": row["sequence"] == 2} for row in _SUMS],
        "rebalances": [_REBALANCE],
        "store_checks": [{"id": 1, "number": 7}],
        "tokens": [
            {
                "name": "ann",
                "right": "admin",
                "group_prefix": "",
                "digest": "d1",
                "created_ms": 1,
                "created_by": "cli",
                "expires_ms": None,
            }
        ],
    },
}
"""By the release's schema: the rows that it stored of one group with two records and a rebalance."""


async def in_database(settings: Settings, work: Callable[[Connection], None]) -> None:
    async with open_engine(settings) as engine, engine.begin() as connection:
        await connection.run_sync(work)


async def left_by(settings: Settings, version: str) -> None:
    """As the release of this schema version left it."""

    def leave(connection: Connection) -> None:
        config = schema.alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        tables = MetaData()
        tables.reflect(connection)
        for name, rows in _STORED[version].items():
            connection.execute(insert(tables.tables[name]), rows)

    await in_database(settings, leave)


async def mark_as(settings: Settings, version: str, oldest: str | None) -> None:
    """As a later release leaves it, with which `oldest` may run; None: it does not say so."""

    def mark(connection: Connection) -> None:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
        if oldest is None:
            connection.execute(text("DROP TABLE schema_support"))
        else:
            connection.execute(text(f"UPDATE schema_support SET oldest = '{oldest}'"))
            connection.execute(text("ALTER TABLE groups ADD COLUMN later VARCHAR(9)"))

    await in_database(settings, mark)


@pytest.mark.parametrize("version", RELEASED)
async def test_should_go_on_with_what_an_earlier_release_stored(database: Settings, version: str) -> None:
    await left_by(database, version)

    async with open_store(database) as opened:
        assert (opened.schema_before, opened.schema) == (version, schema.VERSION)
        log = opened.repository
        assert await log.load_group("g") == GroupLog("g", 2, ("record 1", "record 2"))
        assert (await log.load_group("g")).stored_bytes == 18
        assert [token.name for token in await opened.tokens.tokens()] == (["ann"] if version == "0003" else [])
        if opened.ownership is not None:  # free, as after the end of its coordinator
            await opened.ownership.enter("me", "http://me:1", "0.1")
            log.owned_by("me")
            assert await opened.ownership.take("g", None, 0, "me")
        epoch = (await log.load_group("g")).epoch
        assert epoch == (0 if opened.ownership is None else 1)
        assert (await log.append("g", 2, ["record 3"], epoch=epoch)).stored_bytes == 26
        await log.check()
    assert [line.content for line in read(database.database_url)] == [b"{}"]
    assert await migrate(database) == (schema.VERSION, schema.VERSION)


def test_should_know_every_released_schema() -> None:
    assert (*RELEASED, schema.VERSION) == tuple(f"{number:04}" for number in range(1, int(schema.VERSION) + 1))


@pytest.mark.parametrize("oldest", [schema.VERSION, "0002"])
async def test_should_run_with_a_later_schema_that_takes_this_release(database: Settings, oldest: str) -> None:
    await migrate(database)
    await mark_as(database, "0005", oldest)

    async with open_store(database) as opened:
        assert (opened.schema_before, opened.schema) == ("0005", "0005")
        await opened.repository.append("g", 0, ["1"], epoch=0)
        await opened.repository.check()
    assert await migrate(database) == ("0005", "0005"), "it is not migrated back"
    assert list(read(database.database_url)) == []


@pytest.mark.parametrize("oldest", ["0005", None])
async def test_should_refuse_a_later_schema_that_does_not(database: Settings, oldest: str | None) -> None:
    await migrate(database)
    await mark_as(database, "0005", oldest)

    for _ in range(2):
        with pytest.raises(UnusableDatabase, match="schema version 0005, which this release does not know"):
            async with open_store(database):
                pass


# --- on PostgreSQL, while others run


@asynccontextmanager
async def running_release_before_owners(settings: Settings) -> AsyncIterator[None]:
    """It has a lock for as long as its connection lives."""
    async with open_engine(settings) as engine, engine.connect() as connection:
        await connection.execute(text(f"SELECT pg_advisory_lock({KEY_OF_EARLIER_RELEASES})"))
        await connection.commit()
        yield


@pytest.mark.parametrize("version", RELEASED)
async def test_should_not_migrate_beside_a_running_release_that_knows_no_owners(
    on_postgresql: Settings, version: str
) -> None:
    await left_by(on_postgresql, version)
    async with running_release_before_owners(on_postgresql):
        for _ in range(2):
            with pytest.raises(
                StoreInUse, match=r"earlier release \(at 127\.0\.0\.1:\d+\): stop that coordinator first"
            ):
                await migrate(on_postgresql)
        with pytest.raises(StoreInUse):
            async with open_store(on_postgresql):
                pass

    assert await migrate(on_postgresql) == (version, schema.VERSION)


@pytest.mark.parametrize("version", [None, *RELEASED])
async def test_should_let_all_up_that_start_at_once(on_postgresql: Settings, version: str | None) -> None:
    if version is not None:
        await left_by(on_postgresql, version)

    async def start(number: int) -> OpenStore:
        async with open_store(on_postgresql) as opened:
            await opened.repository.append(f"of {number}", 0, ["1"], epoch=0)
            return opened

    started = await asyncio.gather(*map(start, range(4)))

    assert {each.schema for each in started} == {schema.VERSION}
    assert sorted(each.schema_before or "" for each in started)[0] == (version or "")


async def test_should_say_so_when_another_one_does_not_come_to_its_end(on_postgresql: Settings) -> None:
    async with open_engine(on_postgresql) as engine, engine.begin() as one, engine.begin() as another:
        await take_to_migrate(one)
        with pytest.raises(StoreInUse, match="another process has been changing the schema of the database for 0 s"):
            await take_to_migrate(another, patience_s=0)
