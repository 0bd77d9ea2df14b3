"""Reads JSON strictly by RFC 8259. Refuses NaN, lone surrogates, numbers that are too large, deep nesting, and text
that is not UTF-8. If an object has two values of the same name, the last value is used.

A definition, a recording or a placement problem that a caller sends is read in a worker process. Reading and processing
a large document can take seconds. A worker process does not block other calls, returns its memory to the system, and is
stopped when the caller disconnects.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, TypeVarTuple

from pydantic_core import from_json

from coordinator_api.http.problems import Problem

Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")

MAX_VALUES = 4_000_000
"""The largest number of values in one document. A parsed value takes about 60 bytes of memory, so `read_document` first
estimates the number of values by the number of commas.
"""

MAX_NESTING = 64
"""The greatest nesting depth of objects and lists. Documents in this project's formats have less than a fifth of this
depth. This module could read deeper documents, but other code that reads or writes such a document could exceed
Python's stack.
"""

_TOO_DEEP = f"nested too deeply: up to {MAX_NESTING} objects and lists in each other"
_PLACE = re.compile(r" at line (?P<line>\d+) column (?P<column>\d+)$")


def read_document(
    raw: bytes, reader: Callable[[dict[str, object], *Arguments], Value], *arguments: *Arguments
) -> Value:
    """Parses the body as a JSON object, and returns the result of `reader(document, *arguments)`. Raises Problem; for a
    body that is not JSON, the problem has the offset of the error. Also raises the errors of `reader`.
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
    """Raises ValueError for NaN and Infinity, which pydantic's parser accepts but JSON cannot represent. Also raises
    ValueError for a depth above MAX_NESTING. `nesting`: the depth of `document` itself within a larger document.

    The check does not use recursion, because recursion could exceed Python's stack.
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
    """Returns the problem for a body that is not JSON. `message`: the error text of pydantic's parser, which contains
    the line and the column of the error.
    """
    if message.startswith("recursion limit"):
        return Problem("INVALID_REQUEST", f"body: {_TOO_DEEP}")
    found = _PLACE.search(message)
    if found is None:
        return Problem("INVALID_REQUEST", f"body: not JSON: {message}")
    before = raw.split(b"\n", int(found["line"]) - 1)[:-1]
    offset = sum(len(line) + 1 for line in before) + max(int(found["column"]) - 1, 0)
    return Problem(
        "INVALID_REQUEST", f"body: not JSON: {message[: found.start()]} at byte {offset}", extensions={"offset": offset}
    )


def _values(outer: object) -> Iterable[object]:
    return outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ()
