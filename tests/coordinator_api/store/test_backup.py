"""Backups of real SQLite files: one moment beside a writer, whole or not at all, and what a restore refuses."""

import base64
import gzip
import hashlib
import json
import os
import resource
import signal
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import AssignorFault, InputError
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import DefinitionChanged, GroupRestored
from coordinator_api.group.snapshot import LOST_GENERATIONS
from coordinator_api.group.states import GroupState
from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.backup import Done, back_up, restore
from coordinator_api.store.opening import migrate, open_store
from coordinator_api.store.repository import Recording
from coordinator_api.store.store_errors import StoreError, StoreInUse
from coordinator_api.store.stored_logs import checksum, planned_repair
from tests.coordinator_api.service_process import clean_environment
from tests.coordinator_api.store.databases import execute, lose_the_page_of, settings_for
from tests.waiting import wait_until
from tests.warm_program import WarmProgram

DEFINED = encode_record(DefinitionChanged(1, "{}"))
AT_SEVEN = encode_record(GroupRestored(GroupState.EMPTY, 7, False, None, 1))
SOON_S = 60.0


def silent(_done: int, _total: int) -> None:
    pass


def new_place(directory: Path, name: str) -> Settings:
    (directory / name).mkdir(exist_ok=True)
    return settings_for(directory / name)


async def backed_up(
    settings: Settings, file: Path, progress: Callable[[int, int], None] = silent, replace: bool = False
) -> Done:
    done, _ = await back_up(settings, file, replace=replace, progress=progress)
    return done


async def restored(settings: Settings, file: Path, keep_members: bool = True) -> Done:
    return await restore(settings, file, keep_members=keep_members, progress=silent)


def file_of(settings: Settings) -> Path:
    return Path(settings.database_url.removeprefix("sqlite:///"))


def rows(settings: Settings, table: str) -> list[Any]:
    return execute(file_of(settings), f"SELECT * FROM {table} ORDER BY 1, 2")


async def fill(settings: Settings) -> None:
    async with open_store(settings) as opened:
        log = opened.repository
        await log.append("one", 0, [DEFINED, AT_SEVEN], epoch=0)
        await log.append(
            "one", 2, ["".join(AT_SEVEN)], Recording(7, 1, '{"generation_id":7}', b"\x00\xff packed"), epoch=0
        )
        await log.append("two", 0, [DEFINED], epoch=0)
    execute(file_of(settings), "INSERT INTO tokens VALUES ('me', 'admin', '', 'd1', 1, 'cli', NULL)")


@pytest.fixture
async def source(tmp_path: Path) -> Settings:
    settings = new_place(tmp_path, "source")
    await fill(settings)
    return settings


async def test_should_restore_every_row_as_it_was(source: Settings, tmp_path: Path) -> None:
    done = await backed_up(source, tmp_path / "b")
    target = new_place(tmp_path, "target")
    told = await restored(target, tmp_path / "b")

    assert done.header.counts == {"groups": 2, "group_records": 4, "rebalances": 1, "tokens": 1}
    assert (done.damaged, told.damaged, told.header) == ({}, {}, done.header)
    for table in ("group_records", "rebalances", "tokens"):
        assert rows(target, table) == rows(source, table)
    assert [row[:2] for row in rows(target, "groups")] == [("one", 3), ("two", 1)]
    sizes = {
        group: sum(len(row[2]) for row in rows(target, "group_records") if row[0] == group) for group in ("one", "two")
    }
    assert [row[2] for row in rows(target, "groups")] == [sizes["one"] + len(b"\x00\xff packed"), sizes["two"]]


async def test_should_raise_generations_unless_nothing_happened_afterwards(source: Settings, tmp_path: Path) -> None:
    await backed_up(source, tmp_path / "b")
    target = new_place(tmp_path, "target")
    await restored(target, tmp_path / "b", keep_members=False)

    async with open_store(target) as opened:
        log = await opened.repository.load_group("one")
        records = [decode_record(record) for record in log.records]
        assert GroupRestored(GroupState.EMPTY, 7 + LOST_GENERATIONS, False, None, 1) in records
        assert (await opened.repository.append("one", log.sequence, [AT_SEVEN], epoch=0)).sequence == log.sequence + 1
        assert await opened.repository.rebalance("one", 7) == b"\x00\xff packed"


