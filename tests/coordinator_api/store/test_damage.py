"""What the store notices of what others do to its file, each on a real one."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from coordinator_api.store.repository import GroupLog, Repository
from coordinator_api.store.store_errors import ConcurrentWriter, DamagedLog, DatabaseReplaced, StoreBusy, StoreError
from tests.coordinator_api.store.databases import execute, lose_the_page_of, open_repository

FILE = "store.sqlite3"


@pytest.fixture
async def repository(tmp_path: Path) -> AsyncIterator[Repository]:
    async with open_repository(tmp_path) as opened:
        await opened.append("damaged", 0, ["1", "2", "3"], epoch=0)
        await opened.append("other", 0, ["1"], epoch=0)
        yield opened


@pytest.mark.parametrize(
    "sql, problem",
    [
        ("UPDATE group_records SET body = '9' WHERE sequence = 2", "record 2 has been changed"),
        ("UPDATE group_records SET body = '' WHERE sequence = 3", "record 3 has been changed"),
        (
            "UPDATE group_records SET body = CAST(x'7bff7d' AS TEXT) WHERE sequence = 2",
            "record 2 has been changed: it is no text in UTF-8",
        ),
        (
            "UPDATE group_records SET checksum = CAST(x'ff' AS TEXT) WHERE sequence = 2",
            "record 2 cannot be read: Could not decode to UTF-8 column",
        ),
        ("DELETE FROM group_records WHERE sequence = 2", "record 2 is missing"),
        ("DELETE FROM group_records WHERE sequence = 3", "its last record is 2, and 3 is expected"),
        ("DELETE FROM group_records WHERE group_id = 'damaged'", "its last record is 0, and 3 is expected"),
        ("UPDATE group_records SET sequence = sequence + 10 WHERE group_id = 'damaged'", "record 11 has been changed"),
    ],
)
async def test_should_name_the_damaged_record(repository: Repository, tmp_path: Path, sql: str, problem: str) -> None:
    execute(tmp_path / FILE, sql)

    with pytest.raises(DamagedLog) as raised:
        await repository.load_group("damaged")

    assert str(raised.value).startswith(f"the log of group damaged is damaged: {problem}")
    assert await repository.load_group("other") == GroupLog("other", 1, ("1",))


async def test_should_note_which_record_ends_each_commit(repository: Repository) -> None:
    await repository.append("damaged", 3, ["4", "5"], epoch=0)

    stored = await repository.stored_log("damaged")

    assert [(each.body, each.ends_commit) for each in stored.records] == [
        *(("1", False), ("2", False), ("3", True)),
        *(("4", False), ("5", True)),
    ]
    await repository.replace("damaged", 5, ["a", "b"], epoch=0)
    assert [each.ends_commit for each in (await repository.stored_log("damaged")).records] == [False, True]


async def written_before_the_damage(directory: Path) -> None:
    """The page of record 3 of one group is lost. Both groups have later records on other pages."""
    long = "x" * 3_000
    async with open_repository(directory) as repository:
        for number in range(5):
            await repository.append("damaged", number, [f"{number + 1}{long}"], epoch=0)
        await repository.append("other", 0, [long, long, "last"], epoch=0)
    lose_the_page_of(directory / FILE, b"3xxxxxxxx")


async def test_should_read_all_other_rows_when_a_page_of_the_file_is_damaged(tmp_path: Path) -> None:
    await written_before_the_damage(tmp_path)
    async with open_repository(tmp_path) as repository:
        with pytest.raises(DamagedLog, match=r"record 3 cannot be read: database disk image is malformed$"):
            await repository.load_group("damaged")
        stored = await repository.stored_log("damaged")

        assert [(each.sequence, each.body is None) for each in stored.records] == [
            *((1, False), (2, False), (3, True)),
            *((4, False), (5, False)),
        ]
        assert (await repository.load_group("other")).records[-1] == "last"


async def test_should_begin_a_new_log_although_old_records_cannot_be_deleted(tmp_path: Path) -> None:
    await written_before_the_damage(tmp_path)
    async with open_repository(tmp_path) as repository:
        last, _ = await repository.renew("damaged", 5, ["new", "log"], epoch=0)
        last, _ = await repository.append("damaged", last, ["next"], epoch=0)
        assert await repository.load_group("damaged") == GroupLog("damaged", last, ("new", "log", "next"))

    async with open_repository(tmp_path) as repository:
        assert (await repository.replace("damaged", last, ["short"], epoch=0)).sequence == last + 1
        assert (await repository.load_group("damaged")).records == ("short",)
        with pytest.raises(ConcurrentWriter):
            await repository.renew("damaged", 5, ["intruder"], epoch=0)


async def test_should_shorten_a_log_although_old_records_cannot_be_deleted(tmp_path: Path) -> None:
    await written_before_the_damage(tmp_path)
    async with open_repository(tmp_path) as repository:
        last, _ = await repository.replace("damaged", 5, ["snapshot"], epoch=0)
        assert await repository.load_group("damaged") == GroupLog("damaged", last, ("snapshot",))


async def test_should_delete_a_group_although_old_records_cannot_be_deleted(tmp_path: Path) -> None:
    await written_before_the_damage(tmp_path)
    async with open_repository(tmp_path) as repository:
        await repository.delete("damaged", 5, epoch=0)
        left = await repository.stored_log("damaged")
        assert left.is_empty
        assert await repository.load_group("damaged") == GroupLog("damaged", left.sequence, ())
        assert (await repository.append("damaged", left.sequence, ["anew"], epoch=0)).sequence == left.sequence + 1

    async with open_repository(tmp_path) as repository:
        assert (await repository.load_group("damaged")).records == ("anew",)


async def test_should_leave_nothing_of_an_old_log_that_can_be_deleted(repository: Repository, tmp_path: Path) -> None:
    execute(tmp_path / FILE, "UPDATE group_records SET body = '9' WHERE sequence = 2")
    await repository.renew("damaged", 3, ["new"], epoch=0)

    left = execute(tmp_path / FILE, "SELECT count(*) FROM group_records WHERE group_id = 'damaged'")
    assert left == [(1,)]
    await repository.delete("damaged", (await repository.load_group("damaged")).sequence, epoch=0)
    assert list(await repository.stored_bytes()) == ["other"]


def delete(file: Path) -> None:
    file.unlink()


def replace_by_a_copy(file: Path) -> None:
    shutil.copy(file, file.with_suffix(".copy"))
    os.replace(file.with_suffix(".copy"), file)


@pytest.mark.parametrize("name", [FILE, f"{FILE}-wal"])
@pytest.mark.parametrize("do, what", [(delete, "deleted"), (replace_by_a_copy, "replaced by another one")])
async def test_should_answer_nothing_that_went_into_a_file_that_is_gone(
    repository: Repository, tmp_path: Path, name: str, do: Callable[[Path], None], what: str
) -> None:
    do(tmp_path / name)

    for call in (repository.append("other", 1, ["2"], epoch=0), repository.check(), repository.load_group("other")):
        with pytest.raises(DatabaseReplaced, match=rf"the file \S+/{name} was {what} while the coordinator"):
            await call


async def test_should_go_on_when_the_file_is_put_back(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / FILE).rename(tmp_path / "elsewhere")
    with pytest.raises(DatabaseReplaced):
        await repository.check()
    (tmp_path / "elsewhere").rename(tmp_path / FILE)

    await repository.check()


async def test_should_hold_up_one_write_only_while_the_file_is_locked(repository: Repository, tmp_path: Path) -> None:
    other_program = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other_program.execute("BEGIN IMMEDIATE")
    writes = [asyncio.ensure_future(repository.append(f"group-{number}", 0, ["1"], epoch=0)) for number in range(10)]
    waits, *refused = writes
    refusals = await asyncio.gather(*refused, return_exceptions=True)

    assert [type(each) for each in refusals] == [StoreBusy] * 9
    assert not waits.done()
    assert await repository.load_group("other") == GroupLog("other", 1, ("1",)), "reads go on"
    other_program.execute("ROLLBACK")
    assert (await waits).sequence == 1
    other_program.close()


async def test_should_write_and_read_when_it_is_asked_whether_it_can(repository: Repository, tmp_path: Path) -> None:
    await repository.check()
    await repository.check()
    execute(
        tmp_path / FILE,
        "CREATE TRIGGER full BEFORE UPDATE ON store_checks BEGIN SELECT RAISE(FAIL, 'disk is full'); END",
    )

    with pytest.raises(StoreError, match="cannot be written: disk is full"):
        await repository.check()
