"""A database of several hosts: how a URL names them, and who lets somebody in when they change their parts."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from coordinator_api.settings import Settings
from coordinator_api.store.engine import HostsInTurn, parse_url
from coordinator_api.store.store_errors import UnusableDatabase
from tests.coordinator_api.service_process import run_command
from tests.coordinator_api.store.databases import open_engine
from tests.coordinator_api.store.postgresql import programs
from tests.coordinator_api.store.postgresql_pair import PostgresqlPair
from tests.known import known
from tests.processes import processes_with

WITH_POSTGRESQL = [
    pytest.mark.long,
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine"),
    pytest.mark.xdist_group("postgresql"),
]


@pytest.mark.parametrize(
    "url, hosts",
    [
        ("postgresql://u@h1:1,h2:2/d?target_session_attrs=read-write", (["h1", "h2"], [1, 2])),
        ("postgres://h1,h2.example/d", (["h1", "h2.example"], [5432, 5432])),
        ("postgresql://u:p%40,x@[::1]:1,10.0.0.1/d", (["::1", "10.0.0.1"], [1, 5432])),
        ("postgresql://h1,h2", (["h1", "h2"], [5432, 5432])),
        ("postgresql://u:p@h/d", ("h", None)),
        ("postgresql://u:p@h:7/d?sslmode=require", ("h", 7)),
    ],
)
def test_should_read_hosts_as_libpq_writes_them(url: str, hosts: tuple[object, object]) -> None:
    parsed = parse_url(url)

    _, arguments = parsed.get_dialect()().create_connect_args(parsed)
    assert (arguments["host"], arguments.get("port")) == hosts
    assert arguments.get("ssl") == ("require" if "sslmode" in url else None)
    assert arguments.get("target_session_attrs") == ("read-write" if "attrs" in url else None)


@pytest.mark.parametrize(
    "hosts, said",
    [
        ("h1:1,", "host number 2 of its list is empty"),
        (",h2", "host number 1 of its list is empty"),
        ("h1,,h3", "host number 2 of its list is empty"),
        ("h1,:5432", "host number 2 of its list is none: expected name:port"),
        ("::1,h2", r"host number 1 of its list is none: expected name:port, 10\.0\.0\.1:port or \[::1\]:port"),
        ("h1:x,h2", "host number 1 of its list has no port between 1 and 65535"),
        ("h1,h2:0", "host number 2 of its list has no port between 1 and 65535"),
        ("h1,h2:65536", "host number 2 of its list has no port between 1 and 65535"),
    ],
)
def test_should_say_which_host_of_a_list_is_none(hosts: str, said: str) -> None:
    with pytest.raises(UnusableDatabase, match=rf"^database\.url: {said}") as refused:
        parse_url(f"postgresql://user:hidden@{hosts}/d")

    assert "hidden" not in str(refused.value)


async def test_should_ask_the_host_first_that_let_somebody_in_and_give_each_its_share() -> None:
    asked: list[tuple[str, int, float]] = []
    alive = {"b"}

    async def connect(**given: Any) -> str:
        asked.append((given["host"], given["port"], given["timeout"]))
        if given["host"] not in alive:
            raise TimeoutError
        return str(given["host"])

    hosts = HostsInTurn(connect, (OSError,))
    given: dict[str, Any] = {"host": ["a", "b", "c"], "port": [1, 2, 3], "timeout": 3.0}
    assert await hosts(**given) == "b"
    assert await hosts(**given) == "b"
    alive.clear()
    with pytest.raises(ConnectionError) as nobody:
        await hosts(**given)

    assert asked == [(name, "abc".index(name) + 1, 1.0) for name in "abbbca"]
    assert str(nobody.value) == "; ".join(f"{each}: it did not answer in time" for each in ("b:2", "c:3", "a:1"))


async def test_should_ask_each_host_once_while_other_connections_find_another_one_first() -> None:
    goes_on = {each: asyncio.Event() for each in ("slow", "quick")}
    asked: dict[str, list[str]] = {"slow": [], "quick": []}

    async def connect(host: str, **given: Any) -> str:
        who = given["user"]
        asked[who].append(host)
        await goes_on[who].wait()
        if host != "a":
            raise OSError("refused")
        return host

    hosts = HostsInTurn(connect, (OSError,))
    hosts._first = 1
    slow = asyncio.ensure_future(hosts(host=["a", "b"], port=[1, 2], user="slow"))
    quick = asyncio.ensure_future(hosts(host=["a", "b"], port=[1, 2], user="quick"))
    goes_on["quick"].set()
    assert await quick == "a"
    goes_on["slow"].set()

    assert await slow == "a"
    assert asked == {"slow": ["b", "a"], "quick": ["b", "a"]}


async def test_should_not_go_on_after_a_refusal_that_every_host_would_give() -> None:
    async def connect(*, host: str, **_more: object) -> str:
        raise PermissionError(f"{host}: wrong password")

    with pytest.raises(PermissionError, match="a: wrong password"):
        await HostsInTurn(connect, (TimeoutError,))(host=["a", "b"], port=[1, 2], timeout=1.0)


@pytest.fixture(scope="module")
def pair() -> Iterator[PostgresqlPair]:
    with PostgresqlPair(known(programs()), on_small_disks=True) as running:
        yield running
    for server in running.servers:
        assert not processes_with(str(server.data)), "nothing is left behind"
        assert str(server.data) not in Path("/proc/mounts").read_text()


async def _write(settings: Settings) -> int:
    """Over a new connection; how many rows there are."""
    async with open_engine(settings) as engine, engine.begin() as connection:
        await connection.execute(text("CREATE TABLE IF NOT EXISTS written (id serial)"))
        await connection.execute(text("INSERT INTO written DEFAULT VALUES"))
        return int((await connection.execute(text("SELECT count(*) FROM written"))).scalar_one())


class TestPair:
    pytestmark = WITH_POSTGRESQL

    async def test_should_reach_whoever_takes_writes(self, pair: PostgresqlPair) -> None:
        settings = Settings(database_url=pair.url)
        written = await _write(settings)
        for frozen in (False, True):
            before = pair.primary
            await asyncio.to_thread(pair.failover, frozen=frozen)
            assert pair.primary is not before
            written += 1
            assert await _write(settings) == written, "what was committed is there, and more can be"
            await asyncio.to_thread(pair.make_new_standby)
        for mode in ("fast", "immediate"):
            await asyncio.to_thread(pair.primary.restart, mode)
            written += 1
            assert await _write(settings) == written

    def test_should_say_in_one_line_what_each_host_did(self, pair: PostgresqlPair, tmp_path: Path) -> None:
        url = pair.url.replace("read-write", "sideways")
        for bad, said in ((url, "sideways"), (pair.url.replace("127.0.0.1:", "127.0.0.1:1"), "list has no port")):
            ended = run_command(tmp_path, "migrate", "--database-url", bad)
            assert ended.returncode == 2
            (line,) = ended.stderr.splitlines()
            assert line.startswith("error: database.url: ")
            assert said in line
