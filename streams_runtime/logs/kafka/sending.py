"""Sends the batches of a producer to the leaders of their partitions, in the event loop.

Rules: batches are sent in passes. A pass takes the first batch of each partition and sends one request to each leader.
The requests of a pass are sent concurrently. A batch that was not acknowledged is sent again with the same sequence
number, so the broker writes the batch only once. The sender retries until the producer is closed. A caller waits at
most `default.api.timeout.ms`, and may then call again. A producer with a transactional id adds a partition to the
transaction before it sends the partition's first batch. If a batch is refused because of one record, the batch is split
until the record has a batch of its own. The other records of the refused batch are written. Source: `Sender`, KIP-98.
Differs from Kafka: in Kafka, if a record is refused, the other records of its batch and the transaction fail, too.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiokafka.protocol.produce import ProduceRequest

from assignor.types import TopicPartition
from kafka_client.error_codes import check
from kafka_client.errors import KafkaRefused, NotNow
from streams_runtime.logs.kafka.accumulating import Accumulator, Batch
from streams_runtime.logs.kafka.leadership import Leadership, all_of
from streams_runtime.logs.kafka.transaction_manager import FENCED, TransactionManager
from streams_runtime.logs.log_errors import LogError, LogTimeout, RecordsRefused
from streams_runtime.logs.record_limits import AnyRecord

_ALL = -1
_TOO_LARGE = frozenset({10, 18})
_INVALID_TIMESTAMP, _INVALID_RECORD = 32, 87
_REFUSED = {*_TOO_LARGE, _INVALID_TIMESTAMP, _INVALID_RECORD}
_DUPLICATE = 46
_SEQUENCE_LOST = frozenset({45, 59})
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.05, 1.0
_REQUEST_BYTES = 8 * 1024 * 1024


Refused = Callable[[TopicPartition, AnyRecord, str, bool], None]
"""A function that the sender calls on the event loop for each record that the brokers refuse. The arguments are the
partition, the record, the reason as text, and a bool. The bool is True if the brokers refused the record's timestamp.
"""


@dataclass(eq=False, repr=False)
class Sender:
    """Sends the batches of one producer. `in_transaction`: the partitions of the open transaction. `error`: the error
    that has stopped the sending, or None. `refused`: messages about the records that the brokers have refused.
    """

    _leadership: Leadership
    _transactions: TransactionManager
    _accumulator: Accumulator
    _linger_ms: int
    _on_refused: Refused | None = None
    refused: list[str] = field(default_factory=list, init=False)
    in_transaction: set[TopicPartition] = field(default_factory=set, init=False)
    error: LogError | None = field(default=None, init=False)
    _backoff_s: float = field(default=0.0, init=False)
    _last_reason: str = field(default="", init=False)
    _running: asyncio.Task[None] | None = field(default=None, init=False)
    _lingering: asyncio.TimerHandle | None = field(default=None, init=False)
    _open_is_due: bool = field(default=False, init=False)

    def linger(self) -> None:
        """Start a timer that sends the waiting records after `linger.ms`. Does nothing if the timer is already running.
        Call `linger` on the event loop.
        """
        if self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(self._linger_ms / 1_000, self._lingered)

    def send_open(self) -> None:
        """Send the waiting records before `linger.ms` is over. If requests are in flight, the records are sent right
        after the answers to these requests. Call `send_open` on the event loop.

        While requests are in flight, new records are added to the waiting batches. So a slow broker gets a few large
        batches instead of many small ones.
        """
        self._open_is_due = True
        self.start()

    def start(self) -> None:
        """Send closed batches. Call `start` on the event loop."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def drain(self, is_enough: Callable[[], bool] | None = None) -> None:
        """Wait until all closed batches are acknowledged, or until `is_enough` returns True. Raises LogTimeout, or
        `error` if it is set.
        """
        enough = is_enough or (lambda: self._accumulator.is_empty)
        try:
            async with asyncio.timeout(self._leadership.settings.api_timeout_s):
                while self.error is None and not enough():
                    self.start()
                    assert self._running is not None, "it was just started"
                    running = self._running
                    await asyncio.wait([running])
                    if running.done() and not running.cancelled():
                        running.result()  # `_run` handles every LogError, so any error here is a bug
        except TimeoutError:
            raise LogTimeout(
                f"Kafka at {self._leadership.settings.bootstrap_servers} has not taken all records within "
                f"{self._leadership.settings.api_timeout_s:g} s (default.api.timeout.ms): {self._last_reason}"
            ) from None
        if self.error is not None:
            raise self.error

    async def stop(self) -> bool:
        """Stop sending, and drop the unacknowledged batches. Returns True if the brokers may have written some of the
        dropped batches, or may still write them.
        """
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        self._open_is_due = False
        running, self._running = self._running, None
        if running is not None and not running.done():
            running.cancel()
            await asyncio.wait([running])
        return self._accumulator.drop()

    def _lingered(self) -> None:
        self._lingering = None
        self._accumulator.close_open()
        self.start()

    def _due_heads(self) -> dict[TopicPartition, Batch]:
        """Returns the batches to send next. If no batch is closed and `send_open` was called, this method first closes
        all open batches.
        """
        heads = self._accumulator.heads()
        if not heads and self._open_is_due:
            self._open_is_due = False
            self._accumulator.close_open()
            heads = self._accumulator.heads()
        return heads

    async def _run(self) -> None:
        while self.error is None and (heads := self._due_heads()):
            try:
                await self._send_all(heads)
                self._backoff_s = 0.0
            except NotNow as reason:
                self._last_reason = str(reason)
                self._leadership.forget()
                self._backoff_s = min(_LONGEST_BACKOFF_S, 2 * self._backoff_s or _FIRST_BACKOFF_S)
                await asyncio.sleep(self._backoff_s)
            except KafkaRefused as refused:
                self.error = LogError(f"Kafka at {self._leadership.settings.bootstrap_servers}: {refused}")
            except LogTimeout as late:
                self._last_reason = str(late)
            except LogError as error:
                self.error = error

    async def _send_all(self, heads: dict[TopicPartition, Batch]) -> None:
        leaders, failure = await self._leadership.led(heads)
        heads = {partition: batch for partition, batch in heads.items() if partition in leaders}
        if self._transactions.transactional_id is not None:
            joining = heads.keys() - self.in_transaction
            if joining:
                await self._transactions.add_partitions(joining)
                self.in_transaction |= joining
        by_leader: dict[int, dict[TopicPartition, Batch]] = {}
        sizes: dict[int, int] = {}
        for partition, batch in heads.items():
            leader = leaders[partition]
            sizes[leader] = sizes.get(leader, 0) + batch.size
            # batches that do not fit into the request are sent in a later pass
            if sizes[leader] <= _REQUEST_BYTES or leader not in by_leader:
                by_leader.setdefault(leader, {})[partition] = batch
        await all_of((self._send(leader, batches) for leader, batches in by_leader.items()), failure)

    async def _send(self, leader: int, batches: dict[TopicPartition, Batch]) -> None:
        topics: dict[str, list[tuple[int, bytearray]]] = {}
        transactions = self._transactions
        for partition, batch in batches.items():
            payload = batch.numbered(
                transactions.producer_id, transactions.epoch, self._accumulator.queues[partition].sequence
            )
            topics.setdefault(partition.topic, []).append((partition.partition, payload))
        timeout_ms = round(self._leadership.settings.request_timeout_s * 1_000)
        request = ProduceRequest(transactions.transactional_id, _ALL, timeout_ms, list(topics.items()))
        answer = await self._leadership.connections.send(request, leader)
        not_now: NotNow | None = None
        lost = False
        for topic, numbers in answer.topics:
            for each in numbers:
                partition = TopicPartition(topic, each[0])
                try:
                    lost |= self._take(partition, batches[partition], each)
                except NotNow as reason:
                    not_now = reason
        if lost:
            await self._renumber()
        if not_now is not None:
            raise not_now

    def _take(self, partition: TopicPartition, batch: Batch, answer: Any) -> bool:
        """Handle the answer for one partition. `answer`: a tuple that begins with the partition's number, the error
        code and the offset of the first record.

        Returns True if the broker has lost the producer's sequence numbers.
        """
        code = answer[1]
        if code in (0, _DUPLICATE):
            self._accumulator.queues[partition].sequence += batch.count
            self._accumulator.done(partition, batch, answer[2] if code == 0 else None)
            return False
        if code in _SEQUENCE_LOST or (code in FENCED and self._transactions.transactional_id is None):
            return True
        if code in FENCED:
            raise self._transactions.fenced()
        if code in _REFUSED:
            if batch.count > 1:
                self._accumulator.split(partition, batch)
            else:
                self._accumulator.done(partition, batch, None)
                self._refuse(code, partition, batch)
            return False
        check(code, f"writing to {partition}")
        return False

    def _refuse(self, code: int, partition: TopicPartition, batch: Batch) -> None:
        (record,) = batch.records()
        reason = _reason(code, batch, record[2])
        self.refused.append(f"the brokers refuse a record for {partition}: {reason}")
        if self._on_refused is not None:
            self._on_refused(partition, record, reason, code == _INVALID_TIMESTAMP)

    def raise_refused(self) -> None:
        """If records were refused since the last call, raises one RecordsRefused for all of these records."""
        refused, self.refused = self.refused, []
        if refused:
            more = "" if len(refused) == 1 else f"; and {len(refused) - 1} more"
            raise RecordsRefused(f"{refused[0]}{more}. All other records are written")

    async def _renumber(self) -> None:
        """Get a new producer id. The unacknowledged batches are then sent again with the new id. With a transactional
        id, raises ProducerFenced, because new sequence numbers would not be safe.
        """
        if self._transactions.transactional_id is not None:
            raise self._transactions.fenced()
        await self._transactions.open()
        with self._accumulator.lock:
            for queue in self._accumulator.queues.values():
                queue.renumber()


def _reason(code: int, batch: Batch, timestamp_ms: int) -> str:
    if code in _TOO_LARGE:
        return (
            f"its batch, which has {batch.size} bytes beside its header, is larger than they take (max.message.bytes "
            "of the topic, message.max.bytes of the brokers)"
        )
    if code == _INVALID_TIMESTAMP:
        return (
            f"its timestamp, {timestamp_ms}, is too far from their clock (message.timestamp.after.max.ms or "
            "message.timestamp.before.max.ms of the topic)"
        )
    return "it is invalid, as one without a key in a compacted topic is"
