"""A log inside one process, for tests and for `TopologyTestDriver`. It is gone when the process ends.

Rules: those of `base`, with one lock over everything. Batches are stored as bytes like those of the embedded log, so
that tests measure and break the same code. Source: the mock clients and the cluster inside of `TopologyTestDriver`.
"""

from __future__ import annotations

import threading
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from assignor.topology.internal_topics import RETENTION_MS
from assignor.types import TopicPartition
from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.logs.base import (
    Claim,
    ConfigChanges,
    Consumer,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    OffsetsToCommit,
    Producer,
    TopicDescription,
)
from streams_runtime.logs.buffering_producer import BufferingProducer
from streams_runtime.logs.cleanup_policy import BatchSummary, LatestOffsets, cleaned, expired_count, head_start
from streams_runtime.logs.errors import OffsetOutOfRange, UnknownTopicOrPartition
from streams_runtime.logs.polling_consumer import AppendSignals, Bounds, PollingConsumer
from streams_runtime.logs.producer_state import ProducerIdentity, check_claim, check_identity
from streams_runtime.logs.record_batches import EncodedBatch, StoredBatch, decoded, first_offset_at, stored_at
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.logs.topic_configs import (
    TopicConfigs,
    altered_topic,
    check_topics_are_there,
    checked_topic,
    topics_to_add,
)


@dataclass(slots=True)
class _Partition:
    """`cleaned_to`: everything below it has been compacted."""

    configs: TopicConfigs
    begin: int = 0
    end: int = 0
    cleaned_to: int = 0
    batches: list[StoredBatch] = field(default_factory=list)

    def first_index(self, offset: int) -> int:
        """Index of the first batch whose last offset is at least `offset`."""
        return bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)

    def delete_before(self, offset: int) -> None:
        self.begin = max(self.begin, offset)
        del self.batches[: self.first_index(self.begin)]

    def summaries(self, from_offset: int) -> list[BatchSummary]:
        return [
            BatchSummary(batch.base_offset, batch.last_offset, batch.max_timestamp_ms, len(batch.payload))
            for batch in self.batches[self.first_index(from_offset) :]
        ]


