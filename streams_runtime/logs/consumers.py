"""Has the methods that all consumers share, and `PollingConsumer`, the consumer of the embedded log and the in-memory
log.

Rules of every consumer: each partition is read, even if other partitions have many records. Each partition gets an
equal share of `max_records`, and the unused rest of a share goes to the other partitions. If more than `max_records`
partitions have records, a poll returns records of at most `max_records` of these partitions. Each poll starts at a
different partition than the previous poll. If a poll has read more than `max_records` records, a later poll returns the
rest. With `whole_transactions`, no batch is split, and the same poll returns the rest of a transaction.

Rules of `PollingConsumer`: it has no thread, and reads the log inside `poll`. A poll reads the state of all its
partitions at one moment (a snapshot). Each batch of a partition is read only once. A failed poll moves no position. The
duration of a snapshot grows with the number of partitions. So a consumer that has read all records takes the next
snapshot only when the log has changed. Source: `KafkaConsumer`, `FetchCollector`, `SubscriptionState`.
"""

import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from assignor.types import TopicPartition
from streams_runtime.logs.base import RecordBatch, concatenated
from streams_runtime.logs.log_errors import LogError, OffsetOutOfRange


class AssignedPartition:
    """An assigned partition. `position`: the offset of the next record; None before `seek`. `rest`: records that were
    read, but not returned yet.
    """

    def __init__(self) -> None:
        self.position: int | None = None
        self.is_paused = False
        self.rest: RecordBatch | None = None

    def drop(self) -> None:
        """Forget the records that were read."""
        self.rest = None


Assigned = TypeVar("Assigned", bound=AssignedPartition)


@dataclass(eq=False, repr=False)
class AssigningConsumer(ABC, Generic[Assigned]):
    """Implements the calls that all consumers share. `partitions`: the state of each assigned partition.
    `new_partition`: the function that makes the state of one partition. Only a thread that holds `lock` changes the set
    of partitions.
    """

    _new_partition: Callable[[], Assigned]
    _partitions: dict[TopicPartition, Assigned]
    _lock: AbstractContextManager[Any]
    _turn: int = field(default=0, init=False)
    # True after a call that changes which records the next poll can return
    _may_have_more: bool = field(default=True, init=False)
    _woken: bool = field(default=False, init=False)
    _closed: bool = field(default=False, init=False)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._check_open()
        with self._lock:
            # partitions are sorted, because the order of a set differs from process to process
            assigned = {p: self._partitions.get(p) or self._new_partition() for p in sorted(set(partitions))}
            self._partitions.clear()
            self._partitions.update(assigned)
            self._may_have_more = True

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        with self._lock:
            (one,) = self._assigned([partition])
            if one.position != offset:
                one.drop()
            one.position = offset
            self._may_have_more = True

    def position(self, partition: TopicPartition) -> int | None:
        return self._assigned([partition])[0].position

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            for one in self._assigned(partitions):
                one.is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            for one in self._assigned(partitions):
                one.is_paused = False
            self._may_have_more = True

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(partition for partition, one in self._partitions.items() if one.is_paused)

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        self._check_open()
        if max_records < 1:
            raise ValueError(f"a poll gives at least one record, not {max_records}")
        deadline = time.monotonic() + timeout_ms / 1_000
        while True:
            batches = self._take(max_records)
            remaining_s = deadline - time.monotonic()
            if batches or remaining_s <= 0:
                return batches
            if self._woken:
                self._woken = False
                return []
            self._wait(remaining_s)

    @abstractmethod
    def _take(self, max_records: int) -> list[RecordBatch]:
        """Returns the records that are available now, and moves the positions."""

    @abstractmethod
    def _wait(self, remaining_s: float) -> None:
        """Wait until there may be records, until `wakeup` is called, or until the time-out is over."""

    def _wanted(self) -> dict[TopicPartition, Assigned]:
        return {p: one for p, one in self._partitions.items() if one.position is not None and not one.is_paused}

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[Assigned]:
        asked = list(partitions)
        for partition in asked:
            if partition not in self._partitions:
                raise LogError(f"{partition} is not assigned to this consumer")
        return [self._partitions[partition] for partition in asked]

    def _check_open(self) -> None:
        if self._closed:
            raise LogError("the consumer is closed")


def rotated(partitions: list[TopicPartition], turn: int) -> list[TopicPartition]:
    """Returns the partitions in cyclic order, starting at index `turn`. Each caller increases `turn` by one, so
    consecutive results begin with different partitions.
    """
    start = turn % max(1, len(partitions))
    return partitions[start:] + partitions[:start]


class Bounds(NamedTuple):
    """The begin offset and the end offset of a partition."""

    begin: int
    end: int


class Snapshot(Protocol):
    """The state of partitions at one moment. A snapshot can only be used inside the `with` block of
    `BatchSource.snapshot`.
    """

    bounds: Mapping[TopicPartition, Bounds]

    def batches(self, partition: TopicPartition, offset: int) -> Iterator[tuple[RecordBatch, bool]]:
        """Yields batches in order, from the first batch whose last offset is at least `offset`. The second value is
        True if the transaction of the batch continues in the next batch.
        """


class BatchSource(Protocol):
    """The log from which a consumer reads. Only the consumer's thread calls a `BatchSource`."""

    def snapshot(self, partitions: Sequence[TopicPartition]) -> AbstractContextManager[Snapshot]:
        """Raises UnknownTopicOrPartition, LogTimeout."""

    def is_unchanged(self) -> bool:
        """Returns True if no other process has appended since the last snapshot. Ignores appends of this process,
        because they set the consumer's signal.
        """

    def wait(self, signal: threading.Event, timeout_s: float) -> None:
        """Return when `signal` is set, when records may have come since the last snapshot, or when the time-out is
        over.
        """

    def close(self) -> None: ...


