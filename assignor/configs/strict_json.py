"""Parses JSON more strictly than `json.loads`: a repeated field, NaN and Infinity are errors."""

import json
from typing import NoReturn


def strict_json(text: str) -> object:
    """Parses the text. Raises ValueError for faulty JSON, and RecursionError for JSON that is nested too deeply."""
    parsed: object = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
    return parsed


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Rejects repeated fields, because `json.loads` silently keeps only the last of several fields with one name."""
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"field {repeated!r} is given twice")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
