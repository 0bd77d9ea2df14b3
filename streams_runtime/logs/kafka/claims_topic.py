"""The claims topic of a group, `<group id>-claims`: read to its end, written by who claims, checked by who commits.

Why this is exactly-once without being a member of a Kafka group. Let Old hold a partition and New claim it.

- Old commits in this order: its records and its offsets join the transaction (TxnOffsetCommit), then it reads the
  claims to their end, then it ends the transaction. If it finds New's claim it aborts.
- New takes over in this order: it writes its claim, then reads the committed offsets with `require_stable`, which waits
  while an open transaction may still move one of them; changelogs it reads to their high watermark, which a reader of
  committed records reaches only when every transaction below it has ended.
- So if Old's check did not find New's claim, Old's offsets and records lie before that claim, New's reads come after
  it, and New waits for Old to end: it sees all of Old's transaction or, aborted, nothing.

Fencing is only what makes that wait short. A dead Old would hold its transaction open until transaction.timeout.ms; so
New opens Old's transactional id once, which aborts the transaction at once. An owner that gave its claim up says so
(`release`), because it may be alive and well with other tasks, and is not to be fenced.

The end is asked for with ListOffsets and not taken from a fetch, whose high watermark may lag right after the leader
has moved. Several commits that wait at the same time share one look.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Protocol

from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest

from assignor.types import TopicPartition
from kafka_client.error_codes import check
from kafka_client.errors import NotNow
from streams_runtime.logs.base import Claim
from streams_runtime.logs.errors import CommitFenced, LogError, LogTimeout, UnknownTopicOrPartition
from streams_runtime.logs.kafka.accumulating import Accumulator, PartitionQueue
from streams_runtime.logs.kafka.claims import ClaimOwner, ClaimTable, Settled, claim_records, settled_records
from streams_runtime.logs.kafka.completed_fetch import CompletedFetch
from streams_runtime.logs.kafka.leadership import Leadership
from streams_runtime.logs.kafka.sending import Sender
from streams_runtime.logs.kafka.settings import LogSettings
from streams_runtime.logs.kafka.transaction_manager import TransactionManager
from streams_runtime.logs.record_batches import BATCH_BYTES

CLAIMS_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
_LATEST, _EARLIEST = -1, -2
_OFFSET_OUT_OF_RANGE = 1
_FETCH_BYTES = 1024 * 1024


def claims_topic(group_id: str) -> str:
    return f"{group_id}-claims"


class ClaimsCluster(Protocol):
    """What claims need done. All in the event loop; all raise LogTimeout, LogError."""

    async def make_claims_topic(self, name: str) -> None: ...

    async def write_claims(self, partition: TopicPartition, records: list[tuple[bytes, bytes]]) -> None:
        """In one batch, and acknowledged when it returns; after an error they are never written any more."""
        ...

    async def fence(self, transactional_id: str) -> None: ...


class GroupClaims:
    """Of one group. Used inside of one event loop."""

    def __init__(self, group_id: str, leadership: Leadership, cluster: ClaimsCluster) -> None:
        self._group_id = group_id
        self._partition = TopicPartition(claims_topic(group_id), 0)
        self._leadership = leadership
        self._cluster = cluster
        self._table = ClaimTable()
        self._position: int | None = None
        self._is_made = False
        self._reading = asyncio.Lock()
        self._claiming = asyncio.Lock()
        self._asked = 0
        self._answered = 0
        self._given_up, self._reason = 0, ""

    async def claim(self, partitions: Iterable[TopicPartition], owner: ClaimOwner | None) -> Claim:
        """Fences whoever may still write for these. Raises LogTimeout, LogError."""
        asked = list(dict.fromkeys(partitions))
        async with self._claiming:
            await self._make_and_read()
            mark = uuid.uuid4().hex
            known = {each: self._table.not_fenced(each, owner) for each in asked}
            await self._cluster.write_claims(self._partition, claim_records(asked, mark, owner, self._table))
            raced: dict[TopicPartition, set[ClaimOwner]] = {}
            epochs: dict[TopicPartition, int] = {}

            def before(table: ClaimTable, partition: TopicPartition) -> None:
                raced[partition] = table.not_fenced(partition, owner)

            def after(table: ClaimTable, partition: TopicPartition) -> None:
                epochs[partition] = table.epoch(partition)

            await self._read(_OwnRecords(mark, set(asked), before, after))
            for partition in asked:  # compaction has taken a record of ours: a newer claim has come after it
                epochs.setdefault(partition, self._table.epoch(partition))
        to_fence = set().union(*known.values(), *raced.values())
        for transactional_id in sorted({each.transactional_id for each in to_fence}):
            await self._cluster.fence(transactional_id)
        if to_fence:
            await self._cluster.write_claims(
                self._partition, settled_records(asked, Settled(mark, fenced=True, released=False))
            )
        return Claim(self._group_id, epochs, mark)

    async def release(self, claim: Claim) -> None:
        """Raises LogTimeout, LogError."""
        await self._cluster.write_claims(
            self._partition, settled_records(claim.epochs, Settled(claim.mark, fenced=True, released=True))
        )

    async def check(self, claims: Iterable[Claim]) -> None:
        """With a look that begins after this call. Raises CommitFenced, LogTimeout, LogError."""
        try:
            await self._read_shared()
        except UnknownTopicOrPartition as error:
            raise CommitFenced(f"group {self._group_id}: {error}, and so nobody holds a claim any more") from error
        for claim in claims:
            self._table.check(claim)

    async def _make_and_read(self) -> None:
        """Also when the topic was there before, and somebody has deleted it."""
        if self._is_made:
            with contextlib.suppress(UnknownTopicOrPartition):
                await self._read()
                return
        await self._cluster.make_claims_topic(self._partition.topic)
        self._is_made = True
        await self._read()

    async def _read_shared(self) -> None:
        self._asked += 1
        mine = self._asked
        async with self._reading:
            if self._answered >= mine:
                return
            if self._given_up >= mine:
                raise LogTimeout(self._reason)  # not one time-out after the other
            newest = self._asked
            try:
                await self._leadership.call("claims", lambda: self._read_to_end(None))
            except LogTimeout as error:
                self._given_up, self._reason = newest, str(error)
                raise
            self._answered = newest

    async def _read(self, own: _OwnRecords | None = None) -> None:
        async with self._reading:
            await self._leadership.call("claims", lambda: self._read_to_end(own))

    async def _read_to_end(self, own: _OwnRecords | None) -> None:
        """One try: another one asks for the end anew. Raises NotNow while a new leader does not give all of it yet."""
        end = await self._offset(_LATEST)
        if self._position is not None and end < self._position:
            self._position = None  # it was deleted and made anew
        while self._position is None or self._position < end:
            if self._position is None:
                self._position = await self._offset(_EARLIEST)
                self._table = ClaimTable()
                continue
            before = self._position
            await self._fetch(own)
            if self._position == before:
                raise NotNow(f"{self._partition} ends at {end} and gives nothing behind {before} yet")

    async def _offset(self, which: int) -> int:
        leaders = await self._leadership.leaders([self._partition])
        request = OffsetRequest(-1, 0, [(self._partition.topic, [(0, which)])])
        answer = await self._leadership.connections.send(request, leaders[self._partition])
        ((_, ((_, code, _, offset),)),) = answer.topics
        check(code, f"claims topic {self._partition.topic}")
        found: int = offset
        return found

    async def _fetch(self, own: _OwnRecords | None) -> None:
        leaders = await self._leadership.leaders([self._partition])
        position = self._position or 0
        topics = [(self._partition.topic, [(0, position, _FETCH_BYTES)])]
        answer = await self._leadership.connections.send(
            FetchRequest(0, 1, _FETCH_BYTES, 0, topics), leaders[self._partition]
        )
        ((_, (of_it,)),) = answer.topics
        if of_it[1] == _OFFSET_OUT_OF_RANGE:
            self._position = None
            return
        check(of_it[1], f"claims topic {self._partition.topic}")
        fetched = CompletedFetch(self._partition, of_it[-1] or b"", position, None)
        while (batch := fetched.read()) is not None:
            for key, value in zip(batch.keys, batch.values, strict=True):
                if own is None:
                    self._table.apply(key, value)
                else:
                    own.apply(self._table, key, value)
        self._position = max(position, fetched.next_offset)


class _OwnRecords:
    """Tells who held what right before one's own claim, and which epochs that got."""

    def __init__(
        self,
        mark: str,
        partitions: set[TopicPartition],
        before: Callable[[ClaimTable, TopicPartition], None],
        after: Callable[[ClaimTable, TopicPartition], None],
    ) -> None:
        self._mark = mark
        self._keys = {str(partition).encode(): partition for partition in partitions}
        self._before = before
        self._after = after

    def apply(self, table: ClaimTable, key: bytes | None, value: bytes | None) -> None:
        partition = self._keys.get(key or b"")
        if partition is None:
            table.apply(key, value)
            return
        if self._mark.encode() in (value or b""):
            self._before(table, partition)
            table.apply(key, value)
            self._after(table, partition)
        else:
            table.apply(key, value)


class ClaimsWriter:
    """Used inside of one event loop. After an error it goes on under a new producer id, so nothing late comes after."""

    def __init__(self, leadership: Leadership, settings: LogSettings) -> None:
        self._leadership = leadership
        self._settings = settings
        self._sender: Sender | None = None
        self._accumulator = Accumulator()
        self._lock = asyncio.Lock()

    async def write(self, partition: TopicPartition, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Raises LogTimeout, LogError; then the records are not written any more, unless they are already."""
        async with self._lock:
            if self._sender is None:
                transactions = TransactionManager(self._leadership, None, self._settings.transaction_timeout_ms)
                await transactions.open()
                self._accumulator = Accumulator()
                self._sender = Sender(self._leadership, transactions, self._accumulator, 0)
            queue = self._accumulator.queues.setdefault(
                partition, PartitionQueue(BATCH_BYTES, self._settings.codec, is_transactional=False)
            )
            now_ms = round(time.time() * 1_000)
            for key, value in records:
                queue.append(key, value, now_ms, (), len(key) + len(value))
            self._accumulator.close_open()
            try:
                await self._sender.drain()
            except LogError:
                await self.close()
                raise

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.stop()
