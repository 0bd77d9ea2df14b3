"""A log on a broker that others use too, seen as if it had the cluster for itself.

Rule: names of topics, groups and transactional ids get a prefix on their way in and lose it on their way out, in errors
too. Topics without the prefix are invisible, and so are the topics in which groups keep their claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import (
    Claim,
    ConfigChanges,
    Consumer,
    IsolationLevel,
    Log,
    NewTopic,
    OffsetAndMetadata,
    OffsetsToCommit,
    Producer,
    RecordBatch,
    TopicDescription,
)
from streams_runtime.logs.log_errors import LogError, OffsetOutOfRange
from streams_runtime.logs.record_limits import RecordLimits

T = TypeVar("T")


class _Names:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def inside(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self.prefix + partition.topic, partition.partition)

    def outside(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(partition.topic.removeprefix(self.prefix), partition.partition)

    def all_inside(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [self.inside(partition) for partition in partitions]

    def keys_outside(self, by_partition: Mapping[TopicPartition, T]) -> dict[TopicPartition, T]:
        return {self.outside(partition): value for partition, value in by_partition.items()}

    def claim_inside(self, claim: Claim) -> Claim:
        epochs = {self.inside(partition): epoch for partition, epoch in claim.epochs.items()}
        return replace(claim, group_id=self.prefix + claim.group_id, epochs=epochs)

    def offsets_inside(self, offsets: OffsetsToCommit) -> OffsetsToCommit:
        return [
            (self.claim_inside(claim), {self.inside(partition): offset for partition, offset in moved.items()})
            for claim, moved in offsets
        ]

    def run(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except OffsetOutOfRange as error:
            raise OffsetOutOfRange(self.keys_outside(error.positions)) from error
        except LogError as error:
            raise type(error)(str(error).replace(self.prefix, "")) from error


class NamespacedLog:
    """A `Log`. `close` closes the one inside."""

    def __init__(self, inside: Log, prefix: str) -> None:
        self.inside = inside
        self._names = _Names(prefix)

    def cluster_id(self) -> str | None:
        return self.inside.cluster_id()

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        # a name that is refused is refused as it is
        named = [replace(topic, name=self._names.prefix * bool(topic.name.strip(".")) + topic.name) for topic in topics]
        self._names.run(lambda: self.inside.create_topics(named))

    def alter_topic(self, name: str, partitions: int | None, configs: ConfigChanges) -> None:
        self._names.run(lambda: self.inside.alter_topic(self._names.prefix + name, partitions, configs))

    def delete_topics(self, names: Iterable[str]) -> None:
        named = [self._names.prefix + name for name in names]
        self._names.run(lambda: self.inside.delete_topics(named))

    def topics(self) -> Mapping[str, TopicDescription]:
        prefix = self._names.prefix
        return {
            name.removeprefix(prefix): replace(topic, name=name.removeprefix(prefix))
            for name, topic in self.inside.topics().items()
            if name.startswith(prefix) and not name.endswith("-claims")
        }

    def partitions_of(self, topic: str) -> int:
        return self._names.run(lambda: self.inside.partitions_of(self._names.prefix + topic))

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        names = self._names
        return names.run(lambda: names.keys_outside(self.inside.begin_offsets(names.all_inside(partitions))))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        names = self._names
        return names.run(lambda: names.keys_outside(self.inside.end_offsets(names.all_inside(partitions), isolation)))

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        names = self._names
        return names.run(
            lambda: names.keys_outside(self.inside.offsets_for_time(names.all_inside(partitions), timestamp_ms))
        )

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        names = self._names
        asked = None if partitions is None else names.all_inside(partitions)
        return names.run(lambda: names.keys_outside(self.inside.committed_offsets(names.prefix + group_id, asked)))

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        names = self._names
        inside = names.run(
            lambda: self.inside.claim(
                names.prefix + group_id, names.all_inside(partitions), None if owner is None else names.prefix + owner
            )
        )
        return replace(inside, group_id=group_id, epochs=names.keys_outside(inside.epochs))

    def release(self, *claims: Claim) -> None:
        self.inside.release(*map(self._names.claim_inside, claims))

    def consumer(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Consumer:
        return _NamespacedConsumer(self._names, self.inside.consumer(isolation))

    def producer(self, transactional_id: str | None = None) -> Producer:
        names = self._names
        named = None if transactional_id is None else names.prefix + transactional_id
        return _NamespacedProducer(names, names.run(lambda: self.inside.producer(named)))

    def deletes_after_ms(self, topic: str) -> int | None:
        return self._names.run(lambda: self.inside.deletes_after_ms(self._names.prefix + topic))

    def keep_windows(self, topic: str, retention_ms: int) -> None:
        self._names.run(lambda: self.inside.keep_windows(self._names.prefix + topic, retention_ms))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        names = self._names
        named = {names.inside(partition): offset for partition, offset in before.items()}
        names.run(lambda: self.inside.delete_records(named))

    def maintain(self) -> None:
        self.inside.maintain()

    def close(self) -> None:
        self.inside.close()


class _NamespacedConsumer:
    def __init__(self, names: _Names, inside: Consumer) -> None:
        self._names = names
        self._inside = inside

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._inside.assign(self._names.all_inside(partitions))

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(map(self._names.outside, self._inside.assignment()))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._names.run(lambda: self._inside.seek(self._names.inside(partition), offset))

    def position(self, partition: TopicPartition) -> int | None:
        return self._names.run(lambda: self._inside.position(self._names.inside(partition)))

    def known_end(self, partition: TopicPartition) -> int | None:
        return self._names.run(lambda: self._inside.known_end(self._names.inside(partition)))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._names.run(lambda: self._inside.pause(self._names.all_inside(partitions)))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._names.run(lambda: self._inside.resume(self._names.all_inside(partitions)))

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(map(self._names.outside, self._inside.paused()))

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        batches = self._names.run(lambda: self._inside.poll(timeout_ms, max_records))
        return [replace(batch, partition=self._names.outside(batch.partition)) for batch in batches]

    def wakeup(self) -> None:
        self._inside.wakeup()

    def close(self) -> None:
        self._inside.close()


class _NamespacedProducer:
    def __init__(self, names: _Names, inside: Producer) -> None:
        self._names = names
        self._inside = inside

    def begin_transaction(self) -> None:
        self._names.run(self._inside.begin_transaction)

    @property
    def lingers(self) -> bool:
        return self._inside.lingers

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        named = self._names.inside(partition)
        self._names.run(lambda: self._inside.send(named, key, value, timestamp_ms, headers))

    def send_columns(
        self,
        partition: TopicPartition,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        named = self._names.inside(partition)
        self._names.run(lambda: self._inside.send_columns(named, keys, values, timestamps_ms))

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        return self._inside.limits_of(self._names.inside(partition))

    def send_now(self) -> None:
        self._names.run(self._inside.send_now)

    def flush(self) -> None:
        self._names.run(self._inside.flush)

    def commit_transaction(self, offsets: OffsetsToCommit = ()) -> None:
        self._names.run(lambda: self._inside.commit_transaction(self._names.offsets_inside(offsets)))

    def abort_transaction(self) -> None:
        self._names.run(self._inside.abort_transaction)

    def commit_offsets(self, offsets: OffsetsToCommit) -> None:
        self._names.run(lambda: self._inside.commit_offsets(self._names.offsets_inside(offsets)))

    def guard(self, claims: Sequence[Claim]) -> None:
        self._inside.guard([self._names.claim_inside(claim) for claim in claims])

    def discard(self) -> None:
        self._inside.discard()

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        return self._names.keys_outside(self._inside.last_offsets())

    def close(self) -> None:
        self._names.run(self._inside.close)
