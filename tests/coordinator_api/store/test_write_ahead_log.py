"""Which damage to a real write-ahead log is noticed, and what SQLite does about it without a word."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from coordinator_api.store.sqlite import log_damage
from tests.coordinator_api.store.databases import execute

COMMITS = 6
HEADER, FRAME = 32, 24 + 4_096


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """As `kill -9` leaves it: six commits are in its write-ahead log, the table and five rows."""
    connection = sqlite3.connect(tmp_path / "living", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE rows (body TEXT)")
    for number in range(COMMITS - 1):
        connection.execute("INSERT INTO rows VALUES (?)", (str(number) * 100,))
    for ending in ("", "-wal"):
        shutil.copy(tmp_path / f"living{ending}", tmp_path / f"killed{ending}")
    connection.close()
    return tmp_path / "killed"


def log_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)


def rows(database: Path) -> int:
    try:
        return int(execute(database, "SELECT count(*) FROM rows")[0][0])
    except sqlite3.OperationalError:  # not even the table is there
        return 0


def frames(database: Path) -> int:
    return (log_of(database).stat().st_size - HEADER) // FRAME


def test_should_find_nothing_wrong_with_a_log_that_is_whole(database: Path) -> None:
    assert log_damage(log_of(database)) is None
    assert rows(database) == COMMITS - 1
    assert log_damage(database.with_name("missing")) is None


@pytest.mark.parametrize("place", [0, 100, 4_000, -10], ids=["page", "page", "page", "frame header"])
def test_should_notice_damage_before_the_last_commit_which_sqlite_takes_for_the_end(database: Path, place: int) -> None:
    for number in range(frames(database) - 1):  # the last frame is the last commit
        copy = database.with_name(f"copy-{number}")
        shutil.copy(database, copy)
        shutil.copy(log_of(database), log_of(copy))
        flip(log_of(copy), HEADER + number * FRAME + 24 + place)

        assert log_damage(log_of(copy)) == f"frame {number + 1} of it is damaged, and commits come after that"
        assert rows(copy) < COMMITS - 1, "SQLite says nothing, and what was committed is gone"


def test_should_notice_a_damaged_header(database: Path) -> None:
    for place in range(HEADER):
        flip(log_of(database), place)
        assert log_damage(log_of(database)) == "its header is damaged"
        flip(log_of(database), place)


def test_should_take_a_last_write_that_was_cut_short_for_what_it_is(database: Path) -> None:
    log = log_of(database)
    content = log.read_bytes()
    for cut in (1, FRAME // 2, FRAME - 1, FRAME):
        log.write_bytes(content[:-cut])
        assert log_damage(log) is None
    log.write_bytes(content)
    flip(log, len(content) - 1)
    assert log_damage(log) is None, "nothing tells it from a write that was cut short"


def test_should_not_mind_what_a_write_that_failed_or_an_earlier_use_has_left_behind(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "living", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA cache_size=5")  # so that a transaction is in the log before it is committed
    connection.execute("CREATE TABLE rows (body TEXT)")
    log = tmp_path / "living-wal"
    for _ in range(3):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO rows VALUES (?)", [("x" * 3_000,)] * 50)
        connection.execute("ROLLBACK")
        connection.execute("INSERT INTO rows VALUES ('kept')")
        assert frames(tmp_path / "living") > 10
        assert log_damage(log) is None
    connection.execute("PRAGMA wal_checkpoint(RESTART)")
    connection.execute("INSERT INTO rows VALUES ('in the second use of the file')")
    assert log_damage(log) is None
    connection.close()
