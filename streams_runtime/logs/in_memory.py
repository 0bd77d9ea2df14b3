"""A log in the memory of one process, for tests and for `TopologyTestDriver`. The records of the log are lost when the
process ends.

The log follows the rules of `base`. One lock guards all state of the log. A batch is stored as the columns that the
producer made. Source: the mock clients and the cluster inside of `TopologyTestDriver`.
"""

from __future__ import annotations

import threading
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from assignor.topology.internal_topics import RETENTION_MS
from assignor.types import Offsets, TopicPartition
from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.logs.base import (
    Claim,
    CommittedOffsets,
    ConfigChanges,
    Consumer,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    OffsetsToCommit,
    Producer,
    RecordBatch,
    TopicDescription,
)
from streams_runtime.logs.cleanup_policy import (
    BatchSummary,
    LatestOffsets,
    StoredBatch,
    bytes_of,
    cleaned,
    expired_count,
    head_start,
    is_dirty_enough,
)
from streams_runtime.logs.consumers import Bounds, PollingConsumer, first_offset_at
from streams_runtime.logs.log_errors import UnknownTopicOrPartition, check_not_beyond
from streams_runtime.logs.producers import (
    AppendSignals,
    BufferingProducer,
    NewBatch,
    NewBatches,
    ProducerIdentity,
    check_claim,
    check_identity,
    with_continues,
)
from streams_runtime.logs.record_limits import AnyRecord, RecordLimits
from streams_runtime.logs.topic_configs import (
    TopicConfigs,
    altered_topic,
    check_topics_exist,
    checked_topic,
    topics_to_add,
)

_RECORD_BYTES = 16
"""The approximate number of bytes that a stored record takes besides its key, value and headers. This is the overhead
of a record in a Kafka log or an embedded log.
"""


@dataclass(slots=True)
class _Partition:
    """The stored records of one partition. `cleaned_to`: all records below this offset have been compacted."""

    configs: TopicConfigs
    limits: RecordLimits
    begin: int = 0
    end: int = 0
    cleaned_to: int = 0
    batches: list[StoredBatch] = field(default_factory=list)

    def append(self, partition: TopicPartition, batch: NewBatch, *, continues: bool = False) -> None:
        offsets = range(self.end, self.end + len(batch.keys))
        self.end = offsets.stop
        records = RecordBatch(partition, offsets, batch.timestamps_ms, batch.keys, batch.values, batch.headers)
        self.batches.append(_stored(records, batch.size, continues=continues))

    def first_index(self, offset: int) -> int:
        """Returns the index of the first batch whose last offset is at least `offset`."""
        return bisect_left(self.batches, offset, key=lambda batch: batch[0].last_offset)

    def delete_before(self, offset: int) -> None:
        self.begin = max(self.begin, offset)
        del self.batches[: self.first_index(self.begin)]

    def summaries(self, from_offset: int) -> list[BatchSummary]:
        return [summary for summary, _ in self.batches[self.first_index(from_offset) :]]


