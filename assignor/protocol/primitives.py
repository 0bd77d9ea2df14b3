"""Reads and writes the primitive values of Kafka's messages.

For any bytes, the reader returns a value or raises `DecodeError` with the offset. The reader accepts a length or a
count only if the remaining bytes can hold that many elements. So corrupt bytes never need more memory or time than
valid bytes of the same length. Numbers are big-endian and signed. Source: `ByteBufferAccessor`, `DataInputStream`, and
the message format of KIP-482 without flexible versions, which `group_metadata` adds.

Text has one of three encodings. The consumer protocol and SubscriptionInfo use UTF-8 (`String.getBytes(UTF_8)`).
AssignmentInfo uses modified UTF-8 for topics and hosts (`DataOutputStream.writeUTF`), and UTF-16 code units for
topology names (`DataOutputStream.writeChars`). A Java string is a sequence of UTF-16 code units, and may contain an
unpaired surrogate. This module decodes an unpaired surrogate as the character with the same code. This module decodes a
surrogate pair as the one character that the pair encodes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any

from assignor.errors import DecodeError, InputError, TaskAssignmentError
from assignor.types import JAVA_INT_MAX, ProcessId, TopicPartition

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PROCESS_ID = struct.Struct(">qq")

MAX_MODIFIED_UTF8_BYTES = 0xFFFF
"""The greatest length that `writeUTF` can write, because its length prefix is an unsigned 16-bit number."""

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()
_MODIFIED_UNIT = re.compile(rb"[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")
_MODIFIED_TEXT = re.compile(rb"(?:[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2})*+")

_MAX_STRING_BYTES = 0x7FFF
_SMALLEST_TOPIC = _INT16.size + _INT32.size
_SMALLEST_ENTRY = 2 * _INT32.size
_LONGEST_TEXT_IN_MESSAGE = 40


def to_utf8(text: str) -> bytes:
    """Returns Java's `text.getBytes(UTF_8)`, in which every unpaired surrogate is a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return from_utf16_units(to_utf16_units(text)).encode(errors="replace")


