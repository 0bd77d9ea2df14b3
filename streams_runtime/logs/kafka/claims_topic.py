"""The claims topic of a group, `<group id>-claims`. A claim appends to it, and a commit reads it to its end first.

This makes commits exactly-once although the members are in no Kafka group. Say that Old holds a partition and New
claims it.

- Old commits in three steps. It adds its records and its offsets to the transaction (TxnOffsetCommit). It reads the
  claims topic to its end. It ends the transaction: with a commit, or with an abort if it has found New's claim.
- New takes over in two steps. It appends its claim. Then it reads the committed offsets with `require_stable`, a read
  that waits while an open transaction may still move one of them. Changelogs it reads up to their high watermark, which
  a READ_COMMITTED reader reaches only when every transaction below it has ended.
- If Old's read finds New's claim, Old aborts. If it does not, Old had added its offsets and records before New appended
  its claim. New's reads come after its claim, so they wait for the end of Old's transaction. New then sees all of it
  or, if it was aborted, nothing. Either way no two owners commit the same input.

Fencing only shortens that wait. A dead Old would keep its transaction open until transaction.timeout.ms, so New opens
Old's transactional id once, which aborts the transaction at once. An owner that gives its claim up cleanly writes that
down (`release`): it may be alive, working on other tasks, and must not be fenced.

The end of the topic is asked for with ListOffsets, because the high watermark in the answer to a fetch may lag right
after the leader has moved. Commits that wait at the same time share one read.

A claim that fences no other owner takes three round trips, however many partitions it names: fetch new records, write,
and fetch up to the records just written, whose offset is in the answer to the write. The first fetch may miss a record
that another claim has just written. That does no harm: another claim could as well be written right after the fetch,
and the second fetch reads both.

The owners of a group's partitions are as its claims topic has them: the order of its records decides. A claim writes
one record for each of its partitions, keyed by the partition:
- `mark`: random text, the same for all partitions of the claim;
- `epoch`: one higher than that of the claim before;
- `owner`: the transactional id that will commit with the claim, its producer id and its epoch; or null;
- `predecessors`: earlier owners that may still have a transaction open.

A second key, `<partition>/settled`, has the later state of a claim: its predecessors are fenced, or the owner has
released it. That state must not be written under the key of the claim: a late record of an older owner would replace a
newer claim there as soon as the topic is compacted.

Two claims that race may be written with the same epoch. The order of the records decides: every reader takes the later
one as one epoch higher.

An owner that has opened its transactional id again has a higher producer epoch. So every reader knows that it has
fenced its former self. An owner without a transactional id (at-least-once) cannot be fenced and need not be.
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

from assignor.types import TopicPartition
from kafka_client.admin.partition_leaders import EARLIEST, LATEST, LeaderRequest
from kafka_client.error_codes import check
from kafka_client.errors import NotNow
from streams_runtime.logs.base import BATCH_BYTES, Claim, claims_topic
from streams_runtime.logs.kafka.accumulating import Accumulator, PartitionQueue
from streams_runtime.logs.kafka.completed_fetch import CompletedFetch
from streams_runtime.logs.kafka.leadership import Leadership, all_of
from streams_runtime.logs.kafka.log_settings import LogSettings
from streams_runtime.logs.kafka.sending import Sender
from streams_runtime.logs.kafka.transaction_manager import TransactionManager
from streams_runtime.logs.log_errors import CommitFenced, LogError, LogTimeout, UnknownTopicOrPartition
from streams_runtime.logs.producers import claimed_since

_SETTLED = "/settled"  # no topic has a slash in its name


class ClaimOwner(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


class Settled(NamedTuple):
    """The later state of the claim with this mark.

    `fenced`: its predecessors have no open transaction any more. `released`: its owner gave it up cleanly.
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
    """The claims of one group, after all records of its claims topic up to some offset."""

    def __init__(self) -> None:
        self._claims: dict[TopicPartition, ClaimRecord] = {}
        self._settled: dict[TopicPartition, Settled] = {}
        self._newest: dict[str, ClaimOwner] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> tuple[TopicPartition, ClaimRecord] | None:
        """Take in the next record. Returns it when it is a claim, with the epoch and the predecessors that it has now.

        Raises LogError for one that cannot be read.
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
                # the writer did not know of a claim that raced it, and may have died before it could learn of it
                tuple(sorted(predecessors | self.not_fenced(partition, owner))),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(f"record {key!r} of a claims topic cannot be read: {error}") from error
        self._claims[partition] = record
        if owner is not None:
            self._newest[owner.transactional_id] = max(owner, self._newest.get(owner.transactional_id, owner))
        return partition, record

    def epoch(self, partition: TopicPartition) -> int:
        """Of the newest claim; 0 when there is none."""
        record = self._claims.get(partition)
        return 0 if record is None else record.epoch

    def mark(self, partition: TopicPartition) -> str | None:
        record = self._claims.get(partition)
        return None if record is None else record.mark

    def not_fenced(self, partition: TopicPartition, owner: ClaimOwner | None) -> set[ClaimOwner]:
        """Owners that may still have a transaction open for this partition, seen by `owner`."""
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
        """Raises CommitFenced when any partition of the claim has been claimed since."""
        for partition in claim.epochs:
            if self.mark(partition) != claim.mark:
                raise claimed_since(claim, partition, self.epoch(partition))

    def _is_past(self, candidate: ClaimOwner, asking: ClaimOwner | None) -> bool:
        if asking is not None and candidate.transactional_id == asking.transactional_id:
            return True  # the same thread: it has opened its id again, or the open transaction is its own
        newest = self._newest.get(candidate.transactional_id)
        return newest is not None and newest > candidate


def claim_records(
    partitions: Iterable[TopicPartition], mark: str, owner: ClaimOwner | None, table: ClaimTable
) -> list[tuple[bytes, bytes]]:
    """Keys and values of a new claim, by the claims in `table`."""
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
    """`records`: of the claim with this mark, as far as they were read."""

    mark: str
    records: dict[TopicPartition, ClaimRecord]


class GroupClaims:
    """The claims of one group. Used inside one event loop. `make_topic`: creates a claims topic if it is missing."""

    def __init__(
        self,
        group_id: str,
        leadership: Leadership,
        writer: ClaimsWriter,
        make_topic: Callable[[str], Awaitable[None]],
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
        """Claim the partitions, and fence every owner that may still write for them. Raises LogTimeout, LogError."""
        asked = list(dict.fromkeys(partitions))
        async with self._claiming:
            await self._make_and_read()
            mark = uuid.uuid4().hex
            known = [self._table.not_fenced(each, owner) for each in asked]
            end = await self._writer.write(self._partition, claim_records(asked, mark, owner, self._table))
            own = _OwnClaim(mark, {})
            await self._read(own, end)
            epochs = {  # where compaction has removed our record, a newer claim has replaced it
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
        """All of them in one write. Raises LogTimeout, LogError."""
        records = [
            record
            for claim in claims
            for record in settled_records(claim.epochs, Settled(claim.mark, fenced=True, released=True))
        ]
        await self._writer.write(self._partition, records)

    async def check(self, claims: Iterable[Claim]) -> None:
        """Check against a read that begins after this call. Raises CommitFenced, LogTimeout, LogError."""
        try:
            await self._read_shared()
        except UnknownTopicOrPartition as error:
            raise CommitFenced(f"group {self._group_id}: {error}, so nobody holds a claim any more") from error
        for claim in claims:
            self._table.check(claim)

    async def _make_and_read(self) -> None:
        """Creates the topic if it is missing, also when it was deleted since."""
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
                raise LogTimeout(self._reason)  # callers that shared the failed read must not each wait for another one
            newest = self._asked
            try:
                await self._leadership.call("claims", lambda: self._read_to_end(None))
            except LogTimeout as error:
                self._given_up, self._reason = newest, str(error)
                raise
            self._answered = newest

    async def _read_news(self) -> None:
        """Read the records of one fetch; the whole topic when nothing was read before."""
        async with self._reading:
            if self._position is not None:
                await self._leadership.call("claims", lambda: self._fetch(None))
        if self._position is None:
            await self._read()

    async def _read(self, own: _OwnClaim | None = None, end: int | None = None) -> None:
        """Up to `end`; None for the end of the topic. Later tries read to the end of the topic in any case."""
        ends = [end]

        async def attempt() -> None:
            await self._read_to_end(own, ends.pop() if ends else None)

        async with self._reading:
            await self._leadership.call("claims", attempt)

    async def _read_to_end(self, own: _OwnClaim | None, known_end: int | None = None) -> None:
        """One try; each asks for the end again. Raises NotNow while a new leader does not give everything yet."""
        end = await self._offset(LATEST) if known_end is None else known_end
        if known_end is None and self._position is not None and end < self._position:
            self._position = None  # the topic was deleted and made again
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
    """Writes records of claims topics: idempotent, one batch a call, acknowledged by all replicas.

    Used inside one event loop. After an error it continues under a new producer id, so that no earlier batch can arrive
    late.
    """

    def __init__(self, leadership: Leadership, settings: LogSettings) -> None:
        self._leadership = leadership
        self._settings = settings
        self._sender: Sender | None = None
        self._accumulator = Accumulator()
        self._lock = asyncio.Lock()

    async def write(self, partition: TopicPartition, records: Iterable[tuple[bytes, bytes]]) -> int | None:
        """The offset behind the last record; None when it is not known.

        Raises LogTimeout, LogError. The records are then not written later; they may be written already.
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