class _Taken(NamedTuple):
    """The records of one partition that a poll returns. `rest`: the records of the last batch that this poll does not
    return.
    """

    batches: list[RecordBatch]
    position: int
    rest: RecordBatch | None


class PollingConsumer(AssigningConsumer[AssignedPartition]):
    """A `Consumer`. `signal`: an event that each append in this process sets. `whole_transactions`: see
    `Log.consumer`.
    """

    def __init__(self, source: BatchSource, signal: threading.Event, *, whole_transactions: bool = False) -> None:
        super().__init__(AssignedPartition, {}, nullcontext())
        self._source = source
        self._signal = signal
        self._whole_transactions = whole_transactions

    def known_end(self, partition: TopicPartition) -> int | None:
        """Returns None, because the log pushes no end offsets to this consumer; call `Log.end_offsets`."""
        self._assigned([partition])
        return None

    def wakeup(self) -> None:
        self._woken = True
        self._signal.set()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            # `close` only forgets the fetched records and does not use the log, because another thread may have closed
            # the log
            for one in list(self._partitions.values()):
                one.drop()
            self._source.close()

    def _wait(self, remaining_s: float) -> None:
        if self._wanted():
            self._source.wait(self._signal, remaining_s)
        else:
            self._signal.wait(remaining_s)  # there is no partition to read, so only `wakeup` can end the wait

    def _take(self, max_records: int) -> list[RecordBatch]:
        has_news = self._signal.is_set()
        if has_news:
            self._signal.clear()  # the signal is cleared before the snapshot, so that a later append sets it again
        elif not self._may_have_more and self._source.is_unchanged():
            return []
        self._may_have_more = True
        wanted = self._wanted()
        if not wanted:
            return []
        with self._source.snapshot(list(wanted)) as snapshot:
            lags = self._lags(wanted, snapshot.bounds)
            if not lags:
                self._may_have_more = False
                return []
            taken = {
                partition: _take_from(partition, wanted[partition], share, snapshot, self._whole_transactions)
                for partition, share in _shares(lags, max_records).items()
            }
        for partition, of_it in taken.items():  # positions move last, after all steps that can fail
            wanted[partition].position, wanted[partition].rest = of_it.position, of_it.rest
        return [concatenated(of_it.batches) for of_it in taken.values() if of_it.batches]

    def _lags(
        self, wanted: Mapping[TopicPartition, AssignedPartition], bounds: Mapping[TopicPartition, Bounds]
    ) -> dict[TopicPartition, int]:
        """Returns the lag of each partition that has records to read. The first partition in the result rotates from
        call to call.

        Raises OffsetOutOfRange.
        """
        self._turn += 1
        lags: dict[TopicPartition, int] = {}
        outside: dict[TopicPartition, int] = {}
        for partition in rotated(list(wanted), self._turn):
            position = wanted[partition].position or 0
            begin, end = bounds[partition]
            if not begin <= position <= end:
                outside[partition] = position
            elif position < end:
                lags[partition] = end - position
        if outside:
            raise OffsetOutOfRange(outside)
        return lags


def _take_from(
    partition: TopicPartition, one: AssignedPartition, share: int, snapshot: Snapshot, whole_transactions: bool
) -> _Taken:
    position, rest = one.position or 0, one.rest
    batches: list[RecordBatch] = []
    stored: Iterator[tuple[RecordBatch, bool]] | None = None
    continues = False
    while share > 0 or (whole_transactions and continues):
        if rest is None:
            if stored is None:
                stored = snapshot.batches(partition, position)
            found = next(stored, None)
            if found is None:
                # no record is left before the end offset, only a gap
                return _Taken(batches, snapshot.bounds[partition].end, None)
            rest, continues = found
            if rest.offsets[0] < position:
                rest = rest.part(bisect_left(rest.offsets, position), len(rest.offsets))
        count = len(rest.offsets)
        fits = whole_transactions or count <= share
        part, rest = (rest, None) if fits else (rest.part(0, share), rest.part(share, count))
        batches.append(part)
        share -= min(share, count)
        position = part.offsets[-1] + 1
    return _Taken(batches, position, rest)


def _shares(lags: Mapping[TopicPartition, int], max_records: int) -> dict[TopicPartition, int]:
    """Returns, for at most `max_records` partitions, the number of records to take. Each number is at least one and at
    most the lag of the partition.
    """
    served = list(lags)[:max_records]
    shares = {}
    remaining = max_records
    # the smallest lag comes first, so that the unused rest of its share goes to partitions with larger lags
    for position, partition in enumerate(sorted(served, key=lags.__getitem__)):
        shares[partition] = min(lags[partition], remaining // (len(served) - position))
        remaining -= shares[partition]
    return shares


def first_offset_at(batches: Iterable[RecordBatch], begin: int, timestamp_ms: int) -> int | None:
    """Returns the lowest offset, from `begin` on, of a record with this timestamp or a later timestamp. `batches`:
    batches in order of offsets.
    """
    for batch in batches:
        for offset, of_record in zip(batch.offsets, batch.timestamps_ms, strict=True):
            if offset >= begin and of_record >= timestamp_ms:
                return offset
    return None
