"""HTTP/1.1 over one kept connection at a time, without the cost of a full client: a thousand of them share a core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
_MOST_HEADER_BYTES = 65_536


class NoAnswer(Exception):
    """The connection broke, or nothing came back in time: the request may or may not have been carried out."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


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
    """Connects when it is first used, and again after it broke. One request at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

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
        """`request`: from `request_bytes`. Raises NoAnswer."""
        try:
            reader, writer = await self._connected()
            writer.write(request)
            async with asyncio.timeout(answer_timeout_s):
                await writer.drain()
                answer = await _read_answer(reader)
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError) as fault:
            self.hang_up()
            raise NoAnswer(repr(fault)) from fault
        except asyncio.CancelledError:
            self.hang_up()
            raise
        if answer.headers.get("connection") == "close":
            self.hang_up()
        return answer

    async def send_and_hang_up(self, request: bytes) -> None:
        """The request goes out whole, and nobody waits for its answer."""
        try:
            _, writer = await self._connected()
            writer.write(request)
            await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        """As a killed process does it: at once, whatever is on its way."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self._streams = await asyncio.open_connection(
                    self._address.host, self._address.port, limit=_MOST_HEADER_BYTES
                )
        return self._streams


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
