"""A partitioned log: the interface through which the runtime reads and writes records, in Kafka's terms.

Rules that every implementation keeps (and `tests/streams_runtime/logs/conformance` checks):
- The offsets of a partition rise, but need not be dense: compaction and transaction markers leave gaps. A position is
  the offset of the next record to read. An end offset is the offset that the next record will get, or a higher offset.
- A transaction covers records of several partitions and consumer offsets, and is all or nothing. READ_COMMITTED readers
  never see a record of an aborted transaction, nor a record of a transaction that is still open.
- A producer with a transactional id fences the producer that had the id before. A claim of a group's partitions fences
  earlier claims of these partitions: the owner of a fenced claim can no longer commit transactions or offsets.

A claim takes the place of the group's generation in Kafka's `sendOffsetsToTransaction` (KIP-447). The group's
coordinator is not part of the log, so the log itself has to know the owner that may move a partition's offset. A task
claims its partitions before it reads any offset. Batches are columns, because bulk paths (restore, standby) never need
single records. Source: `Consumer`, `Producer`, `Admin` of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import NamedTuple, Protocol

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.record_limits import RecordLimits


class IsolationLevel(StrEnum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OffsetReset(StrEnum):
    """`auto.offset.reset`: the position at which a task begins a partition without a committed offset. `NONE`: a
    partition without a committed offset is an error.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Consecutive records of one partition, as columns of the same length, never empty.

    `offsets`: in rising order; a `range` if there are no gaps. `timestamps_ms`: since the epoch. `values`: None is a
    tombstone. `headers`: None if no record of the batch has any.
    """

    partition: TopicPartition
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, start: int, stop: int) -> RecordBatch:
        """The records with the indices from `start` up to, but not including, `stop`."""
        if start <= 0 and stop >= len(self.offsets):
            return self
        offsets = self.offsets[start:stop]
        if offsets and offsets[-1] - offsets[0] == len(offsets) - 1:
            offsets = range(offsets[0], offsets[-1] + 1)
        headers = None if self.headers is None else self.headers[start:stop]
        return RecordBatch(
            self.partition,
            offsets,
            self.timestamps_ms[start:stop],
            self.keys[start:stop],
            self.values[start:stop],
            headers if headers and any(headers) else None,
        )

    def taken(self, indices: Sequence[int]) -> RecordBatch | None:
        """The records at these indices, which are in rising order; None if there are no indices."""
        if not indices:
            return None
        return RecordBatch(
            self.partition,
            [self.offsets[index] for index in indices],
            [self.timestamps_ms[index] for index in indices],
            [self.keys[index] for index in indices],
            [self.values[index] for index in indices],
            None if self.headers is None else [self.headers[index] for index in indices],
        )


def concatenated(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Joins batches of one partition, at least one and in order, into a single one."""
    if len(batches) == 1:
        return batches[0]
    first, last = batches[0], batches[-1]
    offsets: Sequence[int] = range(first.offsets[0], last.offsets[-1] + 1)
    if len(offsets) != sum(map(len, batches)):
        offsets = list(chain.from_iterable(batch.offsets for batch in batches))
    timestamps_ms: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] | None = None if all(batch.headers is None for batch in batches) else []
    for batch in batches:
        timestamps_ms += batch.timestamps_ms
        keys += batch.keys
        values += batch.values
        if headers is not None:
            headers += [()] * len(batch) if batch.headers is None else batch.headers
    return RecordBatch(first.partition, offsets, timestamps_ms, keys, values, headers)


BATCH_BYTES = 256 * 1024
"""A writer closes a batch before its keys, values and headers have more bytes than this; only a single record can be
larger.
"""

