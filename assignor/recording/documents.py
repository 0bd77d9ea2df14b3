"""Converts values to JSON documents."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from assignor.types import ProcessId, TaskId


def document_of(value: object) -> Any:
    """Returns the value as JSON data. A dataclass or named tuple becomes an object of its fields, in their order.
    Tasks, process ids and enum members become text.
    """
    if isinstance(value, TaskId | ProcessId | Enum):
        return str(value)
    if is_dataclass(value):
        return document_of_fields(value, *(field.name for field in fields(value)))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return document_of_fields(value, *value._fields)
    if isinstance(value, Mapping):
        return {str(key): document_of(each) for key, each in value.items()}
    return [document_of(each) for each in value] if isinstance(value, tuple | list) else value


def document_of_fields(value: object, *names: str) -> dict[str, Any]:
    """Returns an object of only these fields or properties of the value, in this order."""
    return {name: document_of(getattr(value, name)) for name in names}
