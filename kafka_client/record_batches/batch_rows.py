"""Converts the uncompressed records of a batch of version 2 from bytes to columns and back.

Rules: a record consists of its length, attributes, the differences of its timestamp and offset to the batch's base
values, key, value and headers. Numbers are zigzag varints of at most 64 bits; a length below 0 means null. Offsets
rise. Every length is checked against the number of bytes left before it is used. `setup.py` compiles this file, and the
`.pxd` file makes `_data` a pointer. So code must check the bounds before it reads a byte of `_data`. Source:
`DefaultRecord`, `ByteUtils`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_client.record_batches import NAME_ERRORS, Headers

Columns = tuple[
    Sequence[int], list[int], list[bytes | None], list[bytes | None], list[tuple[tuple[str, bytes | None], ...]] | None
]
"""Offsets, timestamps, keys, values, headers. The headers are None if no record has any."""

Written = tuple[bytearray, int, int]
"""The batch with `HEADER_BYTES` unset bytes before its records; its first timestamp; its latest timestamp."""

HEADER_BYTES = 61
"""The size of a batch's header. A row writer leaves these bytes unset."""

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_LAST_SHIFT = 63
_CUT_SHORT = "it ends inside of a record"


def read_rows(body: bytes, count: int, base_offset: int, base_timestamp_ms: int, append_time_ms: int | None) -> Columns:
    """Parses the records of a batch. `append_time_ms`: the timestamp of all records if the broker set it, otherwise
    None. Raises ValueError, which names the error.
    """
    return _RowReader(body).columns(count, base_offset, base_timestamp_ms, append_time_ms)


class _RowReader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._data = body
        self._at = 0
        self._end = len(body)

    def columns(self, count: int, base_offset: int, base_timestamp_ms: int, append_time_ms: int | None) -> Columns:
        timestamps_ms: list[int] = []
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        headers: list[Headers] | None = None
        gaps: list[int] | None = None
        lowest = _LOWEST - base_timestamp_ms if base_timestamp_ms < 0 else _LOWEST
        highest = _HIGHEST - base_timestamp_ms if base_timestamp_ms > 0 else _HIGHEST
        has_append_time = append_time_ms is not None
        first = last = -1
        for index in range(count):
            length = self._number()
            if length < 1 or length > self._end - self._at:
                raise ValueError(f"a record of it has {length} bytes, and there are {self._end - self._at}")
            after = self._at + length
            self._at += 1  # no attribute of a record is defined yet
            later_ms = self._number()
            if later_ms < lowest or later_ms > highest:
                raise ValueError(f"a timestamp of it is out of range: {later_ms} ms after {base_timestamp_ms}")
            if not has_append_time:
                timestamps_ms.append(base_timestamp_ms + later_ms)
            delta = self._number()
            if delta <= last:
                raise ValueError(f"its offsets do not rise: {delta} after {last}")
            if index == 0:
                first = delta
            elif gaps is not None:
                gaps.append(base_offset + delta)
            elif delta != last + 1:
                gaps = [*range(base_offset + first, base_offset + first + index), base_offset + delta]
            last = delta
            keys.append(self._octets())
            values.append(self._octets())
            named = self._number()
            if named != 0:
                if headers is None:
                    headers = [()] * index
                headers.append(self._headers(named))
            elif headers is not None:
                headers.append(())
            if self._at != after:
                raise ValueError(f"a record of it does not have the length that it says: {length}")
        if self._at != self._end:
            raise ValueError(f"{self._end - self._at} bytes follow its last record")
        offsets: Sequence[int] = range(base_offset + first, base_offset + last + 1) if count > 0 else range(0)
        if has_append_time:
            timestamps_ms = [append_time_ms] * max(0, count)  # type: ignore[list-item]
        return offsets if gaps is None else gaps, timestamps_ms, keys, values, headers

    def _number(self) -> int:
        value = shift = 0
        while True:
            if self._at >= self._end:
                raise ValueError(_CUT_SHORT)
            octet = self._data[self._at]
            self._at += 1
            if shift == _LAST_SHIFT and octet > 1:
                raise ValueError("a number in it has more than 64 bits")
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def _octets(self) -> bytes | None:
        length = self._number()
        if length < 0:
            return None
        if length > self._end - self._at:
            raise ValueError(_CUT_SHORT)
        start = self._at
        self._at = start + length
        return self._data[start : start + length]

    def _headers(self, count: int) -> Headers:
        if count < 0:
            raise ValueError(f"a record of it has {count} headers")
        found: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            name = self._octets()
            if name is None:
                raise ValueError("a header in it has no name")
            found.append((name.decode(errors=NAME_ERRORS), self._octets()))
        return tuple(found)


