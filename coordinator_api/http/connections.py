"""Which connections are open, so that a group learns of a broken one: the kernel closes those of a killed process.

    accepted -> a number -> each process heartbeat names it, so its members belong to that connection
    broken -> the groups of its members learn of it (`coordinator_api/group/liveness.py` has the rules)
    ended by the service with an answer -> it says nothing about its members

uvicorn names a connection by its caller's address and port (`scope["client"]`). A port may be used again before uvicorn
reports that its last connection broke, so every connection has a number of its own.

A heartbeat that a proxy forwards counts as a connection of its own, from its arrival to its answer: the proxy shares
its connections among many processes, and keeps them when a process dies. So a death behind a proxy is noticed while a
heartbeat of the process is held, because the proxy then closes the connection on which it forwarded the heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from starlette.datastructures import Headers
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.hang_ups import CallerGone

CONNECTION = "connection"
"""The key of a request's state with the number of its connection; None for one that nobody watches."""

_FORWARDED = ("x-forwarded-for", "forwarded")

Address = tuple[str, int]


class OpenConnections:
    """The connections of one service, on its event loop."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._numbers = count(1)
        self._open: dict[Address, int] = {}
        coordinator.metrics.connections.set_function(lambda: len(self._open))

    def opened(self, client: Address) -> int:
        """The number of the new connection."""
        self._open[client] = number = next(self._numbers)
        return number

    def lost(self, client: Address, number: int) -> None:
        """The connection broke, or its caller closed it."""
        if self._open.get(client) == number:
            del self._open[client]
        self._coordinator.connection_lost(number)

    def note(self, scope: Scope) -> None:
        """Note the connection of a request that begins: while its body arrives, the connection may break."""
        client = scope.get("client")
        scope["state"][CONNECTION] = None if client is None else self._open.get(tuple(client))

    def ends_with_answer(self, scope: Scope) -> None:
        """The service closes the connection of this request once its answer is out."""
        number: int | None = scope["state"][CONNECTION]
        if number is not None:
            self._coordinator.connection_closed(number)

    @contextmanager
    def of_heartbeat(self, scope: Scope) -> Iterator[int | None]:
        """The number of the connection on which a process heartbeat came; None for one that nobody watches.

        Raises CallerGone for a connection that has broken since the request began: the heartbeat of a process that has
        died meanwhile is no sign of life.
        """
        headers = Headers(scope=scope)
        if not any(name in headers for name in _FORWARDED):
            open_number: int | None = scope["state"][CONNECTION]
            if open_number is not None and self._open.get(tuple(scope["client"])) != open_number:
                raise CallerGone
            yield open_number
            return
        number = next(self._numbers)
        try:
            yield number
        finally:
            self._coordinator.connection_closed(number)

    def hung_up(self, number: int | None) -> None:
        """The caller of a held heartbeat hung up."""
        if number is not None:
            self._coordinator.connection_lost(number)


def connection_class(connections: OpenConnections) -> type[asyncio.Protocol]:
    """uvicorn's protocol of a connection, which also reports to `connections`. For uvicorn's setting `http`.

    uvicorn has no hook for connections. So this subclasses its protocol, and overrides asyncio's two methods alone.
    """

    class WatchedConnection(HttpToolsProtocol):
        _client: Address | None = None
        _number = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            peer = transport.get_extra_info("peername")
            if peer is not None:
                self._client = peer[0], peer[1]
                self._number = connections.opened(self._client)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._client is not None:
                connections.lost(self._client, self._number)

    return WatchedConnection
