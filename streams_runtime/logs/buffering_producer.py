"""A producer that keeps what it took in memory until it is written in one step. Shared by the logs of one machine.

Rules: with a transactional id nothing is written before the commit, and then records and group offsets together, so
that an open transaction is never in the log and the last stable offset is the end offset. Without one, records are
written once 256 KiB are pending, at `flush` and at `commit_offsets`. A time-out leaves all as it was: the same call can
be tried again. A producer that was fenced stays so; it can only be aborted and closed.

Source: `KafkaProducer`, `TransactionManager`. Differs from Kafka: an aborted transaction leaves no trace, not even
offsets that nobody has; a transaction has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from assignor.types import TopicPartition
from streams_runtime.logs.base import Claim, OffsetsToCommit
from streams_runtime.logs.errors import CommitFenced, InvalidRecord, LogError, ProducerFenced, RecordTooLarge
from streams_runtime.logs.record_batches import BATCH_BYTES, BATCH_RECORDS, EncodedBatch, encoded
from streams_runtime.logs.topic_configs import TopicConfigs
from streams_runtime.records import Headers

PENDING_BYTES = 256 * 1024
"""Without a transaction, so much is held back at most."""


class ProducerIdentity(NamedTuple):
    """Higher epochs of a transactional id fence lower ones."""

    transactional_id: str
    epoch: int


class Destination(Protocol):
    """Where a producer writes. Called from the producer's thread."""

    def configs_of(self, partition: TopicPartition) -> TopicConfigs:
        """Raises UnknownTopicOrPartition."""
        ...

    def append(
        self,
        batches: Mapping[TopicPartition, Sequence[EncodedBatch]],
        offsets: OffsetsToCommit,
        identity: ProducerIdentity | None,
    ) -> dict[TopicPartition, int]:
        """All of it or, with an error, nothing. Offsets of the last record of each partition.

        Raises ProducerFenced, CommitFenced, LogTimeout.
        """
        ...


