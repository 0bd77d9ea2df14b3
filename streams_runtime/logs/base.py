"""A partitioned log: all that the runtime asks of the place where records live, in Kafka's terms.

Rules that every implementation keeps (and `tests/streams_runtime/logs/conformance` checks):
- Offsets of a partition rise, but need not be dense: compaction and transaction markers leave gaps. A position is the
  offset of the next record to read; an end offset is the one the next record will get, or beyond it.
- A transaction covers records of several partitions and consumer offsets, and is all or nothing. READ_COMMITTED readers
  never see a record of an aborted transaction or, before it ends, of an open one.
- A producer with a transactional id fences the one before it with the same id. A claim of a group's partitions fences
  the claims before it: who was fenced cannot commit any more, neither a transaction nor offsets.

A claim stands where Kafka has the group's generation in `sendOffsetsToTransaction` (KIP-447): the group is led outside
of the log, so the log itself has to know who may move a partition's offset. A task claims its partitions before it
reads any offset. Batches are columns, because bulk paths (restore, standby) never look at single records.
Source: `Consumer`, `Producer`, `Admin` of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from assignor.types import TopicPartition
from streams_runtime.records import Headers


class IsolationLevel(StrEnum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Consecutive records of one partition, as columns of the same length, never empty.

    `offsets` rise, a `range` where they are dense. `timestamps_ms`: since the epoch. `values`: None is a tombstone.
    `headers`: None when no record of the batch has any.
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
        """Records `start` up to `stop`, by index."""
        if start <= 0 and stop >= len(self.offsets):
            return self
        return RecordBatch(
            self.partition,
            self.offsets[start:stop],
            self.timestamps_ms[start:stop],
            self.keys[start:stop],
            self.values[start:stop],
            None if self.headers is None else self.headers[start:stop],
        )


@dataclass(frozen=True, slots=True)
class NewTopic:
    """`configs`: topic configs by Kafka's names (`cleanup.policy`, `retention.ms`, ...)."""

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
    """A committed offset: that of the next record to process. `metadata`: the committer's own text."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to move a group's offsets of these partitions. `epochs`: the log's own; higher fence lower ones.

    `mark`: by which a log may know it again; equal claims have equal epochs.
    """

    group_id: str
    epochs: Mapping[TopicPartition, int]
    mark: str = field(default="", compare=False, repr=False)


OffsetsToCommit = Sequence[tuple[Claim, Mapping[TopicPartition, OffsetAndMetadata]]]
"""Of each claim, the offsets to move; all within the claim's partitions."""


class Consumer(Protocol):
    """Reads partitions that were assigned by hand. One thread uses it; only `wakeup` may come from another."""

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; those that stay keep position and pause. A new one has no position until `seek`."""
        ...

    def assignment(self) -> frozenset[TopicPartition]: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def position(self, partition: TopicPartition) -> int | None:
        """Offset of the next record `poll` will give; None before `seek`."""
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None: ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...

    def paused(self) -> frozenset[TopicPartition]: ...

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        """What is there, at most `max_records` in all, fair between partitions; waits `timeout_ms` for the first.

        Positions move past what is given (and past gaps). Empty on time-out and after `wakeup`. Partitions without a
        position are passed over. Raises OffsetOutOfRange, LogTimeout, UnknownTopicOrPartition.
        """
        ...

    def wakeup(self) -> None:
        """Let the `poll` that waits, or the next one that would wait, return at once."""
        ...

    def close(self) -> None: ...


class Producer(Protocol):
    """Writes records. One thread uses it. With a transactional id everything happens inside transactions.

    Raises ProducerFenced, CommitFenced, RecordTooLarge, UnknownTopicOrPartition, LogTimeout; after the first two the
    producer is of no more use.
    """

    @property
    def is_transactional(self) -> bool: ...

    def begin_transaction(self) -> None: ...

    def in_transaction(self) -> bool: ...

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        """Take the record; it may be written later, at the latest by `flush` or `commit_transaction`."""
        ...

    def flush(self) -> None:
        """Return when everything taken is written."""
        ...

    def commit_transaction(self, offsets: OffsetsToCommit = ()) -> None:
        """Records and group offsets become visible together, or an error is raised and nothing does."""
        ...

    def abort_transaction(self) -> None:
        """Nothing of the transaction is ever visible."""
        ...

    def commit_offsets(self, offsets: OffsetsToCommit) -> None:
        """Without a transaction: what was taken is written, then all of the offsets, or an error and none of them.

        A log that can do both in one step writes nothing when a claim was fenced.
        """
        ...

    def guard(self, claims: Sequence[Claim]) -> None:
        """Without a transaction: whoever holds these writes, and nobody else. From now on, until the next call.

        A log that can check claims while it writes raises CommitFenced and writes nothing; others need not.
        """
        ...

    def discard(self) -> None:
        """Forget what was taken and not written yet; only `close` may follow."""
        ...

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        """Of each partition written by this producer, the offset of its last acknowledged (and committed) record."""
        ...

    def close(self) -> None:
        """An open transaction is aborted; what was taken without one, and not discarded, is written."""
        ...


class Log(Protocol):
    """One cluster. All calls may come from any thread. All raise LogTimeout when it cannot be reached in time."""

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """A topic that exists with the same number of partitions is fine. Raises TopicExists, InvalidTopic."""
        ...

    def topics(self) -> Mapping[str, TopicDescription]: ...

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        """With READ_COMMITTED the last stable offset. Raises UnknownTopicOrPartition, as `begin_offsets` does."""
        ...

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Partitions without a committed offset are left out."""
        ...

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        """From now on only the new claim moves these offsets.

        `owner`: the transactional id that will commit with it, opened before. A log in which open transactions hold
        others up may end those of the owners before by fencing them; one that has released its claim is left alone.
        """
        ...

    def release(self, claim: Claim) -> None:
        """Its owner is done with it: all is committed, and it needs not be fenced. Never raises LogTimeout."""
        ...

    def consumer(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Consumer: ...

    def producer(self, transactional_id: str | None = None) -> Producer:
        """With an id: fences the producer that had it before."""
        ...

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Records with lower offsets may go: begin offsets rise. Source: `Admin.deleteRecords`."""
        ...

    def maintain(self) -> None:
        """Housekeeping that a broker does by itself (compaction, retention): a bounded piece; from any process."""
        ...

    def close(self) -> None: ...
