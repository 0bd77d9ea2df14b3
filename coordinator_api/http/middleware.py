"""What every request passes before it reaches a route: the gate, the limits on its body, the time that it takes.

Plain ASGI. The body is read whole here, after the bearer token has been checked and with limits on size and time. So a
stranger cannot fill the memory, and a route never sees a half-sent body. An error that nothing else handles becomes a
problem with status 500.
"""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assignor.errors import AssignorFault
from coordinator_api.http.auth import Gate
from coordinator_api.http.problems import Problem, problem_response, unexpected
from coordinator_api.metrics import Metrics
from coordinator_api.settings import Settings

_NO_ROUTE = "(none)"


class ClientGone(AssignorFault):
    """The caller hung up before the whole body had arrived."""


class RequestGuard:
    """Wraps the application; a service has one."""

    def __init__(self, app: ASGIApp, gate: Gate, settings: Settings) -> None:
        self._app = app
        self._gate = gate
        self._max_bytes = settings.request_max_bytes
        self._timeout_s = settings.request_timeout_ms / 1000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._answer(scope, receive, send_and_note)
        except ClientGone:
            return
        except Exception as error:
            problem = unexpected(error, f"{scope['method']} {scope['path']}")
            if status:
                raise  # the answer had begun: all that is left is to cut the connection
            await problem_response(problem)(scope, receive, send_and_note)
        finally:
            self._measure(scope, status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            self._gate.check(scope["path"], headers)
            body = await self._read_body(headers, receive)
        except Problem as problem:
            # the rest of the body is not read: the connection ends with this answer
            problem.headers.setdefault("Connection", "close")
            await problem_response(problem)(scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced[:20]) > self._max_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    body += message.get("body", b"")
                    if len(body) > self._max_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise Problem("REQUEST_TIMED_OUT", f"the body did not arrive within {self._timeout_s:g} s") from None

    def _too_large(self) -> Problem:
        return Problem("MESSAGE_TOO_LARGE", f"a body may have {self._max_bytes} bytes (request.max.bytes)")

    @staticmethod
    def _measure(scope: Scope, status: int, seconds: float) -> None:
        # the route's pattern, not the path: groups and members must not become label values
        route = getattr(scope.get("route"), "path", _NO_ROUTE)
        method = scope["method"] if route != _NO_ROUTE else "(any)"
        metrics: Metrics = scope["app"].state.coordinator.metrics
        metrics.requests.labels(method, route, str(status)).inc()
        metrics.request_duration.labels(method, route).observe(seconds)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, and then the messages of the connection (that the caller hung up)."""
    sent = False

    async def replayed() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