class BatchRowWriter:
    """Writes records into a batch while they fit. `count`: the number of records in the batch; `size`: the bytes of
    their keys, values and headers.

    `limit`: the largest size of the batch with its header, in bytes. `most`: the largest `size`. The first record may
    exceed both limits.
    """

    def __init__(self, limit: int, most: int) -> None:
        self._batch = bytearray(HEADER_BYTES)
        self.count = self.size = 0
        self._first_ms = self._max_ms = 0
        self._limit = limit
        self._most = most

    def extend(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        start: int,
        stop: int,
    ) -> int:
        """Add the rows from `start` to `stop`, without headers, while they fit. Returns the index of the first row that
        was not added.
        """
        for index in range(start, stop):
            if not self._take(keys[index], values[index], timestamps_ms[index], None):
                return index
        return stop

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> bool:
        """Add the record if it fits. Returns True if it was added."""
        return self._take(key, value, timestamp_ms, headers or None)

    def finish(self) -> Written:
        """Return the batch. No row can be added afterwards."""
        batch, self._batch = self._batch, bytearray()
        return batch, self._first_ms, self._max_ms

    def _take(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers | None) -> bool:
        if key is not None and type(key) is not bytes:
            key = _as_bytes(key)
        if value is not None and type(value) is not bytes:
            value = _as_bytes(value)
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        size = max(0, key_size) + max(0, value_size)
        tail: bytes | None = None
        tail_size = 1
        if headers is not None:
            tail, of_headers = _headers_as_bytes(headers)
            tail_size = len(tail)
            size += of_headers
        count = self.count
        later_ms = timestamp_ms - self._first_ms if count > 0 else 0
        length = 1 + _width(later_ms) + _width(count) + _width(key_size) + _width(value_size)
        length += max(0, key_size) + max(0, value_size) + tail_size
        body = self._batch
        if count > 0 and (self.size + size > self._most or len(body) + _width(length) + length > self._limit):
            return False
        _put(body, length)
        body.append(0)
        _put(body, later_ms)
        _put(body, count)
        _put(body, key_size)
        if key is not None:
            body += key
        _put(body, value_size)
        if value is not None:
            body += value
        if tail is None:
            body.append(0)
        else:
            body += tail
        if count == 0:
            self._first_ms = self._max_ms = timestamp_ms
        elif timestamp_ms > self._max_ms:
            self._max_ms = timestamp_ms
        self.count = count + 1
        self.size += size
        return True


row_writer = BatchRowWriter
"""The name under which `library_rows` has its own writer."""


def _width(number: int) -> int:
    """The number of bytes of `number` as a varint."""
    left = (number << 1) ^ (number >> 63)
    width = 1
    while left > 0x7F:
        left >>= 7
        width += 1
    return width


def _put(body: bytearray, number: int) -> None:
    left = (number << 1) ^ (number >> 63)
    while left > 0x7F:
        body.append((left & 0x7F) | 0x80)
        left >>= 7
    body.append(left)


def _as_bytes(given: object) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"keys and values of records are bytes, not {type(given).__name__}")


def _headers_as_bytes(headers: Headers) -> tuple[bytes, int]:
    """The encoded headers of a record, and the number of bytes of their names and values."""
    found = bytearray()
    size = 0
    _put(found, len(headers))
    for name, value in headers:
        octets = name.encode(errors=NAME_ERRORS)
        _put(found, len(octets))
        found += octets
        size += len(octets)
        if value is None:
            _put(found, -1)
        else:
            given = _as_bytes(value)
            _put(found, len(given))
            found += given
            size += len(given)
    return bytes(found), size
