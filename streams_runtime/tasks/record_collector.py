"""Sends everything that one task writes: records to output topics, changes of its stores, dead letters.

Rules: a record without a given partition goes to the one that Kafka's murmur2 of its key names; records without a key
take the partitions in turn. A store's change goes to the task's partition of the changelog. The offset of what was
written to a changelog is known once the log has acknowledged (and committed) it; a checkpoint says no more than that.
Source: `RecordCollectorImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Headers
from streams_runtime.logs.errors import UnknownTopicOrPartition
from streams_runtime.logs.partitioner import positive_hash
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.processors.runtime import Sender
from streams_runtime.reporting.losses import WindowsAtRisk
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

    `needed`: hears of the changes of window stores, by changelog. `pending`: the partitions that have rows for `settle`
    to give, in the order of their first.
    """

    __slots__ = (
        "_change_rows",
        "_changelogs",
        "_has_sent",
        "_keyless",
        "_logged",
        "_needed",
        "_producer",
        "_rows",
        "_senders",
        "_targets",
        "_written",
        "pending",
        "task_id",
    )

    def __init__(
        self,
        task_id: TaskId,
        producer: StreamsProducer,
        changelogs: Mapping[str, TopicPartition],
        needed: Mapping[TopicPartition, NeededChanges] | None = None,
    ) -> None:
        self.task_id = task_id
        self._producer = producer
        self._changelogs = dict(changelogs)
        self._logged = frozenset(self._changelogs.values())
        self._needed = dict(needed or {})
        self._targets: dict[str, tuple[TopicPartition, ...]] = {}
        self._senders: dict[tuple[str, int], Sender] = {}
        self._written: set[TopicPartition] = set()
        self._has_sent = False  # since `watched` began
        self._rows: dict[TopicPartition, _PartitionRows] = {}
        self.pending: list[_PartitionRows] = []
        self._change_rows: dict[str, _PartitionRows] = {}
        self._keyless = task_id.partition  # so that tasks start at different partitions

    # --- to topics

    def partitions_of(self, topic: str) -> int:
        """Raises StreamsRuntimeError for a topic that the log does not have, LogTimeout."""
        return len(self._targets.get(topic) or self._look_up(topic))

    def sender(self, topic: str, suffix_bytes: int = 0) -> Sender:
        """`send`, which writes to this topic. It raises StreamsRuntimeError for a record that the topic cannot take,
        TaskMigrated, LogTimeout.
        """
        sender = self._senders.get((topic, suffix_bytes))
        if sender is None:
            sender = self._senders[topic, suffix_bytes] = self._new_sender(topic, suffix_bytes)
        return sender

    def _new_sender(self, topic: str, suffix_bytes: int) -> Sender:
        """The partitions of the topic are looked up with the first record."""
        targets: tuple[TopicPartition, ...] = ()
        only: _PartitionRows | None = None  # of a topic with one partition, where there is nothing to choose
        rows_of_keys: dict[bytes | None, _PartitionRows] = {}

        def send(
            key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers, partition: int | None
        ) -> None:
            hashed = key[:-suffix_bytes] if suffix_bytes and key is not None else key
            rows = only or (rows_of_keys.get(hashed) if partition is None else None)
            if rows is None:
                rows = chosen(hashed, partition)
            if headers or not rows.limits.takes_unchecked(key, value, timestamp_ms):
                self._send_alone(rows, key, value, timestamp_ms, headers)
            else:
                self._add(rows, key, value, timestamp_ms)

        def chosen(key: bytes | None, partition: int | None) -> _PartitionRows:
            nonlocal targets, only
            if not targets:
                targets = self._targets.get(topic) or self._look_up(topic)
                if len(targets) == 1:
                    only = self._rows_of(targets[0])
                    return only
            if partition is not None:
                return self._rows_of(targets[partition])
            if key is None:
                self._keyless += 1  # all topics with several partitions take their turns with it
                return self._rows_of(targets[self._keyless % len(targets)])
            if len(rows_of_keys) >= _HOT_KEYS:
                rows_of_keys.clear()
            rows = rows_of_keys[key] = self._rows_of(targets[positive_hash(key) % len(targets)])
            return rows

        return send

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

    def keep_windows(self) -> None:
        """Have the log keep the changes of window stores for as long as they are needed.

        A window is readable until one that starts later by the retention is in the store. The newest change is later
        than the start of its window by the window's size at most, which is no more than the retention.
        """
        for partition, needed in self._needed.items():
            with suppress(UnknownTopicOrPartition):  # the changelog reader waits for it
                self._producer.log.keep_windows(partition.topic, min(2 * needed.retention_ms, JAVA_LONG_MAX))

    def windows_at_risk(self, now_ms: int) -> list[WindowsAtRisk]:
        """The window stores whose changelogs the log may cut too early, by its clock. Raises LogError.

        A changelog has to go back to stream time minus the store's retention, and the log keeps what is no older than
        its own retention. The difference is by how much stream time may be behind the clock.
        """
        found: list[WindowsAtRisk] = []
        for store, partition in self._changelogs.items():
            needed = self._needed.get(partition)
            if needed is None or needed.newest_ms < 0 or not needed.needed:
                continue
            kept_ms = self._producer.log.deletes_after_ms(partition.topic)
            behind_ms, retention_ms = now_ms - needed.newest_ms, needed.retention_ms
            if kept_ms is not None and behind_ms > kept_ms - retention_ms:
                found.append(WindowsAtRisk(store, partition.topic, needed.needed, behind_ms, kept_ms, retention_ms))
        return found

    # --- rows

    def settle(self) -> None:
        """Give the producer all rows. Raises as `send` does; the next call gives what was not taken."""
        pending = self.pending
        while pending:
            rows = pending[0]
            self._has_sent = True
            self._producer.send_columns(rows.partition, rows.keys, rows.values, rows.timestamps_ms)
            self._sent(rows.partition, rows.timestamps_ms)
            rows.clear()
            del pending[0]

    def _add(self, rows: _PartitionRows, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        keys = rows.keys
        if not keys:
            self.pending.append(rows)
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
        self._sent(rows.partition, (timestamp_ms,))

    def _sent(self, partition: TopicPartition, timestamps_ms: Sequence[int]) -> None:
        if partition in self._logged:
            self._written.add(partition)
        needed = self._needed.get(partition)
        if needed is not None:
            needed.sent(timestamps_ms)

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
            if self._has_sent or self.pending:
                changed()

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
        self.pending.clear()
        self._rows.clear()
        self._change_rows.clear()
        self._senders.clear()

    def _look_up(self, topic: str) -> tuple[TopicPartition, ...]:
        partitions = self._producer.log.partitions_of(topic)
        if partitions < 1:
            raise StreamsRuntimeError(f"topic {topic} is not there; nothing can be sent to it", self.task_id)
        targets = tuple(TopicPartition(topic, partition) for partition in range(partitions))
        self._targets[topic] = targets
        return targets
