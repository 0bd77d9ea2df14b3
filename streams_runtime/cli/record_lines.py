"""Converts records to lines of text or JSON, and lines to records. `produce --json` reads the JSON lines that `consume`
writes.

A line of JSON has the fields `key`, `value`, `headers` (pairs of a name and a text or null), `timestamp` (milliseconds
since the epoch) and `partition`. All fields except `value` may be missing. `consume` also writes the fields `topic` and
`offset`, which `produce` ignores. The name or value of a header is written as text if it is UTF-8, and otherwise as
`{"base64": "..."}`. So the bytes of headers do not change if `consume` writes a record as JSON and `produce` reads it.
A line of text has the format of Kafka's console tools.
Source: `LineMessageReader`, `DefaultMessageFormatter`.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from assignor.errors import AssignorFault
from assignor.names.near_names import near_name
from streams_runtime.cli.named_serdes import NamedSerde
from streams_runtime.common.errors import SerializationError
from streams_runtime.common.records import NAME_ERRORS, Headers
from streams_runtime.logs.topic_reading import ConsumedRecord

_BASE64 = "base64"
_FIELDS = ("key", "value", "headers", "timestamp", "partition", "topic", "offset")


class BadLine(AssignorFault):
    """A line that cannot be parsed as a record. The error message describes the mistake without the line number."""


class RecordLine(NamedTuple):
    """The record that was parsed from a line, with key and value as bytes. `timestamp_ms`, `partition`: None if the
    line does not have this field.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class LineReader:
    """Parses lines to records.

    `separator`: the text between key and value in a line of text; None if the whole line is the value. `null_marker`:
    this text in a line of text means a null key or value. `is_json`: True if each line is a JSON object.
    """

    key: NamedSerde
    value: NamedSerde
    separator: str | None = None
    null_marker: str | None = None
    is_json: bool = False

    def record(self, line: bytes) -> RecordLine | None:
        """Parses the record in a line. Returns None for a blank line if `is_json` is True. Raises BadLine."""
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise BadLine(f"is not UTF-8 text (byte 0x{byte:02x} at position {error.start + 1})") from None
        if self.is_json:
            return self._of_json(text) if text.strip() else None
        if self.separator is None:
            return RecordLine(None, self._of_text("value", text))
        key, separator, value = text.partition(self.separator)
        if not separator:
            raise BadLine(f"has no key separator {self.separator!r}: {_begin(text)}")
        return RecordLine(self._of_text("key", key), self._of_text("value", value))

    def _of_text(self, part: str, text: str) -> bytes | None:
        if text == self.null_marker:
            return None
        named = self.key if part == "key" else self.value
        return self._serialized(part, lambda: named.of_text(text), named)

    def _of_json(self, text: str) -> RecordLine:
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadLine(f"is not JSON ({error}): {_begin(text)}") from None
        if not isinstance(given, dict):
            raise BadLine(f'must be a JSON object such as {{"key": ..., "value": ...}}, not {_begin(text)}')
        for name in given:
            if name not in _FIELDS:
                near = near_name(name, _FIELDS)
                hint = f"did you mean {near}?" if near else f"fields are {', '.join(_FIELDS)}"
                raise BadLine(f"has an unknown field {name!r}; {hint}")
        if "value" not in given:
            raise BadLine("has no value; a record that deletes its key has the value null")
        return RecordLine(
            self._json_part(given, "key"),
            self._json_part(given, "value"),
            _headers(given.get("headers")),
            _whole_number(given, "timestamp"),
            _whole_number(given, "partition"),
        )

    def _json_part(self, given: Mapping[str, Any], part: str) -> bytes | None:
        found = given.get(part)
        named = self.key if part == "key" else self.value
        return None if found is None else self._serialized(part, lambda: named.of_json(found), named)

    def _serialized(self, part: str, make: Any, named: NamedSerde) -> bytes:
        try:
            return named.serde.serialize(make())
        except (ValueError, TypeError, SerializationError) as error:
            colon = ":" if isinstance(error, SerializationError) else ""
            raise BadLine(f"its {part}{colon} {error} (--{part}-serializer {named.name})") from None


