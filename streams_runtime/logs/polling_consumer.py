"""A consumer that reads the log in its own `poll`, without a thread. The logs of one machine share it.

Rules: a poll reads all its partitions at one moment (a snapshot). No partition can starve another: each gets an
equal share of `max_records`, the unused rest of a share goes to the others, and when there are more partitions than
records to give, they take turns. A batch is read once; its records beyond `max_records` are kept for the next poll.
When a poll fails, no position has moved. A consumer that has read everything takes no snapshot until the log changes: a
snapshot costs time for each of its partitions. Source: `KafkaConsumer`, `FetchCollector`, `SubscriptionState`.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from assignor.types import TopicPartition
from streams_runtime.logs.base import RecordBatch, concatenated
from streams_runtime.logs.log_errors import LogError, OffsetOutOfRange


class Bounds(NamedTuple):
    """`begin`: the lowest offset that can be read. `end`: the offset that the next record will get."""

    begin: int
    end: int


class Snapshot(Protocol):
    """Partitions at one moment. Valid inside the `with` block that gave it."""

    bounds: Mapping[TopicPartition, Bounds]

    def batches(self, partition: TopicPartition, offset: int) -> Iterator[RecordBatch]:
        """Batches in order, one at a time, from the first one whose last offset is at least `offset`."""
        ...


class BatchSource(Protocol):
    """Where a consumer reads. Called from the consumer's thread."""

    def snapshot(self, partitions: Sequence[TopicPartition]) -> AbstractContextManager[Snapshot]:
        """Raises UnknownTopicOrPartition, LogTimeout."""
        ...

    def is_unchanged(self) -> bool:
        """Whether no other process has appended since the last snapshot. This one sets the consumer's signal."""
        ...

    def wait(self, signal: threading.Event, timeout_s: float) -> None:
        """Wait until `signal` is set, records may have come since the last snapshot, or the time is up."""
        ...

    def close(self) -> None: ...


class _Taken(NamedTuple):
    """Of one partition. `rest`: of the batch that was read last."""

    batches: list[RecordBatch]
    position: int
    rest: RecordBatch | None


