"""Connections that a time-out does not close: each stays open until an answer came over another connection.

A coordinator that sees the connection of a process end takes the process for dead.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Callable, Mapping
from io import RawIOBase

import httpx

MOST_KEPT = 4
"""So many connections stay open while no call is answered. Then the oldest one is closed."""

_LIMITS = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
_OPENED = "connection.connect_tcp.complete"
_WRAPPED = "connection.start_tls.complete"


class KeptConnections:
    """One TCP connection to each address that is called, used by one caller, for one call after the other.

    When a connection breaks, another one to the same coordinator is opened at once, before the next address is called,
    because a coordinator that lives does not wait long. When the group has moved to another coordinator, or no answer
    came in time, the old connection ends only when a call was answered over the new one, so that no coordinator sees an
    end first. For this its socket is kept open after httpx has closed its own side.

    `connect`: makes the client of one address. `opened`: how many connections so far. Any thread may call `break_off`.
    """

    def __init__(self, connect: Callable[..., httpx.Client]) -> None:
        self.opened = 0
        self._connect = connect
        self._clients: dict[str, httpx.Client] = {}
        self._sockets: deque[tuple[socket.socket, RawIOBase]] = deque()
        self._broken_off = False

    def client_of(self, address: str) -> httpx.Client:
        client = self._clients.pop(address, None) or self._connect(address, limits=_LIMITS)
        if len(self._clients) >= MOST_KEPT:
            self._clients.pop(next(iter(self._clients))).close()  # the one that was used longest ago
        self._clients[address] = client
        return client

    def trace(self, event: str, info: Mapping[str, object]) -> None:
        """To be the `trace` of each request: httpx offers no other way to a socket before its answer."""
        if event not in (_OPENED, _WRAPPED):
            return
        if event == _WRAPPED:
            self._sockets.pop()[1].close()  # TLS has taken over its descriptor
        else:
            self.opened += 1
        opened: socket.socket = info["return_value"].get_extra_info("socket")  # type: ignore[attr-defined]
        # a socket ends when it and all its files are closed
        self._sockets.append((opened, opened.makefile("rb", buffering=0)))
        if len(self._sockets) > MOST_KEPT:
            self._sockets.popleft()[1].close()
        if self._broken_off:
            self.break_off()

    def keep_only(self, address: str, response: httpx.Response) -> None:
        """The coordinator there has answered: all other connections may end."""
        for other in self._clients.keys() - {address}:
            self._clients.pop(other).close()
        answered = response.extensions["network_stream"].get_extra_info("socket")
        sockets, self._sockets = self._sockets, deque(each for each in self._sockets if each[0] is answered)
        for each, file in sockets:
            if each is not answered:
                file.close()

    def break_off(self) -> None:
        """End the calls that are under way, and all later ones."""
        self._broken_off = True
        for each, _ in tuple(self._sockets):
            with contextlib.suppress(OSError):  # the socket has ended by itself
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """By the thread that calls."""
        for client in self._clients.values():
            client.close()
        while self._sockets:
            self._sockets.popleft()[1].close()
