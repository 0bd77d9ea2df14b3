"""HTTP/1.1 over one kept connection at a time, without the cost of a full client: a thousand of them share a core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
MOST_REDIRECTS = 3
_MOST_HEADER_BYTES = 65_536
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
    """`headers`: names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

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


class HttpConnection:
    """Connects when it is first used, and again after it broke. One request at a time.

    `to`: an address, or a route, which other connections may share. A connection to where the route led before ends
    when there is an answer over the new one, so that nobody sees an end first.
    """

    def __init__(self, to: Address | Route) -> None:
        self._route = to if isinstance(to, Route) else Route((to,))
        self._streams: dict[Address, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

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
            self._route.sent_on(answer.headers["location"])
        if answer.status in (_NOT_NOW, _SENT_ON):
            self._route.failed(address)
        else:
            self._keep_only(address)
        return answer

    async def send_and_hang_up(self, request: bytes) -> None:
        """The request goes out whole, and nobody waits for its answer."""
        try:
            _, writer = await self._connected(self._route.current)
            writer.write(request)
            await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        """As a killed process does it: at once, whatever is on its way."""
        self._keep_only(None)

    async def _send_to(self, address: Address, request: bytes, answer_timeout_s: float) -> Answer:
        try:
            reader, writer = await self._connected(address)
            writer.write(request)
            async with asyncio.timeout(answer_timeout_s):
                await writer.drain()
                answer = await _read_answer(reader)
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError) as fault:
            self._end(address)
            self._route.failed(address)
            raise NoAnswer(repr(fault)) from fault
        except asyncio.CancelledError:
            self.hang_up()
            raise
        if answer.headers.get("connection") == "close":
            self._end(address)
        return answer

    async def _connected(self, address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if address not in self._streams:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self._streams[address] = await asyncio.open_connection(
                    address.host, address.port, limit=_MOST_HEADER_BYTES
                )
        return self._streams[address]

    def _keep_only(self, address: Address | None) -> None:
        for other in [each for each in self._streams if each != address]:
            self._end(other)

    def _end(self, address: Address) -> None:
        streams = self._streams.pop(address, None)
        if streams is not None:
            streams[1].transport.abort()


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if separator:
            headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    return Answer(int(status_line.split(" ", 2)[1]), headers, await reader.readexactly(length))
