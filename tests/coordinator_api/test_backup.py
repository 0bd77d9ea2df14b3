"""`assignor backup` beside a running coordinator with members, the loss of its database, and `assignor restore`."""

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from coordinator_api.group.snapshot import LOST_GENERATIONS
from coordinator_api.store.engine import parse_url
from tests.coordinator_api.group_members import HttpMember, new_group, problem, settle, settled_member
from tests.coordinator_api.service_process import ServiceProcess, clean_environment, run_command
from tests.coordinator_api.store.postgresql import Postgresql, programs
from tests.docs.command_lines import calls_of_assignor, command_lines
from tests.docs.pages import blocks
from tests.known import known
from tests.waiting import wait_until
from tests.warm_program import WarmProgram

QUICK = ("--group-initial-rebalance-delay-ms", "200")
ALL = ["0_0", "0_1", "0_2", "0_3"]
SOON_S = 60.0


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Postgresql]:
    with Postgresql(known(programs())) as running:
        yield running


class Databases:
    """The one that is lost, and where it is restored: its own place, or a database of the other kind."""

    def __init__(self, directory: Path, url: str, restored_url: str) -> None:
        self.directory, self.url, self.restored_url = directory, url, restored_url

    async def lose(self) -> None:
        for url in {self.url, self.restored_url}:
            if url.startswith("sqlite"):
                for left in self.directory.glob("assignor.sqlite3*"):
                    left.unlink()
            else:
                engine = create_async_engine(parse_url(url))
                async with engine.begin() as connection:
                    await connection.execute(text("DROP SCHEMA public CASCADE"))
                    await connection.execute(text("CREATE SCHEMA public"))
                await engine.dispose()


PAGE = "docs/how-to/back-up-the-coordinator.md"
SQLITE = "sqlite:///assignor.sqlite3"


@pytest.fixture(
    params=[
        ("sqlite", "sqlite"),
        *(
            pytest.param(
                kinds,
                marks=[
                    pytest.mark.long,
                    pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine"),
                    pytest.mark.xdist_group("postgresql"),
                ],
            )
            for kinds in (("postgresql", "postgresql"), ("sqlite", "postgresql"), ("postgresql", "sqlite"))
        ),
    ],
    ids="-to-".join,
)
async def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Databases:
    urls = [SQLITE if kind == "sqlite" else request.getfixturevalue("postgresql").url for kind in request.param]
    found = Databases(tmp_path, *urls)
    await found.lose()
    return found


def answered(client: httpx.Client, path: str) -> httpx.Response:
    """The answer of the group's owner. On a busy machine a lease may end, and until then nobody answers."""

    def ask() -> httpx.Response | None:
        answer = client.get(path)
        return None if answer.status_code == 503 else answer

    return known(wait_until(ask, f"an owner that answers {path}"))


def answers(client: httpx.Client, group_id: str) -> list[bytes]:
    """All that is recorded of the group, byte for byte."""
    listed = answered(client, f"/v1/groups/{group_id}/rebalances")
    generations = [each["generation_id"] for each in listed.json()["rebalances"]]
    paths = [f"/v1/groups/{group_id}/rebalances/{number}" for number in generations]
    return [listed.content, *(answered(client, path).content for path in paths)]


def described(client: httpx.Client, group_id: str) -> dict[str, Any]:
    document: dict[str, Any] = answered(client, f"/v1/groups/{group_id}").json()
    for member in document["members"]:
        del member["last_heard_ms"], member["fetched"]
    del document["health"], document["advice"]  # until the members call, they are silent since the start
    return document


def run(directory: Path, *arguments: str) -> dict[str, Any]:
    ended = run_command(directory, *arguments, "--format", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)  # type: ignore[no-any-return]


@contextmanager
def busy(client: httpx.Client) -> Iterator[list[int]]:
    """A group that rebalances all the time, as its one member never stops to rejoin. Gives its generations."""
    group_id = new_group(client)
    member = settled_member(client, group_id)
    generations: list[int] = []
    stopped = threading.Event()

    def rejoin() -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            assert member.subscribe({"0_0": number}).is_success
            settle(member)
            generations.append(member.generation_id)

    thread = threading.Thread(target=rejoin)
    thread.start()
    try:
        yield generations
    finally:
        stopped.set()
        thread.join(SOON_S)


@pytest.mark.long
async def test_should_lead_its_groups_again_after_the_database_was_lost(databases: Databases, tmp_path: Path) -> None:
    """Who holds tasks from after the backup gives them up, and nobody goes on with a generation that is given again."""
    serve = (*QUICK, "--database-url", databases.url)
    with ServiceProcess(tmp_path, *serve) as service:
        with service.client() as client, service.client() as other:
            group_id = new_group(client)
            known = settled_member(client, group_id)
            with busy(other) as generations:
                recorded, before = answers(client, group_id), described(client, group_id)
                told = run(tmp_path, "backup", "b", "--database-url", databases.url)
            later, static = HttpMember(client, group_id), HttpMember(client, group_id, group_instance_id="s")
            later.subscribe()
            static.subscribe()
            settle(known, later, static)
            assert sorted((*known.active, *later.active, *static.active)) == ALL
        service.kill()
    assert generations, "it went on beside the backup"
    assert told["counts"]["groups"] == 2

    await databases.lose()
    restored = run(tmp_path, "restore", "b", "--database-url", databases.restored_url)
    assert (restored["counts"], restored["damaged"]) == (told["counts"], {})

    with (
        ServiceProcess(tmp_path, *QUICK, "--database-url", databases.restored_url) as service,
        service.client() as client,
    ):
        after = described(client, group_id)
        assert answers(client, group_id) == recorded
        assert after["generation_id"] == before["generation_id"] + LOST_GENERATIONS
        for name in ("revision", "configs", "declared_by", "declared_at_ms", "last_rebalance", "application_id"):
            assert after[name] == before[name]

        members = (known, later, static)
        for member in members:
            member.client = client
            assert problem(member.heartbeat()) == (404, "UNKNOWN_MEMBER_ID")
            assert problem(member.subscribe()) == (404, "UNKNOWN_MEMBER_ID"), "not even with its old tasks"
        zombie_id, zombie_generation = later.member_id, later.generation_id
        for member in members:
            member.member_id, member.active, member.generation_id = None, (), 0
            assert member.subscribe().status_code == 201
        settle(*members)
        assert sorted((*known.active, *later.active, *static.active)) == ALL
        assert {member.generation_id for member in members} == {known.generation_id}
        assert known.generation_id > before["generation_id"] + LOST_GENERATIONS
        zombie = HttpMember(client, group_id)
        zombie.member_id, zombie.generation_id = zombie_id, zombie_generation
        assert problem(zombie.heartbeat()) == (404, "UNKNOWN_MEMBER_ID")
        assert problem(zombie.fetch(0, zombie_generation)) == (404, "UNKNOWN_MEMBER_ID")
        assert len(answers(client, group_id)) > len(recorded), "the history goes on"
        assert answers(client, group_id)[-1] == recorded[-1]


