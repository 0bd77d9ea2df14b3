"""A database that had groups in it is never taken for a new one, and a file that is refused is left as it is."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from coordinator_api.settings import Settings
from coordinator_api.store.opening import migrate, open_store
from coordinator_api.store.store_errors import DatabaseOutOfReach, UnusableDatabase
from tests.coordinator_api.store.databases import execute, settings_for

FILE = "store.sqlite3"


async def store_a_group(directory: Path) -> None:
    async with open_store(settings_for(directory)) as opened:
        await opened.repository.append("g", 0, ["1"], epoch=0)


def delete(directory: Path) -> None:
    (directory / FILE).unlink()


def empty(directory: Path) -> None:
    (directory / FILE).write_bytes(b"")


def replace_by_a_new_one(directory: Path) -> None:
    delete(directory)
    execute(directory / FILE, "PRAGMA journal_mode=WAL")


def cut_in_half(directory: Path) -> None:
    content = (directory / FILE).read_bytes()
    (directory / FILE).write_bytes(content[: len(content) // 2])


def leave_its_newest_writes_only(directory: Path) -> None:
    empty(directory)
    (directory / f"{FILE}-wal").write_bytes(b"writes")


@pytest.mark.parametrize(
    "do, said",
    [
        (delete, "is missing, but a coordinator has stored groups in it before. Put it back, or restore a backup"),
        (empty, "is empty, but a coordinator has stored groups in it before"),
        (replace_by_a_new_one, "has no tables, but a coordinator has stored groups in it before"),
        (cut_in_half, "was cut short: it has "),
        (leave_its_newest_writes_only, f"is empty, and {FILE}-wal beside it has writes that belong to it"),
    ],
)
async def test_should_not_begin_anew_over_stored_groups(tmp_path: Path, do: Callable[[Path], None], said: str) -> None:
    await store_a_group(tmp_path)
    do(tmp_path)

    for _ in range(2):  # the first refusal leaves everything as it is
        with pytest.raises(UnusableDatabase) as raised:
            await migrate(settings_for(tmp_path))
        assert str(raised.value).startswith(f"database.url: {tmp_path / FILE} {said}")


async def test_should_begin_anew_when_the_note_beside_the_database_is_deleted_too(tmp_path: Path) -> None:
    await store_a_group(tmp_path)
    delete(tmp_path)
    (tmp_path / f"{FILE}.lock").unlink()

    async with open_store(settings_for(tmp_path)) as opened:
        assert opened.schema_before is None


async def test_should_take_an_empty_file_that_was_never_used(tmp_path: Path) -> None:
    empty(tmp_path)
    (tmp_path / f"{FILE}.lock").write_text("4711")  # the process that wanted to use it has died

    await store_a_group(tmp_path)

    async with open_store(settings_for(tmp_path)) as opened:
        assert list(await opened.repository.stored_bytes()) == ["g"]


def text(file: Path) -> None:
    file.write_text("no database, but long enough for the header of one " * 3)


def database_of(*statements: str) -> Callable[[Path], object]:
    return lambda file: execute(file, *statements)


VERSION_TABLE = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"


@pytest.mark.parametrize(
    "create, said",
    [
        (text, "is not an SQLite database, and is left as it is"),
        (database_of("CREATE TABLE groups (name TEXT)"), "has a table groups and no schema version"),
        (database_of(VERSION_TABLE, "INSERT INTO alembic_version VALUES ('0004')"), "has schema version 0004, from"),
        (database_of(VERSION_TABLE, "INSERT INTO alembic_version VALUES ('f00')"), "has schema version f00, which"),
        (
            database_of("PRAGMA journal_mode=WAL", VERSION_TABLE, "INSERT INTO alembic_version VALUES ('0004')"),
            "has schema version 0004, from",
        ),
    ],
)
async def test_should_leave_a_refused_file_as_it_is(
    tmp_path: Path, create: Callable[[Path], object], said: str
) -> None:
    create(tmp_path / FILE)
    before = (tmp_path / FILE).read_bytes()

    for open_it in (migrate, opened_and_closed):
        with pytest.raises(UnusableDatabase, match=said):
            await open_it(settings_for(tmp_path))

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {FILE: before}


async def test_should_wait_for_a_locked_file_no_longer_than_for_a_write(tmp_path: Path) -> None:
    async with open_store(settings_for(tmp_path)):
        pass
    settings = settings_for(tmp_path).model_copy(update={"sqlite_busy_timeout_ms": 50})
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        async with asyncio.timeout(5):
            with pytest.raises(DatabaseOutOfReach, match="database is locked"):
                await opened_and_closed(settings)


async def opened_and_closed(settings: Settings) -> None:
    async with open_store(settings):
        pass
