"""Converts values to JSON documents."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any

from assignor.types import ProcessId, TaskId


def document_of(value: Any) -> Any:
    """Returns the value as JSON data. A dataclass or named tuple becomes an object with the same fields in the same
    order. Tasks, process ids and enum members become text.
    """
    kind = value.__class__
    return value if kind in _PLAIN else _writer_of(kind)(value)


_PLAIN = frozenset({str, int, float, bool, NoneType})


@cache
def _writer_of(kind: type[Any]) -> Callable[[Any], Any]:
    if issubclass(kind, TaskId | ProcessId | Enum):
        return str
    if is_dataclass(kind):
        names = [field.name for field in fields(kind)]
        return lambda value: {name: document_of(getattr(value, name)) for name in names}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = kind._fields
        return lambda value: dict(zip(names, map(document_of, value), strict=True))
    if issubclass(kind, Mapping):
        return lambda value: {str(key): document_of(each) for key, each in value.items()}
    if issubclass(kind, tuple | list):
        return lambda value: list(map(document_of, value))
    return lambda value: value


def document_of_fields(value: object, *names: str) -> dict[str, Any]:
    """Returns a JSON object with the fields or properties `names` of the value, in the order of `names`."""
    return {name: document_of(getattr(value, name)) for name in names}
