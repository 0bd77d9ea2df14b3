"""Sends the records that Streams tasks write: records for output topics, changes of stores, and dead letters.

This file has two classes:
- `RecordCollector` serializes records of one task, chooses their partitions, and collects the records in columns.
- `StreamsProducer` sends the records of one stream thread. All tasks of the thread share the producer, so a commit
  covers all tasks.

Rules of the collector: if the sink has no partitioner, the murmur2 hash of the key's bytes chooses the partition, as in
Kafka. Records without a key go to the partitions in turn. A partitioner may choose several partitions. A store's change
goes to the task's partition of the changelog. The log assigns an offset to a change when it writes the change. Under
at-least-once, the collector learns the offset of a change when the log acknowledges the change. Under exactly-once, the
collector learns the offset at the commit. A checkpoint contains only the offsets of acknowledged or committed changes.

Rules of the producer: under at-least-once, records are written without waiting for the commit. Under exactly-once,
every record is sent in a transaction. The first record or offset after a commit begins a new transaction. Before a task
reads its input partitions, it claims them in the log. A claim fences all earlier claims on the same partitions. The
producer is fenced when a second producer with the same id is opened. The producer is also fenced when another owner
claims the input partitions of one of the thread's tasks. The methods of a fenced producer raise `TaskMigrated`. The
methods of any producer may raise the log's `LogTimeout`, which counts against `task.timeout.ms`.
Source: `RecordCollectorImpl`, `StreamsProducer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from assignor.types import JAVA_LONG_MAX, Offsets, TaskId, TopicPartition
from streams_runtime.common.errors import SchemaRegistryUnavailable, SerdeMismatch, StreamsRuntimeError, TaskMigrated
from streams_runtime.common.losses import DropReason, TaskLosses, WindowsAtRisk, uncounted
from streams_runtime.common.notices import ALREADY_A_NOTICE
from streams_runtime.common.records import Headers, record_partition
from streams_runtime.logs.base import Claim, Log, OffsetsToCommit, Producer, RawColumns
from streams_runtime.logs.log_errors import CommitFenced, LogError, LogTimeout, ProducerFenced, UnknownTopicOrPartition
from streams_runtime.logs.partitioner import positive_hash
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.processors.api import KeyPrefixPartitioner, StreamPartitioner
from streams_runtime.processors.context import Receiver
from streams_runtime.processors.runtime import SinkSettings
from streams_runtime.serdes import NestedSerde, serde_for_topic, serializer_of
from streams_runtime.tasks.needed_changes import NeededChanges
from streams_runtime.tasks.output_records import OutputRecords

_HOT_KEYS = 100_000
"""The cache of a sink maps keys to partitions. This is the largest number of keys in the cache."""


_logger = logging.getLogger(__name__)

_FENCED = (ProducerFenced, CommitFenced)

_BYTES_SINK = SinkSettings()


class RecordCollector:
    """Collects and sends the output of one task. The stores of the task use the collector as their `ChangeLogger`.
    `changelogs`: the changelog partition of each logged store. `needed`: for each changelog of a window store, the
    `NeededChanges` that gets the timestamps of sent changes. `losses`: counts the records for which a partitioner
    chooses no partition; None if a test needs no counts. `pending`: the collected records for `send_rows`, in the order
    in which their partitions got the first record.
    """

    def __init__(
        self,
        task_id: TaskId,
        producer: StreamsProducer,
        changelogs: Mapping[str, TopicPartition],
        needed: Mapping[TopicPartition, NeededChanges] | None = None,
        losses: TaskLosses | None = None,
    ) -> None:
        self.task_id = task_id
        self._losses = losses or uncounted(task_id)
        self._producer = producer
        self._changelogs = dict(changelogs)
        self._logged = frozenset(self._changelogs.values())
        self._needed = dict(needed or {})
        self._targets: dict[str, tuple[TopicPartition, ...]] = {}
        self._written: set[TopicPartition] = set()
        self._has_sent = False  # True if records were sent since the last call of `call_if_sent`
        self._rows: dict[TopicPartition, OutputRecords] = {}
        self.pending: list[OutputRecords] = []
        self._change_rows: dict[str, OutputRecords] = {}
        # The start value differs from task to task. So the tasks send their first records without a key to different
        # partitions.
        self._keyless = task_id.partition

    # --- Records for output topics.

    def sink(self, node: str, topic: str, settings: SinkSettings = _BYTES_SINK) -> Receiver:
        """Returns the receiver, which is a function: it serializes records, chooses their partitions and collects them
        for this topic. Do not call the receiver after `clear`.

        `node`: the sending node, for error messages. The receiver looks up the topic's partitions when it gets the
        first record. The receiver raises SerdeMismatch, SchemaRegistryUnavailable, TaskMigrated, LogTimeout. The
        receiver raises StreamsRuntimeError if the topic or the partition does not exist, or if the topic cannot take
        the record.
        """
        serialize_key = serializer_of(serde_for_topic(settings.key_serde, topic, is_key=True))
        serialize_value = serializer_of(serde_for_topic(settings.value_serde, topic, is_key=False))
        choose, suffix_bytes, partitioner = None, 0, settings.partitioner
        if isinstance(partitioner, KeyPrefixPartitioner):
            suffix_bytes = partitioner.unhashed_suffix_bytes
        elif partitioner is not None:
            choose = self._partition_chooser(partitioner, node, topic)
        targets: tuple[TopicPartition, ...] = ()
        # the collected records of the only partition, if the topic has one partition
        only: tuple[OutputRecords] | None = None
        rows_of_keys: dict[bytes | None, tuple[OutputRecords]] = {}

        def sink(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            chosen = None
            if choose is not None:
                chosen = choose(key, value)
                if chosen == ():
                    return
            try:
                key_bytes = None if key is None and not suffix_bytes else serialize_key(key)
                value_bytes = None if value is None else serialize_value(value)
            except SchemaRegistryUnavailable:
                raise
            except Exception as error:
                where = f"sink {node} cannot write to topic {topic}"
                raise SerdeMismatch(where, settings.key_serde, settings.value_serde, key, value, error) from error
            hashed = key_bytes[:-suffix_bytes] if suffix_bytes and key_bytes is not None else key_bytes
            for rows in chosen or only or rows_of_keys.get(hashed) or find_rows(hashed):
                if headers or not rows.add_unchecked(key_bytes, value_bytes, timestamp_ms):
                    self._send_alone(rows, key_bytes, value_bytes, timestamp_ms, headers)

        def find_rows(key: bytes | None) -> tuple[OutputRecords]:
            nonlocal targets, only
            if not targets:
                targets = self._partitions_of(topic)
                if len(targets) == 1:
                    only = (self._rows_of(targets[0]),)
                    return only
            if key is None:
                # for records without a key, all topics share one counter
                self._keyless += 1
                return (self._rows_of(targets[self._keyless % len(targets)]),)
            if len(rows_of_keys) >= _HOT_KEYS:
                rows_of_keys.clear()
            rows = rows_of_keys[key] = (self._rows_of(targets[positive_hash(key) % len(targets)]),)
            return rows

        return sink

    def _partition_chooser(
        self, partitioner: StreamPartitioner, node: str, topic: str
    ) -> Callable[[Any, Any], tuple[OutputRecords, ...] | None]:
        """Returns a function of a key and a value. This function calls the partitioner and returns the collected
        records of each chosen partition; None if the hash of the key chooses the partition. The function raises
        StreamsRuntimeError if the partitioner chooses a partition that the topic does not have.
        """
        if isinstance(partitioner, NestedSerde):
            partitioner = partitioner.with_inner(lambda keys: serde_for_topic(keys, topic, is_key=True))
        targets: tuple[TopicPartition, ...] = ()
        rows_of_numbers: dict[int, tuple[OutputRecords]] = {}

        def choose(key: Any, value: Any) -> tuple[OutputRecords, ...] | None:
            nonlocal targets
            if not targets:
                targets = self._partitions_of(topic)
            chosen = partitioner(key, value, len(targets))
            rows = rows_of_numbers.get(chosen) if chosen.__class__ is int else None
            if rows is not None or chosen is None:
                return rows
            if not isinstance(chosen, set | frozenset | list | tuple):
                return find_rows(chosen)
            if not chosen:
                level = self._losses.log_level(DropReason.NO_PARTITION, node)
                message = "Skipping record as partitioner returned empty partitions. topic=[%s]"
                _logger.log(level, message, topic, extra=ALREADY_A_NOTICE)
            return tuple(dict.fromkeys(rows for partition in chosen for rows in find_rows(partition)))

        def find_rows(chosen: Any) -> tuple[OutputRecords]:
            try:
                partition = record_partition(chosen, len(targets))
            except ValueError:
                raise StreamsRuntimeError(
                    f"the partitioner of sink {node} chose partition {chosen!r} of topic {topic}, "
                    f"which has 0 to {len(targets) - 1}"
                ) from None
            rows = rows_of_numbers[partition] = (self._rows_of(targets[partition]),)
            return rows

        return choose

    def _partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """Raises LogTimeout, and StreamsRuntimeError for a topic that the log does not have."""
        targets = self._targets.get(topic)
        if targets is None:
            partitions = self._producer.log.partitions_of(topic)
            if partitions < 1:
                missing = UnknownTopicOrPartition(topic)
                raise StreamsRuntimeError(
                    f"topic {topic} is not there; nothing can be sent to it", self.task_id
                ) from missing
            targets = tuple(TopicPartition(topic, partition) for partition in range(partitions))
            self._targets[topic] = targets
        return targets

    # --- Changes for changelogs.

    def limits_of(self, store: str) -> RecordLimits:
        """Returns the limits of one record in the changelog of a store. Raises the errors of a sink."""
        return self._changes_of(store).limits

    def check_change(
        self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        """Raises an error if this change is too large or otherwise invalid for the changelog. Raises the errors of a
        sink.
        """
        partition = self._changelogs[store]
        limits = self._producer.limits_of(partition)
        with _translating(f"sending a record to {partition}"):
            limits.checked(partition, key, value, timestamp_ms if timestamp_ms > 0 else 0, headers)

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()) -> None:
        """Send a store's change to its changelog. The caller has checked the change with `check_change`. Raises the
        errors of a sink.
        """
        rows = self._change_rows.get(store) or self._changes_of(store)
        # in `init`, no record has set the time yet, so the timestamp is negative, and the log would refuse it
        if timestamp_ms < 0:
            timestamp_ms = 0
        if rows.add(key, value, timestamp_ms, headers):
            # The change is added before the records are sent, because the store already has the change. With this
            # order, the change is not lost if sending fails.
            self.send_rows()

    def _changes_of(self, store: str) -> OutputRecords:
        rows = self._change_rows[store] = self._rows_of(self._changelogs[store])
        return rows

    def keep_window_changelogs(self) -> None:
        """Configure the log to keep the changes of window stores for as long as these changes are needed.

        A window expires when the store gets a newer window whose start is later by at least the retention. The last
        change of a window is at most one window size later than the window's start. The window size is at most the
        retention. So a change is needed for at most twice the retention.
        """
        for partition, needed in self._needed.items():
            # the topic does not exist yet; the changelog reader waits for the topic
            with suppress(UnknownTopicOrPartition):
                self._producer.log.keep_windows(partition.topic, min(2 * needed.retention_ms, JAVA_LONG_MAX))

    def windows_at_risk(self, now_ms: int) -> list[WindowsAtRisk]:
        """Returns the window stores that may lose data: the log may delete changelog records that these stores still
        need. Raises LogError. A store needs all changes that are newer than stream time minus the store's retention.
        The log keeps all records that are newer than the clock's time minus the topic's retention. So the log may
        delete needed changes if stream time is far behind the clock.
        """
        found: list[WindowsAtRisk] = []
        for store, partition in self._changelogs.items():
            needed = self._needed.get(partition)
            if needed is None or needed.newest_ms < 0 or not needed.needed:
                continue
            kept_ms = self._producer.log.deletes_after_ms(partition.topic)
            behind_ms, retention_ms = now_ms - needed.newest_ms, needed.retention_ms
            # no record is older than the epoch, so a topic that keeps records for longer, as that of unlimited windows,
            # deletes none
            if kept_ms is not None and kept_ms < min(retention_ms + behind_ms, now_ms):
                found.append(WindowsAtRisk(store, partition.topic, needed.needed, behind_ms, kept_ms, retention_ms))
        return found

    # --- rows

    def send_rows(self) -> None:
        """Pass all collected records to the producer. Raises the errors of a sink. After an error, the next call
        continues with the records that the producer does not have yet.
        """
        pending = self.pending
        while pending:
            rows = pending[0]
            self._has_sent = True
            columns = RawColumns(rows.keys, rows.values, rows.timestamps_ms, rows.headers)
            self._producer.send_columns(rows.partition, columns)
            self._note_sent(rows.partition, rows.timestamps_ms)
            rows.clear()
            del pending[0]

    def _send_alone(
        self, rows: OutputRecords, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> None:
        """Send a single record that has headers, that the producer has to check against the topic's limits, or that
        is the first after `MOST_ROWS` collected records.
        """
        # The earlier records are sent first, to keep the order. If sending fails, the input record is processed again,
        # and the new record is sent then.
        self.send_rows()
        self._has_sent = True
        self._producer.send(rows.partition, key, value, timestamp_ms, headers)
        self._note_sent(rows.partition, (timestamp_ms,))

    def _note_sent(self, partition: TopicPartition, timestamps_ms: Sequence[int]) -> None:
        if partition in self._logged:
            self._written.add(partition)
        needed = self._needed.get(partition)
        if needed is not None:
            needed.sent(timestamps_ms)

    def _rows_of(self, partition: TopicPartition) -> OutputRecords:
        rows = self._rows.get(partition)
        if rows is None:
            rows = self._rows[partition] = OutputRecords(partition, self._producer.limits_of(partition), self.pending)
        return rows

    # --- Methods that report which records were sent.

    @contextmanager
    def call_if_sent(self, on_sent: Callable[[], None]) -> Iterator[None]:
        """After the `with` block, call `on_sent` if the block sent records or if collected records are pending."""
        self._has_sent = False
        try:
            yield
        finally:
            if self._has_sent or self.pending:
                on_sent()

    def acknowledged_offsets(self) -> Offsets:
        """Returns the offset after the last acknowledged record, for each changelog that this task has written to.

        This method has to be called after each commit, because it also passes the offsets to `NeededChanges`.
        """
        if not self._written:
            return {}
        last = self._producer.last_offsets()
        # `last` may contain offsets of an earlier task with the same id; these offsets are left out
        written = self._written & last.keys()
        for changelog, needed in self._needed.items():
            if changelog in written:
                needed.acknowledged(last[changelog])
        return {changelog: last[changelog] + 1 for changelog in written}

    def clear(self) -> None:
        """Forget everything, because the task was closed."""
        self._written.clear()
        self._targets.clear()
        self.pending.clear()
        self._rows.clear()
        self._change_rows.clear()


class StreamsProducer:
    """The producer of one stream thread. Only the stream thread may use its producer. `transactional_id`: None under
    at-least-once. The log's producer is opened by `initialize`, or when it is used for the first time. After `reset`,
    the next use opens a new producer. `aborts`: the number of aborted transactions. A task stores `aborts` when it
    begins to work. If `aborts` is higher when the task commits, the transaction with the task's work was aborted.
    """

    def __init__(self, log: Log, transactional_id: str | None = None) -> None:
        self.log = log
        self.transactional_id = transactional_id
        self.exactly_once = transactional_id is not None
        self.producer: Producer | None = None
        self.transaction_in_flight = False
        self.aborts = 0
        self._write_claims: dict[TaskId, Claim] = {}
        # Under exactly-once, True if a transaction is open. Under at-least-once, True if the producer is open.
        self._ready = False

    def initialize(self) -> Producer:
        """Returns the log's producer. Opens the log's producer if it is not open. Opening a producer fences an earlier
        producer with the same id. Raises the errors of `send`.
        """
        if self.producer is None:
            with _translating("opening the producer"):
                self.producer = self.log.producer(self.transactional_id)
            self.producer.guard(list(self._write_claims.values()))
        return self.producer

    def set_write_claim(self, task: TaskId, claim: Claim | None) -> None:
        """Under at-least-once, allow the producer to write records of the task only while no newer claim exists.
        `claim`: the claim of the task; None if the task must not write any more. Without the claim, a thread that was
        removed from its group could still write old values of a store. In the changelog, these old values would come
        after newer values of the task's next owner.
        """
        if self.exactly_once:
            return
        if claim is not None:
            self._write_claims[task] = claim
        elif self._write_claims.pop(task, None) is None:
            return
        if self.producer is not None:
            self.producer.guard(list(self._write_claims.values()))

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        """Send a record. Raises TaskMigrated, LogTimeout, or StreamsRuntimeError with the log's error as its cause."""
        if not self._ready:
            self._begin()
        try:
            self.producer.send(partition, key, value, timestamp_ms, headers)  # type: ignore[union-attr]
        except LogError as error:
            raise _translated(error, f"sending a record to {partition}") from error

    def send_columns(self, partition: TopicPartition, columns: RawColumns) -> None:
        """Send one record for each row of the columns. Raises the errors of `send`. If `send_columns` raises an error,
        it has sent none of the records.
        """
        if not self._ready:
            self._begin()
        try:
            self.producer.send_columns(partition, columns)  # type: ignore[union-attr]
        except LogError as error:
            raise _translated(error, f"sending records to {partition}") from error

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        """Returns the limits for a record in this partition. Raises the errors of `send`."""
        with _translating(f"asking for the limits of {partition}"):
            return self.initialize().limits_of(partition)

    def send_now(self) -> None:
        """Make the producer write the sent records without waiting for `linger.ms`. Raises the errors of `send`."""
        if self.producer is not None:
            with _translating("writing what was sent"):
                self.producer.send_now()

    def flush(self) -> None:
        """Wait until the log has written all sent records. Raises the errors of `send`."""
        if self.producer is not None:
            with _translating("flushing"):
                self.producer.flush()

    def commit(self, offsets: OffsetsToCommit = ()) -> None:
        """Under exactly-once, commit the transaction together with these offsets. Under at-least-once, write the
        pending records together with the offsets. `offsets`: pairs of a task's claim and the offsets that have changed
        since the last commit. If a pair has no offsets, the log only checks the claim. A pair without offsets is needed
        if a punctuation has sent records, because only the owner of the claim may write records. Does nothing if there
        are no offsets to commit and no records to write. Raises the errors of `send`. If `commit` raises an error,
        nothing was committed.
        """
        if self.exactly_once:
            self._commit_transaction(offsets)
            return
        # A producer that is not open has no pending records. If there are no claims, there are no offsets either, and a
        # flush is enough.
        has_nothing_to_write = self.producer is None and not any(moved for _, moved in offsets)
        if not offsets or has_nothing_to_write:
            self.flush()
            return
        try:
            self.initialize().commit_offsets(offsets)
        except LogError as error:
            raise _translated(error, "committing offsets") from error

    def abort(self) -> None:
        """Abort the open transaction, if there is one. Raises no error: `abort` is called when a task is closed after
        an error.

        If the producer is fenced, it stays open until the thread rejoins the group and calls `reset`. If the log raises
        another error, `abort` closes the producer. The transaction of a closed producer is aborted when the next
        producer with the same id is opened.
        """
        if not self.transaction_in_flight or self.producer is None:
            return
        self._mark_aborted()
        try:
            self.producer.abort_transaction()
        except _FENCED:
            return
        except LogError:
            self.reset()

    def reset(self) -> None:
        """Close the log's producer. The next use opens a new producer. Source: `StreamsProducer.resetProducer`.

        Discards records that the producer has not written yet. The input offsets of these records are not committed, so
        the next owner of the tasks processes the input again. If the discarded records were written later, they could
        replace newer values of the next owner in a changelog.
        """
        producer, self.producer = self.producer, None
        self._mark_aborted()
        if producer is None:
            return
        try:
            producer.discard()
            producer.close()
        except LogError:
            # Errors can be ignored here: this producer is not used any more, and the next producer with the same id
            # fences it.
            return

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        """Returns the offset of the last acknowledged record of each partition to which the producer has written. Under
        exactly-once, returns the offset of the last committed record.
        """
        return {} if self.producer is None else self.producer.last_offsets()

    def close(self) -> None:
        """Abort an open transaction, and close the log's producer."""
        self.abort()
        self.reset()

    def _mark_aborted(self) -> None:
        if self.transaction_in_flight:
            self.aborts += 1
        self.transaction_in_flight = self._ready = False

    def _begin(self) -> None:
        producer = self.initialize()
        if self.transactional_id is not None:
            with _translating("beginning a transaction"):
                producer.begin_transaction()
            self.transaction_in_flight = True
        self._ready = True

    def _commit_transaction(self, offsets: OffsetsToCommit) -> None:
        if not self.transaction_in_flight:
            if not any(moved for _, moved in offsets):
                return
            self._begin()
        with _translating("committing a transaction"):
            self.initialize().commit_transaction(offsets)
        self.transaction_in_flight = self._ready = False


@contextmanager
def _translating(doing: str) -> Iterator[None]:
    """Converts an error of the log in the `with` block to an error of the runtime. `doing`: the action of the block, as
    a gerund, for the message.
    """
    try:
        yield
    except LogError as error:
        raise _translated(error, doing) from error


def _translated(error: LogError, doing: str) -> Exception:
    """Converts an error of the log to an error of the runtime. `doing`: the failed action, as a gerund, for the
    message.

    `StreamsProducer.send` and `send_columns` do not use the context manager `_translating`, because it is slow.
    If a record has headers, `_translating` would use a sixth of the time of `send`.
    """
    if isinstance(error, _FENCED):
        return TaskMigrated(f"the producer was fenced while {doing}: {error}")
    if isinstance(error, LogTimeout):
        return error
    return StreamsRuntimeError(f"error while {doing}: {error}")
