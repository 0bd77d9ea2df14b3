"""Bodies that are whole documents (a definition, a recording): large ones are read off the event loop.

A body may have `Content-Encoding: gzip`. The bound on its size (`request.max.bytes`) holds unpacked as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from assignor.errors import InputError
from coordinator_api.compression import TooManyBytes, gunzip
from coordinator_api.http.json_objects import parse_object
from coordinator_api.http.problems import Problem, input_as_problems

Value = TypeVar("Value")

GZIP_HEADER = {
    "name": "Content-Encoding",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "enum": ["identity", "gzip"]},
}
"""For OpenAPI."""

OFF_LOOP_BYTES = 16_384
"""From this size on, parsing would hold up the heartbeats of other members."""


Reader = Callable[[dict[str, object]], Value]


async def read_document(request: Request, reader: Reader[Value]) -> Value:
    """What `reader` makes of the body's JSON object. Raises Problem with the place of what is wrong."""
    raw = await request.body()
    read = _reading(request, raw, reader)
    with input_as_problems(bytes_in="body"):
        return await asyncio.to_thread(read) if _is_packed(request) or len(raw) >= OFF_LOOP_BYTES else read()


async def read_document_in_thread(request: Request, reader: Reader[Value]) -> Value:
    """As `read_document`, for a reader that may take long even for a short body."""
    read = _reading(request, await request.body(), reader)
    with input_as_problems(bytes_in="body"):
        return await asyncio.to_thread(read)


def _reading(request: Request, raw: bytes, reader: Reader[Value]) -> Callable[[], Value]:
    packed = _is_packed(request)
    max_bytes: int = request.app.state.coordinator.settings.request_max_bytes
    return lambda: reader(parse_object(_unpacked(raw, max_bytes) if packed else raw))


def _is_packed(request: Request) -> bool:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise Problem(
            "UNSUPPORTED_COMPRESSION_TYPE",
            "Content-Encoding: a body comes as it is or as gzip",
            headers={"Accept-Encoding": "gzip, identity"},
        )
    return encoding.endswith("gzip")


def _unpacked(raw: bytes, max_bytes: int) -> bytes:
    """Keeps no more than `max_bytes` in memory, however well the body was packed. Raises Problem."""
    try:
        return gunzip(raw, max_bytes)
    except TooManyBytes:
        raise Problem("MESSAGE_TOO_LARGE", f"a body may have {max_bytes} bytes unpacked (request.max.bytes)") from None
    except InputError as error:
        raise Problem("INVALID_REQUEST", f"body: {error}") from None
