"""Bodies that are documents of their own (a definition, a recording): read off the event loop when they are large."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from assignor.errors import DecodeError, InputError
from coordinator_api.problems import Problem, from_decode_error, from_input_error

Value = TypeVar("Value")

OFF_LOOP_BYTES = 16_384
"""From this size on, parsing would hold up the heartbeats of other members."""


async def read_document(request: Request, reader: Callable[[dict[str, object]], Value]) -> Value:
    """`reader` of the body's JSON object. Raises Problem 422 with the place of what is wrong."""
    raw = await request.body()

    def read() -> Value:
        return reader(parse_object(raw))

    try:
        return await asyncio.to_thread(read) if len(raw) >= OFF_LOOP_BYTES else read()
    except DecodeError as error:
        raise from_decode_error(error, "body") from None
    except InputError as error:
        raise from_input_error(error) from None


def parse_object(raw: bytes) -> dict[str, object]:
    """One JSON object as RFC 8259 has it: UTF-8, no NaN, no lone surrogates. Raises Problem with the offset."""
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Problem(
            "INVALID_REQUEST", f"body: not UTF-8 at byte {error.start}", extensions={"offset": error.start}
        ) from None
    except json.JSONDecodeError as error:
        offset = len(error.doc[: error.pos].encode("utf-8"))
        raise Problem(
            "INVALID_REQUEST", f"body: not JSON: {error.msg} at byte {offset}", extensions={"offset": offset}
        ) from None
    except RecursionError:
        raise Problem("INVALID_REQUEST", "body: not JSON: nested too deeply") from None
    except ValueError as error:
        raise Problem("INVALID_REQUEST", f"body: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Problem("INVALID_REQUEST", "body: must be a JSON object")
    if b"\\u" in raw:
        _refuse_lone_surrogates(document)
    return document


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _refuse_lone_surrogates(document: object) -> None:
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise Problem("INVALID_REQUEST", "body: a string has half of a surrogate pair, which is no text") from None
