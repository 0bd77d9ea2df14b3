"""Damage to a file that SQLite has in memory, found while the file is in use."""

import asyncio
import errno
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from coordinator_api.store.repository import Repository
from coordinator_api.store.sqlite import FileDamage
from coordinator_api.store.store_errors import DamagedDatabase, StoreError
from tests.coordinator_api.store.databases import execute, open_repository

FILE = "store.sqlite3"
PAGE_BYTES = 4_096


@pytest.fixture
async def repository(tmp_path: Path) -> AsyncIterator[Repository]:
    async with open_repository(tmp_path) as opened:
        await opened.append("g", 0, ["1" * PAGE_BYTES] * 8, epoch=0)
        yield opened


def lose_the_beginning(directory: Path) -> None:
    """Its newest first page is in the write-ahead log."""
    with (directory / FILE).open("r+b") as file:
        file.write(b"no database at all")


def lose_pages(directory: Path) -> None:
    """The last ones, which have the records."""
    execute(directory / FILE, "PRAGMA wal_checkpoint(FULL)")
    with (directory / FILE).open("r+b") as file:
        file.seek(-4 * PAGE_BYTES, os.SEEK_END)
        file.write(b"\xff" * 4 * PAGE_BYTES)


@pytest.mark.parametrize("harm", [lose_the_beginning, lose_pages])
async def test_should_notice_new_damage(repository: Repository, tmp_path: Path, harm: Callable[[Path], None]) -> None:
    async with repository.watched():
        await repository.check()
        harm(tmp_path)
        await seen_as(repository, False)
        with pytest.raises(DamagedDatabase, match=r"store\.sqlite3 was damaged while the coordinator was using it: .+"):
            await repository.check()


async def test_should_be_well_again_when_the_file_is(repository: Repository, tmp_path: Path) -> None:
    async with repository.watched():
        await repository.check()
        whole = (tmp_path / FILE).read_bytes()[:PAGE_BYTES]
        lose_the_beginning(tmp_path)
        await seen_as(repository, False)
        with (tmp_path / FILE).open("r+b") as file:
            file.write(whole)
        await seen_as(repository, True)


async def seen_as(repository: Repository, is_well: bool) -> None:
    """A look is followed by a pause."""
    deadline_s = time.monotonic() + 20
    while await well(repository) is not is_well:
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.01)


async def well(repository: Repository) -> bool:
    try:
        await repository.check()
    except DamagedDatabase:
        return False
    return True


async def test_should_leave_earlier_damage_to_the_groups(repository: Repository, tmp_path: Path) -> None:
    """The groups that it concerns are set aside when the coordinator starts, and the others are led."""
    lose_the_beginning(tmp_path)

    async with repository.watched():
        await repository.check()


async def test_should_look_only_at_what_has_changed_and_keep_the_locks(tmp_path: Path) -> None:
    file = tmp_path / "other.sqlite3"
    used = sqlite3.connect(file, isolation_level=None)
    used.execute("PRAGMA journal_mode=WAL")
    used.execute("CREATE TABLE texts (content TEXT)")
    damage = FileDamage(file)

    async with damage.watched():
        for _ in range(20):
            used.execute("INSERT INTO texts VALUES ('a')")
            used.execute("PRAGMA wal_checkpoint(FULL)")
            await damage.check()
        held = Path("/proc/locks").read_text(encoding="ascii").count(f":{os.stat(file).st_ino} ")
    used.close()

    assert held == 1, "a program that closes a file loses all its locks on it"


async def test_should_say_that_the_file_is_out_of_reach(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    async with repository.watched():
        await repository.check()
        with monkeypatch.context() as patched:
            patched.setattr("coordinator_api.store.sqlite.os.stat", refused)
            with pytest.raises(StoreError, match=r"\(setting database\.url\) is out of reach: .*Permission denied"):
                await repository.check()
            damage = FileDamage(tmp_path / FILE)
            async with damage.watched():
                await damage.check()
        await repository.check()


async def test_should_make_its_row_when_the_database_has_none(repository: Repository, tmp_path: Path) -> None:
    execute(tmp_path / FILE, "DELETE FROM store_checks")

    await repository.check()
    await repository.check()

    assert execute(tmp_path / FILE, "SELECT id, number FROM store_checks") == [(1, 2)]


async def test_should_notice_that_a_table_is_gone(repository: Repository, tmp_path: Path) -> None:
    await repository.check()
    execute(tmp_path / FILE, "DROP TABLE rebalances")

    with pytest.raises(StoreError, match="no such table: rebalances"):
        await repository.check()
