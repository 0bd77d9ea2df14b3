"""JSON objects. Read by RFC 8259, and no more than that: UTF-8, no NaN, no lone surrogates, no name twice in an object,
no deep nesting. Written, when they are long, so that other threads run meanwhile.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping

from coordinator_api.http.problems import Problem

MAX_VALUES = 4_000_000
"""In one document, counted by its commas before anything is made of them: each value takes some 60 bytes of memory."""

MAX_NESTING = 64
"""Objects and lists in each other. No format needs a fifth of it. What is deeper could be read here and not be written
or read again elsewhere, where the stack is deeper already.
"""

_PIECE = 200
"""Elements of a list that are written at one time, within a millisecond or so."""


def parse_object(raw: bytes) -> dict[str, object]:
    """One JSON object. Raises Problem with the offset."""
    if len(raw) > MAX_VALUES and raw.count(b",") > MAX_VALUES:
        raise Problem("MESSAGE_TOO_LARGE", f"a document may have {MAX_VALUES} values")
    try:
        document = _DECODER.decode(raw.decode("utf-8"))
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
        raise _too_deep() from None
    except ValueError as error:
        raise Problem("INVALID_REQUEST", f"body: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Problem("INVALID_REQUEST", "body: must be a JSON object")
    if raw.count(b"[") + raw.count(b"{") > MAX_NESTING:
        _refuse_deep_nesting(document)
    if b"\\u" in raw:
        _refuse_lone_surrogates(document)
    return document


def encode_in_pieces(document: Mapping[str, object]) -> bytes:
    """As ASCII. For a thread beside the event loop: the encoder has the interpreter lock from its start to its end, so
    it gets the long lists of the object piece by piece.
    """
    fields = (f"{json.dumps(name)}: {''.join(_pieces(value))}" for name, value in document.items())
    return f"{{{', '.join(fields)}}}".encode("ascii")


def _pieces(value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield json.dumps(value)
        return
    yield "["
    for start in range(0, len(value), _PIECE):
        yield (", " if start else "") + json.dumps(value[start : start + _PIECE])[1:-1]
    yield "]"


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _no_name_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Two readers of such an object may see two different objects."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same name twice")
    return found


def _finite(text: str) -> float:
    """`1e999` is a number by its grammar, but what is made of it could not be written as JSON again."""
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_name_twice)


def _refuse_deep_nesting(document: object) -> None:
    """Level by level: it must not recurse itself."""
    level = [document]
    for _ in range(MAX_NESTING):
        level = [inner for outer in level for inner in _values(outer) if isinstance(inner, (dict, list))]
        if not level:
            return
    raise _too_deep()


def _values(outer: object) -> Iterable[object]:
    return outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ()


def _too_deep() -> Problem:
    return Problem("INVALID_REQUEST", f"body: nested too deeply: up to {MAX_NESTING} objects and lists in each other")


def _refuse_lone_surrogates(document: object) -> None:
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise Problem("INVALID_REQUEST", "body: a string has half of a surrogate pair, which is no text") from None