BATCH_RECORDS = 4_096
"""A writer closes a batch when it has this many records. Batches read from Kafka's brokers may have more."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `configs`: topic configs by Kafka's names (`cleanup.policy`, `retention.ms`, ...)."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


class OffsetAndMetadata(NamedTuple):
    """A committed offset. `offset`: the offset of the next record to process. `metadata`: any text of the committer."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to move a group's offsets of these partitions.

    `epochs`: numbers that the log assigns; a higher epoch fences lower epochs. `mark`: a text by which a log may
    recognise the claim; comparisons of claims ignore it.
    """

    group_id: str
    epochs: Mapping[TopicPartition, int]
    mark: str = field(default="", compare=False, repr=False)

    def part(self, partitions: Iterable[TopicPartition]) -> Claim:
        """The claim, limited to these of its partitions. Raises KeyError for a partition that is not claimed."""
        return Claim(self.group_id, {partition: self.epochs[partition] for partition in partitions}, self.mark)


def claims_topic(group_id: str) -> str:
    """The topic for the claims of a group, in a log that has no other storage for claims."""
    return f"{group_id}-claims"


OffsetsToCommit = Sequence[tuple[Claim, Mapping[TopicPartition, OffsetAndMetadata]]]
"""Claims, each with the offsets to commit. The offsets of a claim belong to the claim's partitions."""


class Consumer(Protocol):
    """Reads partitions that were assigned to it. One thread uses a consumer; only `wakeup` may be called by another
    thread.
    """

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Partitions that were assigned before keep their position and pause; a new
        partition has no position until `seek`.
        """

    def assignment(self) -> frozenset[TopicPartition]: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record that `poll` will return; None before `seek`."""

    def known_end(self, partition: TopicPartition) -> int | None:
        """The end offset up to which this consumer can read, if it is known without a request: the log has pushed an
        end offset beyond `position`, or pushes each new end offset at once. If the result is None, call
        `Log.end_offsets`.
        """

    def pause(self, partitions: Iterable[TopicPartition]) -> None: ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...

    def paused(self) -> frozenset[TopicPartition]: ...

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        """The next records, at most `max_records` in all, shared fairly between partitions.

        Waits up to `timeout_ms` for the first record; empty on time-out and after `wakeup`. Positions move past the
        records (and past gaps). Partitions without a position are skipped. Raises OffsetOutOfRange, LogTimeout,
        UnknownTopicOrPartition.
        """

    def wakeup(self) -> None:
        """Make a waiting `poll` return at once. If no `poll` waits, the next `poll` that would wait returns at once."""

    def close(self) -> None: ...


