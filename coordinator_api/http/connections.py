"""Tracks the open connections of the service, and detects broken connections.

- An accepted connection gets a number. If a process sends heartbeats on a connection, the members of the process belong
  to this connection.
- When a process is killed, the kernel closes its connections. If a connection breaks, the groups of its members are
  notified. `coordinator_api/group/liveness.py` decides when these groups then remove the members. Held requests and
  computations of the connection end, because no caller reads the answers.
- If the service closes a connection after an answer, this does not show that a member has failed.

uvicorn identifies a connection by the caller's address and port (`scope["client"]`). A caller may use a port again
before uvicorn reports that the earlier connection from this port broke. So each connection also has a unique number.

Each request that a proxy forwards counts as a separate connection. The connection of a forwarded request lasts from its
arrival to its answer. A proxy sends the requests of many processes on the same connections, and does not close these
connections when a process fails. If a process fails while the service holds its heartbeat, the proxy closes the
connection of this heartbeat. So if a process behind a proxy fails, the service notices the failure only while the
service holds a heartbeat of the process.
"""

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
"""The key in a request's state for the request's `Connection`. The value is None if the connection is not watched.
"""

_FORWARDED = (b"x-forwarded-for", b"forwarded")

Address = tuple[str, int]
Value = TypeVar("Value")


class CallerGone(AssignorFault):
    """The caller disconnected before it received its answer."""


class Connection(NamedTuple):
    """A connection of a caller. `gone`: an event that is set when the connection breaks; None if the connection is not
    watched. `is_forwarded`: True if the connection stands for one request that a proxy forwarded.
    """

    number: int
    gone: asyncio.Event | None
    is_forwarded: bool = False

    def number_of_heartbeat(self) -> int:
        """Returns the number of the connection on which this heartbeat arrived. Raises CallerGone if the connection has
        broken since the heartbeat arrived. The process may have failed, so its heartbeat must not extend sessions.
        """
        if self.gone is not None and self.gone.is_set() and not self.is_forwarded:
            raise CallerGone
        return self.number


class OpenConnections:
    """The open connections of one service. Use an OpenConnections only on the service's event loop."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._numbers = count(1)
        self._open: dict[Address, Connection] = {}
        coordinator.metrics.connections.set_function(lambda: len(self._open))

    def opened(self, client: Address) -> Connection:
        """Adds a connection, and returns it."""
        self._open[client] = connection = Connection(next(self._numbers), asyncio.Event())
        return connection

    def lost(self, client: Address, connection: Connection) -> None:
        """Removes a connection that broke, or that its caller closed."""
        if self._open.get(client) is connection:
            del self._open[client]
        assert connection.gone is not None, "it was opened here"
        connection.gone.set()
        self._coordinator.connection_lost(connection.number)

    def of_request(self, scope: Scope) -> Connection | None:
        """Returns the connection of a new request. The connection is also stored in the request's state. Call this
        method before the body is read, because the connection may break while the body arrives.
        """
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
    """Returns when the caller has disconnected. Call `hung_up` after the request's body has been read."""
    connection = connection_of(request)
    if connection is not None and connection.gone is not None:
        # if a caller with several pipelined requests disconnects, uvicorn sends `http.disconnect` only to the last
        # request
        await connection.gone.wait()
        return
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def unless_hung_up(request: Request, work: Coroutine[object, object, Value]) -> Value:
    """Returns the result of `work`, or raises the error of `work`. If the caller disconnects first, cancels `work` and
    raises CallerGone.
    """
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
    """Runs `function(*arguments)` in a worker process. If the caller disconnects, kills the process and raises
    CallerGone.

    Raises Problem if the service stops during the computation.
    """
    try:
        return await unless_hung_up(request, coordinator.workers.computations.run(function, *arguments))
    except PoolClosed:
        raise stopping() from None


class _QuietTransport:
    """A transport that ignores writes after the transport was closed.

    A caller may send several requests without waiting for the answers. If this caller disconnects, uvicorn still writes
    the answers to all requests except the last. The transport of asyncio would raise an error for each write after it
    was closed.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, octets: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(octets)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def connection_class(connections: OpenConnections) -> type[asyncio.Protocol]:
    """Returns a protocol class for uvicorn's setting `http`. The class also reports opened and lost connections to
    `connections`.

    uvicorn has no hook for connections, so the class is a subclass of uvicorn's protocol class. The subclass overrides
    only the two methods that asyncio defines.
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