class InMemoryLog:
    """A `Log` in memory. The object is also the `BatchSource` that the log's consumers read, and the `Destination` to
    which its producers write.

    `close` does nothing, because other users of this process may still use the log.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._topics: dict[str, TopicDescription] = {}
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._committed: dict[tuple[str, TopicPartition], OffsetAndMetadata] = {}
        self._claim_epochs: dict[str, dict[TopicPartition, int]] = {}
        self._producer_epochs: dict[str, int] = {}
        self._signals = AppendSignals()
        self._cluster_id = str(uuid.uuid4())
        self._topic_ids: dict[str, int] = {}
        self._next_topic_id = count()

    def cluster_id(self) -> str:
        return self._cluster_id

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        with self._lock:
            return {topic: str(self._topic_ids[topic]) for topic in topics if topic in self._topics}

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        asked = list(topics)
        meanings = {topic.name: checked_topic(topic) for topic in asked}
        with self._lock:
            for topic in topics_to_add(asked, self._topics):
                self._topics[topic.name] = TopicDescription(topic.name, topic.partitions, dict(topic.configs))
                self._topic_ids[topic.name] = next(self._next_topic_id)
                self._configure(topic.name, topic.partitions, meanings[topic.name])

    def alter_topic(self, name: str, partitions: int | None, configs: ConfigChanges) -> None:
        with self._lock:
            check_topics_exist([name], self._topics)
            before = self._topics[name]
            changed = altered_topic(before, partitions, configs)
            meaning = TopicConfigs.of(name, changed.configs)
            self._topics[name] = changed
            self._configure(name, changed.partitions, meaning)

    def _configure(self, topic: str, partitions: int, configs: TopicConfigs) -> None:
        for number in range(partitions):
            partition, limits = TopicPartition(topic, number), configs.record_limits
            stored = self._partitions.setdefault(partition, _Partition(configs, limits))
            stored.configs, stored.limits = configs, limits

    def delete_topics(self, names: Iterable[str]) -> None:
        asked = list(dict.fromkeys(names))
        with self._lock:
            check_topics_exist(asked, self._topics)
            for name in asked:
                del self._topics[name]
            gone = {partition for partition in self._partitions if partition.topic in asked}
            for partition in gone:
                del self._partitions[partition]
            for group, epochs in self._claim_epochs.items():
                for partition in gone & epochs.keys():
                    epochs[partition] += 1  # this higher epoch fences the claim of the deleted partition
                    self._committed.pop((group, partition), None)
        # A consumer that waits for records then polls again, and raises UnknownTopicOrPartition.
        self._signals.appended()

    def topics(self) -> Mapping[str, TopicDescription]:
        with self._lock:
            return dict(self._topics)

    def partitions_of(self, topic: str) -> int:
        found = self.topics().get(topic)
        return 0 if found is None else found.partitions

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        with self._lock:
            return {partition: self._partition(partition).begin for partition in partitions}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> Offsets:
        """Returns the end offsets. The log never contains an open transaction, so the last stable offset is the end
        offset.
        """
        with self._lock:
            return {partition: self._partition(partition).end for partition in partitions}

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        found: dict[TopicPartition, int] = {}
        with self._lock:
            for partition in partitions:
                stored = self._partition(partition)
                late = (records for summary, records in stored.batches if summary.max_timestamp_ms >= timestamp_ms)
                offset = first_offset_at(late, stored.begin, timestamp_ms)
                if offset is not None:
                    found[partition] = offset
        return found

    def committed_offsets(self, group_id: str, partitions: Iterable[TopicPartition] | None) -> CommittedOffsets:
        with self._lock:
            committed = {partition: at for (group, partition), at in self._committed.items() if group == group_id}
        return committed if partitions is None else {p: committed[p] for p in partitions if p in committed}

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        with self._lock:
            current = self._claim_epochs.setdefault(group_id, {})
            epochs = {partition: current.get(partition, 0) + 1 for partition in partitions}
            current.update(epochs)
        return Claim(group_id, epochs)

    def release(self, *claims: Claim) -> None:
        """Does nothing, because the log never contains an open transaction."""

    def consumer(
        self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED, *, whole_transactions: bool = False
    ) -> Consumer:
        return PollingConsumer(self, self._signals.new_event(), whole_transactions=whole_transactions)

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
            check_not_beyond(before, self.end_offsets(before))
            for partition, offset in before.items():
                self._partition(partition).delete_before(offset)

    def maintain(self) -> None:
        now_ms = self._clock.now_ms()
        with self._lock:
            for partition, stored in self._partitions.items():
                self._expire(stored, now_ms)
                if stored.configs.compacts and _has_to_be_compacted(stored, now_ms):
                    self._compact(partition, stored, now_ms)

    def close(self) -> None:
        pass

    # --- Methods that the log's consumers and producers call.

    @contextmanager
    def snapshot(self, partitions: Sequence[TopicPartition]) -> Iterator[InMemorySnapshot]:
        with self._lock:
            yield InMemorySnapshot({partition: self._partition(partition) for partition in partitions})

    def is_unchanged(self) -> bool:
        return True

    def wait(self, signal: threading.Event, timeout_s: float) -> None:
        signal.wait(timeout_s)

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        with self._lock:
            return self._partition(partition).limits

    def append(self, batches: NewBatches, offsets: OffsetsToCommit, identity: ProducerIdentity | None) -> Offsets:
        last_offsets = {}
        with self._lock:
            if identity is not None:
                check_identity(identity, self._producer_epochs.get(identity.transactional_id))
            for claim, _ in offsets:
                check_claim(claim, self._claim_epochs.get(claim.group_id, {}))
            written = {partition: self._partition(partition) for partition in batches}
            for partition, of_it in with_continues(batches, identity).items():
                for batch, continues in of_it:
                    written[partition].append(partition, batch, continues=continues)
                last_offsets[partition] = written[partition].end - 1
            for claim, moved in offsets:
                for partition, offset in moved.items():
                    self._committed[claim.group_id, partition] = offset
        if last_offsets:
            self._signals.appended()
        return last_offsets

    def append_records(self, partition: TopicPartition, records: Sequence[AnyRecord]) -> None:
        """Write records without a producer, as one batch. Raises the errors of `Producer.send`. After an error no
        record is written.
        """
        stored = self._partition(partition)
        checked = [stored.limits.checked(partition, *record) for record in records]
        if not checked:
            return
        keys, values, timestamps_ms, headers, sizes = map(list, zip(*checked, strict=True))
        batch = NewBatch(timestamps_ms, keys, values, headers if any(headers) else None, sum(sizes))
        with self._lock:
            stored.append(partition, batch)
        self._signals.appended()

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
        for _, records in stored.batches[first_dirty:first_head]:
            latest.add(records)
        for replacement in cleaned(stored.batches[:first_head], latest.offsets, stored.configs, now_ms):
            sources, kept, horizon_ms = replacement
            at = stored.first_index(sources[0].last_offset)
            placed = []
            if kept is not None:
                size = bytes_of(kept.keys) + bytes_of(kept.values)
                placed = [_stored(kept, size, horizon_ms, continues=replacement.continues)]
            stored.batches[at : at + len(sources)] = placed
        stored.cleaned_to = until


class InMemorySnapshot:
    def __init__(self, partitions: Mapping[TopicPartition, _Partition]) -> None:
        self._partitions = partitions
        self.bounds: Mapping[TopicPartition, Bounds] = {
            partition: Bounds(stored.begin, stored.end) for partition, stored in partitions.items()
        }

    def batches(self, partition: TopicPartition, offset: int) -> Iterator[tuple[RecordBatch, bool]]:
        stored = self._partitions[partition]
        for index in range(stored.first_index(offset), len(stored.batches)):
            summary, records = stored.batches[index]
            yield records, summary.continues


def _stored(
    records: RecordBatch, size: int, delete_horizon_ms: int | None = None, *, continues: bool = False
) -> StoredBatch:
    """Makes a stored batch. `size`: the total size of keys, values and headers in bytes."""
    offsets = records.offsets
    size += _RECORD_BYTES * len(offsets)
    latest_ms = max(records.timestamps_ms)
    return BatchSummary(offsets[0], offsets[-1], latest_ms, size, delete_horizon_ms, continues), records


def _has_to_be_compacted(stored: _Partition, now_ms: int) -> bool:
    unclean = stored.summaries(stored.cleaned_to)
    until = head_start(unclean, stored.configs, now_ms, stored.end)
    clean = sum(summary.size for summary, _ in stored.batches[: stored.first_index(stored.cleaned_to)])
    dirty = sum(batch.size for batch in unclean if batch.base_offset < until)
    return is_dirty_enough(dirty, clean, stored.configs)
