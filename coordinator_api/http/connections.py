"""Which connections are open, and which one broke: the kernel closes those of a killed process.

    accepted -> a number -> each process heartbeat names it, so its members belong to that connection
    broken -> the groups of its members learn of it (`coordinator_api/group/liveness.py` has the rules), and a
        request of it that is held, or computed, ends: nobody reads its answer
    ended by the service with an answer -> it says nothing about its members

uvicorn names a connection by its caller's address and port (`scope["client"]`). A port may be used again before uvicorn
reports that its last connection broke, so every connection has a number of its own.

A request that a proxy forwards counts as a connection of its own, from its arrival to its answer: the proxy shares
its connections among many processes, and keeps them when a process dies. So a death behind a proxy is noticed while a
heartbeat of the process is held, because the proxy then closes the connection on which it forwarded the heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, NamedTuple, TypeVar, cast

from starlette.requests import Request
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assignor.errors import AssignorFault
from coordinator_api.http.problems import stopping
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.workers.worker_pool import PoolClosed

CONNECTION = "connection"
"""The key of a request's state with its `Connection`; None for one that nobody watches."""

_FORWARDED = (b"x-forwarded-for", b"forwarded")

Address = tuple[str, int]
Value = TypeVar("Value")


class CallerGone(AssignorFault):
    """The caller hung up before it had its answer."""


class Connection(NamedTuple):
    """`gone`: set when it has broken; None for one that nobody watches. `is_forwarded`: it is that of one request."""

    number: int
    gone: asyncio.Event | None
    is_forwarded: bool = False

    def number_of_heartbeat(self) -> int:
        """Raises CallerGone for a connection that has broken since the request began: the heartbeat of a process that
        has died meanwhile is no sign of life.
        """
        if self.gone is not None and self.gone.is_set() and not self.is_forwarded:
            raise CallerGone
        return self.number


class OpenConnections:
    """The connections of one service, on its event loop."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._numbers = count(1)
        self._open: dict[Address, Connection] = {}
        coordinator.metrics.connections.set_function(lambda: len(self._open))

    def opened(self, client: Address) -> Connection:
        """The new connection."""
        self._open[client] = connection = Connection(next(self._numbers), asyncio.Event())
        return connection

    def lost(self, client: Address, connection: Connection) -> None:
        """The connection broke, or its caller closed it."""
        if self._open.get(client) is connection:
            del self._open[client]
        assert connection.gone is not None, "it was opened here"
        connection.gone.set()
        self._coordinator.connection_lost(connection.number)

    def of_request(self, scope: Scope) -> Connection | None:
        """The connection of a request that begins, noted in its state: it may break while the body arrives."""
        client = scope.get("client")
        connection = None if client is None else self._open.get(tuple(client))
        if any(name in _FORWARDED for name, _ in scope["headers"]):
            gone = None if connection is None else connection.gone
            connection = Connection(next(self._numbers), gone, is_forwarded=True)
        scope["state"][CONNECTION] = connection
        return connection


def connection_of(request: Request) -> Connection | None:
    connection: Connection | None = request.scope["state"][CONNECTION]
    return connection


async def hung_up(request: Request) -> None:
    """Returns when the caller has hung up. The request's body has been read before."""
    connection = connection_of(request)
    if connection is not None and connection.gone is not None:
        # uvicorn tells only the last of several requests that a caller sent ahead of their answers
        await connection.gone.wait()
        return
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def unless_hung_up(request: Request, work: Coroutine[object, object, Value]) -> Value:
    """What `work` returns or raises. It is cancelled when the caller hangs up: raises CallerGone."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(hung_up(request))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerGone("the caller hung up")
        return working.result()
    finally:
        gone.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


async def run_in_worker(
    request: Request, coordinator: Coordinator, function: Callable[..., Value], *arguments: object
) -> Value:
    """`function(*arguments)` in a worker process that is killed when the caller hangs up: raises CallerGone.

    Raises Problem when the service stops meanwhile.
    """
    try:
        return await unless_hung_up(request, coordinator.workers.computations.run(function, *arguments))
    except PoolClosed:
        raise stopping() from None


class _QuietTransport:
    """A transport on which nothing more is written once it is closed.

    A caller may send several requests ahead of their answers. When it hangs up, uvicorn tells only the last of them,
    and writes the answers of the others all the same. asyncio's transport raises an error for each.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, octets: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(octets)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def connection_class(connections: OpenConnections) -> type[asyncio.Protocol]:
    """uvicorn's protocol of a connection, which also reports to `connections`. For uvicorn's setting `http`.

    uvicorn has no hook for connections. So this subclasses its protocol, and overrides asyncio's two methods alone.
    """

    class WatchedConnection(HttpToolsProtocol):
        _client: Address | None = None
        _connection: Connection

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(cast(asyncio.Transport, _QuietTransport(transport)))
            peer = transport.get_extra_info("peername")
            if peer is not None:
                self._client = peer[0], peer[1]
                self._connection = connections.opened(self._client)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._client is not None:
                connections.lost(self._client, self._connection)

    return WatchedConnection
