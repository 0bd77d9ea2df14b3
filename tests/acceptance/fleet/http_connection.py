"""HTTP/1.1 over one kept connection at a time, without the cost of a full client: a thousand of them share a core.

An answer has to name its length, as the coordinator's answers do.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
MOST_REDIRECTS = 3
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_SENT_ON = 307
_NOT_NOW = 503


class NoAnswer(Exception):
    """The connection broke, or nothing came back in time: the request may or may not have been carried out."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


class Route:
    """Where the calls of one caller go: to the coordinator that answered last. When it does not answer, to the next of
    the list, and where a redirect leads, in the list or not.
    """

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = tuple(addresses)
        self.current = self.addresses[0]

    @property
    def has_others(self) -> bool:
        return len(self.addresses) > 1

    def failed(self, address: Address) -> None:
        """It gave no answer, or none that is of use. Whoever finds that out late changes nothing."""
        if address == self.current:
            place = self.addresses.index(address) + 1 if address in self.addresses else 0
            self.current = self.addresses[place % len(self.addresses)]

    def sent_on(self, location: str) -> None:
        parts = urlsplit(location)
        assert parts.hostname is not None, location
        assert parts.port is not None, location
        self.current = Address(parts.hostname, parts.port)


@dataclass(frozen=True, slots=True)
class Answer:
    """`head`: the status line and the headers as they came."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        found = re.search(rb"\r\n" + re.escape(name.encode()) + rb":\s*([^\r]*)", self.head, re.IGNORECASE)
        return None if found is None else found[1].decode("latin-1")

    def retry_after_s(self) -> float:
        return float(self.header("retry-after") or 1)

    def document(self) -> Any:
        return json.loads(self.body)

    def code(self) -> str:
        """The `code` of a problem document."""
        return str(self.document().get("code"))


def request_bytes(method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> bytes:
    """One request as it goes over the wire. `body`: a JSON document, or bytes as they are."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode("ascii")
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(content)}"]
    if content:
        lines.append("Content-Type: application/json")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + content


class _Connection(asyncio.Protocol):
    """One call at a time, a few microseconds each: who drives thousands of members costs less than what it drives."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._received = bytearray()
        self._head: bytes | None = None
        self._missing = 0

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"the connection broke: {exc}"))

    def send(self, call: bytes) -> asyncio.Future[Answer]:
        if self._transport is None:
            raise ConnectionError("the connection broke before the call")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(call)
        return self._answer

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

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


class HttpConnection:
    """Connects when it is first used, and again after it broke. One request at a time.

    `to`: an address, or a route, which other connections may share. A connection to where the route led before ends
    when there is an answer over the new one, so that nobody sees an end first.
    """

    def __init__(self, to: Address | Route) -> None:
        self._route = to if isinstance(to, Route) else Route((to,))
        self._connections: dict[Address, _Connection] = {}

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Answer:
        """Raises NoAnswer."""
        return await self.send(request_bytes(method, path, body, headers), answer_timeout_s)

    async def send(self, request: bytes, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> Answer:
        """`request`: from `request_bytes`. Follows redirects. Raises NoAnswer."""
        for _ in range(MOST_REDIRECTS):
            address = self._route.current
            answer = await self._send_to(address, request, answer_timeout_s)
            if answer.status != _SENT_ON:
                break
            self._route.sent_on(answer.header("location") or "")
        if answer.status in (_NOT_NOW, _SENT_ON):
            self._route.failed(address)
        else:
            self._keep_only(address)
        return answer

    async def send_and_hang_up(self, request: bytes) -> None:
        """The request goes out whole, and nobody waits for its answer."""
        with contextlib.suppress(OSError, TimeoutError):
            (await self._connected(self._route.current)).send(request).cancel()
        self.hang_up()

    def hang_up(self) -> None:
        """As a killed process does it: at once, whatever is on its way."""
        self._keep_only(None)

    async def _send_to(self, address: Address, request: bytes, answer_timeout_s: float) -> Answer:
        try:
            connection = await self._connected(address)
            async with asyncio.timeout(answer_timeout_s):
                answer = await connection.send(request)
        except (OSError, TimeoutError) as fault:
            self._end(address)
            self._route.failed(address)
            raise NoAnswer(repr(fault)) from fault
        except asyncio.CancelledError:
            self.hang_up()
            raise
        if answer.header("connection") == "close":
            self._end(address)
        return answer

    async def _connected(self, address: Address) -> _Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection, address.host, address.port
                )
            self._connections[address] = connection
        return connection

    def _keep_only(self, address: Address | None) -> None:
        for other in [each for each in self._connections if each != address]:
            self._end(other)

    def _end(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.abort()