class InMemoryLog:
    """A `Log`, which its consumers read (`BatchSource`) and its producers write to (`Destination`).

    `close` does nothing, because others may share the log.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._topics: dict[str, TopicDescription] = {}
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._committed: dict[tuple[str, TopicPartition], OffsetAndMetadata] = {}
        self._claim_epochs: dict[tuple[str, TopicPartition], int] = {}
        self._producer_epochs: dict[str, int] = {}
        self._signals = AppendSignals()
        self._cluster_id = str(uuid.uuid4())

    def cluster_id(self) -> str:
        return self._cluster_id

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        asked = list(topics)
        meanings = {topic.name: checked_topic(topic) for topic in asked}
        with self._lock:
            for topic in topics_to_add(asked, self._topics):
                self._topics[topic.name] = TopicDescription(topic.name, topic.partitions, dict(topic.configs))
                for number in range(topic.partitions):
                    self._partitions[TopicPartition(topic.name, number)] = _Partition(meanings[topic.name])

    def alter_topic(self, name: str, partitions: int | None, configs: ConfigChanges) -> None:
        with self._lock:
            check_topics_are_there([name], self._topics)
            before = self._topics[name]
            changed = altered_topic(before, partitions, configs)
            meaning = TopicConfigs.of(name, changed.configs)
            self._topics[name] = changed
            for number in range(before.partitions):
                self._partitions[TopicPartition(name, number)].configs = meaning
            for number in range(before.partitions, changed.partitions):
                self._partitions[TopicPartition(name, number)] = _Partition(meaning)

    def delete_topics(self, names: Iterable[str]) -> None:
        asked = list(dict.fromkeys(names))
        with self._lock:
            check_topics_are_there(asked, self._topics)
            for name in asked:
                del self._topics[name]
            gone = {partition for partition in self._partitions if partition.topic in asked}
            for partition in gone:
                del self._partitions[partition]
            for group, partition in [each for each in self._claim_epochs if each[1] in gone]:
                self._claim_epochs[group, partition] += 1
                self._committed.pop((group, partition), None)
        self._signals.appended()  # a consumer that waits looks again

    def topics(self) -> Mapping[str, TopicDescription]:
        with self._lock:
            return dict(self._topics)

    def partitions_of(self, topic: str) -> int:
        found = self.topics().get(topic)
        return 0 if found is None else found.partitions

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._lock:
            return {partition: self._partition(partition).begin for partition in partitions}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        """Open transactions are never in the log, so the last stable offset is the end."""
        with self._lock:
            return {partition: self._partition(partition).end for partition in partitions}

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        with self._lock:
            for partition in partitions:
                stored = self._partition(partition)
                offset = first_offset_at(partition, stored.batches, stored.begin, timestamp_ms)
                if offset is not None:
                    found[partition] = offset
        return found

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        with self._lock:
            committed = {partition: at for (group, partition), at in self._committed.items() if group == group_id}
        return committed if partitions is None else {p: committed[p] for p in partitions if p in committed}

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        epochs = {}
        with self._lock:
            for partition in partitions:
                epochs[partition] = self._claim_epochs.get((group_id, partition), 0) + 1
                self._claim_epochs[group_id, partition] = epochs[partition]
        return Claim(group_id, epochs)

    def release(self, *claims: Claim) -> None:
        """Nothing to do: no open transaction is ever in the log."""

    def consumer(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Consumer:
        return PollingConsumer(self, self._signals.new_event())

    def producer(self, transactional_id: str | None = None) -> Producer:
        if transactional_id is None:
            return BufferingProducer(self, None)
        with self._lock:
            epoch = self._producer_epochs[transactional_id] = self._producer_epochs.get(transactional_id, -1) + 1
        return BufferingProducer(self, ProducerIdentity(transactional_id, epoch))

    def deletes_after_ms(self, topic: str) -> int | None:
        with self._lock:
            configs = self._partition(TopicPartition(topic, 0)).configs
        return None if configs.deletes_by_stream_time else configs.deletes_after_ms

    def keep_windows(self, topic: str, retention_ms: int) -> None:
        with self._lock:
            if not self._partition(TopicPartition(topic, 0)).configs.keeps_windows(retention_ms):
                self.alter_topic(topic, None, {RETENTION_MS: str(retention_ms)})

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            beyond = {p: offset for p, offset in before.items() if offset > self._partition(p).end}
            if beyond:
                raise OffsetOutOfRange(beyond)
            for partition, offset in before.items():
                self._partition(partition).delete_before(offset)

    def maintain(self) -> None:
        now_ms = self._clock.now_ms()
        with self._lock:
            for partition, stored in self._partitions.items():
                self._expire(stored, now_ms)
                if stored.configs.compacts and _is_dirty_enough(stored, now_ms):
                    self._compact(partition, stored, now_ms)

    def compact(self, topic: str) -> None:
        """Do all compaction that is possible now. Raises UnknownTopicOrPartition. Does nothing for other topics."""
        with self._lock:
            if topic not in self._topics:
                raise UnknownTopicOrPartition(f"there is no topic {topic}")
            for number in range(self._topics[topic].partitions):
                partition = TopicPartition(topic, number)
                if self._partition(partition).configs.compacts:
                    self._compact(partition, self._partition(partition), self._clock.now_ms())

    def close(self) -> None:
        pass

    # --- what its consumers read, and its producers write

    @contextmanager
    def snapshot(self, partitions: Sequence[TopicPartition]) -> Iterator[InMemorySnapshot]:
        with self._lock:
            yield InMemorySnapshot({partition: self._partition(partition) for partition in partitions})

    def is_unchanged(self) -> bool:
        return False

    def wait(self, signal: threading.Event, timeout_s: float) -> None:
        signal.wait(timeout_s)

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        with self._lock:
            return self._partition(partition).configs.record_limits

    def append(
        self,
        batches: Mapping[TopicPartition, Sequence[EncodedBatch]],
        offsets: OffsetsToCommit,
        identity: ProducerIdentity | None,
    ) -> dict[TopicPartition, int]:
        last_offsets = {}
        with self._lock:
            if identity is not None:
                check_identity(identity, self._producer_epochs.get(identity.transactional_id))
            for claim, _ in offsets:
                check_claim(claim, lambda group, partition: self._claim_epochs.get((group, partition)))
            for partition, encoded in batches.items():
                stored = self._partition(partition)
                for batch in encoded:
                    stored.batches.append(stored_at(batch, stored.end))
                    stored.end += batch.record_count
                last_offsets[partition] = stored.end - 1
            for claim, moved in offsets:
                for partition, offset in moved.items():
                    self._committed[claim.group_id, partition] = offset
        self._signals.appended()
        return last_offsets

    def _partition(self, partition: TopicPartition) -> _Partition:
        found = self._partitions.get(partition)
        if found is None:
            raise UnknownTopicOrPartition(f"there is no partition {partition}")
        return found

    def _expire(self, stored: _Partition, now_ms: int) -> None:
        summaries = stored.summaries(stored.begin)
        size = sum(batch.size for batch in summaries)
        count = expired_count(
            summaries,
            size,
            stored.configs,
            now_ms=now_ms,
            newest_ms=lambda: max((batch.max_timestamp_ms for batch in summaries), default=0),
        )
        if count:
            stored.delete_before(summaries[count].base_offset if count < len(summaries) else stored.end)

    def _compact(self, partition: TopicPartition, stored: _Partition, now_ms: int) -> None:
        until = head_start(stored.summaries(stored.cleaned_to), stored.configs, now_ms, stored.end)
        first_dirty, first_head = stored.first_index(stored.cleaned_to), stored.first_index(until)
        latest = LatestOffsets()
        for batch in stored.batches[first_dirty:first_head]:
            latest.add(decoded(partition, batch))
        at = 0
        for taken, placed in cleaned(partition, stored.batches[:first_head], latest.offsets, stored.configs, now_ms):
            at = stored.batches.index(taken[0], at)
            stored.batches[at : at + len(taken)] = placed
            at += len(placed)
        stored.cleaned_to = until


class InMemorySnapshot:
    def __init__(self, partitions: Mapping[TopicPartition, _Partition]) -> None:
        self._partitions = partitions

    def bounds(self) -> dict[TopicPartition, Bounds]:
        return {partition: Bounds(stored.begin, stored.end) for partition, stored in self._partitions.items()}

    def batches(self, partition: TopicPartition, offset: int) -> Iterator[StoredBatch]:
        stored = self._partitions[partition]
        for index in range(stored.first_index(offset), len(stored.batches)):
            yield stored.batches[index]


def _is_dirty_enough(stored: _Partition, now_ms: int) -> bool:
    until = head_start(stored.summaries(stored.cleaned_to), stored.configs, now_ms, stored.end)
    clean = sum(len(batch.payload) for batch in stored.batches[: stored.first_index(stored.cleaned_to)])
    dirty = sum(b.size for b in stored.summaries(stored.cleaned_to) if b.base_offset < until)
    return dirty > 0 and dirty >= stored.configs.min_cleanable_dirty_ratio * (clean + dirty)