class Producer(Protocol):
    """Writes records. One thread uses a producer. A producer with a transactional id sends and commits only inside
    transactions.

    Raises ProducerFenced, CommitFenced, RecordTooLarge, InvalidRecord, UnknownTopicOrPartition, LogTimeout. After
    ProducerFenced or CommitFenced, the producer can only be aborted and closed.
    """

    def begin_transaction(self) -> None: ...

    @property
    def lingers(self) -> bool:
        """True if the producer itself writes a record after `linger.ms`. If `lingers` is False, the producer's owner
        calls `send_now` by then.
        """

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        """Take the record. The record is written later, at the latest by `send_now`, `flush` or a commit."""

    def send_columns(
        self,
        partition: TopicPartition,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """Take the rows, as `send` does, without headers. After an error no row is taken.

        The caller makes sure that no row exceeds the limits of `limits_of`.
        """

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        """The limits of the partition's topic for one record."""

    def send_now(self) -> None:
        """Write the pending records without waiting for `linger.ms`. `send_now` may return before all records are
        written.

        Does nothing inside a transaction of a log that writes only at the commit.
        """

    def flush(self) -> None:
        """Write all pending records, and wait until they are written."""

    def commit_transaction(self, offsets: OffsetsToCommit = ()) -> None:
        """Commit: records and group offsets become visible together, or, after an error, not at all."""

    def abort_transaction(self) -> None:
        """Abort: no record or offset of the transaction ever becomes visible."""

    def commit_offsets(self, offsets: OffsetsToCommit) -> None:
        """Write the pending records, and then commit all of the offsets, without a transaction. After an error no
        offset has moved.

        A log that writes records and offsets in one step writes nothing if a claim was fenced.
        """

    def guard(self, claims: Sequence[Claim]) -> None:
        """Write records only while these claims hold, until the next call of `guard`. Call `guard` only on a producer
        without transactions. A log that can check claims while it writes raises CommitFenced and writes no record.
        Other logs need not check claims.
        """

    def discard(self) -> None:
        """Forget the records that are not written yet. The only call that may follow is `close`."""

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        """The offset, by partition, of the last record of this producer that is acknowledged (and committed)."""

    def close(self) -> None:
        """Abort an open transaction. A producer without transactions writes its pending records, unless they were
        discarded.
        """


ConfigChanges = Mapping[str, str | None]
"""The new value by the config's name; None resets the config to its default."""


class Log(Protocol):
    """The log of one cluster. Any thread may call a log. Every call raises LogTimeout if the cluster does not answer in
    time.
    """

    def cluster_id(self) -> str | None:
        """The id of this log: the same for all its users, unchanging, and different from other logs. None: unknown.

        Source: `DescribeClusterResult.clusterId`.
        """

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create topics. A topic that exists with the same number of partitions is not changed. Raises TopicExists,
        InvalidTopic.
        """

    def alter_topic(self, name: str, partitions: int | None, configs: ConfigChanges) -> None:
        """Raise the number of partitions to `partitions` (None: keep it), and change configs.

        Raises UnknownTopicOrPartition, and InvalidTopic for fewer partitions than there are and for a config that no
        topic can have. Source: `Admin.createPartitions`, `Admin.incrementalAlterConfigs`.
        """

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics. On return none of the topics exists, and soon after that no group has offsets of the topics.
        Raises UnknownTopicOrPartition, and deletes no topic, if one of the topics does not exist. Source:
        `Admin.deleteTopics`.
        """

    def topics(self) -> Mapping[str, TopicDescription]: ...

    def partitions_of(self, topic: str) -> int:
        """The number of partitions; 0 if there is no such topic. The number may be some minutes old. The call is
        cheaper than `topics`.
        """

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        """The end offsets; with READ_COMMITTED, the last stable offsets. Raises UnknownTopicOrPartition, as
        `begin_offsets` does.
        """

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The lowest offset of each partition whose record has this timestamp or a later timestamp. Partitions without
        such a record are left out. Raises UnknownTopicOrPartition. Source: `Consumer.offsetsForTimes`.
        """

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group; partitions without a committed offset are left out. `partitions`: None for
        all partitions of which the group has offsets.
        """

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        """Claim the partitions: from now on only the new claim can move the group's offsets of these partitions.

        `owner`: the transactional id that will commit with the claim; its producer is open already. A log in which open
        transactions block readers may fence earlier owners, which aborts their transactions. An owner that has released
        its claim is not fenced.
        """

    def release(self, *claims: Claim) -> None:
        """Release claims: their owner has committed everything, so later claims need not fence it.

        Never raises LogTimeout. A log that records releases writes all releases of a group in one step.
        """

    def consumer(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Consumer: ...

    def producer(self, transactional_id: str | None = None) -> Producer:
        """Open a producer. With an id, fence the producer that had the id before."""

    def deletes_after_ms(self, topic: str) -> int | None:
        """The age from which the log may delete a record, counted from the clock. The value may be some minutes old.

        Returns None if the log does not delete records by the clock, or if the log's retention is not known. Raises
        UnknownTopicOrPartition.
        """

    def keep_windows(self, topic: str, retention_ms: int) -> None:
        """Make a window store's changelog keep at least the last `retention_ms` before its newest timestamp.

        A log that deletes by stream time raises `retention.ms` of the topic if it is lower: the topic may have been
        made for a store that kept windows for a shorter time. Other logs do nothing; see `deletes_after_ms`.
        Raises UnknownTopicOrPartition.
        """

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets, which become the begin offsets. Source: `Admin.deleteRecords`."""

    def maintain(self) -> None:
        """Do a bounded part of compaction and retention. Kafka's brokers need no call of `maintain`. Any process may
        call `maintain`.
        """

    def close(self) -> None: ...
