"""The store: appended once, refused to a second writer, shortened without loss, bounded in its recordings."""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from coordinator_api.store.errors import ConcurrentWriter, StoreError
from coordinator_api.store.repository import GroupLog, Recording, Repository
from tests.coordinator_api.store.databases import open_repository

Value = TypeVar("Value")


def run(directory: Path, work: Callable[[Repository], Awaitable[Value]], retained_rebalances: int = 10) -> Value:
    async def opened() -> Value:
        async with open_repository(directory, retained_rebalances) as repository:
            return await work(repository)

    return asyncio.run(opened())


def recording(generation_id: int) -> Recording:
    return Recording(generation_id, generation_id, f'{{"generation_id":{generation_id}}}', gzip.compress(b"{}"))


def test_should_give_back_what_was_appended_in_order(tmp_path: Path) -> None:
    async def work(repository: Repository) -> list[GroupLog]:
        sequence = await repository.append("b", 0, ['{"type":"first"}', '{"type":"second"}'])
        await repository.append("b", sequence, ['{"type":"third"}'])
        await repository.append("a", 0, ["{}"])
        return await repository.load()

    expected = [
        GroupLog("a", 1, ("{}",)),
        GroupLog("b", 3, ('{"type":"first"}', '{"type":"second"}', '{"type":"third"}')),
    ]
    assert run(tmp_path, work) == expected
    assert run(tmp_path, lambda repository: repository.load()) == expected


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_should_refuse_a_writer_that_is_out_of_date_and_write_nothing(tmp_path: Path, expected: int) -> None:
    async def work(repository: Repository) -> GroupLog:
        await repository.append("g", 0, ["1", "2"])
        for write in (repository.append, repository.replace):
            with pytest.raises(ConcurrentWriter):
                await write("g", expected, ["intruder"])
        if expected:
            with pytest.raises(ConcurrentWriter):
                await repository.delete("g", expected)
        return await repository.load_group("g")

    assert run(tmp_path, work) == GroupLog("g", 2, ("1", "2"))


def test_should_let_one_of_two_concurrent_writers_through(tmp_path: Path) -> None:
    async def work(repository: Repository) -> tuple[list[object], GroupLog]:
        await repository.append("g", 0, ["1"])
        both = await asyncio.gather(
            repository.append("g", 1, ["left"]), repository.append("g", 1, ["right"]), return_exceptions=True
        )
        return [type(result) for result in both], await repository.load_group("g")

    kinds, log = run(tmp_path, work)

    assert sorted(kinds, key=str) == [ConcurrentWriter, int]
    assert log in (GroupLog("g", 2, ("1", "left")), GroupLog("g", 2, ("1", "right")))


def test_should_replace_a_log_by_its_snapshot_and_go_on_counting(tmp_path: Path) -> None:
    async def work(repository: Repository) -> GroupLog:
        sequence = await repository.append("g", 0, ["1", "2", "3"])
        sequence = await repository.replace("g", sequence, ["snapshot"])
        await repository.append("g", sequence, ["4"])
        return await repository.load_group("g")

    assert run(tmp_path, work) == GroupLog("g", 5, ("snapshot", "4"))


def test_should_forget_a_deleted_group_with_its_records_and_rebalances(tmp_path: Path) -> None:
    async def work(repository: Repository) -> None:
        await repository.append("g", 0, ["1"], recording(1))
        await repository.delete("g", 1)

    run(tmp_path, work)

    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        for table in ("groups", "group_records", "rebalances"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert run(tmp_path, lambda repository: repository.load_group("g")) == GroupLog("g", 0, ())


def test_should_keep_only_the_newest_rebalances(tmp_path: Path) -> None:
    async def work(repository: Repository) -> tuple[object, object, object]:
        sequence = 0
        for generation_id in range(1, 6):
            sequence = await repository.append("g", sequence, ["r"], recording(generation_id))
        return (
            await repository.list_rebalances("g", None, 10),
            await repository.rebalance("g", 5),
            await repository.rebalance("g", 3),
        )

    assert run(tmp_path, work, retained_rebalances=2) == ([{"generation_id": 5}, {"generation_id": 4}], b"{}", None)


def test_should_write_records_and_recording_together_or_not_at_all(tmp_path: Path) -> None:
    async def work(repository: Repository) -> tuple[GroupLog, object]:
        await repository.append("g", 0, ["1"], recording(1))
        with pytest.raises(StoreError):
            await repository.append("g", 1, ["2"], recording(1))
        return await repository.load_group("g"), await repository.list_rebalances("g", None, 10)

    assert run(tmp_path, work) == (GroupLog("g", 1, ("1",)), [{"generation_id": 1}])


def test_should_sync_every_commit_to_disk_by_default(tmp_path: Path) -> None:
    async def pragmas() -> list[object]:
        async with open_repository(tmp_path) as repository, repository._engine.connect() as connection:
            names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            return [(await connection.exec_driver_sql(f"PRAGMA {name}")).scalar() for name in names]

    assert asyncio.run(pragmas()) == ["wal", 2, 1, 5_000]
