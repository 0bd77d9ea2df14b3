"""The coordinator on a real PostgreSQL: what it answered is there after `kill -9`, several processes write, each its
groups, and it comes back when the database does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from coordinator_api.settings import Settings
from coordinator_api.store.opening import open_store
from coordinator_api.store.recordings import read
from coordinator_api.store.repository import Repository
from tests import warm_program
from tests.checkout import ROOT
from tests.coordinator_api.group_members import HttpMember, new_group, problem, settle
from tests.coordinator_api.roaming import roaming_client
from tests.coordinator_api.service_process import ServiceProcess, clean_environment, run_command
from tests.coordinator_api.store.postgresql import Postgresql, programs

BACK_WITHIN_S = 30
SOON_S = 60
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
    return Settings(database_url=database.new_database())


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


class Owning:
    """A process of `owning_process`."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        arguments = (sys.executable, "-m", "tests.coordinator_api.store.owning_process", url, name)
        self.process = subprocess.Popen(arguments, cwd=ROOT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


async def test_should_be_written_by_several_processes_each_of_which_owns_groups(settings: Settings) -> None:
    """One is killed. Nothing is ever written by two in one epoch, nor by a former owner after the next one."""
    group_ids = [f"g{number}" for number in range(6)]
    processes = [Owning(settings.database_url, name) for name in "abc"]  # they find no tables, and make them
    try:
        async with open_store(settings) as opened:
            for group_id in group_ids:
                await opened.repository.append(group_id, 0, ["nobody 0"], epoch=0)
            await written_by(opened.repository, group_ids, {"a", "b", "c"})

            dead = processes[0]
            dead.kill()
            await opened.lease_store.enter("me", "http://me:1", "0.1")
            view = await opened.lease_store.poll("me")
            assert view is not None
            assert await opened.lease_store.end(dead.name, view.coordinators[dead.name].renewals)
            await opened.lease_store.leave("me")
            logs = await written_by(opened.repository, group_ids, {"b", "c"})

            assert [process.process.poll() for process in processes[1:]] == [None, None]
            for records in logs.values():
                told = [(int(epoch), name) for name, epoch in map(str.split, records)]
                assert told == sorted(told)
                assert len({epoch for epoch, _ in told}) == len(set(told)), "one in each epoch"
    finally:
        for process in processes:
            process.kill()


async def written_by(log: Repository, group_ids: Sequence[str], names: set[str]) -> dict[str, tuple[str, ...]]:
    """Once these have written a group each since now, and every group was written. The logs as they are then."""
    begun = {group_id: (await log.load_group(group_id)).sequence for group_id in group_ids}
    deadline_s = time.monotonic() + SOON_S
    while True:
        logs = {group_id: (await log.load_group(group_id)).records for group_id in group_ids}
        new = {group_id: logs[group_id][begun[group_id] :] for group_id in group_ids}
        writers = {record.split()[0] for records in new.values() for record in records[-20:]}
        if all(new.values()) and names <= writers:
            return logs
        assert time.monotonic() < deadline_s, writers
        await asyncio.sleep(0.05)


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
    service = ServiceProcess(tmp_path, *QUICK, "--database-url", database.url, "--lease-timeout-ms", "600")
    with service:
        client = service.client()
        group_id = new_group(client)
        member = HttpMember(client, group_id, session_timeout_ms=60_000)
        member.subscribe()
        settle(member)
        told = client.get(f"/v1/groups/{group_id}/rebalances").json()
        service.kill()
        service.start()
        # it does not know yet that nobody is left of the one before it, whose address was another
        member.client = client = roaming_client(service.url)
        assert client.get(f"/v1/groups/{group_id}/rebalances").json() == told
        assert member.heartbeat().json()["state"] == "Stable"

        database.stop()
        with service.client() as direct:
            assert direct.get("/readyz").status_code == 503
            assert direct.get("/livez").status_code == 200
            deadline_s = time.monotonic() + BACK_WITHIN_S
            heartbeat = f"{member.path}/members/{member.member_id}/heartbeat"
            while (answer := direct.post(heartbeat, json={"generation_id": 1})).status_code == 200:
                assert time.monotonic() < deadline_s, "nobody knows that no other one leads the group by now"
            assert problem(answer) == (503, "COORDINATOR_NOT_AVAILABLE")
        database.start()
        assert member.heartbeat().json()["state"] == "Stable", "as soon as its lease is renewed"
        member.subscribe()
        settle(member)
        assert service.stop() == 0

    recorded = [json.loads(line.content)["generation_id"] for line in read(database.url)]
    assert len(recorded) >= 2
    assert recorded == sorted(recorded)