@dataclass(frozen=True, slots=True)
class LineWriter:
    """Writes a record as a line of text. The fields have Kafka's order: timestamp, partition, offset, headers, key,
    value.
    """

    key: NamedSerde
    value: NamedSerde
    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    headers: bool = False
    print_key: bool = False
    separator: str = "\t"
    null_marker: str = "null"

    def text(self, record: ConsumedRecord[Any, Any]) -> str:
        parts = []
        if self.timestamp:
            parts.append(f"CreateTime:{record.timestamp_ms}")
        if self.partition:
            parts.append(f"Partition:{record.partition}")
        if self.offset:
            parts.append(f"Offset:{record.offset}")
        if self.headers:
            parts.append(",".join(f"{name}:{value}" for name, value in header_texts(record.headers)) or "NO_HEADERS")
        if self.print_key:
            parts.append(self.null_marker if record.key is None else self.key.to_text(record.key))
        parts.append(self.null_marker if record.value is None else self.value.to_text(record.value))
        return self.separator.join(parts)

    def document(self, record: ConsumedRecord[Any, Any]) -> dict[str, Any]:
        """Returns the record as a dict, from which `consume` makes a line of JSON."""
        return {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": None if record.key is None else self.key.to_json(record.key),
            "value": None if record.value is None else self.value.to_json(record.value),
            "headers": headers_document(record.headers),
        }


def headers_document(headers: Headers) -> list[list[Any]]:
    """Returns headers as pairs of a name and a value, as they are written as JSON."""
    return [[bytes_document(_name_bytes(name)), bytes_document(value)] for name, value in headers]


def header_texts(headers: Headers) -> list[tuple[str | None, str | None]]:
    """Returns the name and the value of each header as readable text."""
    return [(bytes_text(_name_bytes(name)), bytes_text(value)) for name, value in headers]


def header_of(text: str) -> tuple[str, bytes]:
    """Parses `name=value`. Raises BadLine."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise BadLine(f"must be NAME=VALUE, not {text!r}")
    return name, value.encode()


def _headers(given: Any) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else [] if given is None else given
    headers: list[tuple[str, bytes | None]] = []
    try:
        for pair in pairs:
            # without this check, a text of two letters would be accepted as a name and a value
            if not isinstance(pair, list | tuple):
                raise TypeError
            name, value = pair
            name_bytes = _of_json(name)
            if name_bytes is None:
                raise TypeError
            headers.append((name_bytes.decode(errors=NAME_ERRORS), _of_json(value)))
    except (TypeError, ValueError):
        raise BadLine(
            'its headers must be pairs [["name", "text or null"], ...], or an object of them; '
            'bytes that are no text are {"base64": "..."}'
        ) from None
    return tuple(headers)


def _of_json(given: Any) -> bytes | None:
    """Converts a header's name or value from its JSON form to bytes. Raises TypeError or ValueError for other forms."""
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, dict) and given.keys() == {_BASE64}:
        return base64.b64decode(given[_BASE64], validate=True)
    raise TypeError


def bytes_document(data: bytes | None) -> str | dict[str, str] | None:
    """Returns bytes as they are written as JSON: text if they are UTF-8, and otherwise `{"base64": "..."}`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(data).decode("ascii")}


def _whole_number(given: Mapping[str, Any], name: str) -> int | None:
    found = given.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        what = "milliseconds since the epoch" if name == "timestamp" else "a partition's number"
        raise BadLine(f"its {name} must be {what}, not {found!r}")
    return found


def _name_bytes(name: str) -> bytes:
    return name.encode(errors=NAME_ERRORS)


def bytes_text(data: bytes | None) -> str | None:
    """Decodes bytes to readable text. Bytes that are not UTF-8 become escapes such as `\\xff`."""
    return None if data is None else data.decode(errors="backslashreplace")


def _begin(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."
