"""Reads JSON strictly: a wrong type, or a missing, repeated or unknown field, raises InputError with the field's path.

Paths have the form `input.topology.subtopologies[0].stores[1].name`, so that a person finds the faulty field in a long
line. Numbers have the bounds of Kafka's types. A document may come from an untrusted source. So counts have smaller
bounds than in Kafka if they determine how much memory is allocated.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from assignor.configs import AssignmentConfigs
from assignor.configs.kafka_versions import version_of_release
from assignor.configs.strict_json import strict_json
from assignor.errors import InputError
from assignor.names.near_names import near_name
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX, ProcessId, TaskId

Value = TypeVar("Value")

MAX_PARTITIONS = 1_000_000
"""The greatest number of partitions of one topic. The limit bounds the memory that this process allocates for one line.
The limit is far above the numbers of partitions in real Kafka clusters.
"""


class Fields:
    """The fields of one JSON object. The constructor checks the names of the fields. A method that reads a field also
    checks the field's value.
    """

    __slots__ = ("_values", "where")

    def __init__(self, value: object, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        """`where`: the path of this object; empty if the object is the whole document. Raises InputError for a missing
        or unknown field.
        """
        self.where = where
        self._values = as_object(value, where)
        for name in required:
            if name not in self._values:
                raise InputError("is missing", self.at(name))
        for name in self._values:
            if name not in required and name not in optional:
                near = near_name(name, (*required, *optional))
                hint = f"did you mean {near!r}?" if near else f"known are {', '.join((*required, *optional))}"
                raise InputError(f"is not a known field; {hint}", self.at(name))

    def at(self, name: str) -> str:
        return child(self.where, name)

    def raw(self, name: str) -> object:
        """Returns the unchecked value of a field. Returns None if the field is absent."""
        return self._values.get(name)

    def read(self, name: str, reader: Callable[[object, str], Value]) -> Value:
        return reader(self._values.get(name), self.at(name))

    def read_or_none(self, name: str, reader: Callable[[object, str], Value]) -> Value | None:
        """Reads a field with `reader`, and returns its value. Returns None if the field is absent or null."""
        value = self._values.get(name)
        return None if value is None else reader(value, self.at(name))

    def text(self, name: str) -> str:
        return self.read(name, as_text)

    def text_or_none(self, name: str) -> str | None:
        return self.read_or_none(name, as_text)

    def items(self, name: str) -> Iterator[tuple[object, str]]:
        """Yields (value, path) for each element of a list."""
        return list_items(self._values.get(name), self.at(name))

    def entries(self, name: str) -> Iterator[tuple[str, object, str]]:
        """Yields (key, value, path) for each entry of an object."""
        return object_entries(self._values.get(name), self.at(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return self.read(name, each_of(as_text))


def child(where: str, name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        return f"{where}[{name!r}]"
    return f"{where}.{name}" if where else name


def as_object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _wrong_type(value, "an object", where)
    return value


def object_entries(value: object, where: str) -> Iterator[tuple[str, object, str]]:
    for key, entry in as_object(value, where).items():
        yield as_text(key, where), entry, child(where, key)


def list_items(value: object, where: str) -> Iterator[tuple[object, str]]:
    if not isinstance(value, (list, tuple)):
        raise _wrong_type(value, "a list", where)
    for index, item in enumerate(value):
        yield item, f"{where}[{index}]"


def each_of(reader: Callable[[object, str], Value]) -> Callable[[object, str], tuple[Value, ...]]:
    """Returns a function that reads a list and calls `reader` for each value of the list."""
    return lambda value, where: tuple([reader(item, at) for item, at in list_items(value, where)])


def by_name(reader: Callable[[object, str], Value]) -> Callable[[object, str], dict[str, Value]]:
    """Returns a function that reads an object and calls `reader` for each value of the object."""
    return lambda value, where: {name: reader(entry, at) for name, entry, at in object_entries(value, where)}


def as_text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(value, "text", where)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError("must be Unicode text, without lone surrogates", where) from None
    return value


def as_boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(value, "true or false", where)
    return value


def as_integer(value: object, where: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_type(value, "a whole number", where)
    if not low <= value <= high:
        raise InputError(f"must be from {low} to {high}, not {_shown(value)}", where)
    return value


def as_int32(value: object, where: str) -> int:
    return as_integer(value, where, -JAVA_INT_MAX - 1, JAVA_INT_MAX)


def as_count(value: object, where: str) -> int:
    return as_integer(value, where, 0, JAVA_INT_MAX)


def as_partitions(value: object, where: str) -> int:
    return as_integer(value, where, 1, MAX_PARTITIONS)


def as_long(value: object, where: str) -> int:
    return as_integer(value, where, -JAVA_LONG_MAX - 1, JAVA_LONG_MAX)


def as_offset(value: object, where: str) -> int:
    return as_integer(value, where, 0, JAVA_LONG_MAX)


def as_offsets(value: object, where: str) -> tuple[int, ...]:
    return _integers(value, where, 0, JAVA_LONG_MAX)


def as_int32s(value: object, where: str) -> tuple[int, ...]:
    return _integers(value, where, -JAVA_INT_MAX - 1, JAVA_INT_MAX)


def _integers(value: object, where: str, low: int, high: int) -> tuple[int, ...]:
    """Reads a list of numbers. Lists of numbers are often long, so the path of a number is made only if the list has a
    wrong number.
    """
    if isinstance(value, list) and all(type(item) is int and low <= item <= high for item in value):
        return tuple(value)
    return tuple([as_integer(item, at, low, high) for item, at in list_items(value, where)])


def as_process_id(value: object, where: str) -> ProcessId:
    text = as_text(value, where)
    try:
        return ProcessId.parse(text)
    except InputError as error:
        raise InputError(str(error), where) from None


def as_task_id(value: object, where: str) -> TaskId:
    text = as_text(value, where)
    try:
        task = TaskId.parse(text)
    except InputError as error:
        raise InputError(str(error), where) from None
    if task.subtopology > JAVA_INT_MAX or task.partition > JAVA_INT_MAX:
        raise InputError(f"{_shown(text)} has a number above {JAVA_INT_MAX}", where)
    return task


def as_bytes(value: object, where: str) -> bytes:
    try:
        return base64.b64decode(as_text(value, where), validate=True)
    except (binascii.Error, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is not base64: {error}", where) from None


def as_choice(value: object, where: str, choices: tuple[str, ...]) -> str:
    text = as_text(value, where)
    if text not in choices:
        raise InputError(f"must be one of {', '.join(choices)}, not {_shown(text)}", where)
    return text


def _wrong_type(value: object, expected: str, where: str) -> InputError:
    return InputError(f"must be {expected}, not {_shown(value)}", where or "document")


def _shown(value: object) -> str:
    if value is None:
        return "null or absent"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    text = f"{type(value).__name__} {value!r}" if isinstance(value, (str, int, float)) else type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."


def document_of_line(content: bytes) -> dict[str, object]:
    """Parses one line of JSON, more strictly than `json.loads`: a repeated field and NaN are errors. Raises
    InputError.
    """
    try:
        document = strict_json(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"is not a line of JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError("must be a JSON object")
    return document


def line_of_document(document: object) -> str:
    """Returns a JSON document as one line, without a line end."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


