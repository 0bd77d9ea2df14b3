"""Sends everything that one task writes: records to output topics, changes of its stores, dead letters.

Rules: a record without a given partition goes to the one that Kafka's murmur2 of its key names; records without a key
take the partitions in turn. A store's change goes to the task's partition of the changelog. The offset of what was
written to a changelog is known once the log has acknowledged (and committed) it; a checkpoint says no more than that.
Source: `RecordCollectorImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from assignor.types import TaskId, TopicPartition
from streams_runtime.errors import StreamsRuntimeError, TaskMigrated
from streams_runtime.partitioner import positive_hash
from streams_runtime.records import Headers
from streams_runtime.tasks.streams_producer import StreamsProducer


class RecordCollector:
    """The `ChangeLogger` of the task's stores. `changelogs`: the partition for the changes of each logged store."""

    __slots__ = ("_changelogs", "_keyless", "_producer", "_send", "_targets", "_task_id", "_written")

    def __init__(self, task_id: TaskId, producer: StreamsProducer, changelogs: Mapping[str, TopicPartition]) -> None:
        self._task_id = task_id
        self._producer = producer
        self._send = producer.send
        self._changelogs = dict(changelogs)
        self._targets: dict[str, tuple[TopicPartition, ...]] = {}
        self._written: set[TopicPartition] = set()
        self._keyless = task_id.partition  # so that tasks start at different partitions

    def partitions_of(self, topic: str) -> int:
        """Raises StreamsRuntimeError for a topic that the log does not have, LogTimeout."""
        return len(self._targets.get(topic) or self._look_up(topic))

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        """Raises StreamsRuntimeError (topic, partition, timestamp), TaskMigrated, LogTimeout."""
        targets = self._targets.get(topic) or self._look_up(topic)
        if partition is None:
            if key is None:
                self._keyless += 1
                partition = self._keyless % len(targets)
            else:
                partition = positive_hash(key) % len(targets)
        elif not 0 <= partition < len(targets):
            raise StreamsRuntimeError(f"topic {topic} has {len(targets)} partitions, not {partition}", self._task_id)
        if timestamp_ms < 0:
            raise StreamsRuntimeError(f"a record for topic {topic} has the timestamp {timestamp_ms}", self._task_id)
        self._send(targets[partition], key, value, timestamp_ms, headers)

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Send a store's change to its changelog. Raises as `send` does."""
        changelog = self._changelogs[store]
        self._written.add(changelog)
        # before the first record (in `init`) there is no time, and the log takes no negative timestamp
        self._send(changelog, key, value, timestamp_ms if timestamp_ms > 0 else 0)

    @contextmanager
    def watched(self, changed: Callable[[], None]) -> Iterator[None]:
        """Call `changed` at the end if a store was written to inside."""
        before, self._written = self._written, set()
        try:
            yield
        finally:
            if self._written:
                changed()
            self._written |= before

    def flush(self) -> None:
        """Return when everything sent is written. Raises StreamsRuntimeError, TaskMigrated, LogTimeout."""
        try:
            self._producer.flush()
        except TaskMigrated:
            raise
        except StreamsRuntimeError as error:
            raise StreamsRuntimeError(f"could not write its records: {error}", self._task_id) from error

    def written_offsets(self) -> dict[TopicPartition, int]:
        """The offset of the last acknowledged record, for each changelog that this task has written to."""
        if not self._written:
            return {}
        last = self._producer.last_offsets()
        # the thread's producer may remember what an earlier task with this id wrote; that does not count
        return {changelog: last[changelog] for changelog in self._written if changelog in last}

    def clear(self) -> None:
        """The task is closed: forget which changelogs it wrote to."""
        self._written.clear()
        self._targets.clear()

    def _look_up(self, topic: str) -> tuple[TopicPartition, ...]:
        partitions = self._producer.log.partitions_of(topic)
        if partitions < 1:
            raise StreamsRuntimeError(f"topic {topic} is not there; nothing can be sent to it", self._task_id)
        targets = tuple(TopicPartition(topic, partition) for partition in range(partitions))
        self._targets[topic] = targets
        return targets
