"""Manages the input offsets of a Streams task, and the right to commit them. The input offsets are the offsets at which
reading begins, and the offsets to commit.

The class `InputOffsets` has these methods:
- `begin` seeks the consumer to the committed offsets.
- `begin_work` marks that the task has work to commit: it has processed, punctuated or written something.
- `prepare` sets the offsets to commit. Under exactly-once, the task then processes nothing until `committed` is called.
- `committed` marks that the commit is done.

Rules: the task reads a partition from the committed offset on. If a partition has no committed offset,
`auto.offset.reset` of the source or of the configs decides the first position. A repartition topic without a committed
offset is always read from its earliest record. A task commits the offset of the first buffered record, which is the
next record to process. If no record is buffered, the task commits the consumer's position. So the committed offset also
moves past gaps, which transactions and compaction leave. A task commits an offset only if it differs from the group's
committed offset. So if a partition had no committed offset, the task commits the offset from which it began to read.
Under exactly-once, the work of an aborted transaction is never committed. If the log deletes records before the group
reads them, the task reports the number of these records.

The metadata of a committed offset contains the partition time. The next owner of the task continues from this time. The
metadata is in Kafka's version 2, in base64: a byte with the value 2, the time in eight bytes, and processor metadata.
The processor metadata begins with the number of entries in four bytes. Each entry has the length of its name in four
bytes, the name, and a number in eight bytes. In the processor metadata, the task stores the first changelog offset that
each window store still needs. As in Kafka, an operator that forwards closed windows stores its last close time there,
under the name of its store. Version 1 of the metadata, which has only the time, can be read as well. If the metadata
has any other format, the partition time is unknown.

Source: `StreamTask.resetOffsetsIfNeededAndInitializeMetadata`, `findOffsetAndMetadata`, `purgeableOffsets`,
`TopicPartitionMetadata`, `ProcessorMetadata`.
Differs from Kafka: in Kafka, `auto.offset.reset` also applies to repartition topics. In Kafka, a task commits an offset
only after it has processed records. So with `latest`, a task in Kafka commits no offset if it gets no record. The
task's next owner then begins at the new end of the partition, and skips earlier records (KAFKA-12261).

A claim is the right to commit offsets of input partitions. A claim has an epoch for each partition. The log stores
these epochs. A task claims its input partitions before it reads them. A claim fences earlier claims on the same
partitions, so the owners of earlier claims cannot commit any more. When a task gives up its input, it releases the
claim. Without the release, the next owner of the task would fence the producer of this thread. All tasks of the thread
use this producer.
"""

import base64
import binascii
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from assignor.types import Offsets, TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted
from streams_runtime.common.losses import TaskLosses
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Claim, CommittedOffsets, Consumer, OffsetAndMetadata, OffsetReset
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.tasks.partition_group import InputPosition
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.record_queue import UNKNOWN_TIME
from streams_runtime.tasks.state_manager import StateManager

_HEADER = struct.Struct(">Bq")
_VERSION = 2
_READABLE = (1, 2)
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_NEEDED_FROM = "changelog-needed-from:"
_MAX_METADATA_BYTES = 2_500  # brokers take 4,096 bytes of metadata (offset.metadata.max.bytes), and base64 adds a third


