"""Records as JSON objects and back, for whoever stores them: `{"type": "MemberRemoved", "member_id": ..., ...}`.

Bytes are base64, tasks their text, words their value. Reading is strict: an unknown type, a missing or an unknown field
is an error, because a state rebuilt from half-read records would be a wrong state. Only fields that an earlier release
did not write may be missing (`ADDED_LATER`): they have a default that means what that release meant.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, get_type_hints

from assignor.errors import InputError
from assignor.types import TaskId
from coordinator_api.group import records
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RemovalReason


def encode_record(record: CoordinatorRecord) -> str:
    """One line of JSON."""
    stored_name = _STORED_NAMES[type(record)]
    shapes = _SHAPES_OF[stored_name]
    document = {name: shape.write(getattr(record, name)) for name, shape in shapes.items()}
    return json.dumps({"type": stored_name, **document}, separators=(",", ":"))


def decode_record(text: str) -> CoordinatorRecord:
    """The record `encode_record` wrote. Raises InputError."""
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise InputError(str(fault), "record") from fault
    name = document.pop("type", None) if isinstance(document, dict) else None
    if not isinstance(name, str) or name not in RECORD_TYPES:
        raise InputError(f"{name!r} is not a type of record", "record")
    record_type, shapes = RECORD_TYPES[name], _SHAPES_OF[name]
    missing = shapes.keys() - document.keys()
    if not missing <= ADDED_LATER.get(name, frozenset()) or document.keys() - shapes.keys():
        raise InputError(f"expected the fields {', '.join(shapes)}, not {', '.join(document)}", f"record {name}")
    try:
        return record_type(**{key: shapes[key].read(value) for key, value in document.items()})
    except (TypeError, ValueError, AttributeError, binascii.Error) as fault:
        raise InputError(str(fault), f"record {name}") from fault


ADDED_LATER: Mapping[str, frozenset[str]] = {
    "RoundPreparing": frozenset({"detail"}),
    "RoundCompleted": frozenset({"topics", "missing_topics"}),
    "GroupRestored": frozenset({"detail"}),
    "LastRoundRestored": frozenset({"detail", "topics", "missing_topics"}),
}


class _Shape(NamedTuple):
    """How values of one type are written as JSON and read back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _checked(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, not {value!r}")
        return value

    return read


def _or_none(shape: _Shape) -> _Shape:
    return _Shape(
        lambda value: None if value is None else shape.write(value),
        lambda value: None if value is None else shape.read(value),
    )


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


def _as_is(value: Any) -> Any:
    return value


_TEXT = _Shape(_as_is, _checked(str))
_NUMBER = _Shape(_as_is, _checked(int))
_BYTES = _Shape(_write_bytes, _read_bytes)
_TASKS = _Shape(lambda tasks: [str(task) for task in tasks], lambda tasks: tuple(TaskId.parse(task) for task in tasks))

_SHAPES: dict[Any, _Shape] = {
    str: _TEXT,
    str | None: _or_none(_TEXT),
    int: _NUMBER,
    int | None: _or_none(_NUMBER),
    bool: _Shape(_as_is, _checked(bool)),
    bytes: _BYTES,
    bytes | None: _or_none(_BYTES),
    tuple[str, ...]: _Shape(list, tuple),
    tuple[TaskId, ...]: _TASKS,
    Mapping[str, int]: _Shape(dict, lambda mapping: {key: _checked(int)(value) for key, value in mapping.items()}),
    Mapping[str, bytes]: _Shape(
        lambda mapping: {key: _write_bytes(value) for key, value in mapping.items()},
        lambda mapping: {key: _read_bytes(value) for key, value in mapping.items()},
    ),
    Mapping[str, tuple[TaskId, ...]]: _Shape(
        lambda mapping: {key: _TASKS.write(value) for key, value in mapping.items()},
        lambda mapping: {key: _TASKS.read(value) for key, value in mapping.items()},
    ),
    GroupState: _Shape(str, GroupState),
    RebalanceOutcome: _Shape(str, RebalanceOutcome),
    RemovalReason: _Shape(str, RemovalReason),
    RebalanceReason: _Shape(str, RebalanceReason),
    RebalanceReason | None: _or_none(_Shape(str, RebalanceReason)),
}

RECORD_TYPES: dict[str, type[CoordinatorRecord]] = {
    "DefinitionChanged": records.DefinitionChanged,
    "DrainChanged": records.DrainChanged,
    "MemberSubscribed": records.MemberSubscribed,
    "MemberReplaced": records.MemberReplaced,
    "MemberRemoved": records.MemberRemoved,
    "RoundPreparing": records.RebalanceStarted,
    "GenerationStarted": records.GenerationStarted,
    "GroupEmptied": records.GroupEmptied,
    "RoundCompleted": records.RebalanceCompleted,
    "RoundLedElsewhere": records.RebalanceLedElsewhere,
    "MemberReported": records.MemberReported,
    "GroupDeleted": records.GroupDeleted,
    "GroupRestored": records.GroupRestored,
    "LastRoundRestored": records.LastRebalanceRestored,
    "MemberRestored": records.MemberRestored,
}
"""The stored name of each type. A stored name never changes; a class may."""

_STORED_NAMES: Mapping[type[CoordinatorRecord], str] = {record_type: name for name, record_type in RECORD_TYPES.items()}


def _shapes(record_type: type[CoordinatorRecord]) -> dict[str, _Shape]:
    hints = get_type_hints(record_type)
    return {field.name: _SHAPES[hints[field.name]] for field in fields(record_type)}


_SHAPES_OF: dict[str, dict[str, _Shape]] = {name: _shapes(record_type) for name, record_type in RECORD_TYPES.items()}
