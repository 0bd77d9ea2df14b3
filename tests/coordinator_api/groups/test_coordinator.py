"""All groups of one service: a PUT that failed does not stay in the way, an unreadable log stops the start."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coordinator_api.errors import GroupNotFound
from coordinator_api.group.events import DeclareGroup
from coordinator_api.group.outcome import Declared
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.groups.definitions import read_definition
from coordinator_api.store.errors import StoreError
from coordinator_api.store.repository import Recording
from coordinator_api.store.sql_repository import SqlRepository
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.store.databases import settings_for

DEFINITION = read_definition(definition(), "g", 1_000)


async def lost_answer(
    self: SqlRepository, group_id: str, expected: int, records: Sequence[str], recording: Recording | None = None
) -> int:
    await append(self, group_id, expected, records, recording)
    raise StoreError("written, but nobody could say so")


append = SqlRepository.append


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Coordinator]:
    coordinator = await Coordinator.open(settings_for(directory))
    try:
        yield coordinator
    finally:
        await coordinator.close()


async def test_should_take_a_second_put_after_one_that_was_written_though_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as coordinator:
        with monkeypatch.context() as failing:
            failing.setattr(SqlRepository, "append", lost_answer)
            with pytest.raises(StoreError):
                await coordinator.declare("g", DeclareGroup(DEFINITION))
        with pytest.raises(GroupNotFound, match="there is no group g"):
            coordinator.group("g")
        declared = await coordinator.declare("g", DeclareGroup(DEFINITION))
        assert isinstance(declared, Declared)
        assert [(runtime.group_id, declared.revision) for runtime in coordinator.declared()] == [("g", 1)]


@pytest.mark.parametrize("record", ['{"type":"Nonesuch"}', '{"type":"GroupEmptied","generation_id":1}', "[]"])
async def test_should_say_which_log_cannot_be_replayed(tmp_path: Path, record: str) -> None:
    async with opened(tmp_path) as coordinator:
        await coordinator.declare("g", DeclareGroup(DEFINITION))
    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        connection.execute("INSERT INTO group_records VALUES ('g', 2, ?)", (record,))

    with pytest.raises(StoreError, match="the log of group g cannot be replayed"):
        await Coordinator.open(settings_for(tmp_path))
