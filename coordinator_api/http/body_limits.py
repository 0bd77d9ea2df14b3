"""How large the body of each call may be, how long it may take to arrive, and how much all bodies may hold at one time.

A body is read whole before its route runs, so that a route never sees half of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from starlette.types import Receive, Scope

from coordinator_api.http.call_rights import Call
from coordinator_api.http.hang_ups import CallerGone
from coordinator_api.http.page_rights import is_page
from coordinator_api.http.problems import Problem, stopping
from coordinator_api.settings import Settings

_DOCUMENT_METHODS = frozenset({"PUT", "POST"})

EMPTY_BODY_BYTES = 1_024
"""Limit for a call that needs no body."""

FORM_BYTES = 65_536
"""Limit for a form of the page. A stranger may send the login form."""

BODIES_AT_ONE_TIME = 8
"""All bodies together may take as much memory as this many of the largest."""


class BodyLimit(NamedTuple):
    """`setting`: the dotted name of the limit, for the answer."""

    max_bytes: int
    setting: str


class RequestBodies:
    """The bodies of all requests of one service that have not been answered yet."""

    def __init__(self, settings: Settings) -> None:
        heartbeat = BodyLimit(settings.heartbeat_max_bytes, "heartbeat.max.bytes")
        self._of_call = {
            ("POST", "/v1/groups/{group}/subscriptions"): BodyLimit(
                settings.subscription_max_bytes, "subscription.max.bytes"
            ),
            ("POST", "/v1/groups/{group}/heartbeat"): BodyLimit(
                settings.process_heartbeat_max_bytes, "process.heartbeat.max.bytes"
            ),
            ("POST", "/v1/groups/{group}/members/{member}/heartbeat"): heartbeat,
            ("DELETE", "/v1/groups/{group}/members/{member}"): heartbeat,
        }
        self._document = BodyLimit(settings.request_max_bytes, "request.max.bytes")
        self._form = BodyLimit(FORM_BYTES, "for a form of the page")
        self._empty = BodyLimit(EMPTY_BODY_BYTES, "for a call without a document")
        self._timeout_s = settings.request_timeout_ms / 1000
        self._most_held_bytes = BODIES_AT_ONE_TIME * settings.request_max_bytes
        self._held_bytes = 0
        self._arriving: set[asyncio.Timeout] = set()
        self._stopping = False

    def begin_stop(self) -> None:
        """Refuse the requests whose bodies are still arriving: a slow sender would delay the stop."""
        self._stopping = True
        now_s = asyncio.get_running_loop().time()
        for timeout in self._arriving:
            if not timeout.expired():
                timeout.reschedule(now_s)

    @contextmanager
    def one(self) -> Iterator[HeldBody]:
        """The body of one request. Its memory counts until the request is answered."""
        body = HeldBody(self)
        try:
            yield body
        finally:
            self._held_bytes -= body.held_bytes

    def hold(self, size: int) -> None:
        """Raises Problem when all bodies together take too much memory."""
        if self._held_bytes + size > self._most_held_bytes:
            raise Problem(
                "THROTTLING_QUOTA_EXCEEDED",
                "many large bodies are under way already: try again",
                headers={"Retry-After": "1"},
            )
        self._held_bytes += size

    async def arrive(self, body: HeldBody, call: Call | None, scope: Scope, receive: Receive) -> bytes:
        """The whole body. Raises Problem 408, 413, 429 and 503, and CallerGone."""
        limit = self._limit(call, scope["method"], scope["path"])
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if announced.isdigit() and int(announced[:20]) > limit.max_bytes:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(0 if self._stopping else self._timeout_s) as timeout:
                self._arriving.add(timeout)
                try:
                    return await body.read(limit, receive)
                finally:
                    self._arriving.discard(timeout)
        except TimeoutError:
            if self._stopping:
                raise stopping() from None
            detail = f"the body did not arrive within {self._timeout_s:g} s"
            raise Problem("REQUEST_TIMED_OUT", detail, headers={"Connection": "close"}) from None

    def _limit(self, call: Call | None, method: str, path: str) -> BodyLimit:
        own = None if call is None else self._of_call.get((method, call.route))
        if own is not None:
            return own
        if is_page(path):
            return self._form
        return self._document if method in _DOCUMENT_METHODS else self._empty


class HeldBody:
    """The body of one request. Only one that arrives in several pieces counts as held memory."""

    def __init__(self, bodies: RequestBodies) -> None:
        self._bodies = bodies
        self.held_bytes = 0

    async def read(self, limit: BodyLimit, receive: Receive) -> bytes:
        """Raises Problem, CallerGone."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise CallerGone("the caller hung up before the whole body had arrived")
            piece: bytes = message.get("body", b"")
            if len(body) + len(piece) > limit.max_bytes:
                raise _too_large(limit)
            more = message.get("more_body", False)
            if not more and not body:
                return bytes(piece)
            self._bodies.hold(len(piece))
            self.held_bytes += len(piece)
            body += piece
            if not more:
                return bytes(body)


def _too_large(limit: BodyLimit) -> Problem:
    return Problem("MESSAGE_TOO_LARGE", f"a body may have {limit.max_bytes} bytes ({limit.setting})")