async def test_should_keep_the_history_below_a_much_higher_generation(source: Settings, tmp_path: Path) -> None:
    await backed_up(source, tmp_path / "b")
    target = new_place(tmp_path, "target")
    await restored(target, tmp_path / "b", keep_members=False)

    changed = target.model_copy(update={"rebalances_retained_count": 2})
    async with open_store(changed) as opened:
        log = opened.repository
        for number in (1, 2):
            sequence = (await log.load_group("one")).sequence
            generation_id = 7 + LOST_GENERATIONS + number
            summary = json.dumps({"generation_id": generation_id})
            await log.append("one", sequence, [AT_SEVEN], Recording(generation_id, 1, summary, b""), epoch=0)
            kept = [each["generation_id"] for each in await log.list_rebalances("one", None, 10)]
            assert kept == [7 + LOST_GENERATIONS + number, 7 + LOST_GENERATIONS + number - 1 if number == 2 else 7]


async def test_should_have_one_moment_and_keep_no_writer_waiting(source: Settings, tmp_path: Path) -> None:
    """At each row that is read, a writer that waits for nothing adds a group and commits."""
    written = []

    def write(done: int, _total: int) -> None:
        with closing(sqlite3.connect(file_of(source), timeout=0)) as writer, writer:
            writer.execute("INSERT INTO groups (group_id, sequence) VALUES (?, 0)", (f"later-{done}",))
            writer.execute("DELETE FROM group_records WHERE group_id = 'two'")
        written.append(done)

    await backed_up(source, tmp_path / "b", write)
    target = new_place(tmp_path, "target")
    await restored(target, tmp_path / "b")

    assert len(written) == 8
    assert [row[0] for row in rows(target, "groups")] == ["one", "two"]
    assert len(rows(target, "group_records")) == 4


# --- the file


async def test_should_write_a_file_for_its_owner_and_leave_nothing_beside_it(source: Settings, tmp_path: Path) -> None:
    _, sha256 = await back_up(source, tmp_path / "b", replace=False, progress=silent)

    lines = gzip.decompress((tmp_path / "b").read_bytes()).splitlines(keepends=True)
    assert json.loads(lines[-1])["sha256"] == sha256 == hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b", "source"]
    assert source.database_url not in lines[0].decode()


