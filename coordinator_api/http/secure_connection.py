"""A connection of the service over TLS: counted and timed from its first byte on, not from the end of its handshake.

    accepted -> counted, its clock runs -> handshake -> the same connection, on the encrypted transport

Would the event loop's server do the handshake, nobody knew of a connection before it is done: a caller who opens
connections and sends nothing could have as many as there are files, and keep each for a minute.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import structlog

from assignor.access.tls import Handshakes, ReloadedContext
from coordinator_api.http.connections import CutReason, ServiceConnections
from coordinator_api.http.problems import Problem
from coordinator_api.http.service_connection import LINGER_S, ServiceConnection

_TELLS_EACH_S = 1.0

_log = structlog.get_logger("coordinator_api")


class Refusals:
    """Tells the log why handshakes fail, once in a while: whoever fails may do so a thousand times a second."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._untold = 0

    def tell(self, now_s: float, address: str, error: ssl.SSLError) -> None:
        if now_s < self._next_s:
            self._untold += 1
            return
        _log.info("handshake_refused", address=address, reason=error.reason or str(error), more_before=self._untold)
        self._next_s, self._untold = now_s + _TELLS_EACH_S, 0


class SecureConnection(ServiceConnection):
    """Begins as a plain connection that reads nothing, and goes on over TLS."""

    handshakes: Handshakes
    refusals: Refusals

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._is_secure = False
        self._is_lost = False
        self._early = b""
        self._first_answer: Problem | None = None
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not transport.is_closing():
            self._handshake = self.loop.create_task(self._secure(transport))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_secure:
            super().data_received(data)
        else:
            self._early += data

    def take_early(self) -> bytes:
        early, self._early = self._early, b""
        return early

    def on_refused(self, error: ssl.SSLError) -> None:
        """The caller reads why, and has a moment to hang up by itself."""
        self.registry.on_cut(CutReason.HANDSHAKE)
        self.refusals.tell(self.loop.time(), self.client[0] if self.client else "", error)
        self._ended_here = True
        self._closes_s = self.loop.time() + LINGER_S

    def _refuse(self, problem: Problem) -> None:
        """A caller who speaks TLS hears it after the handshake."""
        if self.registry.refuse(self):
            self._first_answer = problem
            self._closes_s = self.loop.time() + LINGER_S
        else:
            self.cut()

    async def _secure(self, transport: asyncio.Transport) -> None:
        # the headers' clock, which has begun before, cuts it sooner, and counts it
        timeout_s = self.registry.headers_timeout_s + LINGER_S
        try:
            with self.handshakes.one(self) as context:
                secure = await self.loop.start_tls(
                    transport,
                    self,
                    context,
                    server_side=True,
                    ssl_handshake_timeout=timeout_s,
                    ssl_shutdown_timeout=LINGER_S,
                )
        except (OSError, RuntimeError) as error:  # ssl.SSLError is the first; a transport that was closed, the second
            self.connection_lost(error if isinstance(error, OSError) else None)
            return
        if secure is None or self._is_lost or self._ended_here:
            return
        self._use(secure)
        self._is_secure = True
        if self._first_answer is not None:
            self._end_with(self._first_answer)
        elif self._early:
            super().data_received(self.take_early())


def secure_protocol_of(connections: ServiceConnections, context: ReloadedContext) -> type[asyncio.Protocol]:
    """The class of which uvicorn makes one object for each connection."""
    return type(
        "Connection",
        (SecureConnection,),
        {"registry": connections, "handshakes": Handshakes(context), "refusals": Refusals()},
    )
