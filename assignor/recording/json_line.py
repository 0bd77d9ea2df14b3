"""One line of JSON as a document, more strictly than `json.loads`: a field given twice and a NaN are errors."""

from __future__ import annotations

import json
from typing import NoReturn

from assignor.errors import InputError


def document_of_line(content: bytes) -> dict[str, object]:
    """Raises InputError saying what is wrong with the line."""
    try:
        document = json.loads(
            content.decode("utf-8"), object_pairs_hook=_without_repetition, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"is not a line of JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError("must be a JSON object")
    return document


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A member given twice would otherwise vanish without a word."""
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"field {repeated!r} is given twice")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
