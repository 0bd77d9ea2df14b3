"""The coordinator on a real PostgreSQL: what it answered is there after `kill -9`, one process writes, and it comes
back when the database does.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from coordinator_api.settings import Settings
from coordinator_api.store.engine import create_engine
from coordinator_api.store.errors import ConcurrentWriter, StoreError, StoreInUse
from coordinator_api.store.opening import migrate, open_store
from coordinator_api.store.recordings import read
from coordinator_api.store.repository import GroupLog
from tests import warm_program
from tests.coordinator_api.group_members import HttpMember, new_group, settle
from tests.coordinator_api.service_process import ServiceProcess, clean_environment, run_command
from tests.coordinator_api.store.postgresql import Postgresql, programs

BACK_WITHIN_S = 30
QUICK = ("--group-initial-rebalance-delay-ms", "50")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine"),
    pytest.mark.xdist_group("postgresql"),
]


@pytest.fixture(scope="module")
def database() -> Iterator[Postgresql]:
    bin = programs()
    assert bin is not None
    with Postgresql(bin) as running:
        yield running


@pytest.fixture
def settings(database: Postgresql) -> Settings:
    return Settings(database_url=database.url)


async def test_should_take_one_database_for_one_process_and_say_which_schema_it_has(settings: Settings) -> None:
    async with open_store(settings) as opened:
        assert opened.schema_before in (None, opened.schema)
        with pytest.raises(StoreInUse, match=r"in use by another coordinator \(at 127\.0\.0\.1:\d+\): stop that one"):
            await migrate(settings)
    assert await migrate(settings) == (opened.schema, opened.schema)


@pytest.mark.parametrize(
    "change, said",
    [
        ("/nowhere", 'database "nowhere" does not exist'),
        ("/postgres?sslmode=require", "PostgreSQL server at"),
        ("/postgres?sslmode=x", "`sslmode` parameter must be one of"),
        ("/postgres?colour=red", "unexpected keyword argument 'colour'"),
    ],
)
def test_should_say_in_one_line_why_it_cannot_open_it(
    database: Postgresql, tmp_path: Path, change: str, said: str
) -> None:
    ended = run_command(tmp_path, "migrate", "--database-url", database.url.replace("/postgres", change))

    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: database.url: postgresql://coordinator@127.0.0.1:{database.port}/")
    assert said in line


async def test_should_refuse_a_writer_that_is_out_of_date(settings: Settings) -> None:
    async with open_store(settings) as opened:
        log = opened.repository
        await log.append("pg", 0, ["1", "2"])
        for expected in (0, 1, 3):
            with pytest.raises(ConcurrentWriter):
                await log.append("pg", expected, ["intruder"])
        await log.replace("pg", 2, ["both"])
        assert await log.load_group("pg") == GroupLog("pg", 3, ("both",))
        await log.delete("pg", 3)
        assert await log.group_ids() == []


async def test_should_take_the_lease_again_when_its_connection_broke(settings: Settings) -> None:
    others = create_engine(settings)
    async with open_store(settings) as opened:
        async with others.begin() as other:
            broken = text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
            assert (await other.execute(broken)).scalars().all() == [True]
        with pytest.raises(StoreError, match="cannot be written"):
            await opened.repository.check()

        await opened.repository.check()

        with pytest.raises(StoreInUse):
            await migrate(settings)
    await others.dispose()


async def test_should_write_nothing_once_another_process_has_the_lease(settings: Settings) -> None:
    others = create_engine(settings)
    async with open_store(settings) as overtaken:
        async with others.begin() as other:
            await other.execute(text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"))
        async with open_store(settings):
            with pytest.raises(StoreError, match="cannot be written"):
                await overtaken.repository.check()
            for _ in range(2):
                with pytest.raises(StoreInUse):
                    await overtaken.repository.append("g", 0, ["intruder"])
        await overtaken.repository.check()
        assert await overtaken.repository.group_ids() == []
    await others.dispose()


def test_should_take_the_password_from_the_environment_when_the_url_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "nowhere"))  # not the one at home
    bin = programs()
    assert bin is not None
    password = "s3cret of a test"
    (tmp_path / "pgpass").write_text(f"127.0.0.1:*:*:coordinator:{password}\n")
    (tmp_path / "pgpass").chmod(0o600)
    good = ({"PGPASSWORD": password}, {"PGPASSFILE": str(tmp_path / "pgpass")})
    with Postgresql(bin) as guarded:
        guarded.set_password(password)
        for given in ({}, {"PGPASSWORD": "another"}):
            refused = migrate_with(tmp_path, guarded.url, given)
            assert refused.returncode == 2, "the server asks for the password"
            (line,) = refused.stderr.splitlines()
            assert line.startswith(f"error: database.url: postgresql://coordinator@127.0.0.1:{guarded.port}/")
        for given in good:
            let_in = migrate_with(tmp_path, guarded.url, given)
            assert let_in.returncode == 0, let_in.stderr
            with (
                ServiceProcess(tmp_path, "--database-url", guarded.url, environment=given) as service,
                service.client() as client,
            ):
                assert client.get("/readyz").status_code == 200
                new_group(client)


def migrate_with(directory: Path, url: str, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(given)
    return warm_program.run(("migrate", "--database-url", url), cwd=directory, environment=environment)


def test_should_go_on_after_a_kill_and_after_a_restart_of_the_database(database: Postgresql, tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK, "--database-url", database.url)
    with service:
        client = service.client()
        group_id = new_group(client)
        member = HttpMember(client, group_id, session_timeout_ms=60_000)
        member.subscribe()
        settle(member)
        told = client.get(f"/v1/groups/{group_id}/rebalances").json()
        second = run_command(tmp_path, "serve", "--port", "0", "--database-url", database.url)
        assert second.returncode == 2
        assert second.stderr.startswith("error: the database is in use by another coordinator (at 127.0.0.1:")

        service.kill()
        service.start()
        member.client = client = service.client()
        assert client.get(f"/v1/groups/{group_id}/rebalances").json() == told
        assert member.heartbeat().json()["state"] == "Stable"

        database.stop()
        assert client.get("/readyz").status_code == 503
        assert client.get("/livez").status_code == 200
        assert member.heartbeat().json()["state"] == "Stable", "members go on without the database"
        database.start()
        deadline_s = time.monotonic() + BACK_WITHIN_S
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        member.subscribe()
        settle(member)
        assert service.stop() == 0

    recorded = [json.loads(line.content)["generation_id"] for line in read(database.url)]
    assert len(recorded) >= 2
    assert recorded == sorted(recorded)
