"""Reading the recorded rebalances of a coordinator's database: all of them, in order, and nothing is written."""

import asyncio
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assignor.errors import InputError
from coordinator_api.store import recordings
from coordinator_api.store.recorded_documents import pack_whole_document
from coordinator_api.store.recordings import read
from coordinator_api.store.repository import Recording
from rebalance_analysis.reading.sources import RawLine, SourceKind, find_sources, raw_lines
from tests.checkout import ROOT
from tests.coordinator_api.store.databases import execute, open_repository

FILE = "store.sqlite3"


def recording(generation_id: int, document: bytes | None = None) -> Recording:
    content = gzip.compress(b'{"generation_id": %d}' % generation_id) if document is None else document
    return Recording(generation_id, generation_id * 1_000, "{}", content)


async def write(directory: Path, groups: dict[str, list[Recording]], retained: int = 100) -> None:
    async with open_repository(directory, retained) as repository:
        for group_id, kept in groups.items():
            sequence = 0
            for each in kept:
                sequence, _ = await repository.append(
                    group_id, sequence, [f"record {each.generation_id}"], each, epoch=0
                )


def fill(directory: Path, groups: dict[str, list[Recording]], retained: int = 100) -> None:
    """For tests without an event loop, as most callers of `read` are."""
    asyncio.run(write(directory, groups, retained))


def state_of(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in directory.iterdir() if file.is_file()}


def recordings_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("asyncio-portal")]


def generations(lines: Iterator[RawLine]) -> list[int]:
    return [json.loads(line.content)["generation_id"] for line in lines]