class PollingConsumer:
    """A `Consumer`. `signal`: set by every append in this process."""

    def __init__(self, source: BatchSource, signal: threading.Event) -> None:
        self._source = source
        self._signal = signal
        self._assigned: dict[TopicPartition, None] = {}  # sorted: the order of a set differs from process to process
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._rests: dict[TopicPartition, RecordBatch] = {}
        self._turn = 0
        self._is_at_end = False  # the last snapshot had nothing beyond the positions, and these are still the same
        self._woken = False
        self._closed = False

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        if self._closed:
            raise LogError("the consumer is closed")
        keep = set(partitions)
        self._assigned = dict.fromkeys(sorted(keep))
        self._is_at_end = False
        self._positions = {p: offset for p, offset in self._positions.items() if p in keep}
        self._rests = {p: rest for p, rest in self._rests.items() if p in keep}
        self._paused &= keep

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._check_assigned([partition])
        if self._positions.get(partition) != offset:
            self._rests.pop(partition, None)
        self._positions[partition] = offset
        self._is_at_end = False

    def position(self, partition: TopicPartition) -> int | None:
        self._check_assigned([partition])
        return self._positions.get(partition)

    def known_end(self, partition: TopicPartition) -> int | None:
        """None: this consumer gets no end offsets pushed."""
        self._check_assigned([partition])
        return None

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.update(self._check_assigned(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.difference_update(self._check_assigned(partitions))
        self._is_at_end = False

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._paused)

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        if self._closed:
            raise LogError("the consumer is closed")
        if max_records < 1:
            raise ValueError(f"a poll gives at least one record, not {max_records}")
        deadline = time.monotonic() + timeout_ms / 1_000
        while True:
            has_news = self._signal.is_set()
            if has_news:
                self._signal.clear()  # before the snapshot: an append after it sets it again
            if has_news or not self._is_at_end or not self._source.is_unchanged():
                batches = self._take(max_records)
                if batches:
                    return batches
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return []
            if self._woken:
                self._woken = False
                return []
            if self._wanted():
                self._source.wait(self._signal, remaining_s)
            else:
                self._signal.wait(remaining_s)  # it reads no partition, so it waits for `wakeup` only

    def wakeup(self) -> None:
        self._woken = True
        self._signal.set()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._rests.clear()
            self._source.close()

    def _take(self, max_records: int) -> list[RecordBatch]:
        self._is_at_end = False
        wanted = self._wanted()
        if not wanted:
            return []
        with self._source.snapshot(wanted) as snapshot:
            lags = self._lags(wanted, snapshot.bounds)
            if not lags:
                self._is_at_end = True
                return []
            taken = {
                partition: self._take_from(partition, share, snapshot)
                for partition, share in _shares(lags, max_records).items()
            }
        for partition, of_it in taken.items():  # positions move last, when nothing can fail any more
            self._positions[partition] = of_it.position
            if of_it.rest is None:
                self._rests.pop(partition, None)
            else:
                self._rests[partition] = of_it.rest
        return [
            of_it.batches[0] if len(of_it.batches) == 1 else concatenated(of_it.batches)
            for of_it in taken.values()
            if of_it.batches
        ]

    def _wanted(self) -> list[TopicPartition]:
        return [p for p in self._assigned if p in self._positions and p not in self._paused]

    def _lags(self, wanted: list[TopicPartition], bounds: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, int]:
        """The lag of each partition that has one; each call begins with another partition.

        Raises OffsetOutOfRange.
        """
        self._turn += 1
        start = self._turn % len(wanted)
        lags: dict[TopicPartition, int] = {}
        outside: dict[TopicPartition, int] = {}
        for partition in wanted[start:] + wanted[:start]:
            position = self._positions[partition]
            begin, end = bounds[partition]
            if not begin <= position <= end:
                outside[partition] = position
            elif position < end:
                lags[partition] = end - position
        if outside:
            raise OffsetOutOfRange(outside)
        return lags

    def _take_from(self, partition: TopicPartition, share: int, snapshot: Snapshot) -> _Taken:
        position = self._positions[partition]
        rest = self._rests.get(partition)
        batches: list[RecordBatch] = []
        stored: Iterator[RecordBatch] | None = None
        while share > 0:
            if rest is None:
                if stored is None:
                    stored = snapshot.batches(partition, position)
                rest = next(stored, None)
                if rest is None:
                    return _Taken(batches, snapshot.bounds[partition].end, None)  # only a gap is left
                if rest.offsets[0] < position:
                    rest = rest.part(bisect_left(rest.offsets, position), len(rest.offsets))
            count = len(rest.offsets)
            part, rest = (rest, None) if count <= share else (rest.part(0, share), rest.part(share, count))
            batches.append(part)
            share -= min(share, count)
            position = part.offsets[-1] + 1
        return _Taken(batches, position, rest)

    def _check_assigned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        asked = list(partitions)
        for partition in asked:
            if partition not in self._assigned:
                raise LogError(f"{partition} is not assigned to this consumer")
        return asked


def _shares(lags: Mapping[TopicPartition, int], max_records: int) -> dict[TopicPartition, int]:
    """The number of records to take from each partition: at least one, and no more than its lag."""
    served = list(lags)[:max_records]
    shares = {}
    remaining = max_records
    for position, partition in enumerate(sorted(served, key=lags.__getitem__)):
        shares[partition] = min(lags[partition], remaining // (len(served) - position))
        remaining -= shares[partition]
    return shares


def first_offset_at(batches: Iterable[RecordBatch], begin: int, timestamp_ms: int) -> int | None:
    """The lowest offset, from `begin` on, whose record has this timestamp or a later one. `batches`: in order."""
    for batch in batches:
        for offset, of_record in zip(batch.offsets, batch.timestamps_ms, strict=True):
            if offset >= begin and of_record >= timestamp_ms:
                return offset
    return None
