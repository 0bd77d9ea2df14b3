"""Has the rules of every producer, and the signals that wake consumers after an append. Also has the producer class of
the embedded log and the in-memory log. Every producer has a `ProducerState`, which checks whether a call is allowed.
Rules: a producer with a transactional id accepts records only inside a transaction. A producer without a transactional
id has no transactions. A producer that was fenced stays fenced, and can only be aborted and closed. Some logs can check
claims during each write. These logs call `check_identity` and `check_claim` in the same atomic step as the write.

Rules of `BufferingProducer`: it collects records in memory and writes them in one step. With a transactional id,
nothing is written before the commit. The commit writes records and group offsets together. So the log never contains an
open transaction, and the last stable offset is the end offset. Without a transactional id, records are written when 256
KiB are pending. `send_now`, `flush` and `commit_offsets` also write the pending records. The producer has no thread, so
its owner has to call `send_now` after `linger.ms`. If a call raises LogTimeout, no record is lost, and the same call
can be repeated.

Source: `KafkaProducer`, `TransactionManager.State`; KIP-360 (producer epochs), KIP-447 (group). Differs from Kafka: an
aborted transaction leaves no trace, not even a gap in the offsets. The records of a transaction have to fit into
memory.
"""

import threading
import weakref
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import NamedTuple, Protocol

from assignor.types import Offsets, TopicPartition
from operating_system.processes import reset_in_children
from streams_runtime.common.records import BytesColumn, Headers
from streams_runtime.logs.base import BATCH_BYTES, BATCH_RECORDS, Claim, OffsetsToCommit, RawColumns
from streams_runtime.logs.log_errors import CommitFenced, LogError, ProducerFenced
from streams_runtime.logs.record_limits import RecordLimits, checked_headers

PENDING_BYTES = 256 * 1024
"""A producer without transactions writes its pending records when they have this number of bytes."""


