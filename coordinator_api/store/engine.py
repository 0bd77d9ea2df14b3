"""Connects to the database: to an SQLite file, or to PostgreSQL on one or several hosts.

The URL of PostgreSQL has the syntax of libpq, for example:

    postgresql://user@h1:5432,h2:5433/db?target_session_attrs=read-write

Rules for PostgreSQL:
- If a statement gets no answer in time, its connection counts as broken. A broken connection is closed at once, without
  a rollback.
- If the database has closed a connection, the connection is not used again. So callers do not notice a restart of the
  database. The driver itself knows which connections are closed. No query tests a connection before its use, because a
  test query would take longer than a write.
- The database ends a transaction if its client sends no further statement. So the locks of a failed coordinator end
  soon.
- The time limit for connecting is divided among the hosts. If the former primary hangs, clients therefore still have
  time to reach the host that has replaced it.
- The host that accepted the last connection is tried first. libpq, in contrast, begins with the first host each time.
"""

import os
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DisconnectionError, SAWarning
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from coordinator_api.settings import Settings
from coordinator_api.store import sqlite
from coordinator_api.store.lease_rows import lease_times
from coordinator_api.store.store_errors import DatabaseOutOfReach, StoreError, UnusableDatabase, reason
from rebalance_analysis.reading.sources import shown

POOL_SIZE = 10
"""The number of groups that a coordinator can write at one time. PostgreSQL accepts 100 connections by default."""

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_DEFAULT_PORT = 5432
_FIRST_BYTES_OF_SQLITE = b"SQLite format 3\0"
_URL_OF_SETTINGS = "url_of_settings"
"""The name of an execution option. An engine stores the URL in this option, as the user wrote it. Error messages show
the URL as the user wrote it.
"""

# --- URLs

_WITH_HOSTS = re.compile(
    r"(?P<before>postgres(?:ql)?(?:\+\w+)?://(?:[^:/]*(?::[^@]*)?@)?)(?P<hosts>[^/?]*)(?P<after>.*)"
)
_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[^:]*))?")


def parse_url(text: str) -> URL:
    """Parses `sqlite:///file` or `postgresql://...`, with one or several hosts, and adds the asynchronous driver.

    Raises UnusableDatabase.
    """
    text, hosts = _hosts_apart(text)
    try:
        url = make_url(text).update_query_dict(hosts)
    except (ArgumentError, ValueError):
        raise UnusableDatabase("database.url is not a URL: expected sqlite:///file or postgresql://host/name") from None
    backend = url.drivername.partition("+")[0]
    if backend not in _DRIVERS:
        raise UnusableDatabase(
            f"database.url: {backend} is not supported: expected sqlite:///file or postgresql://host/name"
        )
    if "sslmode" in url.query:  # libpq's parameter `sslmode` has the name `ssl` in asyncpg
        url = url.set(query={"ssl" if name == "sslmode" else name: value for name, value in url.query.items()})
    return url.set(drivername=_DRIVERS[backend])


def _hosts_apart(text: str) -> tuple[str, dict[str, str]]:
    """Removes the hosts from a URL with several hosts, and returns them as parameters. SQLAlchemy needs the hosts as
    parameters. A URL with one host is not changed.

    Raises UnusableDatabase.
    """
    url = _WITH_HOSTS.fullmatch(text)
    if url is None or "," not in url["hosts"]:
        return text, {}
    found = [_host_and_port(number, each) for number, each in enumerate(url["hosts"].split(","), start=1)]
    hosts = {"host": ",".join(host for host, _ in found), "port": ",".join(str(port) for _, port in found)}
    return url["before"] + url["after"], hosts


def _host_and_port(number: int, text: str) -> tuple[str, int]:
    """Returns the host and port of one element of the list. Errors show the number of the element, but not its text.
    The text may be a part of a password.
    """
    host = _HOST.fullmatch(text)
    name = host and (host["ipv6"] or host["name"])
    if host is None or not name:
        problem = "is none: expected name:port, 10.0.0.1:port or [::1]:port" if text else "is empty"
        raise UnusableDatabase(f"database.url: host number {number} of its list {problem}")
    port = host["port"] or str(_DEFAULT_PORT)
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise UnusableDatabase(f"database.url: host number {number} of its list has no port between 1 and 65535")
    return name, int(port)


def sqlite_file(url: URL) -> Path | None:
    """The file of an SQLite URL; None for a database in memory and for other databases."""
    if not url.drivername.startswith("sqlite") or url.database in (None, "", ":memory:"):
        return None
    return Path(os.path.realpath(str(url.database)))


def out_of_reach(engine: AsyncEngine, error: Exception) -> DatabaseOutOfReach:
    """Returns the DatabaseOutOfReach to raise when the database of `engine` cannot be opened because of `error`."""
    text = engine.sync_engine.get_execution_options()[_URL_OF_SETTINGS]
    return DatabaseOutOfReach(f"database.url: {shown(text)} cannot be opened: {reason(error)}")


