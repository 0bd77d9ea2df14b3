"""Where a task begins to read its input, which offsets it commits, and its right to commit them.

Rules: reading begins at the committed offset, else by `auto.offset.reset` of the source or of the configs. Repartition
topics always begin at the earliest record. A task commits the offset of the next record to process: that of the first
one buffered, else the consumer's position, so that gaps left by transactions and compaction count as consumed. It
commits only what the group does not know yet: offsets that have moved, and those at which it began without a committed
one. The partition time is in the metadata of the commit. A task claims its input before it reads it; from then on no
earlier owner can commit. Records that the log deleted before the group read them are reported, with their number.
Source: `StreamTask.resetOffsetsIfNeededAndInitializeMetadata`, `findOffsetAndMetadata`, `purgeableOffsets`.
Differs from Kafka: there, repartition topics go by `auto.offset.reset`, too, and an offset is committed once it has
moved. With `latest`, an owner that ends before that leaves no offset behind, and the next one begins behind the records
that have come meanwhile (KAFKA-12261).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Claim, Consumer, Log, OffsetAndMetadata, OffsetReset
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.reporting.losses import TaskLosses
from streams_runtime.tasks.input_buffer import InputPosition
from streams_runtime.tasks.offset_metadata import decode_needed_from, decode_partition_time, encode_partition_time


class InputOffsets:
    """`committed`: the offsets that this task found committed, or committed itself. `repartition_topics`: their records
    are deleted once they are processed, so that those missing at the beginning were not lost. `needed_from`: gives, by
    store, from where its changelog is needed; it is committed with the offsets. `needed_before`: what the task before
    this one committed of it.

    `skips_until_committed`: it has begun, or gone on, at the end of a partition, and the group does not know that yet.
    Another owner would begin at a later end, so the task commits at once.
    """

    __slots__ = (
        "_configs",
        "_consumer",
        "_held",
        "_log",
        "_losses",
        "_needed_from",
        "_repartition_topics",
        "_settled",
        "_sources",
        "_task_id",
        "committed",
        "needed_before",
        "skips_until_committed",
    )

    def __init__(
        self,
        task_id: TaskId,
        sources: Mapping[str, SourceRunner],
        log: Log,
        consumer: Consumer,
        configs: StreamsConfig,
        losses: TaskLosses,
        repartition_topics: Collection[str] = (),
        needed_from: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._task_id = task_id
        self._losses = losses
        self._repartition_topics = repartition_topics
        self._needed_from = needed_from
        self.needed_before: dict[str, int] = {}
        self._sources = sources
        self._log = log
        self._consumer = consumer
        self._configs = configs
        self.committed: dict[TopicPartition, int] = {}
        self.skips_until_committed = False
        self._settled: dict[TopicPartition, int] = {}  # what the group knows
        # to be committed: offset and partition time; None while the task reads
        self._held: dict[TopicPartition, tuple[int, int]] | None = {}

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
        self.committed.update((partition, one.offset) for partition, one in committed.items())
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

    def moved(self, positions: Iterable[InputPosition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What there is to commit: of a task that reads, by where its buffer stands, else what was kept.

        From where changelogs are needed is asked now, also for what was kept: a flush may have written to them since.
        """
        found = self._read_up_to(positions) if self._held is None else self._held
        news = {partition: at for partition, at in found.items() if self._is_news(partition, at[0])}
        if not news:
            return {}
        needed_from = self._needed_from()
        return {
            partition: OffsetAndMetadata(offset, encode_partition_time(partition_time_ms, needed_from))
            for partition, (offset, partition_time_ms) in news.items()
        }

    def hold(self, positions: Iterable[InputPosition]) -> None:
        """Keep what there is to commit: the task's buffer is about to be cleared, and the consumer is ahead of it."""
        if self._held is None:
            self._held = self._read_up_to(positions)

    def _read_up_to(self, positions: Iterable[InputPosition]) -> dict[TopicPartition, tuple[int, int]]:
        """By partition, the offset to commit and the partition time."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for partition, offset, partition_time_ms in positions:
            if offset is None:
                offset = self._consumer.position(partition)
            if offset is not None:
                found[partition] = offset, partition_time_ms
        return found

    def is_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for partition, one in offsets.items():
            self.committed[partition] = self._settled[partition] = one.offset
        self.skips_until_committed = False

    def clear(self) -> None:
        self.skips_until_committed = False
        self.committed.clear()
        self._settled.clear()
        self._held = {}
        self.needed_before = {}

    def _is_news(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the group does not know yet that the partition is to be read from there."""
        return offset != self._settled.get(partition)

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
            self.skips_until_committed = True
        return positions


class InputClaim:
    """A task's right to commit offsets of its input. `transactional_id`: of the producer that commits under it."""

    __slots__ = ("_claim", "_group_id", "_is_released", "_log", "_transactional_id")

    def __init__(self, log: Log, group_id: str, transactional_id: str | None) -> None:
        self._log = log
        self._group_id = group_id
        self._transactional_id = transactional_id
        self._claim: Claim | None = None
        self._is_released = False

    @property
    def value(self) -> Claim | None:
        """None before the first claim."""
        return self._claim

    def take(self, partitions: frozenset[TopicPartition]) -> Claim:
        """Claim the partitions. The log ends the open transaction of an owner that died. Raises LogTimeout."""
        return self.become(self._log.claim(self._group_id, partitions, self._transactional_id))

    def become(self, claim: Claim) -> Claim:
        """Have this claim, which was taken for this task and others together."""
        self._claim = claim
        self._is_released = False
        return claim

    def is_needed(self, partitions: frozenset[TopicPartition]) -> bool:
        """Whether exactly these partitions are not claimed yet, or not any more."""
        return self._claim is None or self._is_released or self._claim.epochs.keys() != partitions

    def take_if_needed(self, partitions: frozenset[TopicPartition]) -> Claim:
        """Claim the partitions, unless exactly these are claimed already. Raises LogTimeout."""
        if self._claim is None or self.is_needed(partitions):
            return self.take(partitions)
        return self._claim

    def give_up(self) -> Claim | None:
        """The claim that the caller has to release; None when there is none, or it is released already."""
        if self._claim is None or self._is_released:
            return None
        self._is_released = True
        return self._claim

    def release(self) -> None:
        """Let the next owner claim without fencing this thread. Nothing happens when there is no claim."""
        claim = self.give_up()
        if claim is not None:
            self._log.release(claim)

    def forget(self) -> None:
        self._claim = None
        self._is_released = False
