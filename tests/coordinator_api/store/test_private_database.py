"""The database, its lock and what SQLite writes beside it belong to their owner alone, whatever the umask is."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_api.store.opening import open_store
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.store.databases import execute, settings_for


@pytest.fixture(params=(0o000, 0o077), ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


@pytest.mark.usefixtures("umask")
async def test_should_create_every_file_for_its_owner_alone(tmp_path: Path) -> None:
    async with open_store(settings_for(tmp_path)) as opened:
        await opened.repository.append("g", 0, ["{}"], epoch=0)
        found = modes(tmp_path)

    assert found == dict.fromkeys(
        ("store.sqlite3", "store.sqlite3-wal", "store.sqlite3-shm", "store.sqlite3.lock"), 0o600
    )


async def test_should_leave_a_database_as_open_as_it_is_and_close_its_lock(tmp_path: Path) -> None:
    database, lock = tmp_path / "store.sqlite3", tmp_path / "store.sqlite3.lock"
    execute(database, "PRAGMA journal_mode=WAL")
    lock.touch()
    for path in (database, lock):
        path.chmod(0o644)

    async with open_store(settings_for(tmp_path)) as opened:
        await opened.repository.append("g", 0, ["{}"], epoch=0)
        found = modes(tmp_path)

    assert found["store.sqlite3"] == 0o644
    assert found["store.sqlite3.lock"] == 0o600  # whoever may read a lock may hold it


def test_should_warn_at_its_start_and_have_no_socket_that_others_can_call(tmp_path: Path) -> None:
    closed = tmp_path / "store.sqlite3"
    with ServiceProcess(tmp_path, "--database-url", f"sqlite:///{closed}", "--log-format", "json") as service:
        with service.client() as client:
            assert client.get("/readyz").status_code == 200
        named = sockets_with_a_name(service.process.pid)
        service.stop()

    assert named == []
    assert not any("chmod" in line for line in service.log)


def sockets_with_a_name(pid: int) -> list[str]:
    """Sockets of the process that others can connect to: those of the fork server and its workers have no name."""
    inodes = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    assert any(line[6] in inodes for line in lines), "the fork server's own is among them"
    return [line[7] for line in lines if line[6] in inodes and len(line) > 7]
