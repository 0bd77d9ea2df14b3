"""The claims topic of a group, `<group id>-claims`. A claim on input partitions is the right to commit a group's
offsets of these partitions. To make a claim, a new owner appends records to the claims topic. Before each commit, an
owner reads the claims topic to its end.

Kafka's exactly-once commits need a Kafka group. The members of a Streams group are in no Kafka group, so their commits
use the claims topic instead. For example, a new owner claims a partition of an old owner:

- The old owner commits in three steps. First, the old owner adds its records and its offsets to the transaction
  (TxnOffsetCommit). Second, the old owner reads the claims topic to its end. Third, the old owner aborts the
  transaction if it has found a newer claim. Otherwise, the old owner commits the transaction.
- The new owner begins in two steps. First, the new owner appends its claim. Second, the new owner reads the committed
  offsets with `require_stable`. The new owner then waits until no open transaction contains an offset of these
  partitions. The new owner reads changelogs up to their high watermark. A READ_COMMITTED reader reaches this offset
  only after every transaction below it has ended.
- If the old owner finds the new claim, it aborts its transaction. If the old owner finds no newer claim, it added its
  offsets and records before the new claim was appended. The new owner reads only after it has written its claim, so its
  reads wait for the end of the old owner's transaction. The new owner then sees the whole transaction or, if it was
  aborted, no part of it. So two owners never commit the same input.

The new owner also fences the old owner. Correctness does not depend on this fence. The fence only shortens a wait: the
transaction of a dead owner stays open until transaction.timeout.ms is over. To fence the old owner, the new owner opens
the old owner's transactional id once. The transaction coordinator then aborts the open transaction of this id at once.
When an owner gives up its claim cleanly, it writes a release of the claim (`release`). A later claim does not fence
this owner, because this owner may still run other Streams tasks.

The end offset of the claims topic comes from ListOffsets. The high watermark in a fetch response may be too low right
after the leader has moved. Commits that wait at the same time share one read of the claims topic.

If no earlier owner has to be fenced, a claim on any number of partitions takes three round trips. The new owner fetches
new records of the claims topic, writes the records of its claim, and fetches the topic up to its own records. The
response to the write contains the offset of the written records. The first fetch may miss a second claim whose record
was just written. A missed record does no harm, because the second fetch reads the records of both claims. The second
fetch also reads a claim that is written between the first fetch and the write.

The order of the records in the claims topic decides the owners of the group's partitions. A claim has one record for
each claimed partition. The key of the record is the partition. The value has these fields:
- `mark`: random text, the same for all partitions of the claim.
- `epoch`: one higher than the epoch of the previous claim.
- `owner`: the transactional id, the producer id and the producer epoch of the claim's owner. The value is null if the
  owner has no transactional id.
- `predecessors`: earlier owners of the partition that may still have an open transaction.

A record with the key `<partition>/settled` says that the predecessors of a claim are fenced, or that the owner has
released the claim. The key `<partition>/settled` differs from the key of the claim's record. If the keys were equal,
compaction could replace the record of a newer claim by a late record of an older owner.

Two claims that are made at the same time may be written with the same epoch. If two claims have the same epoch, every
reader adds one to the epoch of the later record.

If an owner opens its transactional id again, its producer epoch rises. So every reader knows that the owner's earlier
producer is fenced. Under at-least-once, an owner has no transactional id and no transactions, so no fence is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from aiokafka.protocol.fetch import FetchRequest

from assignor.names.internal_names import claims_topic
from assignor.types import TopicPartition
from kafka_client.admin.partition_leaders import EARLIEST, LATEST, LeaderRequest
from kafka_client.error_codes import check
from kafka_client.errors import NotNow
from streams_runtime.logs.base import BATCH_BYTES, Claim
from streams_runtime.logs.kafka.accumulating import Accumulator, PartitionQueue
from streams_runtime.logs.kafka.completed_fetch import CompletedFetch
from streams_runtime.logs.kafka.leadership import Leadership, all_of
from streams_runtime.logs.kafka.log_settings import LogSettings
from streams_runtime.logs.kafka.sending import Sender
from streams_runtime.logs.kafka.transaction_manager import TransactionManager
from streams_runtime.logs.log_errors import CommitFenced, LogError, LogTimeout, UnknownTopicOrPartition
from streams_runtime.logs.producers import claimed_since

# a key with this suffix cannot be the key of a partition, because no topic has a slash in its name
_SETTLED = "/settled"


class ClaimOwner(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


class Settled(NamedTuple):
    """The state of a claim after its record was written. `mark`: the mark of the claim.

    `fenced`: True if the claim's predecessors have no open transaction any more. `released`: True if the owner of the
    claim has given it up cleanly.
    """

    mark: str
    fenced: bool
    released: bool


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    mark: str
    epoch: int
    owner: ClaimOwner | None
    predecessors: tuple[ClaimOwner, ...] = ()


class ClaimTable:
    """The claims of one group, computed from records of the claims topic."""

    def __init__(self) -> None:
        self._claims: dict[TopicPartition, ClaimRecord] = {}
        self._settled: dict[TopicPartition, Settled] = {}
        self._newest: dict[str, ClaimOwner] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> tuple[TopicPartition, ClaimRecord] | None:
        """Apply the next record. If the record is a claim, returns the claim with its final epoch and predecessors. If
        the record is not a claim, returns None.

        Raises LogError for a record that cannot be read.
        """
        if key is None or value is None:
            return None
        try:
            name, document = key.decode(), json.loads(value)
            if name.endswith(_SETTLED):
                self._settled[_partition(name.removesuffix(_SETTLED))] = Settled(
                    document["mark"], document["fenced"], document["released"]
                )
                return None
            partition = _partition(name)
            owner = None if document["owner"] is None else ClaimOwner(*document["owner"])
            predecessors = {ClaimOwner(*each) for each in document["predecessors"]}
            record = ClaimRecord(
                document["mark"],
                max(document["epoch"], self.epoch(partition) + 1),
                owner,
                # Add predecessors that the writer of this claim did not know. Another claim may have been written just
                # before this claim. The writer of this claim may have died before it read the other claim.
                tuple(sorted(predecessors | self.not_fenced(partition, owner))),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(f"record {key!r} of a claims topic cannot be read: {error}") from error
        self._claims[partition] = record
        if owner is not None:
            self._newest[owner.transactional_id] = max(owner, self._newest.get(owner.transactional_id, owner))
        return partition, record

    def epoch(self, partition: TopicPartition) -> int:
        """Returns the epoch of the partition's newest claim, or 0 if the partition has no claim."""
        record = self._claims.get(partition)
        return 0 if record is None else record.epoch

    def mark(self, partition: TopicPartition) -> str | None:
        record = self._claims.get(partition)
        return None if record is None else record.mark

    def not_fenced(self, partition: TopicPartition, owner: ClaimOwner | None) -> set[ClaimOwner]:
        """Returns the owners that may still have an open transaction for this partition. Owners with the transactional
        id of `owner` are left out.
        """
        record = self._claims.get(partition)
        if record is None:
            return set()
        settled = self._settled.get(partition)
        if settled is None or settled.mark != record.mark:
            settled = Settled(record.mark, fenced=False, released=False)
        open_owners = set() if settled.fenced else set(record.predecessors)
        if record.owner is not None and not settled.released:
            open_owners.add(record.owner)
        return {each for each in open_owners if not self._is_past(each, owner)}

    def check(self, claim: Claim) -> None:
        """Raises CommitFenced if there is a newer claim of any of the claim's partitions."""
        for partition in claim.epochs:
            if self.mark(partition) != claim.mark:
                raise claimed_since(claim, partition, self.epoch(partition))

    def _is_past(self, candidate: ClaimOwner, asking: ClaimOwner | None) -> bool:
        if asking is not None and candidate.transactional_id == asking.transactional_id:
            # `candidate` and `asking` are the same owner. This owner's earlier producers were fenced when it opened its
            # id again.
            return True
        newest = self._newest.get(candidate.transactional_id)
        return newest is not None and newest > candidate