@dataclass(eq=False, repr=False)
class InputOffsets:
    """The input offsets of one active task.

    `committed_offsets`: the newest committed offset of each partition that this task knows. `changelogs_needed_from`:
    for each window store, the first changelog offset that the task's earlier owner still needed. `processor_metadata`:
    the numbers that operators keep in the metadata of the committed offsets.

    `commit_needed`: True if the task has done work since the last commit. `commit_requested`: True if a commit should
    not wait for the commit interval. A processor can request a commit. A commit is also requested if
    `auto.offset.reset` has set a position to `latest`. Without this commit, a new owner of the task would begin at a
    later position and skip records. `commit_pending`: under exactly-once, True after a call of `prepare` until
    `committed` is called. `prepared`: the offsets of the commit in progress.
    """

    _graph: ProcessorGraph
    _state: StateManager
    _consumer: Consumer
    _producer: StreamsProducer
    _configs: StreamsConfig
    _losses: TaskLosses

    def __post_init__(self) -> None:
        # the value of `producer.aborts` when the task began its uncommitted work
        self._aborted_before = self._producer.aborts
        self.clear()

    def clear(self) -> None:
        """Forget all offsets, because a closed task reads no input and has nothing to commit."""
        self.commit_needed = self.commit_requested = self.commit_pending = False
        self.prepared: CommittedOffsets = {}
        self.committed_offsets: dict[TopicPartition, int] = {}
        self.changelogs_needed_from: dict[str, int] = {}
        self.processor_metadata: dict[str, int] = {}
        # the newest committed offset of each partition that this task knows
        self._known_to_group: dict[TopicPartition, int] = {}
        # The value is None while the task reads its input. After the task's buffer was cleared, the value is the last
        # result of `_read_up_to`.
        self._remembered: dict[TopicPartition, tuple[int, int]] | None = {}

    # --- Methods that set the positions for reading.

    def begin(self, partitions: Collection[TopicPartition], found: CommittedOffsets | None = None) -> Offsets:
        """Set the consumer's position in each partition to the group's committed offset. If a partition has no
        committed offset, auto.offset.reset selects the position. Returns the committed partition time of each
        partition; -1 for an unknown time.

        `found`: the committed offsets of these partitions, if the caller has looked them up after it claimed the
        partitions. If `found` is None, `begin` looks up the offsets. Raises LogTimeout, and StreamsRuntimeError if a
        partition has no committed offset and auto.offset.reset is `none`.
        """
        if found is None:
            found = self._producer.log.committed_offsets(self._configs.application_id, partitions)
        committed = {partition: found[partition] for partition in partitions if partition in found}
        self._known_to_group = {partition: one.offset for partition, one in committed.items()}
        fresh = self._reset_positions([p for p in partitions if p not in committed], "has no committed offset")
        for partition, offset in (self._known_to_group | fresh).items():
            self._consumer.seek(partition, offset)
        self._consumer.resume(partitions)
        self._report_deleted_unread(fresh)
        self.committed_offsets.update((partition, one.offset) for partition, one in committed.items())
        self._remembered = None
        self.changelogs_needed_from, self.processor_metadata = {}, {}
        partition_times_ms: dict[TopicPartition, int] = {}
        for partition, one in committed.items():
            partition_times_ms[partition], needed_from = decode_metadata(one.metadata)
            for store, offset in needed_from.items():
                self.changelogs_needed_from[store] = max(offset, self.changelogs_needed_from.get(store, 0))
            for name, number in decode_processor_metadata(one.metadata).items():
                self.processor_metadata[name] = max(number, self.processor_metadata.get(name, number))
        return partition_times_ms

    def reset(self, out_of_range: Mapping[TopicPartition, int]) -> None:
        """Apply auto.offset.reset to partitions if their positions are out of range. Reports the skipped offsets.

        `out_of_range`: for each partition, the position that is out of range. Raises the errors of `begin`.
        """
        begins = self._producer.log.begin_offsets(out_of_range)
        for partition, resumed_at in self._reset_positions(out_of_range, "has no record at its position").items():
            position, begin = out_of_range[partition], begins[partition]
            self._consumer.seek(partition, resumed_at)
            # without a known committed offset, the next commit contains the new position
            self._known_to_group.pop(partition, None)
            if position < begin:
                self._losses.passed_over(partition, position, begin, resumed_at)
            else:
                end = self._producer.log.end_offsets([partition])[partition]
                self._losses.beyond_end(partition, position, end, resumed_at)

    # --- Methods for work that is not committed yet.

    def begin_work(self) -> None:
        """Mark that the task has work to commit."""
        if not self.commit_needed:
            self.commit_needed = True
            self._aborted_before = self._producer.aborts

    def request(self) -> None:
        self.commit_requested = True

    def check_for_gaps(self, positions: Iterable[InputPosition]) -> bool:
        """Call `begin_work` if the task has passed gaps in its input, so that the new offsets are committed. Returns
        True if the task has work to commit. `positions`: the task's progress in each partition.
        """
        if not self.commit_needed and self._uncommitted(positions):
            self.begin_work()
        return self.commit_needed

    def expect_transaction(self) -> None:
        """Raises TaskCorrupted if the transaction with the task's work was aborted."""
        if self.commit_needed and self._producer.exactly_once and self._producer.aborts != self._aborted_before:
            raise TaskCorrupted(
                [self._state.task_id], "the transaction with records of these tasks was aborted", damaged=()
            )

    def abort(self) -> None:
        """Under exactly-once, abort the transaction if the task has work in it. Never raises."""
        if self.commit_needed and self._producer.exactly_once:
            self._producer.abort()

    # --- Methods for the steps of a commit.

    def prepare(self, positions: Iterable[InputPosition]) -> None:
        """Set `prepared` to the offsets that are not committed yet. If the task has written records but read none,
        `prepared` becomes empty. The first needed changelog offsets are always computed here, because a flush after
        `remember` may have written to changelogs.
        """
        self.commit_pending = self._producer.exactly_once
        uncommitted, windows = self._uncommitted(positions), self._state.window_changelogs
        needed_from = windows.needed_from() if uncommitted and windows.needed else {}
        numbers = self.processor_metadata
        self.prepared = {
            partition: OffsetAndMetadata(offset, encode_partition_time(partition_time_ms, needed_from, numbers))
            for partition, (offset, partition_time_ms) in uncommitted.items()
        }

    def remember(self, positions: Iterable[InputPosition]) -> None:
        """Remember the offsets to commit. Call this method before the task's buffer is cleared. After the buffer was
        cleared, only the consumer's position is known. Some records before this position were not processed.
        """
        if self._remembered is None:
            self._remembered = self._read_up_to(positions)

    def committed(self) -> None:
        """Mark the prepared offsets as committed."""
        for partition, one in self.prepared.items():
            self.committed_offsets[partition] = self._known_to_group[partition] = one.offset
        self.commit_needed = self.commit_requested = self.commit_pending = False
        self.prepared = {}

    def purgeable(self) -> Offsets:
        """Returns the committed offsets of the repartition topics. The records below these offsets are not needed any
        more.
        """
        return {
            partition: offset
            for partition, offset in self.committed_offsets.items()
            if partition.topic in self._graph.repartition_sources
        }

    # --- inside

    def _uncommitted(self, positions: Iterable[InputPosition]) -> dict[TopicPartition, tuple[int, int]]:
        """Returns the offsets and partition times that are not committed yet, by partition.

        While the task reads, the offsets come from `positions`. After the task's buffer was cleared, the offsets come
        from `remember`.
        """
        found = self._read_up_to(positions) if self._remembered is None else self._remembered
        return {p: (offset, time_ms) for p, (offset, time_ms) in found.items() if offset != self._known_to_group.get(p)}

    def _read_up_to(self, positions: Iterable[InputPosition]) -> dict[TopicPartition, tuple[int, int]]:
        """Returns the offset to commit and the partition time, for each partition."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for partition, offset, partition_time_ms in positions:
            if offset is None:
                offset = self._consumer.position(partition)
            if offset is not None:
                found[partition] = offset, partition_time_ms
        return found

    def _report_deleted_unread(self, fresh: Mapping[TopicPartition, int]) -> None:
        """Report records that the log deleted before the group's first read of the partition. `fresh`: the first
        position in each partition that the group has never read before. A partition with the reset `latest` is not
        reported, because the group skips its earlier records on purpose.
        """
        for partition, begin in fresh.items():
            # Processed records of repartition topics are deleted, so no record was lost if a topic's first records are
            # missing.
            is_read_whole = self._reset_of(partition) is OffsetReset.EARLIEST
            if begin > 0 and is_read_whole and partition.topic not in self._graph.repartition_sources:
                self._losses.deleted_unread(partition, begin)

    def _reset_of(self, partition: TopicPartition) -> OffsetReset:
        if partition.topic in self._graph.repartition_sources:
            # The application itself wrote the records of a repartition topic, and has already committed the input of
            # these records. So a skipped record would be lost.
            return OffsetReset.EARLIEST
        source = self._graph.source_of(partition.topic)
        return (source and source.settings.auto_offset_reset) or self._configs.auto_offset_reset

    def _reset_positions(self, partitions: Collection[TopicPartition], why: str) -> Offsets:
        by_reset: dict[OffsetReset, list[TopicPartition]] = {}
        for partition in partitions:
            by_reset.setdefault(self._reset_of(partition), []).append(partition)
        if none := by_reset.get(OffsetReset.NONE):
            raise StreamsRuntimeError(
                f"{', '.join(map(str, none))} {why}, and auto.offset.reset is none: set it to earliest or latest, or "
                "commit an offset for the group",
                self._state.task_id,
            )
        positions: dict[TopicPartition, int] = {}
        if earliest := by_reset.get(OffsetReset.EARLIEST):
            positions |= self._producer.log.begin_offsets(earliest)
        if latest := by_reset.get(OffsetReset.LATEST):
            positions |= self._producer.log.end_offsets(latest)
            self.commit_requested = True
        return positions


def encode_partition_time(
    partition_time_ms: int,
    needed_from: Mapping[str, int] | None = None,
    processor_metadata: Mapping[str, int] | None = None,
) -> str:
    """Returns the metadata of a committed offset. `needed_from`: for each window store, the first changelog offset that
    is still needed. `processor_metadata`: the numbers of operators. Leaves out entries if the metadata would be too
    large.
    """
    entries: list[bytes] = []
    prefixed = {f"{_NEEDED_FROM}{store}": offset for store, offset in (needed_from or {}).items()}
    for text, number in {**(processor_metadata or {}), **prefixed}.items():
        name = text.encode()
        entry = _INT.pack(len(name)) + name + _LONG.pack(number)
        if sum(map(len, entries)) + len(entry) <= _MAX_METADATA_BYTES:
            entries.append(entry)
    processors = _INT.pack(len(entries)) + b"".join(entries) if entries else b""
    return base64.b64encode(_HEADER.pack(_VERSION, partition_time_ms) + processors).decode()


def decode_metadata(metadata: str) -> tuple[int, dict[str, int]]:
    """Returns the partition time in milliseconds since the epoch, and the first needed changelog offset of each window
    store. For metadata that cannot be read, returns UNKNOWN_TIME and an empty mapping.
    """
    data = _decoded(metadata)
    if data is None:
        return UNKNOWN_TIME, {}
    partition_time_ms = max(int(_HEADER.unpack_from(data)[1]), UNKNOWN_TIME)
    entries = _entries(data).items()
    needed_from = {name.removeprefix(_NEEDED_FROM): offset for name, offset in entries if name.startswith(_NEEDED_FROM)}
    return partition_time_ms, needed_from


def decode_processor_metadata(metadata: str) -> dict[str, int]:
    """Returns the numbers of operators. For metadata that cannot be read, returns an empty mapping."""
    data = _decoded(metadata)
    entries = {} if data is None else _entries(data)
    return {name: number for name, number in entries.items() if not name.startswith(_NEEDED_FROM)}


def _decoded(metadata: str) -> bytes | None:
    try:
        data = base64.b64decode(metadata, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) >= _HEADER.size and data[0] in _READABLE else None


def _entries(data: bytes) -> dict[str, int]:
    """Returns the entries of the processor metadata."""
    if data[0] != _VERSION or len(data) == _HEADER.size:
        return {}
    found: dict[str, int] = {}
    at = _HEADER.size + _INT.size
    try:
        for _ in range(_INT.unpack_from(data, _HEADER.size)[0]):
            start = at + _INT.size
            end = start + _INT.unpack_from(data, at)[0]
            name, at = data[start:end].decode(), end + _LONG.size
            if end < start:  # the name has a negative length
                return {}
            found[name] = int(_LONG.unpack_from(data, end)[0])
    except (struct.error, UnicodeDecodeError):
        return {}
    return found


class InputClaim:
    """Makes and releases the claims of one active task. A claim is the right to commit offsets of the task's input
    partitions. `producer`: the thread's producer, which commits the task's offsets. `newest`: the newest claim of the
    task, even if it was released; None before the first claim.
    """

    def __init__(self, task_id: TaskId, producer: StreamsProducer, group_id: str) -> None:
        self._task_id = task_id
        self._producer = producer
        self._log = producer.log
        self._group_id = group_id
        self.newest: Claim | None = None
        self._is_released = False

    def accept(self, claim: Claim) -> None:
        """Use this claim, which the thread has made together with the claims of other tasks."""
        self.newest = claim
        self._is_released = False

    def is_needed(self, partitions: frozenset[TopicPartition]) -> bool:
        """True unless the task has a claim of exactly these partitions."""
        return self.newest is None or self._is_released or self.newest.epochs.keys() != partitions

    def take_if_needed(self, partitions: frozenset[TopicPartition]) -> None:
        """Claim the partitions, unless the task has a claim of exactly these partitions. If an earlier owner of the
        partitions has died with an open transaction, the log aborts this transaction. Raises LogTimeout.
        """
        if self.is_needed(partitions):
            self._producer.initialize()
            self.accept(self._log.claim(self._group_id, partitions, self._producer.transactional_id))

    def mark_released(self) -> Claim | None:
        """Mark the newest claim as released, and return the claim. The caller then releases the claim in the log.
        Returns None if the task has no claim, or if the claim is already marked.
        """
        if self.newest is None or self._is_released:
            return None
        self._is_released = True
        return self.newest

    def release(self) -> None:
        """Release the task's claim, if there is one. The next owner then does not have to fence this thread."""
        claim = self.mark_released()
        if claim is not None:
            self._log.release(claim)

    def allow_writes(self) -> None:
        """Under at-least-once, allow the producer to write records of the task until another owner makes a newer
        claim.
        """
        self._producer.set_write_claim(self._task_id, self.newest)

    def forbid_writes(self) -> None:
        self._producer.set_write_claim(self._task_id, None)

    def forget(self) -> None:
        self.newest = None
        self._is_released = False
