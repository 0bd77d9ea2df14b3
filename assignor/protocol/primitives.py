"""Reads and writes the plain values that Kafka's messages consist of.

Whatever the bytes say, the reader returns a value or raises `DecodeError` with the offset. It accepts a length or
count only when the remaining bytes could hold that much, so corrupt bytes never cost more memory or time than their
own length. Numbers are big-endian and signed. Source: `ByteBufferAccessor`, `DataInputStream`, and the message format
of KIP-482 without flexible versions; `group_metadata` adds those.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from assignor.errors import DecodeError, InputError, TaskAssignmentError
from assignor.java import text as java_text
from assignor.types import ProcessId

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PROCESS_ID = struct.Struct(">qq")

_MAX_STRING_BYTES = 0x7FFF
_LONGEST_TEXT_IN_MESSAGE = 40


def _number_reader(form: struct.Struct, what: str = "") -> Callable[[Reader, str], int]:
    """Makes a method of Reader. Numbers are read so often that one call less for each saves a tenth of the decoding.

    `what`: precedes the name of the field in errors.
    """
    size, unpack_from = form.size, form.unpack_from

    def read(self: Reader, field: str) -> int:
        start = self._offset
        if size > self._end - start:
            raise self._too_short(size, what + field)
        self._offset = start + size
        value: int = unpack_from(self._data, start)[0]
        return value

    return read


class Reader:
    """A position in bytes. `what` names the structure, and `field` in every call the part that is read, for errors."""

    __slots__ = ("_data", "_end", "_offset", "_what")

    def __init__(self, data: bytes | bytearray | memoryview, what: str) -> None:
        self._data = bytes(data)
        self._end = len(self._data)
        self._offset = 0
        self._what = what

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def remaining(self) -> int:
        return self._end - self._offset

    def error(self, reason: str, offset: int | None = None) -> DecodeError:
        """The error to raise for a mistake at `offset`; at the current position when not given."""
        return DecodeError(self._what, reason, self._offset if offset is None else offset)

    def _advance(self, size: int, field: str) -> int:
        start = self._offset
        if size > self._end - start:
            raise self._too_short(size, field)
        self._offset = start + size
        return start

    def _too_short(self, size: int, field: str) -> DecodeError:
        return self.error(f"{field} needs {size} bytes but {self._end - self._offset} remain")

    int8 = _number_reader(_INT8)
    int16 = _number_reader(_INT16)
    int32 = _number_reader(_INT32)
    int64 = _number_reader(_INT64)
    _count = _number_reader(_INT32, "count of ")
    _int16_length = _number_reader(_INT16, "length of ")
    _uint16_length = _number_reader(_UINT16, "length of ")
    _int32_length = _number_reader(_INT32, "length of ")

    def ints(self, count: int, field: str) -> tuple[int, ...]:
        """`count` int32 in one go."""
        start = self._advance(4 * count, field)
        return struct.unpack_from(f">{count}i", self._data, start)

    def peek_ints(self, count: int, field: str) -> tuple[int, ...]:
        """`ints` without moving on."""
        values = self.ints(count, field)
        self._offset -= 4 * count
        return values

    def peek_rows(self, form: struct.Struct, count: int, field: str) -> Iterator[tuple[Any, ...]]:
        """`count` rows of `form`, without moving on; call `skip` once they turn out to be what they seem."""
        start = self._advance(form.size * count, field)
        self._offset = start
        return form.iter_unpack(memoryview(self._data)[start : start + form.size * count])

    def skip(self, size: int, field: str) -> None:
        self._advance(size, field)

    def count(self, field: str, smallest: int) -> int:
        """The length of an array whose elements take at least `smallest` bytes each."""
        start = self._offset
        value = self._count(field)
        if value < 0:
            raise self.error(f"count of {field} is negative ({value})", start)
        if value * smallest > self._end - self._offset:
            raise self.error(
                f"count of {field} is {value} but {self.remaining} bytes remain, at least {smallest} for each", start
            )
        return value

    def raw(self, size: int, field: str) -> bytes:
        start = self._advance(size, field)
        return self._data[start : start + size]

    def nullable_byte_array(self, field: str) -> bytes | None:
        """int32 length, then that many bytes. Kafka reads every negative length as null."""
        size = self._int32_length(field)
        return None if size < 0 else self.raw(size, field)

    def byte_array(self, field: str) -> bytes:
        start = self._offset
        value = self.nullable_byte_array(field)
        if value is None:
            raise self.error(f"length of {field} is negative", start)
        return value

    def nullable_string(self, field: str) -> str | None:
        """int16 length, then UTF-8. Kafka reads every negative length as null."""
        size = self._int16_length(field)
        return None if size < 0 else java_text.from_utf8(self.raw(size, field))

    def string(self, field: str) -> str:
        start = self._offset
        value = self.nullable_string(field)
        if value is None:
            raise self.error(f"length of {field} is negative", start)
        return value

    def modified_utf8(self, field: str) -> str:
        """Unsigned 16-bit length, then modified UTF-8, as `DataOutputStream.writeUTF` writes it."""
        size = self._uint16_length(field)
        start = self._offset
        value = self.raw(size, field)
        malformed = java_text.malformed_modified_utf8_at(value)
        if malformed is not None:
            raise self.error(f"{field} is not modified UTF-8", start + malformed)
        return java_text.from_modified_utf8(value)

    def process_id(self, field: str) -> ProcessId:
        start = self._advance(16, field)
        return ProcessId(*_PROCESS_ID.unpack_from(self._data, start))


def _number_writer(form: struct.Struct) -> Callable[[Writer, int, str], None]:
    """Makes a method of Writer."""
    pack, bits = form.pack, 8 * form.size

    def write(self: Writer, value: int, field: str) -> None:
        try:
            self._chunks.append(pack(value))
        except struct.error as error:
            raise InputError(f"{value!r} does not fit an int{bits}", field) from error

    return write


class Writer:
    """Collects chunks of bytes. Raises InputError naming the field for a value that does not fit it."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def to_bytes(self) -> bytes:
        return b"".join(self._chunks)

    def raw(self, value: bytes) -> None:
        self._chunks.append(value)

    int8 = _number_writer(_INT8)
    int16 = _number_writer(_INT16)
    int32 = _number_writer(_INT32)
    int64 = _number_writer(_INT64)

    def ints(self, values: Sequence[int], field: str) -> None:
        """Many int32 in one go, without a count."""
        self._chunks.append(pack_ints(values, field))

    def nullable_byte_array(self, value: bytes | None, field: str) -> None:
        if value is None:
            self._chunks.append(b"\xff\xff\xff\xff")
            return
        self.int32(len(value), f"length of {field}")
        self._chunks.append(value)

    def nullable_string(self, value: str | None, field: str) -> None:
        if value is None:
            self._chunks.append(b"\xff\xff")
            return
        raw = java_text.to_utf8(value)
        if len(raw) > _MAX_STRING_BYTES:
            raise InputError(f"{_shortened(value)} takes {len(raw)} bytes, more than {_MAX_STRING_BYTES}", field)
        self._chunks.append(_INT16.pack(len(raw)) + raw)

    def modified_utf8(self, value: str, field: str) -> None:
        self._chunks.append(pack_modified_utf8(value, field))

    def process_id(self, value: ProcessId) -> None:
        self._chunks.append(value.to_bytes())


def pack_ints(values: Sequence[int], field: str) -> bytes:
    """All of `values` as int32, one after the other."""
    try:
        return struct.pack(f">{len(values)}i", *values)
    except struct.error as error:
        raise InputError("a number does not fit an int32", field) from error


def pack_modified_utf8(value: str, field: str) -> bytes:
    """`DataOutputStream.writeUTF(value)`: unsigned 16-bit length and modified UTF-8.

    Raises TaskAssignmentError for a longer text: Kafka's leader answers a host of that length with an error assignment.
    """
    raw = java_text.to_modified_utf8(value)
    if len(raw) > java_text.MAX_MODIFIED_UTF8_BYTES:
        limit = java_text.MAX_MODIFIED_UTF8_BYTES
        raise TaskAssignmentError(
            "Failed to encode AssignmentInfo",
            f"{field}: {_shortened(value)} takes {len(raw)} bytes, more than {limit}",
        )
    return _UINT16.pack(len(raw)) + raw


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT_IN_MESSAGE else text[:_LONGEST_TEXT_IN_MESSAGE] + "…")
