"""The interface of `batch_rows`, implemented with aiokafka's functions, record by record. It is used where `batch_rows`
is not compiled, because uncompiled `batch_rows` would be slower.

Rules and results are those of `batch_rows`, except that a batch is smaller than `limit` bytes; `batch_rows` also allows
exactly `limit`. aiokafka does not support header names that are not UTF-8. So `batch_rows` reads a batch with such a
name, and writes a batch whose first record has such a name.
"""

import struct
from collections.abc import Sequence
from itertools import chain
from operator import le
from typing import TypeVar

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kafka_client.record_batches import Headers, batch_rows
from kafka_client.record_batches.batch_rows import HEADER_BYTES, Columns, Written

T = TypeVar("T")

_MAGIC, _NOT_COMPRESSED, _APPEND_TIME = 2, 0, 0x08
_HEADER = struct.Struct(">qiibIhiqqqhii")
_TIMES = struct.Struct(">qq")
_TIMES_AT = 27
_NO_HEADERS: list[tuple[str, bytes | None]] = []


def read_rows(body: bytes, count: int, base_offset: int, base_timestamp_ms: int, append_time_ms: int | None) -> Columns:
    attributes = 0 if append_time_ms is None else _APPEND_TIME
    times = (base_timestamp_ms, append_time_ms or 0)
    header = _HEADER.pack(base_offset, 0, -1, _MAGIC, 0, attributes, 0, *times, -1, -1, -1, count)
    offsets: list[int] = []
    timestamps_ms: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: dict[int, Headers] = {}
    try:
        # Each record is freed before the next one is made. A list of all records of a batch would start the cyclic
        # garbage collector for nearly every batch, and these collections would take as long as reading the records.
        for record in DefaultRecordBatch(header + body):
            if record.headers:
                headers[len(keys)] = tuple(record.headers)
            offsets.append(record.offset)
            timestamps_ms.append(record.timestamp)
            keys.append(record.key)
            values.append(record.value)
    except UnicodeDecodeError:
        return batch_rows.read_rows(body, count, base_offset, base_timestamp_ms, append_time_ms)
    except CorruptRecordException as error:
        raise ValueError(str(error)) from error
    if any(map(le, offsets, chain((base_offset - 1,), offsets))):
        raise ValueError("its offsets do not rise")
    dense = range(offsets[0], offsets[-1] + 1) if offsets else range(0)
    return (
        dense if len(dense) == len(offsets) else offsets,
        timestamps_ms,
        keys,
        values,
        [headers.get(place, ()) for place in range(len(keys))] if headers else None,
    )


class LibraryRowWriter:
    def __init__(self, limit: int, most: int) -> None:
        self.count = self.size = 0
        self._limit = limit
        self._most = most
        self._own: batch_rows.BatchRowWriter | None = None
        self._builder = DefaultRecordBatchBuilder(_MAGIC, _NOT_COMPRESSED, 0, -1, -1, -1, limit)

    def extend(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        start: int,
        stop: int,
    ) -> int:
        if self._own is not None:
            return self._counted(self._own.extend(keys, values, timestamps_ms, start, stop))
        add, most = self._builder.append, self._most
        count, size = self.count, self.size
        for index in range(start, stop):
            key, value = keys[index], values[index]
            grown = size + (0 if key is None else len(key)) + (0 if value is None else len(value))
            if (count and grown > most) or add(count, timestamps_ms[index], key, value, _NO_HEADERS) is None:
                stop = index
                break
            count += 1
            size = grown
        self.count, self.size = count, size
        return stop

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> bool:
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        try:
            size += sum(len(name.encode()) + (0 if text is None else len(text)) for name, text in headers)
        except UnicodeEncodeError:
            if self.count == 0:
                self._own = batch_rows.row_writer(self._limit, self._most)
            elif self._own is None:
                return False
        if self._own is not None:
            return self._counted(self._own.append(key, value, timestamp_ms, headers))
        if self.count and self.size + size > self._most:
            return False
        if self._builder.append(self.count, timestamp_ms, key, value, list(headers)) is None:
            return False
        self.count += 1
        self.size += size
        return True

    def finish(self) -> Written:
        if self._own is not None:
            return self._own.finish()
        batch = self._builder.build()
        assert len(batch) >= HEADER_BYTES, "its header is built as well"
        return batch, *_TIMES.unpack_from(batch, _TIMES_AT)

    def _counted(self, taken: T) -> T:
        assert self._own is not None, "it has taken them"
        self.count, self.size = self._own.count, self._own.size
        return taken


row_writer = LibraryRowWriter
