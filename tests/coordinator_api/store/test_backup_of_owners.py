"""Backups of databases that several coordinators use, restored into both kinds; earlier schemas are refused."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from assignor.errors import InputError
from coordinator_api.settings import Settings
from coordinator_api.store.opening import open_store
from coordinator_api.store.repository import Recording
from coordinator_api.store.schema import group_records, groups, rebalances, tokens
from coordinator_api.store.store_errors import StoreInUse
from tests.coordinator_api.store.databases import open_engine, settings_for
from tests.coordinator_api.store.test_backup import AT_SEVEN, DEFINED, backed_up, restored

QUICK_MS = 600
"""The lease of coordinators that are looked at."""


async def rows(settings: Settings) -> dict[str, Sequence[Any]]:
    """All that a backup has."""
    columns = {
        "groups": (groups.c.group_id, groups.c.sequence, groups.c.stored_bytes),
        "group_records": tuple(group_records.c),
        "rebalances": tuple(rebalances.c),
        "tokens": tuple(tokens.c),
    }
    async with open_engine(settings) as engine, engine.connect() as connection:
        return {name: (await connection.execute(select(*of).order_by(*of[:2]))).all() for name, of in columns.items()}


async def owners(settings: Settings) -> Sequence[Any]:
    async with open_engine(settings) as engine, engine.connect() as connection:
        query = select(groups.c.group_id, groups.c.owner, groups.c.epoch, groups.c.members).order_by(groups.c.group_id)
        return (await connection.execute(query)).all()


async def fill(settings: Settings) -> None:
    """By a coordinator that has ended without a word, where there may be several."""
    async with open_store(settings.model_copy(update={"lease_timeout_ms": QUICK_MS})) as opened:
        log, epoch = opened.repository, 0
        if opened.lease_store.times.expires:
            await opened.lease_store.enter("gone", "http://gone:1", "0.1")
            log.owned_by("gone")
            epoch = 1
        await log.append("one", 0, [DEFINED, AT_SEVEN], epoch=epoch, members=3)
        await log.append("one", 2, [AT_SEVEN], Recording(7, 1, '{"generation_id":7}', b"\x00\xff"), epoch=epoch)
        await log.append("two", 0, [DEFINED], epoch=epoch)


@pytest.mark.parametrize("keep_members", [True, False])
@pytest.mark.parametrize("to", ["sqlite", "postgresql"])
async def test_should_restore_groups_that_nobody_owns(
    database: Settings, request: pytest.FixtureRequest, tmp_path: Path, to: str, keep_members: bool
) -> None:
    (tmp_path / "target").mkdir()
    target = settings_for(tmp_path / "target")
    if to == "postgresql":
        target = Settings(database_url=request.getfixturevalue("postgresql").new_database())
    await fill(database)
    await backed_up(database, tmp_path / "b")
    await restored(target, tmp_path / "b", keep_members=keep_members)

    assert await owners(target) == [("one", None, 0, 0), ("two", None, 0, 0)]
    async with open_store(target) as opened:
        for group_id in ("one", "two"):
            if opened.lease_store.times.expires:
                await opened.lease_store.enter(f"of {group_id}", "http://new:1", "0.1")
                opened.repository.owned_by(f"of {group_id}")
                assert await opened.lease_store.take(group_id, None, 0, f"of {group_id}")
            log = await opened.repository.load_group(group_id)
            await opened.repository.append(group_id, log.sequence, [AT_SEVEN], epoch=log.epoch)
    if keep_members:
        before, after = await rows(database), await rows(target)
        assert after["group_records"][:3] == before["group_records"][:3]
        assert (after["rebalances"], after["tokens"]) == (before["rebalances"], before["tokens"])


async def test_should_not_say_in_a_backup_who_owned_a_group(database: Settings, tmp_path: Path) -> None:
    await fill(database)
    await backed_up(database, tmp_path / "b")

    lines = [json.loads(line) for line in gzip.decompress((tmp_path / "b").read_bytes()).splitlines()]
    assert [line for line in lines if line.get("table") == "groups"] == [
        {"table": "groups", "group_id": "one", "sequence": 3, "stored_bytes": len(DEFINED + AT_SEVEN + AT_SEVEN) + 2},
        {"table": "groups", "group_id": "two", "sequence": 1, "stored_bytes": len(DEFINED)},
    ]


@asynccontextmanager
async def living(settings: Settings) -> AsyncIterator[None]:
    """A coordinator that renews its row."""
    async with open_store(settings.model_copy(update={"lease_timeout_ms": QUICK_MS})) as opened:
        store = opened.lease_store
        await store.enter("living", "http://living:1", "0.1")

        async def live() -> None:
            while True:
                await store.poll("living")
                await asyncio.sleep(QUICK_MS / 12 / 1000)

        polls = asyncio.ensure_future(live())
        try:
            yield
        finally:
            polls.cancel()
            with suppress(asyncio.CancelledError):
                await polls


async def test_should_not_restore_while_a_coordinator_lives(on_postgresql: Settings, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source = settings_for(tmp_path / "source")
    await fill(source)
    await backed_up(source, tmp_path / "b")

    async with living(on_postgresql):
        with pytest.raises(StoreInUse, match="is in use by the coordinator http://living:1: stop that one"):
            await restored(on_postgresql, tmp_path / "b")
    assert await owners(on_postgresql) == []
    await restored(on_postgresql, tmp_path / "b")  # its row is still there, and nobody renews it
    assert [row.group_id for row in await owners(on_postgresql)] == ["one", "two"]
    with pytest.raises(InputError, match="is not empty, it has groups"):
        await restored(on_postgresql, tmp_path / "b")
