"""The store: appended once, refused to a second writer, shortened without loss, bounded in its recordings."""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator_api.store.errors import ConcurrentWriter, StoreError
from coordinator_api.store.repository import GroupLog, Recording, RecordingNote, Written
from coordinator_api.store.sql_repository import SqlRepository
from tests.coordinator_api.store.databases import open_repository


@pytest.fixture
async def repository(tmp_path: Path) -> AsyncIterator[SqlRepository]:
    async with open_repository(tmp_path) as opened:
        yield opened


async def loaded(repository: SqlRepository) -> list[GroupLog]:
    return [await repository.load_group(group_id) for group_id in await repository.group_ids()]


def recording(generation_id: int) -> Recording:
    return Recording(
        generation_id, generation_id, f'{{"generation_id":{generation_id}}}', gzip.compress(b"{}", mtime=0)
    )


async def test_should_give_back_what_was_appended_in_order(repository: SqlRepository, tmp_path: Path) -> None:
    sequence, _ = await repository.append("b", 0, ['{"type":"first"}', '{"type":"second"}'])
    await repository.append("b", sequence, ['{"type":"third"}'])
    await repository.append("a", 0, ["{}"])

    expected = [
        GroupLog("a", 1, ("{}",)),
        GroupLog("b", 3, ('{"type":"first"}', '{"type":"second"}', '{"type":"third"}')),
    ]
    assert await loaded(repository) == expected
    async with open_repository(tmp_path) as opened_anew:
        assert await loaded(opened_anew) == expected


@pytest.mark.parametrize("expected", [0, 1, 3])
async def test_should_refuse_a_writer_that_is_out_of_date_and_write_nothing(
    repository: SqlRepository, expected: int
) -> None:
    await repository.append("g", 0, ["1", "2"])
    for write in (repository.append, repository.replace):
        with pytest.raises(ConcurrentWriter):
            await write("g", expected, ["intruder"])
    if expected:
        with pytest.raises(ConcurrentWriter):
            await repository.delete("g", expected)

    assert await repository.load_group("g") == GroupLog("g", 2, ("1", "2"))


async def test_should_let_one_of_two_concurrent_writers_through(repository: SqlRepository) -> None:
    await repository.append("g", 0, ["1"])
    both = await asyncio.gather(
        repository.append("g", 1, ["left"]), repository.append("g", 1, ["right"]), return_exceptions=True
    )

    assert sorted((type(result) for result in both), key=str) == [ConcurrentWriter, Written]
    assert await repository.load_group("g") in (GroupLog("g", 2, ("1", "left")), GroupLog("g", 2, ("1", "right")))


async def test_should_replace_a_log_by_its_snapshot_and_go_on_counting(repository: SqlRepository) -> None:
    sequence, _ = await repository.append("g", 0, ["1", "2", "3"])
    sequence, _ = await repository.replace("g", sequence, ["snapshot"])
    await repository.append("g", sequence, ["4"])

    assert await repository.load_group("g") == GroupLog("g", 5, ("snapshot", "4"))


async def test_should_forget_a_deleted_group_with_its_records_and_rebalances(
    repository: SqlRepository, tmp_path: Path
) -> None:
    await repository.append("g", 0, ["1"], recording(1))
    await repository.delete("g", 1)

    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        for table in ("groups", "group_records", "rebalances"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert await repository.load_group("g") == GroupLog("g", 0, ())


async def test_should_keep_only_the_newest_rebalances(tmp_path: Path) -> None:
    sequence = 0
    async with open_repository(tmp_path, retained_rebalances=2) as repository:
        for generation_id in range(1, 6):
            sequence, _ = await repository.append("g", sequence, ["r"], recording(generation_id))

        assert await repository.list_rebalances("g", None, 10) == [{"generation_id": 5}, {"generation_id": 4}]
        assert (await repository.rebalance("g", 5), await repository.rebalance("g", 3)) == (recording(5).document, None)


async def test_should_write_records_and_recording_together_or_not_at_all(repository: SqlRepository) -> None:
    await repository.append("g", 0, ["1"], recording(1))
    with pytest.raises(StoreError):
        await repository.append("g", 1, ["2"], recording(1))

    assert await repository.load_group("g") == GroupLog("g", 1, ("1",))
    assert await repository.list_rebalances("g", None, 10) == [{"generation_id": 1}]


async def test_should_sync_every_commit_to_disk_by_default(repository: SqlRepository) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    async with repository._engine.connect() as connection:
        pragmas = [(await connection.exec_driver_sql(f"PRAGMA {name}")).scalar() for name in names]

    assert pragmas == ["wal", 2, 1, 5_000]


async def test_should_note_how_the_wait_of_a_recorded_rebalance_ended(repository: SqlRepository) -> None:
    waits = Recording(1, 5, '{"generation_id": 1, "outcome": "held", "hold": {"since_ms": 5, "ended": null}}', b"old")
    _, held_bytes = await repository.append("g", 0, ["1"], waits)
    note = RecordingNote(1, None, {"ended": "discarded", "by": "ada"})
    await repository.append("g", 1, ["2"], notes=[note, RecordingNote(7, "stable", {"ended": "approved"})])
    kept = Recording(1, 6, '{"generation_id": 1, "outcome": "stable"}', b"newer")
    _, kept_bytes = await repository.append("g", 2, ["3"], kept)

    discarded = {"since_ms": 5, "ended": "discarded", "by": "ada"}
    assert await repository.list_rebalances("g", None, 9) == [
        {"generation_id": 1, "outcome": "stable", "hold": discarded}
    ]
    assert await repository.rebalance("g", 1) == b"newer"
    assert (held_bytes, kept_bytes) == (len("1") + len(b"old"), len("123") + len(b"newer"))