class _Pending:
    """Records of one partition: columns that grow, and batches that are full already."""

    __slots__ = ("configs", "full", "headers", "keys", "size", "timestamps_ms", "values")

    def __init__(self, configs: TopicConfigs) -> None:
        self.configs = configs
        self.full: list[EncodedBatch] = []
        self._start()

    def _start(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []
        self.headers: list[Headers] | None = None
        self.size = 0

    def close_batch(self) -> None:
        if self.keys:
            self.full.append(encoded(self.timestamps_ms, self.keys, self.values, self.headers))
            self._start()

    def batches(self) -> list[EncodedBatch]:
        self.close_batch()
        return self.full


class BufferingProducer:
    """A `Producer`. `identity`: of a transactional one; the log has registered it."""

    def __init__(self, destination: Destination, identity: ProducerIdentity | None) -> None:
        self._destination = destination
        self._identity = identity
        self._pending: dict[TopicPartition, _Pending] = {}
        self._pending_bytes = 0
        # without a transaction nothing is too much to wait for: every send compares with this, and with nothing else
        self._write_at_bytes = PENDING_BYTES if identity is None else float("inf")
        self._accepts_records = identity is None
        self._in_transaction = False
        self._fenced: LogError | None = None
        self._closed = False
        self._guards: OffsetsToCommit = ()
        self._last_offsets: dict[TopicPartition, int] = {}

    @property
    def is_transactional(self) -> bool:
        return self._identity is not None

    def in_transaction(self) -> bool:
        return self._in_transaction

    def begin_transaction(self) -> None:
        self._check_usable()
        if self._identity is None:
            raise LogError("a producer without a transactional id has no transactions")
        if self._in_transaction:
            raise LogError(f"transaction of {self._identity.transactional_id} has begun already")
        self._in_transaction = self._accepts_records = True

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        if not self._accepts_records:
            self._refuse_record()
        pending = self._pending.get(partition)
        if pending is None:
            pending = self._pending[partition] = _Pending(self._destination.configs_of(partition))
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if headers:
            size += _headers_size(headers)
        if timestamp_ms < 0 or size > pending.configs.max_message_bytes or (key is None and pending.configs.compacts):
            raise _not_acceptable(partition, key, timestamp_ms, size, pending.configs)
        if pending.size + size > BATCH_BYTES or len(pending.keys) == BATCH_RECORDS:
            pending.close_batch()
        if headers:
            if pending.headers is None:
                pending.headers = [()] * len(pending.keys)
            pending.headers.append(headers)
        elif pending.headers is not None:
            pending.headers.append(())
        pending.keys.append(key)
        pending.values.append(value)
        pending.timestamps_ms.append(timestamp_ms)
        pending.size += size
        self._pending_bytes += size
        if self._pending_bytes >= self._write_at_bytes:
            self._write(self._guards)

    def flush(self) -> None:
        """Inside a transaction there is nothing to wait for: what was taken is written by the commit."""
        self._check_usable()
        if not self._in_transaction and any(of_it.keys or of_it.full for of_it in self._pending.values()):
            self._write(self._guards)

    def commit_transaction(self, offsets: OffsetsToCommit = ()) -> None:
        self._check_in_transaction()
        self._write(offsets)
        self._end_transaction()

    def abort_transaction(self) -> None:
        if not self._in_transaction:
            self._check_in_transaction()
        self._end_transaction()

    def commit_offsets(self, offsets: OffsetsToCommit) -> None:
        """Records that are still pending are written in the same step."""
        self._check_usable()
        if self._identity is not None:
            raise LogError(f"{self._identity.transactional_id} is transactional: offsets go with commit_transaction")
        self._write([*offsets, *self._guards])

    def guard(self, claims: Sequence[Claim]) -> None:
        self._guards = [(claim, {}) for claim in claims]

    def discard(self) -> None:
        self._forget_pending()

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        return dict(self._last_offsets)

    def close(self) -> None:
        if self._closed:
            return
        try:
            if self._identity is None and self._fenced is None:
                self._write(())
        finally:
            self._end_transaction()
            self._closed = True
            self._accepts_records = False

    def _write(self, offsets: OffsetsToCommit) -> None:
        batches = {partition: full for partition, of_it in self._pending.items() if (full := of_it.batches())}
        if not batches and not offsets:
            return
        try:
            written = self._destination.append(batches, offsets, self._identity)
        except (ProducerFenced, CommitFenced) as error:
            self._fenced = error
            self._accepts_records = False
            raise
        self._last_offsets.update(written)
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending_bytes = 0
        for pending in self._pending.values():
            pending.full = []
            pending._start()

    def _end_transaction(self) -> None:
        self._forget_pending()
        self._in_transaction = False
        self._accepts_records = self._identity is None and self._fenced is None

    def _check_usable(self) -> None:
        if self._closed:
            raise LogError("the producer is closed")
        if self._fenced is not None:
            raise type(self._fenced)(str(self._fenced))

    def _check_in_transaction(self) -> None:
        self._check_usable()
        if not self._in_transaction:
            raise LogError("no transaction has begun")

    def _refuse_record(self) -> None:
        self._check_in_transaction()
        raise AssertionError("a producer inside a transaction accepts records")


def _headers_size(headers: Headers) -> int:
    return sum(len(name.encode()) + (0 if value is None else len(value)) for name, value in headers)


def _not_acceptable(
    partition: TopicPartition, key: bytes | None, timestamp_ms: int, size: int, configs: TopicConfigs
) -> LogError:
    if timestamp_ms < 0:
        return InvalidRecord(f"record for {partition} has the timestamp {timestamp_ms}; it must not be negative")
    if key is None and configs.compacts:
        return InvalidRecord(f"record for {partition} has no key, and the topic is compacted by key")
    return RecordTooLarge(
        f"record for {partition} has {size} bytes, and its topic takes {configs.max_message_bytes} (max.message.bytes)"
    )
