"""The coordinator on a real PostgreSQL: what it answered is there after `kill -9`, several processes write, each its
groups, and it comes back when the database does.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_api.store.recordings import read
from tests import warm_program
from tests.coordinator_api.group_members import new_group, problem, settle, settled_member
from tests.coordinator_api.roaming import roaming_client
from tests.coordinator_api.service_process import ServiceProcess, clean_environment, run_command
from tests.coordinator_api.store.postgresql import Postgresql, programs
from tests.known import known

BACK_WITHIN_S = 30
QUICK = ("--group-initial-rebalance-delay-ms", "50")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine"),
    pytest.mark.xdist_group("postgresql"),
]


@pytest.fixture(scope="module")
def database() -> Iterator[Postgresql]:
    with Postgresql(known(programs())) as running:
        yield running


@pytest.mark.parametrize(
    "change, said",
    [
        ("/nowhere", 'database "nowhere" does not exist'),
        ("/postgres?sslmode=require", "PostgreSQL server at"),
        ("/postgres?sslmode=x", "`sslmode` parameter must be one of"),
        ("/postgres?colour=red", "unexpected keyword argument 'colour'"),
    ],
)
def test_should_say_why_it_cannot_open_it(database: Postgresql, tmp_path: Path, change: str, said: str) -> None:
    ended = run_command(tmp_path, "migrate", "--database-url", database.url.replace("/postgres", change))

    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: database.url: postgresql://coordinator@127.0.0.1:{database.port}/")
    assert said in line


def test_should_take_the_password_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "nowhere"))  # not the one at home
    password = "s3cret of a test"
    (tmp_path / "pgpass").write_text(f"127.0.0.1:*:*:coordinator:{password}\n")
    (tmp_path / "pgpass").chmod(0o600)
    good = ({"PGPASSWORD": password}, {"PGPASSFILE": str(tmp_path / "pgpass")})
    with Postgresql(known(programs())) as guarded:
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
        # on a busy machine, the service may lose its short lease for a moment, and answers 503 meanwhile
        client = roaming_client(service.url)
        group_id = new_group(client)
        member = settled_member(client, group_id, session_timeout_ms=60_000)
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
