"""Where a task begins to read its input, whether it has something to commit, and which offsets.

    begin         the consumer reads on where the group is
    begin_work    the task processes, punctuates or writes for the first time since its last commit
    prepare       the offsets are fixed; under exactly-once the task processes nothing until they are committed
    committed     the commit is done

Rules: reading begins at the committed offset, else by `auto.offset.reset` of the source or of the configs. Repartition
topics always begin at the earliest record. A task commits the offset of the next record to process: that of the first
one buffered, else the consumer's position, so that gaps left by transactions and compaction count as consumed. It
commits only what the group does not know yet: offsets that have moved, and those at which it began without a committed
one. Under exactly-once, work in a transaction that was aborted meanwhile is never committed. Records that the log
deleted before the group read them are reported, with their number.

The partition time, from which the next owner continues, is in the metadata of the commit. Its form is Kafka's version
2: base64 of one byte 2, the time in eight bytes, and processor metadata, which are numbers by name: how many there are,
then of each the length of the name, the name, and the number. A task keeps there from which offset on the changelog of
each window store is needed. Version 1, which ends after the time, is read as well. Any other text means that nothing is
known.

Source: `StreamTask.resetOffsetsIfNeededAndInitializeMetadata`, `findOffsetAndMetadata`, `purgeableOffsets`,
`TopicPartitionMetadata`, `ProcessorMetadata`.
Differs from Kafka: there, repartition topics go by `auto.offset.reset`, too, and an offset is committed once it has
moved. With `latest`, an owner that ends before that leaves no offset behind, and the next one begins behind the records
that have come meanwhile (KAFKA-12261).
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Collection, Iterable, Mapping

from assignor.types import TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Consumer, OffsetAndMetadata, OffsetReset
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.reporting.losses import TaskLosses
from streams_runtime.tasks.partition_group import InputPosition
from streams_runtime.tasks.record_queue import UNKNOWN_TIME
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.streams_producer import StreamsProducer

_FORM = struct.Struct(">Bq")
_VERSION = 2
_READABLE = (1, 2)
_COUNT = struct.Struct(">i")
_NUMBER = struct.Struct(">q")
_NEEDED_FROM = "changelog-needed-from:"
_MOST_BYTES = 2_500  # brokers take 4,096 bytes of metadata (offset.metadata.max.bytes), and base64 adds a third


class InputOffsets:
    """`committed_offsets`: those that this task found committed, or committed itself. `needed_before`: from where the
    task before this one needed the changelogs, by store.

    `is_needed`: work has begun. `is_requested`: a processor asked for a commit, or the task has begun, or gone on, at
    the end of a partition, which the group does not know yet: another owner would begin at a later end. `is_pending`: a
    commit is prepared under exactly-once and not done yet. `prepared`: the offsets of the commit that is being made.
    """

    __slots__ = (
        "_aborted_before",
        "_configs",
        "_consumer",
        "_exactly_once",
        "_held",
        "_log",
        "_losses",
        "_producer",
        "_repartition_topics",
        "_settled",
        "_sources",
        "_state",
        "_task_id",
        "committed_offsets",
        "is_needed",
        "is_pending",
        "is_requested",
        "needed_before",
        "prepared",
    )

    def __init__(
        self,
        graph: ProcessorGraph,
        state: StateManager,
        consumer: Consumer,
        producer: StreamsProducer,
        configs: StreamsConfig,
        losses: TaskLosses,
    ) -> None:
        self._task_id = state.task_id
        self._sources = graph.sources
        # their records are deleted once they are processed: those missing at the beginning were not lost
        self._repartition_topics = graph.repartition_sources
        self._state = state
        self._consumer = consumer
        self._producer = producer
        self._log = producer.log
        self._configs = configs
        self._exactly_once = producer.exactly_once
        self._losses = losses
        self._aborted_before = producer.aborted  # transactions that were not committed, when work began
        self.clear()

    def clear(self) -> None:
        """The task is closed: it reads nothing, and there is nothing to commit."""
        self.is_needed = self.is_requested = self.is_pending = False
        self.prepared: Mapping[TopicPartition, OffsetAndMetadata] = {}
        self.committed_offsets: dict[TopicPartition, int] = {}
        self.needed_before: dict[str, int] = {}
        self._settled: dict[TopicPartition, int] = {}  # what the group knows
        # to be committed: offset and partition time; None while the task reads
        self._held: dict[TopicPartition, tuple[int, int]] | None = {}

    # --- where reading begins

    def begin(
        self, partitions: Collection[TopicPartition], found: Mapping[TopicPartition, OffsetAndMetadata] | None = None
    ) -> dict[TopicPartition, int]:
        """Have the consumer read on where the group is; the partition times of these partitions, -1 when not known.

        `found`: committed offsets, looked up since the claim, of these partitions and perhaps of others; None to look
        them up. Raises LogTimeout, and StreamsRuntimeError when there is no offset and auto.offset.reset is none.
        """
        if found is None:
            found = self._log.committed_offsets(self._configs.application_id, partitions)
        committed = {partition: found[partition] for partition in partitions if partition in found}
        self._settled = {partition: one.offset for partition, one in committed.items()}
        fresh = self._reset_positions([p for p in partitions if p not in committed], "has no committed offset")
        for partition, offset in (self._settled | fresh).items():
            self._consumer.seek(partition, offset)
        self._consumer.resume(partitions)
        self._tell_deleted_unread(fresh)
        self.committed_offsets.update((partition, one.offset) for partition, one in committed.items())
        self._held = None
        self.needed_before = {}
        for one in committed.values():
            for store, offset in decode_needed_from(one.metadata).items():
                self.needed_before[store] = max(offset, self.needed_before.get(store, 0))
        return {partition: decode_partition_time(one.metadata) for partition, one in committed.items()}

    def reset(self, outside: Mapping[TopicPartition, int]) -> None:
        """These positions of the consumer are out of range: go on by auto.offset.reset, and tell what was passed over.

        Raises as `begin` does.
        """
        begins = self._log.begin_offsets(outside)
        for partition, resumed_at in self._reset_positions(outside, "has no record at its position").items():
            position, begin = outside[partition], begins[partition]
            self._consumer.seek(partition, resumed_at)
            self._settled.pop(partition, None)  # the group does not know this offset yet
            if position < begin:
                self._losses.passed_over(partition, position, begin, resumed_at)
            else:
                end = self._log.end_offsets([partition])[partition]
                self._losses.beyond_end(partition, position, end, resumed_at)

    # --- whether there is something to commit

    def begin_work(self) -> None:
        """From now on there is something to commit."""
        if not self.is_needed:
            self.is_needed = True
            self._aborted_before = self._producer.aborted

    def request(self) -> None:
        self.is_requested = True

    def check(self, positions: Iterable[InputPosition]) -> bool:
        """Whether there is something to commit. Gaps in the input that the task has passed count, too.

        `positions`: where the buffer of the task stands.
        """
        if not self.is_needed and self._news(positions):
            self.begin_work()
        return self.is_needed

    def expect_transaction(self) -> None:
        """Raises TaskCorrupted when the transaction with the task's work was aborted."""
        if self.is_needed and self._exactly_once and self._producer.aborted != self._aborted_before:
            raise TaskCorrupted([self._task_id], "the transaction with records of these tasks was aborted")

    def abort(self) -> None:
        """Under exactly-once, abort the transaction if it has work of the task. Never raises."""
        if self.is_needed and self._exactly_once:
            self._producer.abort()

    # --- the commit

    def prepare(self, positions: Iterable[InputPosition]) -> None:
        """Fix `prepared`: the offsets that moved, none when the task only wrote.

        From where changelogs are needed is asked now, also for what was held: a flush may have written to them since.
        """
        self.is_pending = self._exactly_once
        news = self._news(positions)
        needed_from = self._state.needed_from() if news and self._state.needed_changes else {}
        self.prepared = {
            partition: OffsetAndMetadata(offset, encode_partition_time(partition_time_ms, needed_from))
            for partition, (offset, partition_time_ms) in news.items()
        }

    def hold(self, positions: Iterable[InputPosition]) -> None:
        """Keep what there is to commit: the task's buffer is about to be cleared, and the consumer is ahead of it."""
        if self._held is None:
            self._held = self._read_up_to(positions)

    def committed(self) -> None:
        """What was prepared is committed."""
        for partition, one in self.prepared.items():
            self.committed_offsets[partition] = self._settled[partition] = one.offset
        self.is_needed = self.is_requested = self.is_pending = False
        self.prepared = {}

    def purgeable(self) -> dict[TopicPartition, int]:
        """The offsets below which records of repartition topics may be deleted, since nobody needs them any more."""
        return {
            partition: offset
            for partition, offset in self.committed_offsets.items()
            if partition.topic in self._repartition_topics
        }

    # --- inside

    def _news(self, positions: Iterable[InputPosition]) -> dict[TopicPartition, tuple[int, int]]:
        """Offset and partition time where the group does not know yet that a partition is to be read from there: of a
        task that reads, by where its buffer stands, else what was held.
        """
        found = self._read_up_to(positions) if self._held is None else self._held
        return {partition: at for partition, at in found.items() if at[0] != self._settled.get(partition)}

    def _read_up_to(self, positions: Iterable[InputPosition]) -> dict[TopicPartition, tuple[int, int]]:
        """By partition, the offset to commit and the partition time."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for partition, offset, partition_time_ms in positions:
            if offset is None:
                offset = self._consumer.position(partition)
            if offset is not None:
                found[partition] = offset, partition_time_ms
        return found

    def _tell_deleted_unread(self, fresh: Mapping[TopicPartition, int]) -> None:
        """`fresh`: partitions of which the group begins to read, and where. One that it reads from `latest` has lost
        nothing that it was to have.
        """
        for partition, begin in fresh.items():
            is_read_whole = self._reset_of(partition) is OffsetReset.EARLIEST
            if begin > 0 and is_read_whole and partition.topic not in self._repartition_topics:
                self._losses.deleted_unread(partition, begin)

    def _reset_of(self, partition: TopicPartition) -> OffsetReset:
        if partition.topic in self._repartition_topics:
            # the application wrote these records itself, and the input they came from counts as read
            return OffsetReset.EARLIEST
        return self._sources[partition.topic].auto_offset_reset or self._configs.auto_offset_reset

    def _reset_positions(self, partitions: Collection[TopicPartition], why: str) -> dict[TopicPartition, int]:
        by_reset: dict[OffsetReset, list[TopicPartition]] = {}
        for partition in partitions:
            by_reset.setdefault(self._reset_of(partition), []).append(partition)
        if none := by_reset.get(OffsetReset.NONE):
            raise StreamsRuntimeError(
                f"{', '.join(map(str, none))} {why}, and auto.offset.reset is none: set it to earliest or latest, or "
                "commit an offset for the group",
                self._task_id,
            )
        positions: dict[TopicPartition, int] = {}
        if earliest := by_reset.get(OffsetReset.EARLIEST):
            positions |= self._log.begin_offsets(earliest)
        if latest := by_reset.get(OffsetReset.LATEST):
            positions |= self._log.end_offsets(latest)
            self.is_requested = True
        return positions


def encode_partition_time(partition_time_ms: int, needed_from: Mapping[str, int] | None = None) -> str:
    """`needed_from`: by store, the first offset of its changelog that is needed. What has no room is left out."""
    entries: list[bytes] = []
    for store, offset in (needed_from or {}).items():
        name = f"{_NEEDED_FROM}{store}".encode()
        entry = _COUNT.pack(len(name)) + name + _NUMBER.pack(offset)
        if sum(map(len, entries)) + len(entry) <= _MOST_BYTES:
            entries.append(entry)
    processors = _COUNT.pack(len(entries)) + b"".join(entries) if entries else b""
    return base64.b64encode(_FORM.pack(_VERSION, partition_time_ms) + processors).decode()


def decode_partition_time(metadata: str) -> int:
    """Milliseconds since the epoch; UNKNOWN_TIME for what cannot be read."""
    data = _decoded(metadata)
    return UNKNOWN_TIME if data is None else max(int(_FORM.unpack_from(data)[1]), UNKNOWN_TIME)


def decode_needed_from(metadata: str) -> dict[str, int]:
    """By store, the first offset of its changelog that is needed. Empty for what cannot be read."""
    data = _decoded(metadata)
    if data is None or data[0] != _VERSION or len(data) == _FORM.size:
        return {}
    found: dict[str, int] = {}
    at = _FORM.size + _COUNT.size
    try:
        for _ in range(_COUNT.unpack_from(data, _FORM.size)[0]):
            start = at + _COUNT.size
            end = start + _COUNT.unpack_from(data, at)[0]
            name, at = data[start:end].decode(), end + _NUMBER.size
            if end < start:
                return {}
            number = int(_NUMBER.unpack_from(data, end)[0])
            if name.startswith(_NEEDED_FROM):
                found[name.removeprefix(_NEEDED_FROM)] = number
    except (struct.error, UnicodeDecodeError):
        return {}
    return found


def _decoded(metadata: str) -> bytes | None:
    """At least version and time; None for what cannot be read."""
    try:
        data = base64.b64decode(metadata, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) >= _FORM.size and data[0] in _READABLE else None
