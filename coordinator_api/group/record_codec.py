"""Writes and reads records as JSON objects for the store, such as `{"type": "MemberRemoved", "member_id": ..., ...}`.

The classes in `records` define the format. The name of a class is the type, and the names of its fields are the keys. A
dataclass in a field is written as an object. The names of stored classes and fields never change, because databases
contain these names. `tests/coordinator_api/group/stored_records.jsonl` contains a record of every type.

Bytes are written as base64, tasks as text such as `0_1`, and members of enumerations as their values. The assignments
of a rebalance are packed (`packed_assignments`) and then written as base64.

An unknown type and an unknown key are errors, because a partly read record would lead to a wrong state. A field with
its default value is not written. If a field without a default is missing, this is an error. The default of a new field
must mean the same as the absence of the field in earlier releases.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, cast, get_args, get_origin, get_type_hints

from assignor.errors import InputError
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId
from coordinator_api.group.image import PackedAssignments, unpacked_assignments
from coordinator_api.group.records import CoordinatorRecord


def encode_record(record: CoordinatorRecord) -> str:
    """Returns the record as one line of JSON."""
    written = _shape_of(type(record)).write(record)
    return json.dumps({"type": type(record).__name__, **written}, separators=(",", ":"))


def decode_record(text: str) -> CoordinatorRecord:
    """Returns the record that `encode_record` wrote. Raises InputError."""
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise InputError(str(fault), "record") from fault
    name = document.pop("type", None) if isinstance(document, dict) else None
    if not isinstance(name, str) or name not in CoordinatorRecord.types:
        raise InputError(f"{name!r} is not a type of record", "record")
    try:
        return cast(CoordinatorRecord, _shape_of(CoordinatorRecord.types[name]).read(document))
    except (TypeError, ValueError, AttributeError, binascii.Error) as fault:
        raise InputError(str(fault), f"record {name}") from fault


class _Shape(NamedTuple):
    """The functions that write and read the JSON of one type. The function `read` may raise TypeError or ValueError."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@cache
def _shape_of(hint: Any) -> _Shape:
    """Returns the functions that write and read a field of the type `hint`."""
    if hint in _SHAPES:
        return _SHAPES[hint]
    arguments = get_args(hint)
    if NoneType in arguments:
        (present,) = (each for each in arguments if each is not NoneType)
        return _or_none(_shape_of(present))
    if get_origin(hint) is tuple:
        return _list_of(_shape_of(arguments[0]))
    if get_origin(hint) is Mapping:
        return _object_of(_shape_of(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _Shape(str, hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _fields_of(hint)
    raise NotImplementedError(f"a field of a record cannot be {hint}")


def _checked(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, not {value!r}")
    return value


def _plain(kind: type) -> _Shape:
    return _Shape(lambda value: value, lambda value: _checked(kind, value))


def _or_none(shape: _Shape) -> _Shape:
    return _Shape(
        lambda value: None if value is None else shape.write(value),
        lambda value: None if value is None else shape.read(value),
    )


def _list_of(shape: _Shape) -> _Shape:
    return _Shape(
        lambda values: [shape.write(value) for value in values],
        lambda values: tuple(shape.read(value) for value in _checked(list, values)),
    )


def _object_of(shape: _Shape) -> _Shape:
    return _Shape(
        lambda mapping: {key: shape.write(value) for key, value in mapping.items()},
        lambda mapping: {key: shape.read(value) for key, value in _checked(dict, mapping).items()},
    )


@dataclass(frozen=True, slots=True)
class _StoredField:
    """A stored field of a dataclass. `default`: the value of a field that is missing in the JSON. If a field has its
    default value, the field is not written. A required field has the default MISSING.
    """

    name: str
    shape: _Shape
    default: object


def _fields_of(value_type: type) -> _Shape:
    """Returns the functions that write and read a dataclass. The JSON object has the fields in the order of the
    dataclass.
    """
    hints = get_type_hints(value_type)
    stored = [_StoredField(each.name, _shape_of(hints[each.name]), _default(each)) for each in fields(value_type)]
    by_name = {field.name: field for field in stored}
    needed = {field.name for field in stored if field.default is MISSING}

    def write(value: Any) -> dict[str, Any]:
        written = {}
        for field in stored:
            content = getattr(value, field.name)
            if content != field.default:
                written[field.name] = field.shape.write(content)
        return written

    def read(document: Any) -> Any:
        keys = _checked(dict, document).keys()
        if not needed <= keys <= by_name.keys():
            raise ValueError(f"expected the fields {', '.join(by_name)}, not {', '.join(keys)}")
        return value_type(**{name: by_name[name].shape.read(content) for name, content in document.items()})

    return _Shape(write, read)


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


_SHAPES: Mapping[Any, _Shape] = {
    **{kind: _plain(kind) for kind in (str, int, bool)},
    bytes: _Shape(_write_bytes, _read_bytes),
    TaskId: _Shape(str, TaskId.parse),
    AssignmentParts: _Shape(lambda parts: _write_bytes(bytes(parts)), lambda text: AssignmentParts(_read_bytes(text))),
    PackedAssignments: _Shape(
        lambda assignments: _write_bytes(assignments.packed), lambda text: unpacked_assignments(_read_bytes(text))
    ),
}
