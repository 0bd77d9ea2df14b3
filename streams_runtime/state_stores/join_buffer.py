"""The buffer of a join of a stream with a versioned table. A record waits in the buffer for the grace period of the
join, so that the table gets the versions that are valid at the timestamp of the record.

The buffer is a store in RocksDB with a changelog. A stored key consists of a byte 0, the timestamp of the record (8
bytes, big-endian), the record's key, and a sequence number (4 bytes), which makes equal keys and timestamps different.
So the records are in the order in which they leave the buffer. Source: `RocksDBTimeOrderedKeyValueBuffer`,
`PrefixedWindowKeySchemas.TimeFirstWindowKeySchema`; KIP-923. Differs from Kafka: the changelog record has the timestamp
of the record that is being processed; in Kafka, the producer's clock. After a restore, Kafka has wrong times and keys,
because it reads the keys of the changelog in another format. After a restart, a sequence number of Kafka may overwrite
a record in the buffer.
"""

import struct
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from streams_runtime.common.records import K, V
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.buffer_values import deserialize_buffer_value, serialize_buffer_value
from streams_runtime.state_stores.builders import SerdesStoreBuilder
from streams_runtime.state_stores.change_logging import ChangeLoggingKeyValueBytesStore
from streams_runtime.state_stores.key_ranges import after
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.state_store import KeyValueBytesStore, SerdesStore, StoreContext
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind
from streams_runtime.state_stores.thread_cache import ContextTuple
from streams_runtime.state_stores.transaction_buffer import TransactionBuffer

_TIME = struct.Struct(">BQ")
_SEQUENCE = struct.Struct(">i")
_MAX_SEQUENCE = 0x7FFFFFFF


class JoinBuffer(SerdesStore[KeyValueBytesStore, K, V]):
    """The buffer of one task. `grace_ms`: a record leaves the buffer when stream time is later by `grace_ms` or more.
    Stream time is the highest timestamp of the records that were put.
    """

    def __init__(self, inner: KeyValueBytesStore, key_serde: Serde[K], value_serde: Serde[V], grace_ms: int) -> None:
        super().__init__(inner, key_serde, value_serde)
        self._grace_ms = grace_ms
        self._sequence = 0
        self._forget_times()

    def _forget_times(self) -> None:
        self._observed_ms: int | None = None  # None: it has to be read from the store
        self._numbered_to_ms = -1  # up to this time, the buffer may have numbers that this object has not assigned
        self._earliest_ms = 0  # no record in the buffer is earlier

    def open(self, context: StoreContext) -> None:
        if not self.is_open:
            self._forget_times()
            super().open(context)

    def restore(self, batch: RecordBatch) -> None:
        self._forget_times()
        super().restore(batch)

    def put(self, key: K, value: V, context: ContextTuple) -> bool:
        """Puts a record. Returns False if the record is so late that it does not wait."""
        timestamp_ms = context[0]
        observed_ms = self._stream_time_ms()
        if observed_ms - self._grace_ms > timestamp_ms:
            return False
        stored_key = _TIME.pack(0, timestamp_ms) + self._serialized_key(key)
        data = serialize_buffer_value((context, self._serialize_value(value), None, None, 0))
        self.inner.put(stored_key + self._free_sequence(stored_key, timestamp_ms), data)
        self._observed_ms = max(observed_ms, timestamp_ms)
        self._earliest_ms = min(self._earliest_ms, timestamp_ms)
        return True

    def evict(self) -> Iterator[tuple[K, V, ContextTuple]]:
        """Returns the records whose grace period has ended, in the order of their timestamps. A record is deleted from
        the buffer when the caller takes the next one. So a record stays in the buffer if the caller fails.
        """
        last_ms = self._stream_time_ms() - self._grace_ms
        if last_ms < self._earliest_ms:
            return
        for stored_key, data in self.inner.scan(_TIME.pack(0, self._earliest_ms), _TIME.pack(0, last_ms + 1)):
            context, value, *_ = deserialize_buffer_value(data)
            key = self._deserialize_key(stored_key[_TIME.size : -_SEQUENCE.size])
            yield key, self._deserialize_value(value or b""), context
            self.inner.put(stored_key, None)
        self._earliest_ms = last_ms + 1

    def _stream_time_ms(self) -> int:
        if self._observed_ms is None:
            newest = next(self.inner.scan(None, None, reverse=True), None)
            self._observed_ms = self._numbered_to_ms = -1 if newest is None else _TIME.unpack_from(newest[0])[1]
        return self._observed_ms

    def _free_sequence(self, stored_key: bytes, timestamp_ms: int) -> bytes:
        """Returns the next sequence number. It is higher than the numbers of earlier records with this key and
        timestamp, so that equal records leave the buffer in the order of their puts.
        """
        if timestamp_ms <= self._numbered_to_ms:
            length = len(stored_key) + _SEQUENCE.size  # a stored key of another length belongs to a longer record key
            for found, _ in self.inner.scan(stored_key, after(stored_key + _SEQUENCE.pack(_MAX_SEQUENCE))):
                if len(found) == length:
                    self._sequence = max(self._sequence, _SEQUENCE.unpack(found[-_SEQUENCE.size :])[0])
        while True:
            self._sequence = (self._sequence + 1) & _MAX_SEQUENCE
            sequence = _SEQUENCE.pack(self._sequence)
            if self.inner.get(stored_key + sequence) is None:
                return sequence


@dataclass(frozen=True)
class JoinBufferBuilder(SerdesStoreBuilder[Any, Any]):
    """The builder of the buffer of a join."""

    queryable: ClassVar[bool] = False
    is_buffer: ClassVar[bool] = True

    _: KW_ONLY
    grace_ms: int

    def build(self) -> JoinBuffer[Any, Any]:
        bytes_store = TransactionBuffer(RocksDBStore(self.name, StoreFormat(StoreKind.JOIN_BUFFER)))
        logging_store = ChangeLoggingKeyValueBytesStore(bytes_store)
        return JoinBuffer(logging_store, self.key_serde, self.value_serde, self.grace_ms)
