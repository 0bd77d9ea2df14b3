"""Sends everything that one task writes: records to output topics, changes of its stores, dead letters.

Rules: a record without a given partition goes to the one that Kafka's murmur2 of its key names; records without a key
take the partitions in turn. A store's change goes to the task's partition of the changelog. The offset of what was
written to a changelog is known once the log has acknowledged (and committed) it; a checkpoint says no more than that.
Source: `RecordCollectorImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError, TaskMigrated
from streams_runtime.common.records import Headers, record_bytes, record_partition
from streams_runtime.logs.partitioner import partition_of, positive_hash
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.processors.context import MOST_UNSETTLED
from streams_runtime.processors.fused_loop import CheckChange, LoopWriter, WriteChanges, WriteColumns
from streams_runtime.tasks.needed_changes import NeededChanges
from streams_runtime.tasks.output_rows import PartitionRows, TopicRows
from streams_runtime.tasks.streams_producer import StreamsProducer

_BYTES_OR_NONE = frozenset({bytes, type(None)})

_ChangeRow = tuple[
    Callable[[bytes | None], None],
    Callable[[bytes | None], None],
    Callable[[int], None],
    RecordLimits,
    list[bytes | None],
]
"""An `AddRow`, what the changelog takes, and the keys that were added."""


class RecordCollector:
    """The `ChangeLogger` of the task's stores. `changelogs`: the partition for the changes of each logged store.

    `needed`: hears of the changes of window stores, by changelog.
    """

    __slots__ = (
        "_change_rows",
        "_changelogs",
        "_keyless",
        "_logged",
        "_needed",
        "_producer",
        "_rows",
        "_send",
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
        self._send = producer.send
        self._changelogs = dict(changelogs)
        self._logged = frozenset(self._changelogs.values())
        self._needed = dict(needed or {})
        self._targets: dict[str, tuple[TopicPartition, ...]] = {}
        self._written: set[TopicPartition] = set()
        self._rows: dict[TopicPartition, PartitionRows] = {}
        self._change_rows: dict[str, _ChangeRow] = {}
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
        """Raises StreamsRuntimeError for a record that its topic cannot take, TaskMigrated, LogTimeout."""
        targets = self._targets.get(topic) or self._look_up(topic)
        try:
            if key is not None and type(key) is not bytes:
                key = record_bytes("key", key)
            if partition is None:
                partition = (self._next_keyless() if key is None else positive_hash(key)) % len(targets)
            else:
                partition = record_partition(partition, len(targets))
        except ValueError as error:
            raise StreamsRuntimeError(f"a record for topic {topic} {error}", self._task_id) from None
        target = targets[partition]
        if self._rows:
            self._settle(target)
        self._send(target, key, value, timestamp_ms, headers)

    def check_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Raise what `log_change` raises for a change that its changelog does not take. Raises as `send` does."""
        rows = self._change_rows.get(store)
        if rows is None or not rows[3].takes_unchecked(key, value, timestamp_ms):
            self._producer.check(self._changelogs[store], key, value, timestamp_ms if timestamp_ms > 0 else 0)

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Send a store's change to its changelog, or add it to the rows. Raises as `send` does."""
        rows = self._change_rows.get(store)
        if rows is not None:
            add_key, add_value, add_time, limits, keys = rows
            if limits.takes_unchecked(key, value, timestamp_ms):
                add_key(key)
                add_value(value)
                add_time(timestamp_ms if timestamp_ms > 0 else 0)
                if len(keys) >= MOST_UNSETTLED:  # one call of a processor may put without end
                    self.settle()
                return
        changelog = self._changelogs[store]
        self._written.add(changelog)
        if self._rows:
            self._settle(changelog)
        # before the first record (in `init`) there is no time, and the log takes no negative timestamp
        timestamp_ms = timestamp_ms if timestamp_ms > 0 else 0
        self._send(changelog, key, value, timestamp_ms)
        if (needed := self._needed.get(changelog)) is not None:
            needed.sent(timestamp_ms)

    # --- rows of fused loops

    def write_row(
        self, loop: LoopWriter, topic: str, key: str, value: str, timestamp_ms: str, hashed: str | None = None
    ) -> None:
        """See `Outputs`."""
        targets = self._targets.get(topic) or self._look_up(topic)
        partitions = [self._rows_of(target) for target in targets]
        limits = self._producer.limits_of(targets[0])
        with loop.block(f"if {_needs_check(loop, limits, key, value, timestamp_ms)}:"):
            chosen = "None" if hashed is None else f"{loop.bind('place_of', partition_of)}({hashed}, {len(partitions)})"
            loop.line(f"{loop.bind('send', self.send)}({topic!r}, {chosen}, {key}, {value}, {timestamp_ms}, ())")
        with loop.block("else:"):
            if len(partitions) == 1:
                if hashed is None:
                    with loop.block(f"if {key} is None:"):  # the other topics of the task take their turns with it
                        loop.line(f"{loop.bind('next_keyless', self._next_keyless)}()")
                _add_row(loop, partitions[0], key, value, timestamp_ms)
                return
            rows = TopicRows(partitions, self._next_keyless)
            by_key, place = loop.bind("by_key", rows.by_key), loop.bind("place", rows.place)
            add_key, add_value, add_time = loop.new("add_key"), loop.new("add_value"), loop.new("add_time")
            loop.line(f"{add_key}, {add_value}, {add_time} = {by_key}.get({hashed or key}) or {place}({hashed or key})")
            loop.line(f"{add_key}({key})")
            loop.line(f"{add_value}({value})")
            loop.line(f"{add_time}({timestamp_ms})")

    def columns_writer(self, topic: str) -> WriteColumns:
        """See `Outputs`."""
        targets = self._targets.get(topic) or self._look_up(topic)
        rows = TopicRows([self._rows_of(target) for target in targets], self._next_keyless)
        limits = self._producer.limits_of(targets[0])

        def write(keys: Sequence[Any], values: Sequence[Any], timestamps_ms: Sequence[int]) -> bool:
            if not _are_bytes(keys) or not _are_bytes(values):
                return False
            longest_key, keyless = _longest(keys, limits.max_bytes // 2)
            if longest_key + _longest(values, limits.max_bytes // 2)[0] > limits.max_bytes:
                return False
            if keyless and limits.compacts:
                return False
            if limits.checks is not None and max(timestamps_ms, default=0) > limits.checks.rows_pass_to_ms:
                return False
            rows.extend(keys, values, timestamps_ms, keyless)
            return True

        return write

    def write_change(self, loop: LoopWriter, store: str, key: str, value: str, timestamp_ms: str) -> None:
        """See `Outputs`."""
        changelog = self._changelogs.get(store)
        if changelog is None:
            return
        limits = self._producer.limits_of(changelog)
        with loop.block(f"if {_needs_check(loop, limits, key, value, timestamp_ms)}:"):
            loop.line(f"{loop.bind('log_change', self.log_change)}({store!r}, {key}, {value}, {timestamp_ms})")
        with loop.block("else:"):
            _add_row(loop, self._rows_of(changelog), key, value, timestamp_ms)

    def take_changes(self, store: str) -> None:
        """See `Outputs`."""
        changelog = self._changelogs.get(store)
        if changelog is not None and store not in self._change_rows:
            limits = self._producer.limits_of(changelog)
            rows = self._rows_of(changelog)
            self._change_rows[store] = (*rows.add, limits, rows.keys)

    def change_check(self, store: str) -> tuple[CheckChange, RecordLimits] | None:
        """See `Outputs`."""
        changelog = self._changelogs.get(store)
        if changelog is None:
            return None
        return partial(self.check_change, store), self._producer.limits_of(changelog)

    def changes_writer(self, store: str) -> WriteChanges | None:
        """See `Outputs`."""
        changelog = self._changelogs.get(store)
        return None if changelog is None else self._rows_of(changelog).extend

    @property
    def has_rows(self) -> bool:
        """Whether `settle` has something to give."""
        return any(rows.timestamps_ms for rows in self._rows.values())

    def settle(self) -> None:
        """Give the producer all rows. Raises as `send` does; what it has not taken by then, the next call gives it."""
        for rows in self._rows.values():
            if rows.timestamps_ms:
                self._give(rows)

    def _settle(self, partition: TopicPartition) -> None:
        rows = self._rows.get(partition)
        if rows is not None and rows.timestamps_ms:
            self._give(rows)

    def _give(self, rows: PartitionRows) -> None:
        self._producer.make_ready()
        if rows.partition in self._logged:
            self._written.add(rows.partition)
        self._producer.send_columns(rows.partition, rows.keys, rows.values, rows.timestamps_ms)
        if (needed := self._needed.get(rows.partition)) is not None:
            needed.sent_many(rows.timestamps_ms)
        rows.clear()

    def _rows_of(self, partition: TopicPartition) -> PartitionRows:
        rows = self._rows.get(partition)
        if rows is None:
            rows = self._rows[partition] = PartitionRows(partition, self._producer.order)
        return rows

    def _next_keyless(self) -> int:
        self._keyless += 1
        return self._keyless

    # --- what was written

    @contextmanager
    def watched(self, changed: Callable[[], None]) -> Iterator[None]:
        """Call `changed` at the end if a store was written to inside."""
        before, self._written = self._written, set()
        try:
            yield
        finally:
            if self._written or self.has_rows:
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
        for rows in self._rows.values():
            rows.clear()
        self._rows.clear()
        self._change_rows.clear()

    def _look_up(self, topic: str) -> tuple[TopicPartition, ...]:
        partitions = self._producer.log.partitions_of(topic)
        if partitions < 1:
            raise StreamsRuntimeError(f"topic {topic} is not there; nothing can be sent to it", self._task_id)
        targets = tuple(TopicPartition(topic, partition) for partition in range(partitions))
        self._targets[topic] = targets
        return targets


def _are_bytes(column: Sequence[Any]) -> bool:
    """Or None."""
    return _BYTES_OR_NONE.issuperset(map(type, column))


def _longest(column: Sequence[bytes | None], enough: int) -> tuple[int, int]:
    """The length of the longest, or of all together where that is no more than `enough`; and how many are None."""
    try:
        together = len(b"".join(column))  # type: ignore[arg-type]  # a None raises
    except TypeError:
        return max(map(len, filter(None, column)), default=0), column.count(None)
    return (together if together <= enough else max(map(len, column))), 0  # type: ignore[arg-type]


def _needs_check(loop: LoopWriter, limits: RecordLimits, key: str, value: str, timestamp_ms: str) -> str:
    """The condition for a record that cannot be a row, because the topic refuses it or has to look at it."""
    most = loop.bind("most_bytes", limits.max_bytes)
    size = f"(0 if {key} is None else len({key})) + (0 if {value} is None else len({value})) > {most}"
    if limits.checks is not None:
        size = f"{timestamp_ms} > {loop.bind('checks', limits.checks)}.rows_pass_to_ms or {size}"
    return f"{key} is None or {size}" if limits.compacts else size


def _add_row(loop: LoopWriter, rows: PartitionRows, key: str, value: str, timestamp_ms: str) -> None:
    for hint, add, variable in zip(
        ("add_key", "add_value", "add_time"), rows.add, (key, value, timestamp_ms), strict=True
    ):
        loop.line(f"{loop.bind(hint, add)}({variable})")
