"""HTTP/1.1 calls on plain sockets, a few microseconds each.

A driver of thousands of members must cost less than what it drives.

An answer has to name its length, as the coordinator's answers do. A call raises ConnectionError when it has no answer:
its connection broke, could not be made, or nothing came in time. It is the caller who knows whether it may be repeated.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

LONGEST_CALL_S = 90.0
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """`head`: the status line and the headers as they came."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        found = re.search(rb"\r\n" + re.escape(name.encode()) + rb":\s*([^\r]*)", self.head, re.IGNORECASE)
        return None if found is None else found[1].decode("latin-1")


def request(
    method: str, path: str, body: bytes = b"", content_type: str = "application/json", accept: str = "application/json"
) -> bytes:
    """The bytes of one call."""
    length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n" if body or method != "GET" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n{length}\r\n".encode() + body


class _Connection(asyncio.Protocol):
    """One call at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._received = bytearray()
        self._head: bytes | None = None
        self._missing = 0

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"the connection broke: {exc}"))

    def send(self, call: bytes) -> asyncio.Future[Answer]:
        assert self.transport is not None, "it is open"
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(call)
        return self._answer

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if self._head is None:
            end = received.find(_END_OF_HEAD)
            if end < 0:
                return
            self._head = bytes(received[: end + 2])
            del received[: end + 4]
            length = _LENGTH.search(self._head)
            self._missing = 0 if length is None else int(length[1])
        if len(received) < self._missing:
            return
        answer = Answer(int(self._head[9:12]), self._head, bytes(received))
        self._head = None
        received.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


class Connections:
    """Up to `most` connections of one client; a call takes an idle one, or waits for one."""

    def __init__(self, url: str, most: int = 1) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._most = most
        self._idle: deque[_Connection] = deque()
        self._opened: set[_Connection] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = 0

    async def call(self, call: bytes, longest_s: float = LONGEST_CALL_S) -> Answer:
        """Raises ConnectionError."""
        while self._taken >= self._most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self._taken += 1
        connection: _Connection | None = None
        answered = False
        try:
            connection = await self._connection()
            answer = connection.send(call)
            late = asyncio.get_running_loop().call_later(longest_s, _gave_up, answer)
            try:
                got = await answer
            finally:
                late.cancel()
            answered = True
            return got
        finally:
            self._taken -= 1
            self._give_back(connection, usable=answered)

    def close(self) -> None:
        """As the end of a process closes them. A call that waits raises ConnectionError."""
        for connection in list(self._opened):
            connection.close()
        self._opened.clear()
        self._idle.clear()

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            self._opened.discard(connection)
        try:
            _, connection = await asyncio.get_running_loop().create_connection(_Connection, self._host, self._port)
        except OSError as fault:
            raise ConnectionError(str(fault)) from fault
        self._opened.add(connection)
        return connection

    def _give_back(self, connection: _Connection | None, *, usable: bool) -> None:
        if connection is not None:
            if usable and connection.is_open and connection in self._opened:
                self._idle.append(connection)
            else:
                self._opened.discard(connection)
                connection.close()
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break


def _gave_up(answer: asyncio.Future[Answer]) -> None:
    if not answer.done():
        answer.set_exception(ConnectionError("no answer in time"))