class AppendSignals:
    """After an append, wakes the consumers of this process that wait for records. Each consumer waits for its own
    event.

    The events are stored in a set of weak references, so an event disappears together with its consumer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()

    def new_event(self) -> threading.Event:
        event = threading.Event()
        with self._lock:
            self._events.add(event)
        return event

    def appended(self) -> None:
        with self._lock:
            for event in self._events:
                event.set()


class ProducerState:
    """The state of a producer. Only the producer's thread uses the state. `transactional_id`: None if the producer has
    no transactions.

    `accepts_records`: True if `send` may take a record. `accepts_records` is the only part of the state that is checked
    for each record.
    """

    __slots__ = ("_discarded", "_error", "accepts_records", "in_transaction", "is_closed", "transactional_id")

    def __init__(self, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.accepts_records = transactional_id is None
        self.in_transaction = False
        self.is_closed = False
        self._discarded = False
        self._error: LogError | None = None

    @property
    def is_transactional(self) -> bool:
        return self.transactional_id is not None

    @property
    def has_failed(self) -> bool:
        """True if an error has ended the producer."""
        return self._error is not None

    @property
    def writes_on_close(self) -> bool:
        """True if `close` has to write the pending records. False if the producer has transactions, if an error has
        ended the producer, or if the records were discarded.
        """
        return self.accepts_records and not self.is_transactional

    def begin_transaction(self) -> None:
        """Raises LogError if the producer has no transactional id, or if a transaction has begun already."""
        self.check_usable()
        if self.transactional_id is None:
            raise LogError("a producer without a transactional id has no transactions")
        if self.in_transaction:
            raise LogError(f"transaction of {self.transactional_id} has begun already")
        self.in_transaction = self.accepts_records = True

    def end_transaction(self) -> None:
        """Ends the transaction, if there is one."""
        self.in_transaction = False
        self.accepts_records = not (self.is_transactional or self.is_closed or self._discarded or self._error)

    def fail(self, error: LogError) -> None:
        """Remember the error that has ended the producer. Every later call raises this error, except abort and
        close.
        """
        self._error = error
        self.accepts_records = False

    def discard(self) -> None:
        self._discarded = True
        self.accepts_records = False

    def close(self) -> None:
        self.is_closed = True
        self.end_transaction()

    def check_usable(self) -> None:
        """If the producer is closed, raises LogError. If an error has ended the producer, raises this error."""
        if self.is_closed:
            raise LogError("the producer is closed")
        if self._error is not None:
            raise type(self._error)(str(self._error))

    def check_in_transaction(self) -> None:
        self.check_usable()
        if not self.in_transaction:
            raise LogError("no transaction has begun")

    def check_commits_offsets(self) -> None:
        """Raises LogError if the producer has a transactional id, because such a producer commits offsets only in
        transactions.
        """
        self.check_usable()
        if self.transactional_id is not None:
            raise LogError(f"{self.transactional_id} is transactional: offsets go with commit_transaction")

    def refuse_record(self) -> None:
        """Raises the error that explains why `accepts_records` is False."""
        if self._discarded:
            self.check_usable()
            raise LogError("the producer takes no more records: what it had was discarded")
        self.check_in_transaction()


class ProducerIdentity(NamedTuple):
    """A transactional id and its epoch. A producer with a higher epoch fences all producers with the same id and a
    lower epoch.
    """

    transactional_id: str
    epoch: int


def check_offsets(offsets: OffsetsToCommit) -> None:
    """Raises LogError if an offset is negative, or if its partition does not belong to the claim."""
    for claim, moved in offsets:
        for partition, offset in moved.items():
            if partition not in claim.epochs:
                raise LogError(f"offset of {partition} is not covered by the claim of group {claim.group_id}")
            if offset.offset < 0:
                raise LogError(f"offset {offset.offset} of {partition} is negative")


def check_identity(identity: ProducerIdentity, current_epoch: int | None) -> None:
    """Raises ProducerFenced."""
    if current_epoch != identity.epoch:
        raise ProducerFenced(
            f"producer {identity.transactional_id} of epoch {identity.epoch} was replaced by epoch {current_epoch}"
        )


def check_claim(claim: Claim, current_epochs: Mapping[TopicPartition, int]) -> None:
    """Checks all partitions of the claim, including partitions without an offset to commit. If a Streams task has lost
    one of its partitions, the whole task has migrated.

    `current_epochs`: the epochs of the group's newest claims. Raises CommitFenced.
    """
    for partition, epoch in claim.epochs.items():
        current = current_epochs.get(partition)
        if current != epoch:
            raise claimed_since(claim, partition, current)


def claimed_since(claim: Claim, partition: TopicPartition, current_epoch: int | None) -> CommitFenced:
    return CommitFenced(
        f"group {claim.group_id}: {partition} was claimed with epoch {claim.epochs[partition]} and is now with epoch "
        f"{current_epoch}"
    )


class NewBatch(NamedTuple):
    """Consecutive records that have no offsets yet, as columns of the same length. The columns no longer change.

    `headers`: None if no record has headers. `size`: the total size of keys, values and headers in bytes.
    """

    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None
    size: int


NewBatches = Mapping[TopicPartition, Sequence[NewBatch]]
"""The batches to append, by partition. The partitions are in the order in which their first pending records were
sent.
"""


def with_continues(
    batches: NewBatches, identity: ProducerIdentity | None
) -> dict[TopicPartition, list[tuple[NewBatch, bool]]]:
    """Returns the batches that one `append` writes. The second value of each pair is True if the transaction continues
    in the next batch of the partition. `identity`: None if the batches are not written by a transaction, so each batch
    is complete.
    """
    return {
        partition: [(batch, identity is not None and number < len(of_it)) for number, batch in enumerate(of_it, 1)]
        for partition, of_it in batches.items()
    }


class Destination(Protocol):
    """The log to which a producer writes. Only the producer's thread calls a `Destination`."""

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        """Raises UnknownTopicOrPartition."""

    def append(self, batches: NewBatches, offsets: OffsetsToCommit, identity: ProducerIdentity | None) -> Offsets:
        """Write all batches and offsets. If `append` raises an error, it has written none of the batches and offsets.
        Returns the last written offset of each partition.

        Raises ProducerFenced, CommitFenced, LogTimeout.
        """


