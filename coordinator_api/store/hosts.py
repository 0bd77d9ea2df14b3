"""A database on several hosts, of which one takes writes at a time.

`postgresql://user@h1:5432,h2:5433/db?target_session_attrs=read-write`, as libpq has it.

Rules:
- A host that says nothing takes its share of the time to connect, not all of it. A primary that stands still would
  otherwise keep everybody from the one that has taken its place.
- The host that let somebody in last is asked first. Differs from libpq, which begins with the first one every time.
- What is wrong with a list is said by its number in it: what looks like a host may be half of a password.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import URL

from coordinator_api.store.errors import UnusableDatabase

DEFAULT_PORT = 5432

_WITH_HOSTS = re.compile(
    r"(?P<before>postgres(?:ql)?(?:\+\w+)?://(?:[^:/]*(?::[^@]*)?@)?)(?P<hosts>[^/?]*)(?P<after>.*)"
)
_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[^:]*))?")
_PLACE = "\0"


def apart(text: str) -> tuple[str, dict[str, str]]:
    """A URL without its list of hosts, and the list as parameters, for SQLAlchemy. One of a single host stays as it is.

    Raises UnusableDatabase.
    """
    url = _WITH_HOSTS.fullmatch(text)
    if url is None or "," not in url["hosts"]:
        return text, {}
    found = [_host_and_port(number, each) for number, each in enumerate(url["hosts"].split(","), start=1)]
    hosts = {"host": ",".join(host for host, _ in found), "port": ",".join(str(port) for _, port in found)}
    return url["before"] + url["after"], hosts


def as_written(url: URL) -> str:
    """With its password, and with the hosts where people write them."""
    hosts, ports = url.query.get("host"), url.query.get("port")
    if not isinstance(hosts, str) or not isinstance(ports, str) or "," not in hosts:
        return url.render_as_string(hide_password=False)
    both = zip(hosts.split(","), ports.split(","), strict=False)
    listed = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in both)
    rest = {name: value for name, value in url.query.items() if name not in ("host", "port")}
    return url.set(query=rest, host=_PLACE).render_as_string(hide_password=False).replace(_PLACE, listed)


def _host_and_port(number: int, text: str) -> tuple[str, int]:
    host = _HOST.fullmatch(text)
    name = host and (host["ipv6"] or host["name"])
    if host is None or not name:
        problem = "is none: expected name:port, 10.0.0.1:port or [::1]:port" if text else "is empty"
        raise UnusableDatabase(f"database.url: host number {number} of its list {problem}")
    port = host["port"] or str(DEFAULT_PORT)
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise UnusableDatabase(f"database.url: host number {number} of its list has no port between 1 and 65535")
    return name, int(port)


class HostsInTurn:
    """What the driver is given instead of its own way to connect. `connect`: that way."""

    def __init__(self, connect: Callable[..., Awaitable[Any]], goes_on_after: tuple[type[Exception], ...]) -> None:
        self._connect = connect
        self._goes_on_after = goes_on_after
        self._first = 0

    async def __call__(self, **given: Any) -> Any:
        """Raises ConnectionError, which says what each host did, or what the driver raises for a single one."""
        hosts, ports = given.get("host"), given.get("port")
        # who wants a standby where there is one has to look at all of them
        if not isinstance(hosts, list) or not isinstance(ports, list) or _wants_the_best(given):
            return await self._connect(**given)
        each = dict(given)
        if given.get("timeout") is not None:
            each["timeout"] = given["timeout"] / len(hosts)
        said: list[str] = []
        first = self._first  # another connection may find another host meanwhile
        for step in range(len(hosts)):
            place = (first + step) % len(hosts)
            try:
                connection = await self._connect(**{**each, "host": hosts[place], "port": ports[place]})
            except self._goes_on_after as error:
                said.append(f"{hosts[place]}:{ports[place]}: {str(error) or 'it did not answer in time'}")
            else:
                self._first = place
                return connection
        raise ConnectionError("; ".join(said))


def _wants_the_best(given: dict[str, Any]) -> bool:
    return bool(given.get("target_session_attrs") == "prefer-standby")


def asyncpg_in_turn() -> HostsInTurn:
    """Raises ModuleNotFoundError."""
    import asyncpg  # type: ignore[import-untyped]

    goes_on_after = (
        OSError,
        asyncpg.CannotConnectNowError,  # it starts, it stops, or it is a standby that lets nobody in
        asyncpg.PostgresConnectionError,
        asyncpg.TargetServerAttributeNotMatched,
        asyncpg.TooManyConnectionsError,
    )
    return HostsInTurn(asyncpg.connect, goes_on_after)