@pytest.mark.long
async def test_should_go_on_with_the_members_of_an_exact_backup(databases: Databases, tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, *QUICK, "--database-url", databases.url) as service:
        with service.client() as client:
            group_id = new_group(client)
            members = [HttpMember(client, group_id), HttpMember(client, group_id)]
            for member in members:
                member.subscribe()
            settle(*members)
            recorded, before = answers(client, group_id), described(client, group_id)
        assert service.stop() == 0
    run(tmp_path, "backup", "b", "--database-url", databases.url)

    await databases.lose()
    assert run(tmp_path, "restore", "b", "--exact", "--database-url", databases.restored_url)["exact"] is True

    with (
        ServiceProcess(tmp_path, *QUICK, "--database-url", databases.restored_url) as service,
        service.client() as client,
    ):
        assert (answers(client, group_id), described(client, group_id)) == (recorded, before)
        for member in members:
            member.client = client
            assert member.heartbeat().json() == {
                **member.heartbeat().json(),
                "state": "Stable",
                "rejoin": False,
                "generation_id": member.generation_id,
            }


def test_should_tell_people_what_it_did_and_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.client() as client:
        new_group(client)
        told = [run_command(tmp_path, "backup", "b") for _ in range(2)]
        in_use = run_command(tmp_path, "restore", "b")
        elsewhere = [run_command(tmp_path, "restore", "b", "--database-url", "sqlite:///new") for _ in range(2)]

    size = (tmp_path / "b").stat().st_size
    assert told[0].stdout == f"b: 1 group, 1 record, 0 rebalances, 0 tokens, {size:,} bytes\n"
    assert (told[1].returncode, told[1].stdout) == (2, "")
    assert told[1].stderr == "error: b: is there already: name another file, or replace it by --force\n"
    assert in_use.returncode == 2
    assert "is in use by another coordinator (process " in in_use.stderr
    assert elsewhere[0].stdout == ("b: restored 1 group, 1 record, 0 rebalances, 0 tokens; members join again\n")
    assert elsewhere[1].stderr.startswith("error: sqlite:///new: is not empty, it has groups. ")


@pytest.mark.long
def test_should_run_the_commands_of_the_page(tmp_path: Path) -> None:
    lines = (line for block in blocks(PAGE) if block.language == "shell" for line in command_lines(block))
    calls = [call for line in lines for call in calls_of_assignor(line)]
    assert [call[0] for call in calls] == ["backup", "restore", "serve", "backup", "restore"]
    with ServiceProcess(tmp_path) as service, service.client() as client:
        group_id = new_group(client)
        run(tmp_path, *calls[0])
    for call in calls[1:]:
        if call[0] != "serve":
            run(tmp_path, *call)
            continue
        with ServiceProcess(tmp_path, *call[1:]) as service, service.client() as client:
            assert client.get(f"/v1/groups/{group_id}").json()["generation_id"] == LOST_GENERATIONS


@pytest.mark.long
@pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine")
@pytest.mark.xdist_group("postgresql")
async def test_should_leave_postgresql_empty_when_a_restore_is_killed(postgresql: Postgresql, tmp_path: Path) -> None:
    databases = Databases(tmp_path, SQLITE, postgresql.url)
    await databases.lose()
    with ServiceProcess(tmp_path) as service, service.client() as client:
        new_group(client)
        run(tmp_path, "backup", "b")
    run(tmp_path, "migrate", "--database-url", postgresql.url)
    engine = create_async_engine(parse_url(postgresql.url))
    async with engine.connect() as other, engine.connect() as onlooker:
        await other.execute(text("LOCK TABLE group_records IN EXCLUSIVE MODE"))  # it can be read, and not written
        restoring = WarmProgram(
            ("restore", "b", "--database-url", postgresql.url),
            cwd=tmp_path,
            environment=clean_environment(),
            stdout=1,
            stderr=2,
        )
        await until_somebody_waits(onlooker)
        restoring.kill()
        assert restoring.wait(SOON_S) == -signal.SIGKILL
    await engine.dispose()

    assert run(tmp_path, "restore", "b", "--database-url", postgresql.url)["counts"]["groups"] == 1


async def until_somebody_waits(onlooker: AsyncConnection) -> None:
    async with asyncio.timeout(SOON_S):
        while not (await onlooker.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted"))).scalar_one():  # noqa: ASYNC110 -- the database announces nothing
            await asyncio.sleep(0.02)