async def test_should_replace_a_file_only_when_told_so_and_never_the_database(source: Settings, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("older")
    with pytest.raises(InputError, match="is there already: name another file, or replace it by --force"):
        await backed_up(source, tmp_path / "b")
    assert (tmp_path / "b").read_text() == "older"
    await backed_up(source, tmp_path / "b", replace=True)
    assert (tmp_path / "b").read_bytes().startswith(b"\x1f\x8b")

    with pytest.raises(InputError, match="is the database itself"):
        await backed_up(source, file_of(source), replace=True)
    with pytest.raises(InputError, match="is a directory"):
        await backed_up(source, tmp_path)
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        await backed_up(source, tmp_path / "nowhere" / "b")


@contextmanager
def disk_is_full(bytes: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def fill_much(settings: Settings, megabytes: int) -> None:
    """With what does not compress."""
    await migrate(settings)
    with closing(sqlite3.connect(file_of(settings))) as database, database:
        for group in range(megabytes):
            database.execute("INSERT INTO groups (group_id, sequence) VALUES (?, 16)", (f"g{group}",))
            bodies = [(n, base64.b64encode(os.urandom(49_152)).decode()) for n in range(1, 17)]
            log = [(f"g{group}", n, body, checksum(f"g{group}", n, body), True) for n, body in bodies]
            database.executemany("INSERT INTO group_records VALUES (?, ?, ?, ?, ?)", log)


async def test_should_leave_no_file_when_the_disk_is_full(tmp_path: Path) -> None:
    source = new_place(tmp_path, "source")
    await fill_much(source, 2)
    (tmp_path / "b").write_text("older")

    with disk_is_full(65_536), pytest.raises(InputError, match=r"b: cannot be written: File too large"):
        await backed_up(source, tmp_path / "b", replace=True)

    assert (tmp_path / "b").read_text() == "older"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b", "source"]


async def test_should_leave_the_target_empty_when_its_disk_is_full(tmp_path: Path) -> None:
    source, target = new_place(tmp_path, "source"), new_place(tmp_path, "target")
    await fill_much(source, 4)
    await backed_up(source, tmp_path / "b")

    with disk_is_full(262_144), pytest.raises(StoreError, match="cannot be written: "):
        await restored(target, tmp_path / "b")

    assert (await restored(target, tmp_path / "b")).damaged == {}
    assert rows(target, "group_records") == rows(source, "group_records")


def program(directory: Path, *arguments: str) -> WarmProgram:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        return WarmProgram(arguments, cwd=directory, environment=clean_environment(), stdout=nowhere, stderr=nowhere)
    finally:
        os.close(nowhere)


def kill_once(running: WarmProgram, condition: Callable[[], bool]) -> None:
    wait_until(condition, "a moment to kill it", every_s=0.001, alive=lambda: running.poll() is None)
    running.kill()
    assert running.wait(SOON_S) == -signal.SIGKILL


@pytest.mark.long
async def test_should_leave_nothing_half_done_when_it_is_killed(tmp_path: Path) -> None:
    source, target = new_place(tmp_path, "source"), new_place(tmp_path, "target")
    await fill_much(source, 24)

    writing = program(tmp_path, "backup", "b", "--database-url", source.database_url)
    kill_once(writing, lambda: any(each.stat().st_size for each in tmp_path.glob(".b.*.part")))
    assert not (tmp_path / "b").exists()

    await backed_up(source, tmp_path / "b")
    restoring = program(tmp_path, "restore", "b", "--exact", "--database-url", target.database_url)
    log = tmp_path / "target" / "store.sqlite3-wal"
    kill_once(restoring, lambda: log.exists() and log.stat().st_size > 1_000_000)

    await restored(target, tmp_path / "b")
    assert rows(target, "group_records") == rows(source, "group_records")


# --- what a restore refuses


def changed(lines: list[bytes], number: int, old: bytes, new: bytes) -> list[bytes]:
    assert old in lines[number]
    return [*lines[:number], lines[number].replace(old, new), *(lines[number + 1 :] if number != -1 else ())]


def signed(lines: list[bytes], counts: dict[str, int] | None = None) -> list[bytes]:
    """With a last line that fits."""
    end = json.loads(lines[-1])
    end["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    return [*lines[:-1], json.dumps({**end, "counts": counts or end["counts"]}).encode() + b"\n"]


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda lines: lines[:-1], "is cut off: its last line is missing"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], "is cut off: its last line is missing"),
        (lambda lines: lines[:3] + lines[4:], "is damaged: its lines have been changed"),
        (lambda lines: changed(lines, 1, b'"one"', b'"oen"'), "is damaged: its lines have been changed"),
        (lambda lines: [*lines, b"more\n"], "there is more after its last line"),
        (lambda lines: signed([*lines[:1], *lines[2:]]), "does not have as many rows as it says"),
        (lambda lines: changed(lines, 0, b"backup/1", b"backup/2"), "its format is 'assignor-backup/2'"),
        (
            lambda lines: signed(changed(lines, 0, schema.VERSION.encode(), b"9999")),
            "has schema version 9999, which this release does not know",
        ),
        (
            lambda lines: signed(changed(lines, 0, schema.VERSION.encode(), b"0004")),
            "has schema version 0004, from before the names of stored records were fixed",
        ),
        (lambda lines: signed(changed(lines, 1, b'"sequence"', b'"other"')), "line 2 has not the columns of the table"),
        (lambda lines: signed(changed(lines, 1, b'"groups"', b'"store"')), "line 2 is a row of 'store'"),
        (lambda lines: [b"[]\n"], "is no backup, or damaged: line 1 is not a JSON object"),
        (lambda lines: [], "is cut off: its last line is missing"),
    ],
)
async def test_should_restore_nothing_of_a_file_that_is_not_as_it_was_written(
    source: Settings, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], said: str
) -> None:
    await backed_up(source, tmp_path / "b")
    lines = gzip.decompress((tmp_path / "b").read_bytes()).splitlines(keepends=True)
    (tmp_path / "b").write_bytes(gzip.compress(b"".join(change(lines))))

    with pytest.raises(InputError) as raised:
        await restored(new_place(tmp_path, "target"), tmp_path / "b")

    assert str(raised.value).startswith(f"{tmp_path / 'b'}: ")
    assert said in str(raised.value)
    assert list((tmp_path / "target").iterdir()) == []