def from_utf8(raw: bytes) -> str:
    """Returns Java's `new String(raw, UTF_8)`. The conversion never fails; malformed bytes become U+FFFD.

    Java and Python differ only for the three-byte form of a surrogate, and for the first two bytes of this form. Java
    then returns a single U+FFFD, and Python returns one U+FFFD for each byte.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, raw).decode(errors="replace")


def to_utf16_units(text: str) -> bytes:
    """Returns the UTF-16 code units of `text`, two bytes each, high byte first."""
    return text.encode("utf-16-be", "surrogatepass")


def from_utf16_units(raw: bytes) -> str:
    """Decodes UTF-16 code units, high byte first. `raw`: the bytes; their number must be even."""
    return raw.decode("utf-16-be", "surrogatepass")


def to_modified_utf8(text: str) -> bytes:
    """Returns the bytes of `writeUTF(text)` without the length. NUL takes two bytes, and each surrogate takes three
    bytes.
    """
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    units = to_utf16_units(text)
    return b"".join(_modified_unit(unit) for (unit,) in struct.iter_unpack(">H", units))


def _modified_unit(unit: int) -> bytes:
    return b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")


def malformed_modified_utf8_at(raw: bytes) -> int | None:
    """Returns the index of the first byte at which `readUTF` would fail, or None if `readUTF` would not fail."""
    if raw.isascii():
        return None
    match = _MODIFIED_TEXT.match(raw)
    end = match.end() if match is not None else 0
    return None if end == len(raw) else end


def from_modified_utf8(raw: bytes) -> str:
    """Returns the text that `readUTF` returns for the well-formed bytes `raw`. As in Java, overlong forms are
    accepted.
    """
    if raw.isascii():
        return raw.decode("ascii")
    return from_utf16_units(b"".join(_unit(match[0]) for match in _MODIFIED_UNIT.finditer(raw)))


def _unit(raw: bytes) -> bytes:
    if len(raw) == 1:
        return b"\0" + raw
    if len(raw) == 2:
        return ((raw[0] & 0x1F) << 6 | raw[1] & 0x3F).to_bytes(2, "big")
    return ((raw[0] & 0x0F) << 12 | (raw[1] & 0x3F) << 6 | raw[2] & 0x3F).to_bytes(2, "big")


def _number_reader(form: struct.Struct, what: str = "") -> Callable[[Reader, str], int]:
    """Creates a method of `Reader`. The method reads one number. The methods that this function creates avoid one call
    for each number. This saves a tenth of the decoding time.

    `what`: the text that precedes the name of the field in errors.
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
    """Reads values from bytes, one after the other. `what`: the name of the structure, for errors. `largest_count`: the
    largest length of an array. Every method has the argument `field`: the name of the field to read, for errors.
    """

    __slots__ = ("_data", "_end", "_largest_count", "_offset", "_what")

    def __init__(self, data: bytes | bytearray | memoryview, what: str, largest_count: int = JAVA_INT_MAX) -> None:
        self._data = bytes(data)
        self._end = len(self._data)
        self._offset = 0
        self._what = what
        self._largest_count = largest_count

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def remaining(self) -> int:
        return self._end - self._offset

    def error(self, reason: str, offset: int | None = None) -> DecodeError:
        """Returns the error for faulty bytes at `offset`, or at the current position if `offset` is None."""
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
        """Reads `count` numbers, each an int32."""
        start = self._advance(4 * count, field)
        return struct.unpack_from(f">{count}i", self._data, start)

    def peek_ints(self, count: int, field: str) -> tuple[int, ...]:
        """Reads `count` numbers, each an int32, without changing the position."""
        values = self.ints(count, field)
        self._offset -= 4 * count
        return values

    def peek_rows(self, form: struct.Struct, count: int, field: str) -> Iterator[tuple[Any, ...]]:
        """Reads `count` records of the struct format `form` without changing the position. If the records are valid,
        call `skip` to advance past them.
        """
        start = self._advance(form.size * count, field)
        self._offset = start
        return form.iter_unpack(memoryview(self._data)[start : start + form.size * count])

    def skip(self, size: int, field: str) -> None:
        self._advance(size, field)

    def count(self, field: str, smallest: int) -> int:
        """Reads the length of an array. Raises DecodeError if the length is above `largest_count`. Also raises
        DecodeError if the remaining bytes cannot hold that many elements of `smallest` bytes each.
        """
        start = self._offset
        value = self._count(field)
        if value < 0:
            raise self.error(f"count of {field} is negative ({value})", start)
        if value * smallest > self._end - self._offset:
            raise self.error(
                f"count of {field} is {value} but {self.remaining} bytes remain, at least {smallest} for each", start
            )
        if value > self._largest_count:
            raise self.error(f"count of {field} is {value}, which exceeds {self._largest_count}", start)
        return value

    def raw(self, size: int, field: str) -> bytes:
        start = self._advance(size, field)
        return self._data[start : start + size]

    def nullable_byte_array(self, field: str) -> bytes | None:
        """Reads an int32 length and that number of bytes. As in Kafka, every negative length means null."""
        size = self._int32_length(field)
        return None if size < 0 else self.raw(size, field)

    def byte_array(self, field: str) -> bytes:
        start = self._offset
        value = self.nullable_byte_array(field)
        if value is None:
            raise self.error(f"length of {field} is negative", start)
        return value

    def nullable_string(self, field: str) -> str | None:
        """Reads an int16 length and a text in UTF-8. As in Kafka, every negative length means null."""
        size = self._int16_length(field)
        return None if size < 0 else from_utf8(self.raw(size, field))

    def string(self, field: str) -> str:
        start = self._offset
        value = self.nullable_string(field)
        if value is None:
            raise self.error(f"length of {field} is negative", start)
        return value

    def strings(self, field: str, count: int) -> tuple[str, ...]:
        return tuple([self.string(field) for _ in range(count)])

    def modified_utf8(self, field: str) -> str:
        """Reads an unsigned 16-bit length and a text in modified UTF-8, as `DataOutputStream.writeUTF` writes them."""
        size = self._uint16_length(field)
        start = self._offset
        value = self.raw(size, field)
        malformed = malformed_modified_utf8_at(value)
        if malformed is not None:
            raise self.error(f"{field} is not modified UTF-8", start + malformed)
        return from_modified_utf8(value)

    def text_by_key(self, field: str) -> dict[str, str]:
        """Reads an array of keys and values, each a byte array in UTF-8. Raises DecodeError for a repeated key."""
        texts: dict[str, str] = {}
        for _ in range(self.count(f"{field}s", _SMALLEST_ENTRY)):
            start = self._offset
            key = from_utf8(self.byte_array(f"{field} key"))
            value = from_utf8(self.byte_array(f"{field} value"))
            if key in texts:
                raise self.error(f"{field} {key!r} comes twice", start)
            texts[key] = value
        return texts

    def topic_partitions(self, field: str) -> tuple[TopicPartition, ...]:
        """Reads an array of topics, each with an array of partitions."""
        found: list[TopicPartition] = []
        for _ in range(self.count(field, _SMALLEST_TOPIC)):
            topic = self.string(f"topic in {field}")
            numbers = self.ints(self.count(f"partitions in {field}", _INT32.size), field)
            found += map(TopicPartition, repeat(topic), numbers)
        return tuple(found)

    def process_id(self, field: str) -> ProcessId:
        start = self._advance(16, field)
        return ProcessId(*_PROCESS_ID.unpack_from(self._data, start))


