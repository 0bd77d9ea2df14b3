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
from streams_runtime.common.errors import StreamsRuntimeError, TaskMigrated
from streams_runtime.common.records import Headers
from streams_runtime.logs.partitioner import positive_hash
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.processors.runtime import Sender
from streams_runtime.tasks.needed_changes import NeededChanges
from streams_runtime.tasks.streams_producer import StreamsProducer

MOST_ROWS = 10_000
"""Of one partition, until the producer gets them. Mostly it does after each turn; but a punctuator may forward, and a
call of a processor may put, without end."""

_HOT_KEYS = 100_000
"""How many keys a topic remembers the partition of."""


class _PartitionRows:
    """Records of one partition that the producer does not have yet: lists of the same length. Giving a producer many
    records at once takes a fifth of the time. `limits`: what a row may be.
    """

    __slots__ = ("keys", "limits", "partition", "timestamps_ms", "values")

    def __init__(self, partition: TopicPartition, limits: RecordLimits) -> None:
        self.partition = partition
        self.limits = limits
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []

    def clear(self) -> None:
        self.keys.clear()
        self.values.clear()
        self.timestamps_ms.clear()


class RecordCollector:
    """The `ChangeLogger` of the task's stores. `changelogs`: the partition for the changes of each logged store.

    `needed`: hears of the changes of window stores, by changelog.
    """

    __slots__ = (
        "_change_rows",
        "_changelogs",
        "_has_sent",
        "_keyless",
        "_logged",
        "_needed",
        "_pending",
        "_producer",
        "_rows",
        "_senders",
        "_targets",
        "_task_id",
        "_written",
    )

    def __init__(
        self,
        task_id: TaskId,
        producer: StreamsProducer,
        changelogs: Mapping[str, TopicPartition],
        needed: Mapping[TopicPartition, NeededChanges] | None = None,
    ) -> None:
        self._task_id = task_id
        self._producer = producer
        self._changelogs = dict(changelogs)
        self._logged = frozenset(self._changelogs.values())
        self._needed = dict(needed or {})
        self._targets: dict[str, tuple[TopicPartition, ...]] = {}
        self._senders: dict[str, Sender] = {}
        self._written: set[TopicPartition] = set()
        self._has_sent = False  # since `watched` began
        self._rows: dict[TopicPartition, _PartitionRows] = {}
        self._pending: list[_PartitionRows] = []
        """Those that have rows, in the order of their first."""
        self._change_rows: dict[str, _PartitionRows] = {}
        self._keyless = task_id.partition  # so that tasks start at different partitions

    # --- to topics

    def partitions_of(self, topic: str) -> int:
        """Raises StreamsRuntimeError for a topic that the log does not have, LogTimeout."""
        return len(self._targets.get(topic) or self._look_up(topic))

    def sender(self, topic: str) -> Sender:
        """What writes to this topic. It raises as `send` does."""
        sender = self._senders.get(topic)
        if sender is None:
            sender = self._senders[topic] = self._new_sender(topic)
        return sender

    def _new_sender(self, topic: str) -> Sender:
        """The partitions of the topic are looked up with the first record."""
        targets: tuple[TopicPartition, ...] = ()
        rows_of_keys: dict[bytes | None, _PartitionRows] = {}

        def send(
            key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers, partition: int | None
        ) -> None:
            rows = rows_of_keys.get(key) if partition is None else None
            if rows is None:
                rows = chosen(key, partition)
            if headers or not rows.limits.takes_unchecked(key, value, timestamp_ms):
                self._send_alone(rows, key, value, timestamp_ms, headers)
            else:
                self._add(rows, key, value, timestamp_ms)

        def chosen(key: bytes | None, partition: int | None) -> _PartitionRows:
            nonlocal targets
            if not targets:
                targets = self._targets.get(topic) or self._look_up(topic)
            if partition is not None:
                return self._rows_of(targets[partition])
            if key is None:
                self._keyless += 1  # all topics of the task take their turns with it
                return self._rows_of(targets[self._keyless % len(targets)])
            if len(rows_of_keys) >= _HOT_KEYS:
                rows_of_keys.clear()
            rows = rows_of_keys[key] = self._rows_of(targets[positive_hash(key) % len(targets)])
            return rows

        return send

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        """Raises StreamsRuntimeError for a record that its topic cannot take, TaskMigrated, LogTimeout."""
        self.sender(topic)(key, value, timestamp_ms, headers, partition)

    # --- to changelogs

    def limits_of(self, store: str) -> RecordLimits:
        """What the changelog of a store takes as one record. Raises as `send` does."""
        return self._changes_of(store).limits

    def check_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Raise what the producer raises for a change that its changelog does not take. Raises as `send` does."""
        self._producer.check(self._changelogs[store], key, value, timestamp_ms if timestamp_ms > 0 else 0)

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Send a store's change, which `check_change` has let pass, to its changelog. Raises as `send` does."""
        rows = self._change_rows.get(store) or self._changes_of(store)
        if timestamp_ms < 0:  # before the first record (in `init`) there is no time, and the log takes no negative one
            timestamp_ms = 0
        self._add(rows, key, value, timestamp_ms)

    def _changes_of(self, store: str) -> _PartitionRows:
        rows = self._change_rows[store] = self._rows_of(self._changelogs[store])
        return rows

    # --- rows

    @property
    def has_rows(self) -> bool:
        """Whether `settle` has something to give."""
        return bool(self._pending)

    def settle(self) -> None:
        """Give the producer all rows. Raises as `send` does; what it has not taken by then, the next call gives it."""
        pending = self._pending
        while pending:
            rows = pending[0]
            self._has_sent = True
            self._producer.make_ready()
            self._producer.send_columns(rows.partition, rows.keys, rows.values, rows.timestamps_ms)
            if rows.partition in self._logged:
                self._written.add(rows.partition)
            if (needed := self._needed.get(rows.partition)) is not None:
                needed.sent_many(rows.timestamps_ms)
            rows.clear()
            del pending[0]

    def _add(self, rows: _PartitionRows, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        keys = rows.keys
        if not keys:
            self._pending.append(rows)
        keys.append(key)
        rows.values.append(value)
        rows.timestamps_ms.append(timestamp_ms)
        if len(keys) >= MOST_ROWS:
            self.settle()

    def _send_alone(
        self, rows: _PartitionRows, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> None:
        """Send a record that cannot be a row: it has headers, or the producer has to look at it."""
        self.settle()  # records keep their order
        self._has_sent = True
        self._producer.send(rows.partition, key, value, timestamp_ms, headers)
        if rows.partition in self._logged:
            self._written.add(rows.partition)
        if (needed := self._needed.get(rows.partition)) is not None:
            needed.sent(timestamp_ms)

    def _rows_of(self, partition: TopicPartition) -> _PartitionRows:
        rows = self._rows.get(partition)
        if rows is None:
            rows = self._rows[partition] = _PartitionRows(partition, self._producer.limits_of(partition))
        return rows

    # --- what was written

    @contextmanager
    def watched(self, changed: Callable[[], None]) -> Iterator[None]:
        """Call `changed` at the end if anything was sent inside, or waits to be."""
        self._has_sent = False
        try:
            yield
        finally:
            if self._has_sent or self.has_rows:
                changed()

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
        self._pending.clear()
        self._rows.clear()
        self._change_rows.clear()
        self._senders.clear()

    def _look_up(self, topic: str) -> tuple[TopicPartition, ...]:
        partitions = self._producer.log.partitions_of(topic)
        if partitions < 1:
            raise StreamsRuntimeError(f"topic {topic} is not there; nothing can be sent to it", self._task_id)
        targets = tuple(TopicPartition(topic, partition) for partition in range(partitions))
        self._targets[topic] = targets
        return targets