def claim_records(
    partitions: Iterable[TopicPartition], mark: str, owner: ClaimOwner | None, table: ClaimTable
) -> list[tuple[bytes, bytes]]:
    """Returns the keys and values of the records of a new claim. `table`: the earlier claims."""
    records = []
    for partition in partitions:
        document = {
            "mark": mark,
            "epoch": table.epoch(partition) + 1,
            "owner": owner,
            "predecessors": sorted(table.not_fenced(partition, owner)),
        }
        records.append((str(partition).encode(), json.dumps(document).encode()))
    return records


def settled_records(partitions: Iterable[TopicPartition], settled: Settled) -> list[tuple[bytes, bytes]]:
    value = json.dumps(settled._asdict()).encode()
    return [(f"{partition}{_SETTLED}".encode(), value) for partition in partitions]


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


CLAIMS_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
_OFFSET_OUT_OF_RANGE = 1
_FETCH_BYTES = 1024 * 1024


class _OwnClaim(NamedTuple):
    """A claim that `GroupClaims` is making. `records`: the records of the claim that have already been read back from
    the claims topic.
    """

    mark: str
    records: dict[TopicPartition, ClaimRecord]


class GroupClaims:
    """The claims of one group. Use a `GroupClaims` on only one event loop. `make_topic`: creates a claims topic if it
    is missing.
    """

    def __init__(
        self, group_id: str, leadership: Leadership, writer: ClaimsWriter, make_topic: Callable[[str], Awaitable[None]]
    ) -> None:
        self._group_id = group_id
        self._partition = TopicPartition(claims_topic(group_id), 0)
        self._leadership = leadership
        self._writer = writer
        self._make_topic = make_topic
        self._table = ClaimTable()
        self._position: int | None = None
        self._is_made = False
        self._reading = asyncio.Lock()
        self._claiming = asyncio.Lock()
        self._asked = 0
        self._answered = 0
        self._given_up, self._reason = 0, ""

    async def claim(self, partitions: Iterable[TopicPartition], owner: ClaimOwner | None) -> Claim:
        """Claim the partitions, and fence every earlier owner that may still have an open transaction for one of them.
        Raises LogTimeout, LogError.
        """
        asked = list(dict.fromkeys(partitions))
        async with self._claiming:
            await self._make_and_read()
            mark = uuid.uuid4().hex
            known = [self._table.not_fenced(each, owner) for each in asked]
            end = await self._writer.write(self._partition, claim_records(asked, mark, owner, self._table))
            own = _OwnClaim(mark, {})
            await self._read(own, end)
            # If a record of this claim is missing, compaction has removed it because of a newer claim. The missing
            # epoch is then replaced by the epoch of the newer claim.
            epochs = {
                partition: own.records[partition].epoch if partition in own.records else self._table.epoch(partition)
                for partition in asked
            }
        to_fence = set().union(*known, *(record.predecessors for record in own.records.values()))
        await all_of(self._writer.fence(each) for each in sorted({owner.transactional_id for owner in to_fence}))
        if to_fence:
            await self._writer.write(
                self._partition, settled_records(asked, Settled(mark, fenced=True, released=False))
            )
        return Claim(self._group_id, epochs, mark)

    async def release(self, claims: Iterable[Claim]) -> None:
        """Release the claims, in one write. Raises LogTimeout, LogError."""
        records = [
            record
            for claim in claims
            for record in settled_records(claim.epochs, Settled(claim.mark, fenced=True, released=True))
        ]
        await self._writer.write(self._partition, records)

    async def check(self, claims: Iterable[Claim]) -> None:
        """Check the claims against the records of the claims topic. The topic is read after the call of `check`, so the
        read finds every claim that was written before the call. Raises CommitFenced, LogTimeout, LogError.
        """
        try:
            await self._read_shared()
        except UnknownTopicOrPartition as error:
            raise CommitFenced(f"group {self._group_id}: {error}, so nobody holds a claim any more") from error
        for claim in claims:
            self._table.check(claim)

    async def _make_and_read(self) -> None:
        """Read the claims topic. If the topic is missing, create the topic first. The topic may be missing even after
        an earlier read.
        """
        if self._is_made:
            with contextlib.suppress(UnknownTopicOrPartition):
                await self._read_news()
                return
        await self._make_topic(self._partition.topic)
        self._is_made = True
        await self._read()

    async def _read_shared(self) -> None:
        self._asked += 1
        mine = self._asked
        async with self._reading:
            if self._answered >= mine:
                return
            if self._given_up >= mine:
                # If a read has failed, all callers that waited for it fail as well. No caller starts a new read.
                raise LogTimeout(self._reason)
            newest = self._asked
            try:
                await self._leadership.call("claims", lambda: self._read_to_end(None))
            except LogTimeout as error:
                self._given_up, self._reason = newest, str(error)
                raise
            self._answered = newest

    async def _read_news(self) -> None:
        """Read new records with one fetch. If the claims topic was not read before, read the whole topic."""
        async with self._reading:
            if self._position is not None:
                await self._leadership.call("claims", lambda: self._fetch(None))
        if self._position is None:
            await self._read()

    async def _read(self, own: _OwnClaim | None = None, end: int | None = None) -> None:
        """Read the claims topic up to the offset `end`. If `end` is None, or if the first try fails, read up to the end
        of the topic.
        """
        ends = [end]

        async def attempt() -> None:
            await self._read_to_end(own, ends.pop() if ends else None)

        async with self._reading:
            await self._leadership.call("claims", attempt)

    async def _read_to_end(self, own: _OwnClaim | None, known_end: int | None = None) -> None:
        """Try once to read the claims topic up to `known_end`. If `known_end` is None, the end of the topic is looked
        up first. Raises NotNow if the leader does not return all records yet. This can happen just after a change of
        the leader.
        """
        end = await self._offset(LATEST) if known_end is None else known_end
        if known_end is None and self._position is not None and end < self._position:
            self._position = None  # the topic was deleted and created again
        while self._position is None or self._position < end:
            if self._position is None:
                self._position = await self._offset(EARLIEST)
                self._table = ClaimTable()
                continue
            before = self._position
            await self._fetch(own)
            if self._position == before:
                raise NotNow(f"{self._partition} ends at {end}, and its leader gives nothing after {before} yet")

    async def _offset(self, which: int) -> int:
        leaders = await self._leadership.leaders([self._partition])
        request = LeaderRequest(self._leadership.connections, leaders, leaders)
        return (await request.offsets(which, read_committed=False))[self._partition]

    async def _fetch(self, own: _OwnClaim | None) -> None:
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
                claimed = self._table.apply(key, value)
                if own is not None and claimed is not None and claimed[1].mark == own.mark:
                    own.records[claimed[0]] = claimed[1]
        self._position = max(position, fetched.next_offset)


