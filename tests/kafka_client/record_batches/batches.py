"""Record batches as aiokafka builds and reads them, and the forms in which ours are read and written."""

import struct
from collections.abc import Sequence
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import strategies as st

from kafka_client.record_batches import Headers

Row = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset delta, timestamp, key, value, headers."""

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
ATTRIBUTES_AT = 21
NOT_CHECKED = frozenset((*range(8), *range(12, 16)))
"""Bytes of a batch that its checksum does not cover, and that may be anything: offset and leader's epoch."""

nullable = st.none() | st.binary(max_size=50)
names_and_values = st.lists(st.tuples(st.text(max_size=5), nullable), max_size=3).map(tuple)


def rows(*, has_gaps: bool = True) -> st.SearchStrategy[list[Row]]:
    steps = st.integers(1, 2**16 if has_gaps else 1)
    one = st.tuples(steps, st.integers(0, 2**62), nullable, nullable, names_and_values)
    return st.lists(one, min_size=1, max_size=30).map(_with_rising_offsets)


def _with_rising_offsets(found: list[Row]) -> list[Row]:
    at = -1
    rising: list[Row] = []
    for step, timestamp_ms, key, value, headers in found:
        at += step
        rising.append((at, timestamp_ms, key, value, headers))
    return rising


def batch_of(
    found: Sequence[Row],
    *,
    codec: int = 0,
    base_offset: int = 0,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    last_offset_delta: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, producer_id, producer_epoch, 0, 2**31 - 1)
    for delta, timestamp_ms, key, value, headers in found:
        builder.append(delta, timestamp_ms, key, value, list(headers))
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, base_offset)
    built[ATTRIBUTES_AT + 1] |= attributes
    if last_offset_delta is not None:
        struct.pack_into(">i", built, 23, last_offset_delta)
    if max_timestamp_ms is not None:
        struct.pack_into(">q", built, 35, max_timestamp_ms)
    return checked(built)


def checked(batch: bytes | bytearray) -> bytes:
    """With the checksum of what it has."""
    built = bytearray(batch)
    struct.pack_into(">I", built, 17, calc_crc32c(bytes(built[ATTRIBUTES_AT:])))
    return bytes(built)


def marker(producer_id: int, base_offset: int, *, commits: bool) -> bytes:
    key = struct.pack(">hh", 0, int(commits))
    row: Row = (0, 1, key, bytes(6), ())
    return batch_of([row], base_offset=base_offset, attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id)


def read_by_aiokafka(payload: bytes) -> list[Row]:
    """With offsets in place of deltas. Every checksum is looked at."""
    found: list[Row] = []
    reader = MemoryRecords(payload)
    while reader.has_next():
        batch: Any = reader.next_batch()
        assert batch.validate_crc()
        found += [(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in batch]
    return found
