"""Connections that stay open until an answer came over another one, because a coordinator takes the end of the
connection of a process for the end of the process.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Mapping
from io import RawIOBase
from typing import Protocol

import httpx

MOST_KEPT = 4
"""So many connections stay open while no call is answered. Then the oldest one is closed."""

_OPENED = "connection.connect_tcp.complete"
_WRAPPED = "connection.start_tls.complete"


class Connect(Protocol):
    """Makes the client of one address."""

    def __call__(self, url: str, *, limits: httpx.Limits) -> httpx.Client: ...


class KeptConnections:
    """One TCP connection to each address that is called, used by one caller, for one call after the other.

    When a connection breaks, another one to the same coordinator is opened at once, before the next address is called,
    because a coordinator that lives does not wait long. When the group has moved to another coordinator, or no answer
    came in time, the old connection ends only when a call was answered over the new one, so that no coordinator sees an
    end first.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._clients: dict[str, httpx.Client] = {}
        self._sockets = KeptSockets()

    @property
    def opened(self) -> int:
        """How many connections so far."""
        return self._sockets.opened

    def client_of(self, address: str) -> httpx.Client:
        client = self._clients.pop(address, None)
        if client is None:
            limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
            client = self._connect(address, limits=limits)
        if len(self._clients) >= MOST_KEPT:
            self._clients.pop(next(iter(self._clients))).close()  # the one that was used longest ago
        self._clients[address] = client
        return client

    def trace(self, event: str, info: Mapping[str, object]) -> None:
        """To be the `trace` of each request."""
        self._sockets.trace(event, info)

    def keep_only(self, address: str, response: httpx.Response) -> None:
        """The coordinator there has answered: all other connections may end."""
        for other in self._clients.keys() - {address}:
            self._clients.pop(other).close()
        self._sockets.keep_only(response.extensions["network_stream"].get_extra_info("socket"))

    def break_off(self) -> None:
        """End what is under way, and all later calls. Any thread may call this."""
        self._sockets.break_off()

    def close(self) -> None:
        """By the thread that calls."""
        for client in self._clients.values():
            client.close()
        self._sockets.close()


class KeptSockets:
    """Keeps the sockets of one caller open after httpx has closed its own side: a time-out ends no connection.

    Any thread may call `break_off`. `opened`: how many so far.
    """

    def __init__(self) -> None:
        self.opened = 0
        self._kept: deque[tuple[socket.socket, RawIOBase]] = deque()
        self._broken_off = False

    def trace(self, event: str, info: Mapping[str, object]) -> None:
        """To be the `trace` of each request: httpx offers no other way to a socket before its answer."""
        if event not in (_OPENED, _WRAPPED):
            return
        if event == _WRAPPED:
            self._kept.pop()[1].close()  # TLS has taken over its descriptor
        else:
            self.opened += 1
        opened: socket.socket = info["return_value"].get_extra_info("socket")  # type: ignore[attr-defined]
        # a socket ends when it and all its files are closed
        self._kept.append((opened, opened.makefile("rb", buffering=0)))
        if len(self._kept) > MOST_KEPT:
            self._kept.popleft()[1].close()
        if self._broken_off:
            self.break_off()

    def keep_only(self, answered: socket.socket) -> None:
        """An answer came over this one: all others may end."""
        kept, self._kept = self._kept, deque(each for each in self._kept if each[0] is answered)
        for each, file in kept:
            if each is not answered:
                file.close()

    def break_off(self) -> None:
        """End the calls under way on these sockets, and on all later ones."""
        self._broken_off = True
        for each, _ in tuple(self._kept):
            with contextlib.suppress(OSError):  # the socket has ended by itself
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """By the thread that uses them."""
        while self._kept:
            self._kept.popleft()[1].close()