KNOWN_ASSIGNORS = tuple(BUILT_IN_ASSIGNORS)

_CLASS_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*\Z")


def is_class_path(name: str) -> bool:
    """True if `name` has the form of a user's own class, `module:Class`."""
    return _CLASS_PATH.match(name) is not None


def as_assignor(value: object, where: str) -> str:
    name = as_text(value, where)
    if name not in KNOWN_ASSIGNORS and not is_class_path(name):
        raise InputError(
            f"must be one of {', '.join(KNOWN_ASSIGNORS)}, or your own class as module:Class, not {name[:80]!r}", where
        )
    return name


RECORDING_FIELDS = ("kafka_version", "same_in")
"""Fields that a line of any format may have. `kafka_version`: the release of Kafka whose rules the leader followed, for
example 4.4.0. `same_in`: the releases that have the same output; the field is for people, and is ignored.
"""


def as_release(value: object, where: str) -> str:
    """Reads `kafka_version`. Raises InputError if the release belongs to no known version."""
    release = as_text(value, where)
    version_of_release(release, where)
    return release


def configs_of_release(configs: AssignmentConfigs, release: str | None) -> AssignmentConfigs:
    """Returns the configs with the Kafka version of the release. If the line names no release, the configs do not
    change.
    """
    return configs if release is None else replace(configs, kafka_version=version_of_release(release))


def as_configs(value: object, where: str) -> AssignmentConfigs:
    """Reads an object of configs under Kafka's dotted names. Raises InputError."""
    if not isinstance(value, dict):
        raise InputError("must be an object of Kafka's dotted config names", where)
    try:
        return AssignmentConfigs.from_dotted(value, where)
    except InputError:
        raise
    except ValueError as error:  # int() raises ValueError for some texts that look like a number
        raise InputError(str(error), where) from None
