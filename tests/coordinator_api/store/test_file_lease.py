"""One process at a time: the lease is refused while its holder lives, and free at once when it was killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_api.store.engine import parse_url, sqlite_file
from coordinator_api.store.opening import exclusive_engine
from coordinator_api.store.store_errors import StoreInUse
from tests.checkout import ROOT
from tests.coordinator_api.store.databases import settings_for

HOLDER = """
import asyncio, sys
from pathlib import Path
from tests.coordinator_api.store.databases import settings_for
from coordinator_api.store.opening import exclusive_engine

async def hold():
    async with exclusive_engine(settings_for(Path(sys.argv[1]))):
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(hold())
"""


async def take(directory: Path) -> None:
    async with exclusive_engine(settings_for(directory)):
        pass


async def test_should_refuse_the_lease_while_its_holder_lives_and_give_it_when_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        (sys.executable, "-c", HOLDER, str(tmp_path)), stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreInUse, match=rf"in use by another coordinator \(process {holder.pid}\)"):
            await take(tmp_path)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()

    await take(tmp_path)


async def test_should_know_one_database_by_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")

    async with exclusive_engine(settings_for(tmp_path / "here")):
        with pytest.raises(StoreInUse):
            await take(tmp_path / "link")


def test_should_need_no_lease_for_a_database_in_memory() -> None:
    assert sqlite_file(parse_url("sqlite:///:memory:")) is None
    assert sqlite_file(parse_url("sqlite://")) is None


@pytest.mark.parametrize(
    "url, driver",
    [
        ("sqlite:///x", "sqlite+aiosqlite"),
        ("sqlite+pysqlite:///x", "sqlite+aiosqlite"),
        ("postgresql://h/d", "postgresql+asyncpg"),
        ("postgres://u:p@h:1/d", "postgresql+asyncpg"),
    ],
)
def test_should_choose_the_driver_for_the_database(url: str, driver: str) -> None:
    assert parse_url(url).drivername == driver
