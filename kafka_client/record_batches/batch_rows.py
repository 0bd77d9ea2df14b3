"""Converts the uncompressed records of a batch (version 2) from bytes to columns, and from columns to bytes. The module
uses aiokafka's classes.

`setup.py` compiles this file, because compiled loops over records take half the time of interpreted loops. The library
aiokafka cannot read or write a header name that is not UTF-8. So this module gives aiokafka an ASCII text of equal
length in place of such a name. The module restores the name afterwards. Source: `DefaultRecord`.
"""

from collections.abc import Iterator, Sequence

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.util import decode_varint

from kafka_client.record_batches import NAME_ERRORS, BytesColumn, Headers

Columns = tuple[Sequence[int], list[int], list[bytes | None], list[bytes | None], list[Headers] | None]
"""The columns of a batch: offsets, timestamps, keys, values and headers. The last column is None if no record has
headers.
"""

HEADER_BYTES = 61
"""The size of a batch's header, in bytes."""

_MAGIC, _NOT_COMPRESSED = 2, 0
_NO_HEADERS: list[tuple[str, bytes | None]] = []
_LONGEST_VARINT = 10


def read_rows(batch: bytes, count: int) -> Columns:
    """Parses the records of an uncompressed batch. Raises ValueError for damaged bytes; the error's message describes
    the damage.
    """
    records = DefaultRecordBatch(batch)
    offsets: list[int] = []
    timestamps_ms: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: dict[int, Headers] = {}
    last = records.base_offset - 1
    try:
        # This loop frees each record before it reads the next record. A list of all records of a batch would start the
        # cyclic garbage collector for nearly every batch. The garbage collection would take as long as the reading of
        # the records.
        for record in records:
            named = record.headers
            if named:
                headers[len(keys)] = tuple(named)
            offset = record.offset
            if offset <= last:
                raise ValueError(f"its offsets do not rise: {offset} after {last}")
            last = offset
            offsets.append(offset)
            timestamps_ms.append(record.timestamp)
            keys.append(record.key)
            values.append(record.value)
    except UnicodeDecodeError:
        return _read_with_other_names(batch, count)
    except (CorruptRecordException, OverflowError) as error:
        raise ValueError(str(error)) from error
    # for a damaged length near 2**63, aiokafka's bounds check overflows, and aiokafka tries to allocate this much
    # memory
    except MemoryError as error:
        raise ValueError("a length in it is larger than the memory") from error
    first = offsets[0] if offsets else last + 1
    is_dense = last - first + 1 == len(offsets)
    return (
        range(first, last + 1) if is_dense else offsets,
        timestamps_ms,
        keys,
        values,
        [headers.get(place, ()) for place in range(len(keys))] if headers else None,
    )


def _read_with_other_names(batch: bytes, count: int) -> Columns:
    places = list(_name_places(batch, count))
    readable = bytearray(batch)
    for place in places:
        readable[place] = b"?" * len(batch[place])
    offsets, timestamps_ms, keys, values, headers = read_rows(bytes(readable), count)
    names = iter([batch[place].decode(errors=NAME_ERRORS) for place in places])
    renamed = [tuple([(next(names), value) for _, value in named]) for named in headers or ()]
    return offsets, timestamps_ms, keys, values, renamed


def _name_places(batch: bytes | bytearray, count: int) -> Iterator[slice]:
    """Yields the slice of each header name in the batch. Raises ValueError if a record is incomplete."""
    padded = bytearray(batch) + bytes(_LONGEST_VARINT)  # aiokafka's `decode_varint` may read past the end of the bytes

    def number(at: int) -> tuple[int, int]:
        if at >= len(batch):
            raise ValueError("it ends inside of a record")
        value, after = decode_varint(padded, at)
        return value, after

    def after_octets(at: int) -> int:
        length, at = number(at)
        return at + max(0, length)

    at = HEADER_BYTES
    for _ in range(count):
        _, at = number(at)  # This is the length of the record.
        # aiokafka reads the attributes byte as a varint, so it reads a second byte if the high bit is set.
        _, at = number(at)
        _, at = number(at)  # This is the timestamp.
        _, at = number(at)  # This is the offset.
        header_count, at = number(after_octets(after_octets(at)))
        for _ in range(header_count):
            _, start = number(at)
            at = after_octets(at)
            yield slice(start, at)
            at = after_octets(at)


class BatchRowWriter:
    """Writes records into a batch while they fit. `count`: the number of records in the batch. `size`: the total size
    of all keys, values and headers in the batch, in bytes.

    The parameter `limit`: the largest allowed size of the batch with its header, in bytes. The parameter `most`: the
    largest allowed value of `size`. The first record of a batch is added even if it exceeds these two limits.
    """

    def __init__(self, limit: int, most: int) -> None:
        self.count = self.size = self._header_size = 0
        self._most = most
        self._names: list[bytes] = []
        self._has_other_names = False
        # The last headers, in the forms that `append` needs, because all records of some topics have the same headers.
        self._headers: Headers = ()
        self._header_names: list[bytes] = []
        self._writable_headers: list[tuple[str, bytes | None]] = []
        self._builder = DefaultRecordBatchBuilder(_MAGIC, _NOT_COMPRESSED, 0, -1, -1, -1, limit)

    def extend(
        self,
        keys: BytesColumn,
        values: BytesColumn,
        timestamps_ms: Sequence[int],
        headers: Sequence[Headers] | None,
        start: int,
        stop: int,
    ) -> int:
        """Adds records while they fit. The indexes of the records are `start` to `stop - 1`. `headers`: None if no
        record has headers. Returns the index of the first record that was not added.
        """
        if headers is not None:
            for index in range(start, stop):
                if not self.append(keys[index], values[index], timestamps_ms[index], headers[index]):
                    return index
            return stop
        for index in range(start, stop):
            if not self._take(keys[index], values[index], timestamps_ms[index], _NO_HEADERS, 0):
                return index
        return stop

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> bool:
        """Adds the record if it fits into the batch. Returns True if the record was added."""
        if not headers:
            return self._take(key, value, timestamp_ms, _NO_HEADERS, 0)
        if headers is not self._headers:
            self._headers = headers
            self._header_names = [name.encode(errors=NAME_ERRORS) for name, _ in headers]
            self._header_size = sum(map(len, self._header_names)) + sum(len(octets or b"") for _, octets in headers)
            self._writable_headers = [(_writable(name), octets) for name, octets in headers]
            self._has_other_names |= self._writable_headers != list(headers)
        taken = self._take(key, value, timestamp_ms, self._writable_headers, self._header_size)
        if taken:
            self._names += self._header_names
        return taken

    def finish(self) -> bytearray:
        """Returns the batch, with an incomplete header. No record can be added after `finish`."""
        batch: bytearray = self._builder.build()
        if self._has_other_names:
            for place, name in zip(_name_places(batch, self.count), self._names, strict=True):
                batch[place] = name
        return batch

    def _take(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[tuple[str, bytes | None]],
        header_size: int,
    ) -> bool:
        grown = self.size + header_size
        if key is not None:
            grown += len(key)
        if value is not None:
            grown += len(value)
        if self.count > 0 and grown > self._most:
            return False
        if self._builder.append(self.count, timestamp_ms, key, value, headers) is None:
            return False
        self.count += 1
        self.size = grown
        return True


def _writable(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        return "?" * len(name.encode(errors=NAME_ERRORS))
    return name