def _number_writer(form: struct.Struct) -> Callable[[Writer, int, str], None]:
    """Creates a method of `Writer`. The method writes one number."""
    pack, bits = form.pack, 8 * form.size

    def write(self: Writer, value: int, field: str) -> None:
        try:
            self._chunks.append(pack(value))
        except struct.error as error:
            raise InputError(f"{value!r} does not fit an int{bits}", field) from error

    return write


class Writer:
    """Collects chunks of bytes. If a value does not fit its field, a method raises InputError with the name of the
    field.
    """

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
        """Writes all of `values` as int32, without a count."""
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
        raw = to_utf8(value)
        if len(raw) > _MAX_STRING_BYTES:
            raise InputError(f"{_shortened(value)} takes {len(raw)} bytes, more than {_MAX_STRING_BYTES}", field)
        self._chunks.append(_INT16.pack(len(raw)) + raw)

    def modified_utf8(self, value: str, field: str) -> None:
        self._chunks.append(pack_modified_utf8(value, field))

    def process_id(self, value: ProcessId) -> None:
        self._chunks.append(value.to_bytes())


def pack_ints(values: Sequence[int], field: str) -> bytes:
    """Returns all of `values` as int32, one after the other."""
    try:
        return struct.pack(f">{len(values)}i", *values)
    except struct.error as error:
        raise InputError("a number does not fit an int32", field) from error


def pack_modified_utf8(value: str, field: str) -> bytes:
    """Returns the bytes of `DataOutputStream.writeUTF(value)`: an unsigned 16-bit length and modified UTF-8.

    Raises TaskAssignmentError if the length does not fit 16 bits. (Kafka's leader sends an error assignment if a host
    name is too long.)
    """
    raw = to_modified_utf8(value)
    if len(raw) > MAX_MODIFIED_UTF8_BYTES:
        limit = MAX_MODIFIED_UTF8_BYTES
        raise TaskAssignmentError(
            "Failed to encode AssignmentInfo", f"{field}: {_shortened(value)} takes {len(raw)} bytes, more than {limit}"
        )
    return _UINT16.pack(len(raw)) + raw


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT_IN_MESSAGE else text[:_LONGEST_TEXT_IN_MESSAGE] + "…")