def unpacked(packed: bytes) -> bytes | None:
    """None for what cannot be unpacked."""
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error):
        return None


async def test_should_notice_each_flipped_byte_and_each_cut(source: Settings, tmp_path: Path) -> None:
    await backed_up(source, tmp_path / "b")
    whole = (tmp_path / "b").read_bytes()
    target = new_place(tmp_path, "target")
    head = 10  # of gzip: the time, the level and the system, which nobody reads
    for place in range(head, len(whole), 7):
        flipped = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        for damaged in (flipped, whole[:place]):
            if unpacked(damaged) == unpacked(whole):
                continue  # a bit that fills the last byte of the stream up, or of a name that nobody reads
            (tmp_path / "b").write_bytes(damaged)
            with pytest.raises(InputError, match=r"damaged|cut off|format|release"):
                await restored(target, tmp_path / "b")
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"\x1f\x8b"])
async def test_should_refuse_a_file_that_is_no_backup(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b").write_bytes(content)
    with pytest.raises(InputError, match=r"is no backup, or damaged|is cut off"):
        await restored(new_place(tmp_path, "target"), tmp_path / "b")


async def test_should_refuse_a_target_that_has_something_or_is_in_use(source: Settings, tmp_path: Path) -> None:
    await backed_up(source, tmp_path / "b")
    target = new_place(tmp_path, "target")
    async with open_store(target) as opened:
        with pytest.raises(StoreInUse, match="is in use by another coordinator"):
            await restored(target, tmp_path / "b")
        await opened.repository.check()

    await restored(target, tmp_path / "b")  # an empty one that a coordinator has used
    for full in (target, source):
        before = rows(full, "group_records")
        with pytest.raises(InputError, match="is not empty, it has groups"):
            await restored(full, tmp_path / "b")
        assert rows(full, "group_records") == before


async def test_should_refuse_to_back_up_what_is_no_database_of_a_coordinator(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        await backed_up(new_place(tmp_path, "nothing"), tmp_path / "b")
    sqlite3.connect(tmp_path / "nothing" / "store.sqlite3").close()
    with pytest.raises(InputError, match="is not a coordinator's database"):
        await backed_up(new_place(tmp_path, "nothing"), tmp_path / "b")
    newer = new_place(tmp_path, "newer")
    await migrate(newer)
    execute(file_of(newer), "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(InputError, match="has schema version 9999, which this release does not know"):
        await backed_up(newer, tmp_path / "b")
    assert not (tmp_path / "b").exists()


# --- damage, and earlier releases


@pytest.mark.parametrize("keep_members", [True, False])
async def test_should_keep_groups_beside_a_damaged_one(source: Settings, tmp_path: Path, keep_members: bool) -> None:
    change = "UPDATE group_records SET body = 'x' WHERE group_id = 'one' AND sequence = 2"
    execute(file_of(source), change, "INSERT INTO groups (group_id, sequence) VALUES ('gone', 3)")

    done = await backed_up(source, tmp_path / "b")
    target = new_place(tmp_path, "target")
    told = await restored(target, tmp_path / "b", keep_members)

    assert told.damaged == done.damaged
    assert {name: problem.partition(": ")[2] for name, problem in done.damaged.items()} == {
        "gone": "its last record is 0, and 3 is expected",
        "one": "record 2 has been changed: its checksum does not fit",
    }
    of_one = [row for row in rows(source, "group_records") if row[0] == "one"]
    assert [row for row in rows(target, "group_records") if row[0] == "one"] == of_one
    async with open_store(target) as opened:
        assert DEFINED in (await opened.repository.load_group("two")).records


@pytest.mark.parametrize("keep_members", [True, False])
@pytest.mark.parametrize("kind", ["no text", "a lost page"])
async def test_should_not_lose_the_other_groups_with_one_that_the_database_cannot_read(
    source: Settings, tmp_path: Path, kind: str, keep_members: bool
) -> None:
    """The damaged group stays damaged, and can be repaired where it is restored."""
    file = tmp_path / "source" / "store.sqlite3"
    async with open_store(source) as opened:
        await opened.repository.append("one", 3, ["x" * 40_000], epoch=0)  # its pages have nothing else
    if kind == "no text":
        execute(file, "UPDATE group_records SET body = CAST(x'7bfffe7d' AS TEXT) WHERE sequence = 4")
    if kind == "a lost page":
        lose_the_page_of(file, b"x" * 4_000)

    done = await backed_up(source, tmp_path / "b")
    target = new_place(tmp_path, "target")
    told = await restored(target, tmp_path / "b", keep_members)

    assert list(done.damaged) == list(told.damaged) == ["one"]
    async with open_store(target) as opened:
        assert DEFINED in (await opened.repository.load_group("two")).records
        log = await opened.repository.stored_log("one")
        assert [record.sequence for record in log.records] == [1, 2, 3, 4]
        plan = planned_repair(log, GroupLimits(), 1)
        assert (plan.kept_records, plan.kept_generation) == (3, 7)
        assert plan.generation_id > 7 + LOST_GENERATIONS, "after the backup, it had generations nobody knows of"


async def test_should_restore_where_only_the_newest_writes_and_lock_were_left(source: Settings, tmp_path: Path) -> None:
    await backed_up(source, tmp_path / "b")
    file = tmp_path / "source" / "store.sqlite3"
    with closing(sqlite3.connect(file)) as database:
        database.execute("INSERT INTO groups (group_id, sequence) VALUES ('newer', 0)")
        database.commit()
        left = {name: file.with_name(name).read_bytes() for name in ("store.sqlite3-wal", "store.sqlite3-shm")}
    file.unlink()
    for name, content in left.items():
        assert content
        file.with_name(name).write_bytes(content)
    with pytest.raises(StoreError, match=r"beside it has writes .* delete store\.sqlite3-wal and store\.sqlite3\.lock"):
        await migrate(source)

    await restored(source, tmp_path / "b")

    assert file.stat().st_mode & 0o777 == 0o600
    async with open_store(source) as opened:
        assert list(await opened.repository.stored_bytes()) == ["one", "two"]


async def test_should_never_take_a_restored_database_for_a_new_one(source: Settings, tmp_path: Path) -> None:
    """It is lost again before a coordinator has used it."""
    await backed_up(source, tmp_path / "b")
    target = new_place(tmp_path, "target")
    await restored(target, tmp_path / "b")
    (tmp_path / "target" / "store.sqlite3").unlink()

    with pytest.raises(StoreError, match="is missing, but a coordinator has stored groups in it before"):
        await migrate(target)


async def test_should_restore_a_log_that_does_not_replay_as_it_is_and_name_it(tmp_path: Path) -> None:
    source, target = new_place(tmp_path, "source"), new_place(tmp_path, "target")
    async with open_store(source) as opened:
        await opened.repository.append("strange", 0, ["{}"], epoch=0)
    await backed_up(source, tmp_path / "b")

    told = await restored(target, tmp_path / "b", keep_members=False)

    assert told.damaged["strange"].startswith("the log of group strange does not replay: ")
    assert rows(target, "group_records") == rows(source, "group_records")


async def test_should_raise_only_errors_of_the_project(tmp_path: Path) -> None:
    """A row that no database takes: the file was made by somebody else."""
    source, target = new_place(tmp_path, "source"), new_place(tmp_path, "target")
    await fill(source)
    await backed_up(source, tmp_path / "b")
    lines = gzip.decompress((tmp_path / "b").read_bytes()).splitlines(keepends=True)
    twice = signed(changed(lines, 2, b'"two"', b'"one"'))
    (tmp_path / "b").write_bytes(gzip.compress(b"".join(twice)))

    with pytest.raises(AssignorFault, match="cannot be written: UNIQUE constraint failed"):
        await restored(target, tmp_path / "b")
