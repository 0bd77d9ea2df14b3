"""The HTTP client for calls of coordinators and instances, and two things that httpx does not do by itself: a bearer
token that changes while the client lives, and sockets that stay open after a time-out.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Generator, Mapping
from io import RawIOBase
from typing import Any

import httpx

from coordinator_client.access.tls import client_context
from coordinator_client.calls import CallerToken, authorization


class BearerAuth(httpx.Auth):
    """Sends `token` with each call. A call that is refused because the token's file has another token by now is sent
    once more with that.
    """

    def __init__(self, token: str | CallerToken | None) -> None:
        self._token = token if isinstance(token, CallerToken) else CallerToken(token)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        sent = self._token.current()
        request.headers.update(authorization(sent))
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            newest = self._token.looked_up()
            if newest != sent:
                request.headers.update(authorization(newest))
                yield request


def http_client(url: str, token: str | CallerToken | None, **more: Any) -> httpx.Client:
    """A client that sends this token. `url`: one of those that are called; what TLS needs is read at once if it is of
    https. `more`: as `httpx.Client` takes it. Raises InputError for files of certificates that cannot be used.
    """
    return httpx.Client(
        auth=BearerAuth(token),
        trust_env=False,  # a proxy that the environment names must not see loopback calls
        verify=client_context(url, httpx.create_ssl_context),
        **more,
    )


MOST_KEPT = 4
"""So many stay open while no call is answered. Then the oldest one is closed."""

_OPENED = "connection.connect_tcp.complete"
_WRAPPED = "connection.start_tls.complete"


class KeptSockets:
    """Keeps the sockets of one caller open after its HTTP client has given them up: a time-out closes no connection.

    A coordinator takes the end of a connection for the end of a process. So a connection that gave no answer in time
    stays open until another has given one. Any thread may call `break_off`. `opened`: how many so far.
    """

    def __init__(self) -> None:
        self.opened = 0
        self._kept: deque[tuple[socket.socket, RawIOBase]] = deque()
        self._broken_off = False

    def trace(self, event: str, info: Mapping[str, object]) -> None:
        """To be the `trace` of each request: the HTTP client itself offers no way to its socket."""
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
        """End what is under way on any of them, and on all later ones."""
        self._broken_off = True
        for each, _ in tuple(self._kept):
            with contextlib.suppress(OSError):  # it has ended by itself
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """By the thread that uses them."""
        while self._kept:
            self._kept.popleft()[1].close()