class TestRead:
    def test_should_give_every_rebalance_by_group_and_then_by_generation(self, tmp_path: Path) -> None:
        many = 2 * recordings.PAGE + 1
        fill(
            tmp_path,
            {
                "zebra": [recording(3), recording(20)],
                "a:b": [recording(number) for number in range(1, many + 1)],
                "new": [],
            },
        )
        name = str(tmp_path / FILE)
        expected = [RawLine(f"{name}:a:b:{number}", b'{"generation_id": %d}' % number) for number in range(1, many + 1)]
        expected += [RawLine(f"{name}:zebra:{number}", b'{"generation_id": %d}' % number) for number in (3, 20)]
        assert list(read(name)) == expected
        for url in (f"sqlite:///{name}", f"sqlite+aiosqlite:///{name}"):
            assert [line.content for line in read(url)] == [line.content for line in expected]
        (source,) = find_sources([name])
        assert source.kind is SourceKind.DATABASE
        assert list(raw_lines(source)) == expected

    def test_should_leave_every_file_as_it_is(self, tmp_path: Path) -> None:
        fill(tmp_path, {"one": [recording(1)]})
        before = state_of(tmp_path)
        assert generations(read(str(tmp_path / FILE))) == [1]
        assert state_of(tmp_path) == before

    def test_should_leave_the_log_of_a_killed_coordinator_to_it(self, tmp_path: Path) -> None:
        fill(tmp_path, {"one": [recording(1)]})
        killed = tmp_path / "killed"
        killed.mkdir()
        with closing(sqlite3.connect(tmp_path / FILE)) as other:
            other.execute("DELETE FROM rebalances")
            other.commit()
            for suffix in ("", "-wal"):
                (killed / f"{FILE}{suffix}").write_bytes((tmp_path / f"{FILE}{suffix}").read_bytes())
        before = state_of(killed)
        assert list(read(str(killed / FILE))) == []  # the log counts
        assert {name: state for name, state in state_of(killed).items() if not name.endswith("-shm")} == before

    def test_should_need_no_file_on_a_read_only_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(tmp_path, {"one": [recording(1), recording(2)]})
        before = state_of(tmp_path)
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        lines = read(str(tmp_path / FILE))
        next(lines)
        assert state_of(tmp_path) == before
        assert generations(lines) == [2]

    def test_should_read_a_file_whose_name_has_signs_of_its_own(self, tmp_path: Path) -> None:
        fill(tmp_path, {"one": [recording(1)]})
        odd = tmp_path / "50% of a#b?mode=rwc&c.sqlite3"
        (tmp_path / FILE).rename(odd)
        assert generations(read(str(odd))) == [1]

    def test_should_hold_one_page_at_a_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(tmp_path, {"one": [recording(number) for number in range(1, 6)]})
        monkeypatch.setattr(recordings, "PAGE", 2)
        lines = read(str(tmp_path / FILE))
        assert json.loads(next(lines).content) == {"generation_id": 1}
        execute(tmp_path / FILE, "DELETE FROM rebalances WHERE generation_id IN (2, 4)")
        # 2 was read before it was dropped, 4 was not
        assert generations(lines) == [2, 3, 5]

    def test_should_let_a_damaged_document_through_as_the_unusable_line_it_is(self, tmp_path: Path) -> None:
        cut = gzip.compress(b'{"generation_id": 2}')[:-4]
        fill(tmp_path, {"one": [recording(1), recording(2, cut), recording(3)]})
        assert [line.content for line in read(str(tmp_path / FILE))] == [
            b'{"generation_id": 1}',
            cut,
            b'{"generation_id": 3}',
        ]

    def test_should_read_a_document_whose_shared_bytes_are_stored_once(self, tmp_path: Path) -> None:
        document = {"generation_id": 1, "output": {"assignments": {"m": "AAAA"}}}
        fill(tmp_path, {"one": [recording(1, pack_whole_document(document))]})

        assert [json.loads(line.content) for line in read(str(tmp_path / FILE))] == [document]

    async def test_should_read_inside_of_a_running_event_loop(self, tmp_path: Path) -> None:
        await write(tmp_path, {"one": [recording(1)]})

        assert generations(read(str(tmp_path / FILE))) == [1]

    def test_should_end_its_thread_when_the_reader_stops_early(self, tmp_path: Path) -> None:
        fill(tmp_path, {"one": [recording(1), recording(2)]})
        lines = read(str(tmp_path / FILE))
        next(lines)
        names = {thread.name for thread in recordings_threads()}
        assert len(names) == 1
        lines.close()  # type: ignore[attr-defined]
        assert recordings_threads() == []

    def test_should_not_keep_a_program_from_ending_that_has_not_read_to_the_end(self, tmp_path: Path) -> None:
        fill(tmp_path, {"one": [recording(1), recording(2)]})
        program = (
            f"from coordinator_api.store.recordings import read; lines = read({str(tmp_path / FILE)!r}); next(lines); "
            "raise KeyError(lines)"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
        assert ended.returncode == 1
        assert ended.stderr.rstrip().splitlines()[-1].startswith("KeyError: <generator object read")


class TestRefused:
    @pytest.mark.parametrize("name", ["{}/none.sqlite3", "sqlite:///{}/none.sqlite3"])
    def test_should_not_make_a_database_that_is_not_there(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InputError, match=r"none\.sqlite3: cannot be opened: No such file"):
            next(read(name.format(tmp_path)))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("sqlite://", "names no file: expected sqlite:///file"),
            ("mysql://h/d", "mysql is not supported"),
            ("postgresql://me:secret@127.0.0.1:1/d", "postgresql://me:***@127.0.0.1:1/d: cannot be read: [Errno 111]"),
        ],
    )
    def test_should_say_what_is_wrong_with_a_url(self, name: str, message: str) -> None:
        with pytest.raises(InputError) as refused:
            next(read(name))
        assert message in str(refused.value)
        assert "secret" not in str(refused.value)

    def test_should_name_the_extra_that_has_the_driver(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "asyncpg", None)
        with pytest.raises(InputError, match=r"needs the package asyncpg: pip install 'assignor\[postgres\]'"):
            next(read("postgresql://me:secret@127.0.0.1:1/d"))

    def test_should_refuse_what_is_no_database_or_not_a_coordinators(self, tmp_path: Path) -> None:
        (tmp_path / "broken").write_bytes(b"SQLite format 3\0" + b"\xff" * 4_096)
        execute(tmp_path / "other", "CREATE TABLE rebalances (group_id TEXT)")
        with pytest.raises(InputError, match="broken: cannot be read: file is not a database"):
            next(read(str(tmp_path / "broken")))
        with pytest.raises(InputError, match="other: is not a coordinator's database: it has no schema version"):
            next(read(str(tmp_path / "other")))

    @pytest.mark.parametrize("version", ["0000", "9999"])
    def test_should_refuse_another_schema_and_not_migrate_it(self, tmp_path: Path, version: str) -> None:
        fill(tmp_path, {"one": [recording(1)]})
        marks = (
            f"UPDATE alembic_version SET version_num = '{version}'",
            f"UPDATE schema_support SET oldest = '{version}'",
        )
        execute(tmp_path / FILE, *marks)
        before = state_of(tmp_path)
        with pytest.raises(InputError) as refused:
            next(read(str(tmp_path / FILE)))
        assert f"has schema version {version}, " in str(refused.value)
        assert state_of(tmp_path) == before

    def test_should_refuse_a_database_without_these_tables(self, tmp_path: Path) -> None:
        fill(tmp_path, {})
        execute(tmp_path / FILE, "DROP TABLE rebalances")
        with pytest.raises(InputError, match="cannot be read: no such table: rebalances"):
            next(read(str(tmp_path / FILE)))
