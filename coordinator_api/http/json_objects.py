"""JSON, read by RFC 8259, and no more than that: UTF-8, no NaN, no lone surrogates, no number that is too large, no
deep nesting. Of a name that an object has twice, the last one counts.

A document that a caller sends (a definition, a recording, a placement problem) is read in a worker process, because a
large one takes seconds, and so may what is made of it: there it holds up nobody, its memory comes back, and it ends
when the caller hangs up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, TypeVarTuple

from pydantic_core import from_json

from coordinator_api.http.problems import Problem

Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")

MAX_VALUES = 4_000_000
"""In one document, counted by its commas before anything is made of them: each value takes some 60 bytes of memory."""

MAX_NESTING = 64
"""Objects and lists in each other. No format needs a fifth of it. What is deeper could be read here and not be written
or read again elsewhere, where the stack is deeper already.
"""

_TOO_DEEP = f"nested too deeply: up to {MAX_NESTING} objects and lists in each other"
_PLACE = re.compile(r" at line (?P<line>\d+) column (?P<column>\d+)$")


def read_document(
    raw: bytes, reader: Callable[[dict[str, object], *Arguments], Value], *arguments: *Arguments
) -> Value:
    """`reader(document, *arguments)` with the body's JSON object. Raises Problem, with the offset where it is no JSON,
    and whatever `reader` raises.
    """
    if len(raw) > MAX_VALUES and raw.count(b",") > MAX_VALUES:
        raise Problem("MESSAGE_TOO_LARGE", f"a document may have {MAX_VALUES} values")
    try:
        document = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise not_json(str(error), raw) from None
    if not isinstance(document, dict):
        raise Problem("INVALID_REQUEST", "body: must be a JSON object")
    try:
        check_values(document)
    except ValueError as error:
        raise Problem("INVALID_REQUEST", f"body: {error}") from None
    return reader(document, *arguments)


def check_values(document: Mapping[str, object], nesting: int = 0) -> None:
    """What pydantic's parser lets pass and JSON cannot hold. `nesting`: how many objects and lists are around it.

    Goes level by level: it must not recurse itself. Raises ValueError.
    """
    level: list[object] = [document]
    for _ in range(MAX_NESTING - nesting):
        values = [inner for outer in level for inner in _values(outer)]
        if any(isinstance(inner, float) and not math.isfinite(inner) for inner in values):
            raise ValueError("NaN, Infinity and numbers as large are no JSON")
        level = [inner for inner in values if isinstance(inner, (dict, list))]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def not_json(message: str, raw: bytes) -> Problem:
    """`message`: of pydantic's parser, which names line and column."""
    if message.startswith("recursion limit"):
        return Problem("INVALID_REQUEST", f"body: {_TOO_DEEP}")
    found = _PLACE.search(message)
    if found is None:
        return Problem("INVALID_REQUEST", f"body: not JSON: {message}")
    before = raw.split(b"\n", int(found["line"]) - 1)[:-1]
    offset = sum(len(line) + 1 for line in before) + max(int(found["column"]) - 1, 0)
    return Problem(
        "INVALID_REQUEST",
        f"body: not JSON: {message[: found.start()]} at byte {offset}",
        extensions={"offset": offset},
    )


def _values(outer: object) -> Iterable[object]:
    return outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ()
