"""A prototype, for measuring only: `assignor serve`, except that a call about a group of another coordinator is passed
on to that one, and its answer is given back.

    known owner of the group? -> ask it at once
    else: what this coordinator answers -> 307: it names the owner, which is asked, and known from now on

It is as cheap as passing on can be: it checks no right, because the owner does, and does not look whether the group has
moved, because the owner says so (307, which the caller then follows).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assignor_cli.app import main
from benchmarks.group_load.http_calls import Connections
from coordinator_api.http import server
from coordinator_api.http.app import create_app
from coordinator_api.http.call_rights import call_of
from coordinator_api.http.problems import MOVED

WITH = b"passed-on-with"
"""The header with which a caller chooses the client that passes its call on."""

HTTPX, SOCKETS = b"httpx", b"sockets"
LONGEST_CALL_S = 90.0
MOST_CONNECTIONS = 1_000

Headers = list[tuple[bytes, bytes]]


class Passed(NamedTuple):
    """A call. `target`: path and query."""

    method: str
    target: str
    headers: Headers
    body: bytes


class Answer(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class Client(Protocol):
    async def ask(self, url: str, call: Passed) -> Answer: ...


class Httpx:
    """The client with which coordinators ask each other for lists."""

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_CONNECTIONS)
        self._client = httpx.AsyncClient(trust_env=False, timeout=LONGEST_CALL_S, limits=limits)

    async def ask(self, url: str, call: Passed) -> Answer:
        asked = self._client.stream(call.method, url + call.target, headers=call.headers, content=call.body)
        async with asked as answer:
            body = b"".join([piece async for piece in answer.aiter_raw()])
        return Answer(answer.status_code, answer.headers.raw, body)


class Sockets:
    """The client of the members in benchmarks: about the least that a call can cost in Python."""

    def __init__(self) -> None:
        self._connections: dict[str, Connections] = {}

    async def ask(self, url: str, call: Passed) -> Answer:
        connections = self._connections.get(url)
        if connections is None:
            connections = self._connections[url] = Connections(url, MOST_CONNECTIONS)
        lines = b"".join(b"%b: %b\r\n" % header for header in call.headers)
        head = b"%b %b HTTP/1.1\r\n%b\r\n" % (call.method.encode(), call.target.encode("latin-1"), lines)
        answer = await connections.call(head + call.body, LONGEST_CALL_S)
        headers = [line.split(b": ", 1) for line in answer.head.split(b"\r\n")[1:-1]]
        return Answer(answer.status, [(name, value) for name, value in headers], answer.body)


class PassingOn:
    """In front of the application of a service, which answers all calls that are not passed on."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self.state = app.state
        self._owners: dict[str, str] = {}
        self._clients: dict[bytes, Client] = {HTTPX: Httpx(), SOCKETS: Sockets()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        called = call_of({**scope, "app": self._app}) if scope["type"] == "http" else None
        group = None if called is None else called.parameters.get("group")
        if group is None:
            await self._app(scope, receive, send)
            return
        body = await _whole_body(receive)
        owner = self._owners.get(group)
        if owner is None:
            answer = await _answer_of(self._app, scope, body, receive)
            owner = _sent_on_to(answer)
            if owner is None:
                await _give(answer, send)
                return
            self._owners[group] = owner
        client = next((value for name, value in scope["headers"] if name == WITH), HTTPX)
        answer = await self._clients[client].ask(owner, Passed(scope["method"], _target(scope), scope["headers"], body))
        if answer.status == MOVED:
            del self._owners[group]
        await _give(answer, send)


async def _whole_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _answer_of(app: ASGIApp, scope: Scope, body: bytes, receive: Receive) -> Answer:
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    said: list[Message] = []

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    async def send(message: Message) -> None:
        said.append(message)

    await app(scope, receive_again, send)
    start, *pieces = said
    return Answer(start["status"], list(start["headers"]), b"".join(piece.get("body", b"") for piece in pieces))


def _sent_on_to(answer: Answer) -> str | None:
    """The address of the coordinator to which the answer sends the call on."""
    if answer.status != MOVED:
        return None
    location = next(value for name, value in answer.headers if name == b"location").decode("latin-1")
    parts = urlsplit(location)
    return f"{parts.scheme}://{parts.netloc}"


async def _give(answer: Answer, send: Send) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


def _target(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    path: bytes = scope["raw_path"]
    return (path + b"?" + query if query else path).decode("latin-1")


def _create_app(*arguments: Any) -> PassingOn:
    return PassingOn(create_app(*arguments))


def _end_with_the_parent() -> None:
    """It holds the other end of stdin."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    server.create_app = _create_app  # type: ignore[attr-defined, assignment]
    main()