class ClaimsWriter:
    """Writes records of claims topics. Each call writes one batch, which is idempotent and acknowledged by all
    replicas.

    Use a `ClaimsWriter` on only one event loop. After an error the writer gets a new producer id, so that no earlier
    batch can be written late.
    """

    def __init__(self, leadership: Leadership, settings: LogSettings) -> None:
        self._leadership = leadership
        self._settings = settings
        self._sender: Sender | None = None
        self._accumulator = Accumulator()
        self._lock = asyncio.Lock()

    async def write(self, partition: TopicPartition, records: Iterable[tuple[bytes, bytes]]) -> int | None:
        """Write records. Returns the offset after the last record, or None if this offset is not known.

        Raises LogTimeout, LogError. If `write` raises an error, some of the records may have been written. None of the
        other records will be written later.
        """
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
                queue.append(key, value, now_ms, ())
            self._accumulator.close_open()
            self._accumulator.last_offsets.pop(partition, None)
            try:
                await self._sender.drain()
                self._sender.raise_refused()
            except LogError:
                await self.close()
                raise
            last = self._accumulator.last_offsets.get(partition)
            return None if last is None else last + 1

    async def fence(self, transactional_id: str) -> None:
        """End the open transaction of this id. Raises LogTimeout, LogError."""
        await TransactionManager(self._leadership, transactional_id, self._settings.transaction_timeout_ms).open()

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.stop()
