"""What every request passes before it reaches a route: the gate, the limits on its body, the time that it takes; and
the audit log, before its answer goes out.

Plain ASGI. The body is read whole here, after the caller's right has been checked, and with limits on size and time. So
a stranger cannot fill the memory, and a route never sees a half-sent body. A call about a group of another coordinator
is sent there. Hot calls are answered from here, all others by FastAPI. An error that nothing else handles becomes a
problem with status 500.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinator_api.errors import CoordinatorFault
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.audit_log import AuditLog
from coordinator_api.http.audited_calls import AuditedCall, begin
from coordinator_api.http.auth import Gate
from coordinator_api.http.call_rights import PRINCIPAL, check_right, need
from coordinator_api.http.hang_ups import CallerGone
from coordinator_api.http.page_rights import is_page
from coordinator_api.http.problems import (
    Problem,
    answer_to,
    from_fault,
    from_store_error,
    problem_response,
    stopping,
    unexpected,
)
from coordinator_api.http.redirections import group_of, moved_meanwhile, not_here
from coordinator_api.settings import Settings
from coordinator_api.store.errors import NotOwner, StoreError

_NO_ROUTE = "(none)"
_DOCUMENT_METHODS = frozenset({"PUT", "POST"})

EMPTY_BODY_BYTES = 1_024
"""What a call that needs no body may carry all the same."""

FORM_BYTES = 65_536
"""What a form of the page may carry. The one of the login comes from strangers."""

BODIES_AT_ONE_TIME = 8
"""All bodies together may take as much memory as so many of the largest."""


class HotCall(NamedTuple):
    """A call that is answered without FastAPI; `hot_calls.py` has them all.

    `route`: the address as FastAPI has it. `max_bytes`: of the body. `setting`: the dotted name of that limit.
    """

    route: str
    answer: Callable[[Request], Awaitable[Response]]
    max_bytes: int
    setting: str


class BodyLimit(NamedTuple):
    """`setting`: the dotted name of the limit."""

    max_bytes: int
    setting: str


class RequestGuard:
    """Wraps the application; a service has one. `find_hot_call`: the hot call of a request, None for any other."""

    def __init__(
        self,
        app: ASGIApp,
        gate: Gate,
        settings: Settings,
        find_hot_call: Callable[[Scope], HotCall | None],
        audit: AuditLog,
    ) -> None:
        self._app = app
        self._gate = gate
        self._find_hot_call = find_hot_call
        self._audit = audit
        self._document = BodyLimit(settings.request_max_bytes, "request.max.bytes")
        self._form = BodyLimit(FORM_BYTES, "for a form of the page")
        self._empty = BodyLimit(EMPTY_BODY_BYTES, "for a call without a document")
        self._timeout_s = settings.request_timeout_ms / 1000
        self._held_bodies = _HeldBodies(BODIES_AT_ONE_TIME * settings.request_max_bytes)
        self._arriving: set[asyncio.Timeout] = set()
        self._stopping = False
        self._measured: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def begin_stop(self) -> None:
        """Wait for no body any more: its call would be refused, too, and whoever sends slowly would delay the stop."""
        self._stopping = True
        now_s = asyncio.get_running_loop().time()
        for timeout in self._arriving:
            if not timeout.expired():
                timeout.reschedule(now_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        hot = self._find_hot_call(scope)
        audited = begin(self._audit, scope)
        send_on = send if audited is None else audited.before(send)
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send_on(message)

        try:
            await self._answer(hot, audited, scope, receive, send_and_note)
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
            self._measure(hot, scope, status, time.perf_counter() - started)

    async def _answer(
        self, hot: HotCall | None, audited: AuditedCall | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        headers = Headers(scope=scope)
        with self._held_bodies.one() as held:
            try:
                principal = self._gate.caller(scope["path"], headers)
                scope.setdefault("state", {})[PRINCIPAL] = principal
                if audited is not None:
                    audited.made_by(principal)
                check_right(principal, need(scope["method"], scope["path"]))
                body = await self._read_body(self._limit(hot, scope["method"], scope["path"]), headers, receive, held)
            except Problem as problem:
                # the rest of the body is not read: the connection ends with this answer
                problem.headers.setdefault("Connection", "close")
                await answer_to(scope, problem)(scope, receive, send)
                return
            coordinator: Coordinator = scope["app"].state.coordinator
            if coordinator.lease.is_shared:
                group_id = group_of(scope) if hot is None else scope["path_params"]["group"]
                elsewhere = await not_here(scope, coordinator, group_id)
                if elsewhere is not None:
                    await answer_to(scope, elsewhere)(scope, receive, send)
                    return
            if hot is None:
                await self._app(scope, _replay(body, receive), send)
            else:
                response = await _hot_answer(hot, Request(scope, _replay(body, receive)), coordinator)
                await response(scope, receive, send)

    def _limit(self, hot: HotCall | None, method: str, path: str) -> BodyLimit:
        if hot is not None:
            return BodyLimit(hot.max_bytes, hot.setting)
        if is_page(path):
            return self._form
        return self._document if method in _DOCUMENT_METHODS else self._empty

    async def _read_body(self, limit: BodyLimit, headers: Headers, receive: Receive, held: HeldBody) -> bytes:
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced[:20]) > limit.max_bytes:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(0 if self._stopping else self._timeout_s) as timeout:
                self._arriving.add(timeout)
                try:
                    return await _whole_body(limit, receive, held)
                finally:
                    self._arriving.discard(timeout)
        except TimeoutError:
            if self._stopping:
                raise stopping() from None
            raise Problem("REQUEST_TIMED_OUT", f"the body did not arrive within {self._timeout_s:g} s") from None

    def _measure(self, hot: HotCall | None, scope: Scope, status: int, seconds: float) -> None:
        # the route's pattern, not the path: groups and members must not become label values
        route = hot.route if hot is not None else getattr(scope.get("route"), "path", _NO_ROUTE)
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


async def _hot_answer(hot: HotCall, request: Request, coordinator: Coordinator) -> Response:
    """As FastAPI answers it with the handlers of `problems.py`."""
    try:
        return await hot.answer(request)
    except Problem as problem:
        return problem_response(problem)
    except CoordinatorFault as fault:
        return problem_response(from_fault(fault))
    except NotOwner:
        return problem_response(await moved_meanwhile(request.scope, coordinator))
    except StoreError as error:
        return problem_response(from_store_error(error, request.url.path))


class _HeldBodies:
    """How much memory the bodies take that came in more than one piece, from their arrival to their answer."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0

    @contextmanager
    def one(self) -> Iterator[HeldBody]:
        body = HeldBody(self)
        try:
            yield body
        finally:
            self.total -= body.size


class HeldBody:
    def __init__(self, bodies: _HeldBodies) -> None:
        self._bodies = bodies
        self.size = 0

    def add(self, size: int) -> None:
        """Raises Problem when all bodies together take too much."""
        if self._bodies.total + size > self._bodies.most:
            raise Problem(
                "THROTTLING_QUOTA_EXCEEDED",
                "many large bodies are under way already: try again",
                headers={"Retry-After": "1"},
            )
        self._bodies.total += size
        self.size += size


async def _whole_body(limit: BodyLimit, receive: Receive, held: HeldBody) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerGone("the caller hung up before the whole body had arrived")
        piece = message.get("body", b"")
        if len(body) + len(piece) > limit.max_bytes:
            raise _too_large(limit)
        more = message.get("more_body", False)
        if not more and not body:
            return bytes(piece)
        held.add(len(piece))
        body += piece
        if not more:
            return bytes(body)


def _too_large(limit: BodyLimit) -> Problem:
    return Problem("MESSAGE_TOO_LARGE", f"a body may have {limit.max_bytes} bytes ({limit.setting})")


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