def missing(error: ModuleNotFoundError) -> str:
    """Returns the error text for a missing driver. The text shows the pip command that installs the driver."""
    return f"needs the package {error.name}: pip install 'assignor[postgres]'"


# --- engines


class _Deadlines(NamedTuple):
    """Time limits in seconds. `connect_s`: the limit for connecting. `statement_s`: the limit for the answer to a
    statement. `idle_s`: the limit for the pause between two statements of a transaction; None for no limit.
    """

    connect_s: float
    statement_s: float
    idle_s: float | None = None


def create_engine(settings: Settings) -> AsyncEngine:
    """Returns the engine for a command, or for a change of the schema. The engine connects when it is first used.
    Raises UnusableDatabase.
    """
    # Without time limits, the driver waits a minute for a server that is not PostgreSQL. The driver waits for ever for
    # a server that does not answer.
    return _engine(settings, _Deadlines(10, 30))


def create_service_engine(settings: Settings) -> AsyncEngine:
    """Returns the engine for reads and writes of groups. The time limits of this engine are short, because many callers
    wait for the results.

    If a transaction is idle, the database ends it after the time for which a lease is valid. So an idle transaction of
    a failed coordinator ends before another coordinator takes the group.
    """
    statement_s = settings.database_statement_timeout_ms / 1000
    deadlines = _Deadlines(statement_s, statement_s, lease_times(settings.lease_timeout_ms).valid_ms / 1000)
    return _engine(settings, deadlines, {"pool_size": POOL_SIZE, "max_overflow": 0, "pool_timeout": statement_s})


def create_lease_engine(settings: Settings) -> AsyncEngine:
    """Returns the engine for the lease. The engine has one connection, and each statement is a separate transaction.

    The time limit of a statement is half of the lease's validity. So two polls fit into the validity of the lease, even
    if the first poll gets no answer. If a statement could take longer, the lease could expire before the next renewal.
    After its lease has expired, a coordinator must not answer before the next renewal. A new connection takes several
    round trips, so connecting has the time limit of the service's statements.
    """
    statement_s = lease_times(settings.lease_timeout_ms).valid_ms / 2000
    deadlines = _Deadlines(settings.database_statement_timeout_ms / 1000, statement_s)
    limits = {"pool_size": 1, "max_overflow": 0, "pool_timeout": statement_s, "isolation_level": "AUTOCOMMIT"}
    return _engine(settings, deadlines, limits)


def _engine(settings: Settings, deadlines: _Deadlines, limits: Mapping[str, object] | None = None) -> AsyncEngine:
    """`limits`: the pool options on PostgreSQL."""
    url = parse_url(settings.database_url)
    file = sqlite_file(url)
    if file is not None:
        _check_usable(file)
    options = {_URL_OF_SETTINGS: settings.database_url}
    try:
        with warnings.catch_warnings():
            # SQLAlchemy only warns of an unknown parameter in the URL, so turn this warning into an error
            warnings.simplefilter("error", SAWarning)
            if url.get_backend_name() == "sqlite":
                engine = create_async_engine(url, execution_options=options)
                sqlite.set_up(
                    engine,
                    f"busy_timeout={settings.sqlite_busy_timeout_ms}",
                    "journal_mode=WAL",
                    # the default is FULL: SQLite syncs every commit, so answered changes are durable
                    f"synchronous={settings.sqlite_synchronous}",
                    "foreign_keys=ON",
                )
                return engine
            timeouts = {"timeout": deadlines.connect_s, "command_timeout": deadlines.statement_s}
            arguments = {**timeouts, "async_creator_fn": _asyncpg_in_turn()}
            engine = create_async_engine(url, connect_args=arguments, execution_options=options, **(limits or {}))
    except ModuleNotFoundError as error:
        raise UnusableDatabase(f"database.url: {missing(error)}") from None
    except (ArgumentError, SAWarning) as error:
        raise UnusableDatabase(f"database.url: {str(error).partition(chr(10))[0].partition(';')[0]}") from None
    _set_up_postgresql(engine, deadlines)
    return engine


def _check_usable(file: Path) -> None:
    """Raises UnusableDatabase, with the reason, if a file cannot be used. SQLite's own message is always "unable to
    open database file".
    """
    if not file.parent.is_dir():
        problem = f"the directory {file.parent} does not exist: create it, or name another file"
    elif file.is_dir():
        problem = f"{file} is a directory: name a file in it"
    elif not os.access(file.parent, os.W_OK):  # SQLite and the lease write files beside the database
        problem = f"the directory {file.parent} cannot be written: name a file elsewhere, or change its permissions"
    elif file.exists() and not os.access(file, os.R_OK | os.W_OK):
        problem = f"{file} cannot be read and written: name another file, or change its permissions"
    elif file.exists() and not _begins_like_a_database(file):
        problem = f"{file} is not an SQLite database, and is left as it is: name another file"
    else:
        return
    raise UnusableDatabase(f"database.url: {problem}")


