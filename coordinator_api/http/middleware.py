"""The one middleware of the service: each request passes it before FastAPI finds its route.

    public address -> audit -> no upgrade -> who calls -> may they -> the whole body, within its limits
    -> the owner of the group -> route -> audit line -> answer -> metrics

The caller's right is checked before the body is read, so a stranger cannot fill the memory. A call about a group of
another coordinator is redirected. An error that no handler knows becomes a problem with status 500.
"""

from __future__ import annotations

import asyncio
import time

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.audit_log import AuditLog
from coordinator_api.http.audited_calls import AuditedCall, begin
from coordinator_api.http.auth import Gate
from coordinator_api.http.body_limits import RequestBodies
from coordinator_api.http.call_rights import CALL, PRINCIPAL, Call, call_of, check_right, need
from coordinator_api.http.connections import OpenConnections
from coordinator_api.http.hang_ups import CallerGone
from coordinator_api.http.problems import Problem, answer_to, stopping, unexpected
from coordinator_api.http.proxies import Proxies
from coordinator_api.http.redirections import not_here

_NO_ROUTE = "(none)"


class RequestGuard:
    """`bodies`: those of the service. `proxies`: notes the address at which a browser sees the service."""

    def __init__(self, app: ASGIApp, gate: Gate, bodies: RequestBodies, proxies: Proxies, audit: AuditLog) -> None:
        self._app = app
        self._gate = gate
        self._bodies = bodies
        self._proxies = proxies
        self._audit = audit
        self._measured: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        scope.setdefault("state", {})
        connections: OpenConnections = scope["app"].state.connections
        connections.note(scope)  # before a forwarded address replaces the caller's
        self._proxies.note(scope)
        call = call_of(scope["method"], scope["path"])
        scope["state"][CALL] = call
        audited = begin(self._audit, scope, call)
        send_on = send if audited is None else audited.before(send)
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if _ends_connection(scope, message):
                    connections.ends_with_answer(scope)
            await send_on(message)

        try:
            await self._answer(call, audited, scope, receive, send_and_note)
        except CallerGone:
            return
        except asyncio.CancelledError:
            # only a stop whose patience is over cancels requests
            if status:
                raise
            await answer_to(scope, stopping())(scope, receive, send_and_note)
        except Exception as error:
            problem = unexpected(error, f"{scope['method']} {scope['path']}")
            if status:
                raise  # the answer had begun: all that is left is to cut the connection
            await answer_to(scope, problem)(scope, receive, send_and_note)
        finally:
            self._measure(call, scope, status, time.perf_counter() - started)

    async def _answer(
        self, call: Call | None, audited: AuditedCall | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        with self._bodies.one() as arriving:
            try:
                _check_upgrade(Headers(scope=scope))
                principal = self._gate.caller(scope["path"], Headers(scope=scope))
                scope["state"][PRINCIPAL] = principal
                if audited is not None:
                    audited.made_by(principal)
                check_right(principal, need(call, scope["path"]))
                body = await self._bodies.arrive(arriving, call, scope, receive)
            except Problem as problem:
                # uvicorn discards the rest of the body; to close the connection would take the answer from the caller
                await answer_to(scope, problem)(scope, receive, send)
                return
            coordinator: Coordinator = scope["app"].state.coordinator
            if coordinator.lease.is_shared and call is not None:
                elsewhere = await not_here(scope, coordinator, call.parameters.get("group"))
                if elsewhere is not None:
                    await answer_to(scope, elsewhere)(scope, receive, send)
                    return
            await self._app(scope, _replay(body, receive), send)

    def _measure(self, call: Call | None, scope: Scope, status: int, seconds: float) -> None:
        # the route's pattern, not the path: groups and members must not become label values
        route = call.route if call is not None else getattr(scope.get("route"), "path", _NO_ROUTE)
        method = scope["method"] if route != _NO_ROUTE else "(any)"
        measured = self._measured.get((method, route, status))
        if measured is None:
            coordinator: Coordinator = scope["app"].state.coordinator
            metrics = coordinator.metrics
            measured = (
                metrics.requests.labels(method, route, str(status)),
                metrics.request_duration.labels(method, route),
            )
            self._measured[method, route, status] = measured
        requests, duration = measured
        requests.inc()
        duration.observe(seconds)


def _ends_connection(scope: Scope, answer: Message) -> bool:
    """Whether uvicorn closes the connection once this answer is out."""
    options = {
        option.strip().lower() for value in Headers(scope=scope).getlist("connection") for option in value.split(",")
    }
    asked = scope["http_version"] == "1.0" or "close" in options
    return asked or (b"connection", b"close") in answer.get("headers", ())


def _check_upgrade(headers: Headers) -> None:
    """Raises Problem for a request with a body that asks for another protocol.

    uvicorn's parser takes the body of such a request for the next request on the connection. A proxy that lets it pass
    would carry requests that it has not seen.
    """
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if "upgrade" in headers and has_body:
        raise Problem(
            "INVALID_REQUEST",
            "Upgrade: the service speaks HTTP/1.1; send the request without an upgrade",
            headers={"Connection": "close"},
        )


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