class _Pending:
    """The pending records of one partition: closed batches, and columns to which new records are appended."""

    __slots__ = ("closed", "headers", "keys", "limits", "size", "timestamps_ms", "values")

    def __init__(self, limits: RecordLimits) -> None:
        self.limits = limits
        self.closed: list[NewBatch] = []
        self._start()

    def _start(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []
        self.headers: list[Headers] | None = None
        self.size = 0

    def extend(self, columns: RawColumns) -> int:
        """Add records. Returns their total size in bytes."""
        keys, values, timestamps_ms, headers = columns
        sizes = map(add, _lengths(keys), _lengths(values))
        if headers is not None:
            sizes = map(add, sizes, [checked_headers(each)[1] for each in headers])
        ends = list(accumulate(sizes))
        count, start, before = len(ends), 0, 0
        while start < count:
            room = start + BATCH_RECORDS - len(self.keys)
            stop = bisect_right(ends, before + BATCH_BYTES - self.size, start, min(count, room))
            if stop == start:
                if self.keys:
                    self.close_batch()
                    continue
                stop = start + 1  # a record that is larger than a batch gets a batch of its own
            self.keys += keys[start:stop]
            self.values += values[start:stop]
            self.timestamps_ms += timestamps_ms[start:stop]
            if headers is not None and self.headers is None:
                self.headers = [()] * (len(self.keys) - (stop - start))
            if self.headers is not None:
                self.headers += [()] * (stop - start) if headers is None else headers[start:stop]
            self.size += ends[stop - 1] - before
            start, before = stop, ends[stop - 1]
        return before

    def close_batch(self) -> None:
        if self.keys:
            self.closed.append(NewBatch(self.timestamps_ms, self.keys, self.values, self.headers, self.size))
            self._start()

    def batches(self) -> list[NewBatch]:
        self.close_batch()
        return self.closed


def _lengths(column: BytesColumn) -> list[int]:
    """Returns the length in bytes of each key or value; the length of None is 0."""
    try:
        return list(map(len, column))  # type: ignore[arg-type]
    except TypeError:
        return [0 if item is None else len(item) for item in column]


class BufferingProducer:
    """A `Producer`. `identity`: the transactional id and the epoch that the log has registered for this producer; None
    for a producer without transactions.
    """

    lingers = False

    def __init__(self, destination: Destination, identity: ProducerIdentity | None) -> None:
        self._destination = destination
        self._identity = identity
        self._state = ProducerState(None if identity is None else identity.transactional_id)
        # the pending records, by partition
        self._pending: dict[TopicPartition, _Pending] = {}
        self._limits: dict[TopicPartition, RecordLimits] = {}
        self._pending_bytes = 0
        # A transactional producer writes only at the commit, so its limit is infinite. So `send` compares only the size
        # with the limit, with or without transactions.
        self._write_at_bytes = PENDING_BYTES if identity is None else float("inf")
        self._guards: OffsetsToCommit = ()
        self._last_offsets: dict[TopicPartition, int] = {}

    def begin_transaction(self) -> None:
        self._state.begin_transaction()

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        if not self._state.accepts_records:
            self._state.refuse_record()
        pending = self._pending.get(partition) or self._pending_of(partition)
        key, value, timestamp_ms, headers, size = pending.limits.checked(partition, key, value, timestamp_ms, headers)
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

    def send_columns(self, partition: TopicPartition, columns: RawColumns) -> None:
        if not self._state.accepts_records:
            self._state.refuse_record()
        # pending records are written before the new records are accepted, because the write may fail
        if self._pending_bytes >= self._write_at_bytes:
            self._write(self._guards)
        if columns.keys:
            self._pending_bytes += self._pending_of(partition).extend(columns)

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        limits = self._limits.get(partition)
        if limits is None:
            limits = self._limits[partition] = self._destination.limits_of(partition)
        return limits

    def send_now(self) -> None:
        """Calls `flush` and waits for its end, because a write to this machine's disk is short. The caller gets the
        error of the write.
        """
        self.flush()

    def flush(self) -> None:
        """Does nothing inside a transaction: the commit writes the pending records."""
        self._state.check_usable()
        if self._pending and not self._state.in_transaction:
            self._write(self._guards)

    def commit_transaction(self, offsets: OffsetsToCommit = ()) -> None:
        self._state.check_in_transaction()
        check_offsets(offsets)
        self._write(offsets)
        self._end_transaction()

    def abort_transaction(self) -> None:
        if not self._state.in_transaction:
            self._state.check_in_transaction()
        self._end_transaction()

    def commit_offsets(self, offsets: OffsetsToCommit) -> None:
        """Writes the pending records and the offsets in one step."""
        self._state.check_commits_offsets()
        check_offsets(offsets)
        self._write([*offsets, *self._guards])

    def guard(self, claims: Sequence[Claim]) -> None:
        self._guards = [(claim, {}) for claim in claims]

    def discard(self) -> None:
        self._state.discard()
        self._forget_pending()

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        return dict(self._last_offsets)

    def close(self) -> None:
        if self._state.is_closed:
            return
        try:
            if self._state.writes_on_close:
                self._write(())
        finally:
            self._forget_pending()
            self._state.close()

    def _pending_of(self, partition: TopicPartition) -> _Pending:
        """Raises UnknownTopicOrPartition."""
        pending = self._pending.get(partition)
        if pending is None:
            pending = self._pending[partition] = _Pending(self.limits_of(partition))
        return pending

    def _write(self, offsets: OffsetsToCommit) -> None:
        batches = {partition: closed for partition, pending in self._pending.items() if (closed := pending.batches())}
        if not batches and not offsets:
            return
        try:
            written = self._destination.append(batches, offsets, self._identity)
        except (ProducerFenced, CommitFenced) as error:
            self._state.fail(error)
            raise
        self._last_offsets.update(written)
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending_bytes = 0
        self._pending = {}

    def _end_transaction(self) -> None:
        self._forget_pending()
        self._state.end_transaction()