def _begins_like_a_database(file: Path) -> bool:
    """Returns whether the file may be a database. An empty file is accepted, because SQLite turns an empty file into a
    database.
    """
    with file.open("rb") as opened:
        return opened.read(len(_FIRST_BYTES_OF_SQLITE)) in (b"", _FIRST_BYTES_OF_SQLITE)


def _set_up_postgresql(engine: AsyncEngine, deadlines: _Deadlines) -> None:
    limits = {"statement_timeout": deadlines.statement_s, "idle_in_transaction_session_timeout": deadlines.idle_s}
    # set these limits by statements, because a connection pooler refuses them as connection parameters
    settings = "; ".join(f"SET {name} = {round(value * 1000)}" for name, value in limits.items() if value is not None)

    def limit(connection: Any, _record: object) -> None:
        connection.run_async(lambda driver: driver.execute(settings))

    def refuse_closed(connection: Any, _record: object, _proxy: object) -> None:
        if connection.driver_connection.is_closed():
            raise DisconnectionError("the database closed the connection")

    event.listen(engine.sync_engine, "connect", limit)
    event.listen(engine.sync_engine, "checkout", refuse_closed)
    event.listen(engine.sync_engine, "handle_error", _give_up_unanswered)


def _give_up_unanswered(context: ExceptionContext) -> None:
    """Terminate a connection whose statement timed out. SQLAlchemy then also drops all older connections of the pool,
    because each of them would time out as well.
    """
    connection = context.connection
    if isinstance(context.original_exception, TimeoutError) and connection is not None and not connection.invalidated:
        driver: Any = connection.connection.driver_connection
        driver.terminate()
        context.is_disconnect = True


class HostsInTurn:
    """Connects to one of several hosts. SQLAlchemy calls an instance of this class instead of the driver's function
    `connect`.
    """

    def __init__(self, connect: Callable[..., Awaitable[Any]], goes_on_after: tuple[type[Exception], ...]) -> None:
        self._connect = connect
        self._goes_on_after = goes_on_after
        self._first = 0

    async def __call__(self, **given: Any) -> Any:
        """Raises ConnectionError, whose message has the failure of each host. For a URL with one host, raises the
        errors of the driver.
        """
        hosts, ports = given.get("host"), given.get("port")
        if not isinstance(hosts, list) or not isinstance(ports, list):
            return await self._connect(**given)
        if given.get("timeout") is not None:
            given["timeout"] = given["timeout"] / len(hosts)
        failures: list[str] = []
        first = self._first  # copy `_first`, because a concurrent call may change it
        for step in range(len(hosts)):
            place = (first + step) % len(hosts)
            try:
                connection = await self._connect(**{**given, "host": hosts[place], "port": ports[place]})
            except self._goes_on_after as error:
                failures.append(f"{hosts[place]}:{ports[place]}: {str(error) or 'it did not answer in time'}")
            else:
                self._first = place
                return connection
        raise ConnectionError("; ".join(failures))


def _asyncpg_in_turn() -> HostsInTurn:
    """Returns a function that connects by asyncpg, with a failover between hosts. Raises ModuleNotFoundError."""
    import asyncpg  # type: ignore[import-untyped]

    goes_on_after = (
        OSError,
        # the server is starting or stopping, or is a standby that accepts no connections
        asyncpg.CannotConnectNowError,
        asyncpg.PostgresConnectionError,
        asyncpg.TargetServerAttributeNotMatched,
        asyncpg.TooManyConnectionsError,
    )
    return HostsInTurn(asyncpg.connect, goes_on_after)


# --- connections and transactions


@asynccontextmanager
async def connection_of(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Opens a connection. Raises DatabaseOutOfReach when PostgreSQL accepts no connections. When asyncpg cannot
    connect, it raises errors of many kinds, which are all converted to DatabaseOutOfReach.
    """
    async with AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(engine.connect())
        except StoreError:
            raise
        except Exception as error:
            if engine.dialect.name == "sqlite":
                raise
            raise out_of_reach(engine, error) from error
        yield connection


def at_one_moment(engine: AsyncEngine) -> AsyncEngine:
    """Returns an engine for consistent reads. All reads of a transaction see the state of the database at the first
    read of the transaction. SQLite needs no option for this.
    """
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def begin_writing(engine: AsyncEngine) -> sqlite.Begin:
    """Returns a function that begins a write transaction. On SQLite, the transaction waits for the write lock when it
    begins, and not at its first write.
    """
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{sqlite.TAKES_WRITE_LOCK: True}).begin

    @asynccontextmanager
    async def begin() -> AsyncIterator[AsyncConnection]:
        async with connection_of(engine) as connection, connection.begin():
            yield connection

    return begin
