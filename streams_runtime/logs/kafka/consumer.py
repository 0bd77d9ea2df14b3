"""A consumer of assigned partitions. The event loop fetches records in the background, and `poll` returns the fetched
records.

Rules: before `poll` returns an empty list, it asks the brokers once more, even with a time-out of 0. `poll` waits at
most a second for this answer. Records are decoded when `poll` returns them. Fetched records are returned even if the
brokers have deleted them meanwhile. With `whole_transactions`, the consumer keeps the records of a transaction until it
has fetched the end of the transaction; see `completed_fetch`. Source: `KafkaConsumer`, `FetchCollector`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from assignor.types import TopicPartition
from kafka_client.event_loop import EventLoopThread
from streams_runtime.logs.base import IsolationLevel, RecordBatch, concatenated
from streams_runtime.logs.consumers import AssigningConsumer, rotated
from streams_runtime.logs.kafka.fetching import EMPTY_REST_S, LONGEST_WAIT_MS, FetchedPartition, Fetcher
from streams_runtime.logs.kafka.log_settings import LogSettings
from streams_runtime.logs.log_errors import OffsetOutOfRange

_LONGEST_ANSWER_S = 1.0


class KafkaConsumer(AssigningConsumer[FetchedPartition]):
    """A `Consumer`."""

    def __init__(
        self,
        loop: EventLoopThread,
        settings: LogSettings,
        isolation: IsolationLevel,
        on_close: Callable[[KafkaConsumer], None],
        *,
        whole_transactions: bool = False,
    ) -> None:
        self._loop = loop
        self._start = loop.call_soon()
        self._fetcher = Fetcher(settings, isolation)
        self._changed = self._fetcher.changed
        new_partition = partial(FetchedPartition, whole_transactions=whole_transactions)
        super().__init__(new_partition, self._fetcher.partitions, self._changed)
        self._has_asked = True  # True if the present poll has asked the brokers
        self._on_close = on_close
        self._start(self._fetcher.connect)

    def known_end(self, partition: TopicPartition) -> int | None:
        with self._changed:
            return self._assigned([partition])[0].known_end()

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        self._fetcher.polls += 1
        self._has_asked = False
        return super().poll(timeout_ms, max_records)

    def wakeup(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            with self._changed:
                self._partitions.clear()
            self._on_close(self)
            self._loop.run(self._fetcher.close())

    def _fetch_next(self) -> None:
        """Start the fetch for the next poll. A partition is left out if its last answer had no records and has just
        arrived. The fetch of this partition can wait, because other partitions have records and the next poll comes
        soon.
        """
        empty_before = time.monotonic() - EMPTY_REST_S
        if any(one.needs_records and one.empty_at < empty_before for one in self._wanted().values()):
            self._start(self._fetcher.start_next, empty_before)

    def _ask_brokers(self, until: float) -> None:
        """Wait until fetched records are available, or until the brokers have answered a new request for each
        partition.

        If a request already waits at the broker, no new request is needed: the broker would have sent new records at
        once.
        """
        with self._changed:
            newer = {partition: one.asked + 1 for partition, one in self._wanted().items()}
            while self._fetcher.error is None:
                wanted = self._wanted()
                if any(_has_more(one) or one.is_outside for one in wanted.values()):
                    return
                unanswered = [
                    one for p, one in wanted.items() if one.answered < newer.get(p, 0) and not one.waits_at_broker
                ]
                left_s = until - time.monotonic()
                if not unanswered or left_s <= 0:
                    return
                if any(one.needs_records for one in unanswered):
                    self._start(self._fetcher.start, 0)
                self._changed.wait(left_s)

    def _wait(self, remaining_s: float) -> None:
        """Wait until the time-out is over. The wait ends earlier if fetched records are available, `wakeup` is called,
        or the fetcher reports an answer or an error.
        """
        with self._changed:
            wanted = self._wanted()
            if any(_has_more(one) or one.is_outside for one in wanted.values()) or self._woken or self._fetcher.error:
                return
            if any(one.needs_records for one in wanted.values()):
                self._start(self._fetcher.start, max(1, min(LONGEST_WAIT_MS, round(remaining_s * 1_000))))
            self._changed.wait(remaining_s)

    def _take(self, max_records: int) -> list[RecordBatch]:
        batches = self._take_fetched(max_records)
        if not batches and not self._has_asked:
            self._has_asked = True
            self._ask_brokers(time.monotonic() + _LONGEST_ANSWER_S)
            batches = self._take_fetched(max_records)
        if batches:
            self._fetch_next()
        return batches

    def _take_fetched(self, max_records: int) -> list[RecordBatch]:
        with self._changed:
            wanted = self._wanted()
            self._raise_errors(wanted)
            self._turn += 1
            ready = [p for p in rotated(list(wanted), self._turn) if _has_more(wanted[p])]
            given: dict[TopicPartition, list[RecordBatch]] = {}
            left = max_records
            # Each partition first gets an equal share. The unused rest is then shared among the partitions with more
            # records.
            while ready and left > 0:
                share = max(1, left // len(ready))
                for partition in list(ready):
                    batches, count = _take_from(wanted[partition], min(share, left))
                    left -= count
                    if count:
                        given.setdefault(partition, []).extend(batches)
                    if not _has_more(wanted[partition]):
                        ready.remove(partition)
                    if left <= 0:
                        break
        return [concatenated(batches) for batches in given.values()]

    def _raise_errors(self, wanted: dict[TopicPartition, FetchedPartition]) -> None:
        error, self._fetcher.error = self._fetcher.error, None
        if error is not None:
            raise error
        outside = {p: one.position for p, one in wanted.items() if one.is_outside and one.position is not None}
        if outside:
            for partition in outside:
                wanted[partition].is_outside = False  # the next poll asks the brokers again
            raise OffsetOutOfRange(outside)


def _has_more(one: FetchedPartition) -> bool:
    return one.rest is not None or one.decoding is not None or bool(one.completed)


def _take_from(one: FetchedPartition, share: int) -> tuple[list[RecordBatch], int]:
    """Returns batches with at most `share` records, and the number of these records. If no transaction may be split,
    there may be more records. The position moves past these records, and past a gap after the last record.
    """
    batches: list[RecordBatch] = []
    taken = 0
    while taken < share:
        batch, one.rest = one.rest, None
        if batch is None:
            if one.decoding is None:
                if not one.completed:
                    break
                one.decoding = one.completed.popleft()
            batch = one.decoding.read(share - taken)
            if batch is None:
                one.position = max(one.position or 0, one.decoding.next_offset)
                one.decoding = None
                continue
        part = batch.part(0, share - taken) if one.transaction is None else batch
        if len(part) < len(batch):
            one.rest = batch.part(len(part), len(batch))
        batches.append(part)
        taken += len(part)
        one.position = part.offsets[-1] + 1
        if one.rest is None and one.decoding is not None and one.decoding.is_read:
            one.position = max(one.position, one.decoding.next_offset)
            one.decoding = None
    return batches, taken
