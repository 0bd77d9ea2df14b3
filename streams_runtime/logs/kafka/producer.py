"""A producer on Kafka. The producer accepts records in the caller's thread, and the event loop sends the records.

Rules: the producer is always idempotent, and all replicas acknowledge each write. Records are sent when a batch is
full, when the first waiting record has waited for `linger.ms`, or when `send_now` is called. `flush` and a commit send
all remaining records. While more than `buffer.memory` bytes are not acknowledged, `send` waits. If `flush` or a commit
raises LogTimeout, no record is lost, and the same call can be repeated.

A commit has three steps in this order: write records and offsets, check the claims, end the transaction. The module
`claims_topic` gives the reason for the order. If the coordinator's answer to a commit is lost, the caller has two
choices. The caller can repeat the same commit, or open the transactional id again.
Source: `KafkaProducer`, `TransactionManager`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from typing import Any, NamedTuple, Protocol

from assignor.types import TopicPartition
from kafka_client.event_loop import EventLoopThread
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import Claim, CommittedOffsets, OffsetAndMetadata, OffsetsToCommit, RawColumns
from streams_runtime.logs.kafka.accumulating import Accumulator, PartitionQueue
from streams_runtime.logs.kafka.leadership import Leadership, all_of
from streams_runtime.logs.kafka.log_settings import LogSettings
from streams_runtime.logs.kafka.sending import Sender
from streams_runtime.logs.kafka.transaction_manager import TransactionManager, commit_offsets
from streams_runtime.logs.log_errors import CommitFenced, LogError, LogTimeout, ProducerFenced, RecordsRefused
from streams_runtime.logs.producers import ProducerState, check_offsets
from streams_runtime.logs.record_limits import AnyRecord, RecordLimits

_ABORT_TIMEOUT_S = 2.0
_NOT_KNOWN = "it is not known whether the last transaction of {} was committed: open the producer again"


class ProducerLog(Protocol):
    """The methods of the log that a producer calls."""

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        """Raises UnknownTopicOrPartition."""

    def record_refused(
        self, partition: TopicPartition, record: AnyRecord, reason: str, for_its_timestamp: bool
    ) -> None:
        """Tell the log that the brokers have refused a record, although `send` had accepted it. `record_refused` is
        called on the event loop.
        """

    async def check_claims(self, claims: Sequence[Claim]) -> None:
        """Raises CommitFenced."""


class _Target(NamedTuple):
    queue: PartitionQueue
    limits: RecordLimits


@dataclass(eq=False, repr=False)
class KafkaProducer:
    """A `Producer`. Call `open` before any other method."""

    lingers = True

    _loop: EventLoopThread
    _settings: LogSettings
    _log: ProducerLog
    transactional_id: InitVar[str | None]
    on_close: Callable[[KafkaProducer], None]

    def __post_init__(self, transactional_id: str | None) -> None:
        settings = self._settings
        self._leadership = Leadership(settings.client)
        self.transactions = TransactionManager(self._leadership, transactional_id, settings.transaction_timeout_ms)
        self._accumulator = Accumulator()
        self._sender = Sender(
            self._leadership, self.transactions, self._accumulator, settings.linger_ms, self._log.record_refused
        )
        self._call_soon = self._loop.call_soon()
        self._targets: dict[TopicPartition, _Target] = {}
        self._state = ProducerState(transactional_id)
        self._offset_groups: set[str] = set()
        self._is_ending = False  # True while the coordinator has not answered the request to end the transaction.
        # True if the brokers may still write a batch of an earlier transaction. A new transaction then needs a new
        # epoch.
        self._outcome_unknown = False
        self._last_offsets: dict[TopicPartition, int] = {}

    def open(self) -> None:
        """Fence the producer that had the transactional id before. Raises LogTimeout, LogError."""
        self._loop.run(self.transactions.open())

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
        target = self._targets.get(partition) or self._new_target(partition)
        key, value, timestamp_ms, headers, size = target.limits.checked(partition, key, value, timestamp_ms, headers)
        if self._accumulator.append(target.queue, key, value, timestamp_ms, headers, size) and self._notify_sender():
            self._make_room()

    def send_columns(self, partition: TopicPartition, columns: RawColumns) -> None:
        if not self._state.accepts_records:
            self._state.refuse_record()
        target = self._targets.get(partition) or self._new_target(partition)
        self._make_room()  # this wait may raise an error, so it comes before any of the new records is accepted
        if self._accumulator.append_columns(target.queue, columns):
            self._notify_sender()

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        return (self._targets.get(partition) or self._new_target(partition)).limits

    def send_now(self) -> None:
        """Starts to send the records, and returns at once. If sending fails, a later call of the producer raises the
        error.
        """
        self._state.check_usable()
        if self._accumulator.lingers:
            self._call_soon(self._sender.send_open)

    def flush(self) -> None:
        self._state.check_usable()
        self._accumulator.close_open()
        if not self._accumulator.is_empty or self._sender.error is not None or self._sender.refused:
            self._run(self._write_all())

    def commit_transaction(self, offsets: OffsetsToCommit = ()) -> None:
        self._state.check_in_transaction()
        check_offsets(offsets)
        self._accumulator.close_open()
        self._run(self._commit(offsets))
        self._last_offsets.update(self._accumulator.last_offsets)
        self._transaction_ended()

    def abort_transaction(self) -> None:
        if not self._state.in_transaction:
            self._state.check_in_transaction()
        try:
            self._loop.run(self._abort())
        except ProducerFenced as fenced:
            self._state.fail(fenced)  # the coordinator ended the transaction when a newer producer fenced this producer
        finally:
            self._transaction_ended()

    def commit_offsets(self, offsets: OffsetsToCommit) -> None:
        """Checks the claims two times: before it writes the records, and before it commits the offsets."""
        self._state.check_commits_offsets()
        check_offsets(offsets)
        self._accumulator.close_open()
        self._run(self._commit_offsets(offsets))

    def guard(self, claims: Sequence[Claim]) -> None:
        """Does nothing: this log cannot check claims while it writes."""

    def discard(self) -> None:
        self._state.discard()
        self._outcome_unknown |= self._loop.run(self._sender.stop())

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        if self._state.is_transactional:
            return dict(self._last_offsets)
        with self._accumulator.lock:
            return dict(self._accumulator.last_offsets)

    def close(self) -> None:
        if self._state.is_closed:
            return
        try:
            if self._state.writes_on_close:
                self.flush()
            elif self._state.in_transaction and not self._state.has_failed and not self._is_ending:
                self._loop.run(self._abort_quietly())
        finally:
            self._transaction_ended()
            self._state.close()
            self.on_close(self)
            self._loop.run(self._close())

    # --- Methods that run in the event loop.

    async def _write_all(self) -> None:
        await self._sender.drain()
        self._sender.raise_refused()

    async def _commit(self, offsets: OffsetsToCommit) -> None:
        if not self._is_ending:
            groups = _by_group(offsets)
            await all_of([self._sender.drain(), self._add_offsets(groups)])
            self._sender.raise_refused()
            try:
                await self._log.check_claims([claim for claim, _ in offsets])
            except CommitFenced:
                await self._abort_quietly()
                raise
            if not self._sender.in_transaction and not self._offset_groups:
                return  # no record was sent, so the coordinator has no open transaction
            self._is_ending = True
        await self.transactions.end(commit=True)

    async def _add_offsets(self, groups: Mapping[str, CommittedOffsets]) -> None:
        for group, moved in groups.items():
            self._offset_groups.add(group)
            await self.transactions.add_offsets(group, moved)

    async def _commit_offsets(self, offsets: OffsetsToCommit) -> None:
        claims = [claim for claim, _ in offsets]
        if not self._accumulator.is_empty:
            await self._log.check_claims(claims)
        await self._write_all()
        await self._log.check_claims(claims)
        for group, moved in _by_group(offsets).items():
            await commit_offsets(self._leadership, group, moved)

    async def _abort(self) -> None:
        unknown = await self._sender.stop() or self._outcome_unknown
        if self._state.has_failed:
            return
        if self._is_ending:
            self._state.fail(LogError(_NOT_KNOWN.format(self._state.transactional_id)))
            self._state.check_usable()
        # the brokers refuse the old epoch, so a batch that is still in flight cannot become part of the next
        # transaction
        if unknown:
            await self.transactions.open()
            for queue in self._accumulator.queues.values():
                queue.sequence = 0
            self._outcome_unknown = False
        elif self._sender.in_transaction or self._offset_groups:
            await self.transactions.end(commit=False)

    async def _abort_quietly(self) -> None:
        """Abort the transaction. Ignores errors, because the coordinator aborts the transaction anyway after
        `transaction.timeout.ms`.
        """
        try:
            async with asyncio.timeout(_ABORT_TIMEOUT_S):
                await self._abort()
        except (TimeoutError, LogError):
            return

    async def _close(self) -> None:
        await self._sender.stop()
        await self._leadership.close()

    # --- helpers

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            self._loop.run(coroutine)
        except (ProducerFenced, CommitFenced) as error:
            self._state.fail(error)
            raise
        except LogTimeout:
            raise
        except RecordsRefused:
            self._look_up_limits_again()
            raise
        except LogError:
            if not self._state.is_transactional:
                self._sender.error = None  # the caller gets this error, and the sender continues with the other records
            raise

    def _look_up_limits_again(self) -> None:
        """Refresh the topics' limits, because the brokers have refused a record that was within the known limits."""
        with suppress(LogError):
            for partition, target in self._targets.items():
                self._targets[partition] = target._replace(limits=self._log.limits_of(partition))

    def _new_target(self, partition: TopicPartition) -> _Target:
        limits = self._log.limits_of(partition)
        queue = PartitionQueue(limits.max_bytes, self._settings.codec, is_transactional=self._state.is_transactional)
        with self._accumulator.lock:
            self._accumulator.queues[partition] = queue
        target = self._targets[partition] = _Target(queue, limits)
        return target

    def _notify_sender(self) -> bool:
        """Notify the sender. The sender sends full batches immediately, and other batches after `linger.ms`. Returns
        True if a batch is full.
        """
        if self._accumulator.lingers:
            self._call_soon(self._sender.linger)
        if not self._accumulator.has_full:
            return False
        self._accumulator.has_full = False
        self._call_soon(self._sender.start)
        return True

    def _make_room(self) -> None:
        """Wait while more than `buffer.memory` bytes are unacknowledged. Raises the sender's error."""
        most = self._settings.buffer_memory
        if self._accumulator.bytes > most:
            self._run(self._sender.drain(lambda: self._accumulator.bytes <= most))
        elif self._sender.error is not None:
            self._run(self._sender.drain())

    def _transaction_ended(self) -> None:
        self._accumulator.drop()
        self._sender.in_transaction.clear()
        self._sender.error = None
        self._sender.refused.clear()
        self._offset_groups.clear()
        self._is_ending = False
        self._state.end_transaction()


def _by_group(offsets: OffsetsToCommit) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """Returns the offsets by group, without groups that have no offset to commit."""
    groups: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for claim, moved in offsets:
        if moved:
            groups.setdefault(claim.group_id, {}).update(moved)
    return groups
