"""The interface of a partitioned log, in Kafka's terms. The runtime reads and writes records through this interface.

Rules that every implementation follows, and that `tests/streams_runtime/logs/conformance` checks:
- The offsets of a partition rise. The offsets may have gaps, which compaction and transaction markers leave. A position
  is the offset of the next record to read. The next record of a partition gets the partition's end offset, or a higher
  offset if there is a gap.
- A transaction contains records of several partitions and committed offsets of groups. A transaction takes effect as a
  whole or not at all. A READ_COMMITTED reader does not get the records of open or aborted transactions.
- A producer with a transactional id fences the producer that had the id before. A claim on input partitions is the
  right to commit a group's offsets of these partitions. Each claim has one owner. A new claim fences earlier claims on
  the same partitions. The owner of a fenced claim can no longer commit transactions or offsets.

In Kafka, the brokers know the generation of a group, and `sendOffsetsToTransaction` checks the generation (KIP-447).
Here the log does not know the generation, because the coordinator of the group is not part of the log. So the log
checks claims instead of the generation. A Streams task claims its input partitions before it reads any offset. Batches
are stored as columns, because restores and standbys never need single records. Source: `Consumer`, `Producer`, `Admin`
of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import NamedTuple, Protocol

from assignor.types import Offsets, TopicPartition
from streams_runtime.common.records import BytesColumn, Headers
from streams_runtime.logs.record_limits import RecordLimits


class IsolationLevel(StrEnum):
    """Of a consumer: whether it reads records of transactions that are not committed. Of a query: whether it reads
    changes of a store that are not committed.
    """

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OffsetReset(StrEnum):
    """`auto.offset.reset`: the position from which a Streams task reads a partition that has no committed offset.
    `NONE`: a partition without a committed offset is an error.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One or more consecutive records of a partition, as columns of the same length.

    `offsets`: the records' offsets in rising order; a `range` if the offsets have no gaps. `timestamps_ms`:
    milliseconds since the epoch. `values`: the records' values; None for a tombstone. `headers`: None if no record of
    the batch has headers.
    """

    partition: TopicPartition
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: BytesColumn
    values: BytesColumn
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, start: int, stop: int) -> RecordBatch:
        """Returns the records whose indices are at least `start` and below `stop`."""
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
        """Returns the records at these indices, or None if there are no indices. The indices are in rising order."""
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
    """Joins one or more batches of a partition into one batch. The caller gives the batches in order of offsets."""
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
"""The largest total size in bytes of the keys, values and headers in a batch that a writer makes. Only a batch with a
single record can be larger.
"""

BATCH_RECORDS = 4_096
"""The largest number of records in a batch that a writer makes. Batches that were read from Kafka's brokers may have
more records.
"""


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
    """A committed offset. `offset`: the offset of the next record to process. `metadata`: any text that the Streams
    task stores with the offset.
    """

    offset: int
    metadata: str = ""


CommittedOffsets = Mapping[TopicPartition, OffsetAndMetadata]
"""The committed offset of each partition."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim: the right to commit a group's offsets of some input partitions.

    `epochs`: for each claimed partition, the number that the log has assigned to the claim. A claim with a higher epoch
    fences claims with lower epochs. `mark`: a text that identifies the claim; empty if the log does not need the text.
    Comparisons of claims ignore the mark.
    """

    group_id: str
    epochs: Mapping[TopicPartition, int]
    mark: str = field(default="", compare=False, repr=False)

    def part(self, partitions: Iterable[TopicPartition]) -> Claim:
        """Returns a claim of only the given partitions, with the same epochs and mark. Raises KeyError for a partition
        that this claim does not have.
        """
        return Claim(self.group_id, {partition: self.epochs[partition] for partition in partitions}, self.mark)


OffsetsToCommit = Sequence[tuple[Claim, CommittedOffsets]]
"""Pairs of a claim and the offsets to commit. Each offset belongs to a partition of its claim."""


class Consumer(Protocol):
    """Reads partitions that were assigned to it. Only one thread may use a consumer, but any thread may call
    `wakeup`.
    """

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the partitions that this consumer reads. An already assigned partition keeps its position. If it was
        paused, it stays paused. A new partition has no position until `seek`.
        """

    def assignment(self) -> frozenset[TopicPartition]: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def position(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the next record that `poll` will return, or None before `seek`."""

    def known_end(self, partition: TopicPartition) -> int | None:
        """Returns the end offset up to which this consumer can read. Returns None if only a request could find the end
        offset. The end offset is known if the log has pushed an end offset beyond `position`. The end offset is also
        known if the log pushes each new end offset at once. If the result is None, call `Log.end_offsets`.
        """

    def pause(self, partitions: Iterable[TopicPartition]) -> None: ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...

    def paused(self) -> frozenset[TopicPartition]: ...

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        """Returns the next records, at most `max_records` for all partitions together. Every partition gets a fair
        share.

        Waits up to `timeout_ms` for the first record. The result is empty if no record came in this time, or if
        `wakeup` was called. The positions of the partitions move past the returned records and past gaps. Partitions
        without a position are skipped. Raises OffsetOutOfRange, LogTimeout, UnknownTopicOrPartition.
        """

    def wakeup(self) -> None:
        """Make a waiting `poll` return at once. If no `poll` is waiting now, the next wait of a `poll` ends at once."""

    def close(self) -> None: ...


class RawColumns(NamedTuple):
    """Records to write, as columns of the same length. `headers`: None if no record has headers."""

    keys: BytesColumn
    values: BytesColumn
    timestamps_ms: Sequence[int]
    headers: Sequence[Headers] | None = None


class Producer(Protocol):
    """Writes records. Only one thread may use a producer. A producer with a transactional id sends and commits only
    inside transactions.

    Raises ProducerFenced, CommitFenced, RecordTooLarge, InvalidRecord, UnknownTopicOrPartition, LogTimeout. After
    ProducerFenced or CommitFenced, the producer can only be aborted and closed.
    """

    def begin_transaction(self) -> None: ...

    @property
    def lingers(self) -> bool:
        """True if the producer writes its pending records by itself after `linger.ms`. If `lingers` is False, the
        producer's owner has to call `send_now` when `linger.ms` is over.
        """

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        """Accept the record. The record is written later, at the latest by `send_now`, `flush` or a commit."""

    def send_columns(self, partition: TopicPartition, columns: RawColumns) -> None:
        """Accept records, given as columns. If `send_columns` raises an error, it has accepted none of the records. The
        caller makes sure that no record exceeds the limits of `limits_of`.
        """

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        """Returns the limits that the partition's topic sets for a record."""

    def send_now(self) -> None:
        """Write the pending records without waiting for `linger.ms`. `send_now` may return before all records are
        written. Inside a transaction, `send_now` does nothing if the log writes the records of a transaction only at
        the commit.
        """

    def flush(self) -> None:
        """Write all pending records, and wait until they are written."""

    def commit_transaction(self, offsets: OffsetsToCommit = ()) -> None:
        """Commit the transaction. The records and group offsets of the transaction become visible together. If the
        commit fails, neither the records nor the offsets become visible.
        """

    def abort_transaction(self) -> None:
        """Abort the transaction: its records and offsets never become visible."""

    def commit_offsets(self, offsets: OffsetsToCommit) -> None:
        """Write the pending records, and then commit the offsets, without a transaction. If `commit_offsets` raises an
        error, it has committed no offset.

        Some logs write records and offsets in one step. These logs write nothing if a claim was fenced.
        """

    def guard(self, claims: Sequence[Claim]) -> None:
        """Set the claims that the producer has to check when it writes records. These claims replace the claims of the
        previous call of `guard`. Call `guard` only on a producer without transactions. Some logs can check claims
        during each write. If a claim is fenced, these logs raise CommitFenced and write no record. Logs that cannot
        check claims during a write may ignore `guard`.
        """

    def discard(self) -> None:
        """Forget the records that are not written yet. After `discard`, only `close` may be called."""

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        """Returns, for each partition, the offset of this producer's last acknowledged record. If the producer has
        transactions, this method ignores records of transactions that are not committed.
        """

    def close(self) -> None:
        """Abort an open transaction. A producer without transactions writes its pending records, unless they were
        discarded.
        """


ConfigChanges = Mapping[str, str | None]
"""The new value of each config, by the config's name. The value None resets a config to its default."""


class Log(Protocol):
    """The log of one cluster. Any thread may call the methods of a log. Every call raises LogTimeout if the cluster
    does not answer in time.
    """

    def cluster_id(self) -> str | None:
        """Returns the id of this log, or None if the id is not known. The id never changes, and no other log has the
        same id.

        Source: `DescribeClusterResult.clusterId`.
        """

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """Returns the ids of these topics. A topic that is deleted and created again gets another id. A topic is
        missing in the result if it does not exist, or if its id cannot be found soon.

        Source: `TopicDescription.topicId`.
        """

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create topics. A topic that exists with the same number of partitions is not changed. Raises TopicExists,
        InvalidTopic.
        """

    def alter_topic(self, name: str, partitions: int | None, configs: ConfigChanges) -> None:
        """Raise the number of partitions to `partitions`, and change configs. If `partitions` is None, the number does
        not change.

        Raises UnknownTopicOrPartition. Raises InvalidTopic if the topic already has more partitions than `partitions`,
        or if a config is invalid. Source: `Admin.createPartitions`, `Admin.incrementalAlterConfigs`.
        """

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics. When the call returns, none of the topics exists. The offsets that groups have committed for
        the topics disappear soon after the call. If one of the topics does not exist, raises UnknownTopicOrPartition
        and deletes no topic. Source: `Admin.deleteTopics`.
        """

    def topics(self) -> Mapping[str, TopicDescription]: ...

    def partitions_of(self, topic: str) -> int:
        """Returns the number of the topic's partitions, or 0 if the topic does not exist. The number may be some
        minutes old. The call is cheaper than `topics`.
        """

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets: ...

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> Offsets:
        """Returns the end offsets or, with READ_COMMITTED, the last stable offsets. Raises UnknownTopicOrPartition, as
        `begin_offsets` does.
        """

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        """Returns, for each partition, the lowest offset of a record with this timestamp or a later timestamp.
        The result leaves out a partition that has only older records. Raises UnknownTopicOrPartition. Source:
        `Consumer.offsetsForTimes`.
        """

    def committed_offsets(self, group_id: str, partitions: Iterable[TopicPartition] | None) -> CommittedOffsets:
        """Returns the committed offsets of a group. The result leaves out partitions without a committed offset.
        `partitions`: the partitions to look up; None for all partitions with committed offsets of the group.
        """

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        """Claim the partitions. After this call, only the owner of the new claim can commit the group's offsets of
        these partitions.

        `owner`: the transactional id of the producer that will commit with the claim. The caller has already opened
        this producer. If open transactions block the readers of a log, the log may fence the earlier owners of the
        partitions. The fence aborts the transactions of these owners. The log does not fence an owner that has released
        its claim.
        """

    def release(self, *claims: Claim) -> None:
        """Release the claims. The owner of the claims calls `release` after it has committed everything. After the
        release, later claims do not fence the owner.

        Never raises LogTimeout. If a log stores releases, it writes all releases of a group in one step.
        """

    def consumer(
        self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED, *, whole_transactions: bool = False
    ) -> Consumer:
        """Open a consumer. `whole_transactions`: True if a poll must not return only a part of a transaction. Use
        `whole_transactions` only with READ_COMMITTED.

        With `whole_transactions`, the last record that a poll returns for a partition is the last record of a
        transaction, or of a batch that was written without a transaction. So a poll may return more than `max_records`
        records, and the records of one transaction have to fit into memory. `position` is never between two records of
        a transaction, unless the caller has called `seek` with such an offset. Compaction may join transactions,
        because it removes records and transaction markers. Transactions are split if transactions of several producers
        overlap in a partition, which never happens in a changelog.
        """

    def producer(self, transactional_id: str | None = None) -> Producer:
        """Open a producer. With a transactional id, fence the producer that had the id before."""

    def deletes_after_ms(self, topic: str) -> int | None:
        """Returns the age in milliseconds from which the log may delete a record. The age of a record is the clock's
        time minus the record's timestamp. The returned value may be some minutes old.

        Returns None if the log does not delete records by the clock, or if the log's retention is not known. Raises
        UnknownTopicOrPartition.
        """

    def keep_windows(self, topic: str, retention_ms: int) -> None:
        """Set the retention of a window store's changelog to at least `retention_ms` of stream time.

        If the log deletes records by stream time, and the topic's `retention.ms` is lower, the log raises
        `retention.ms` to `retention_ms`. The topic's `retention.ms` is lower if the store had a shorter retention when
        the topic was created. Logs that do not delete records by stream time do nothing: see `deletes_after_ms`.
        Raises UnknownTopicOrPartition.
        """

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets, which become the begin offsets. Source: `Admin.deleteRecords`."""

    def maintain(self) -> None:
        """Do some of the due compaction and retention work, for a limited time. On Kafka, `maintain` does nothing,
        because the brokers do this work. Any process may call `maintain`.
        """

    def close(self) -> None: ...
