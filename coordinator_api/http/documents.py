"""Documents that callers send (definitions, recordings, placement problems): read in a worker process.

A large one takes seconds, and so may what is made of it. In a worker it holds up nobody, its memory comes back, and it
ends when the caller hangs up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from assignor.errors import InputError
from coordinator_api.compression import TooManyBytes, gunzip
from coordinator_api.http.json_objects import parse_object
from coordinator_api.http.problems import Problem

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")


class SentBody(NamedTuple):
    """`is_packed`: as gzip. `max_bytes`: of the unpacked body (`request.max.bytes`)."""

    raw: bytes
    is_packed: bool
    max_bytes: int


def read_sent(
    body: SentBody,
    reader: Callable[Concatenate[dict[str, object], Arguments], Value],
    *arguments: Arguments.args,
    **named: Arguments.kwargs,
) -> Value:
    """`reader(document, *arguments)` with the body's JSON object. Raises Problem, and whatever `reader` raises."""
    return reader(parse_object(_unpacked(body) if body.is_packed else body.raw), *arguments, **named)


def _unpacked(body: SentBody) -> bytes:
    try:
        return gunzip(body.raw, body.max_bytes)
    except TooManyBytes:
        raise Problem(
            "MESSAGE_TOO_LARGE", f"a body may have {body.max_bytes} bytes unpacked (request.max.bytes)"
        ) from None
    except InputError as error:
        raise Problem("INVALID_REQUEST", f"body: {error}") from None
