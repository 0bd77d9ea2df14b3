"""A log in memory that notes down who asked what, and fails when it is told to."""

from collections.abc import Iterable, Mapping, Sequence

from assignor import TopicPartition
from streams_runtime import Headers, NewTopic
from streams_runtime.logs.base import (
    Claim,
    ConfigChanges,
    Consumer,
    IsolationLevel,
    OffsetAndMetadata,
    OffsetsToCommit,
    Producer,
    RecordBatch,
    TopicDescription,
)
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.record_limits import RecordLimits


class WatchedLog:
    """`calls`: names, in order, of the log's and its producers' calls. `fail`: raised by the call of that name."""

    def __init__(self) -> None:
        self.log = InMemoryLog()
        self.calls: list[str] = []
        self.fail: dict[str, Exception] = {}

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.fail:
            raise self.fail[call]

    def count(self, call: str) -> int:
        return self.calls.count(call)

    def cluster_id(self) -> str:
        return self.log.cluster_id()

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        self.log.create_topics(topics)

    def alter_topic(self, name: str, partitions: int | None, configs: ConfigChanges) -> None:
        self.log.alter_topic(name, partitions, configs)

    def delete_topics(self, names: Iterable[str]) -> None:
        self.log.delete_topics(names)

    def topics(self) -> Mapping[str, TopicDescription]:
        self.note("topics")
        return self.log.topics()

    def partitions_of(self, topic: str) -> int:
        self.note("partitions_of")
        return self.log.partitions_of(topic)

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.note("begin_offsets")
        return self.log.begin_offsets(partitions)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        self.note("end_offsets")
        return self.log.end_offsets(partitions, isolation)

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        return self.log.offsets_for_time(partitions, timestamp_ms)

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self.note("committed_offsets")
        return self.log.committed_offsets(group_id, partitions)

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        self.note("claim")
        return self.log.claim(group_id, partitions, owner)

    def release(self, *claims: Claim) -> None:
        self.note("release")
        self.log.release(*claims)

    def consumer(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Consumer:
        return self.log.consumer(isolation)

    def producer(self, transactional_id: str | None = None) -> Producer:
        self.note("producer")
        return WatchedProducer(self, self.log.producer(transactional_id))

    def deletes_after_ms(self, topic: str) -> int | None:
        return self.log.deletes_after_ms(topic)

    def keep_windows(self, topic: str, retention_ms: int) -> None:
        self.log.keep_windows(topic, retention_ms)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        self.log.delete_records(before)

    def maintain(self) -> None:
        self.log.maintain()

    def close(self) -> None:
        self.log.close()

    # --- for tests

    def write(
        self, partition: TopicPartition, *records: tuple[bytes | None, bytes | None, int], headers: Headers = ()
    ) -> None:
        """Key, value and timestamp of each."""
        producer = self.log.producer()
        for key, value, timestamp_ms in records:
            producer.send(partition, key, value, timestamp_ms, headers)
        producer.flush()
        producer.close()

    def read(self, partition: TopicPartition) -> list[tuple[bytes | None, bytes | None, int]]:
        """All that is committed: key, value and timestamp of each record."""
        return [
            (key, value, timestamp_ms)
            for batch in self.batches(partition)
            for key, value, timestamp_ms in zip(batch.keys, batch.values, batch.timestamps_ms, strict=True)
        ]

    def headers(self, partition: TopicPartition) -> list[Headers]:
        return [one for batch in self.batches(partition) for one in (batch.headers or [()] * len(batch))]

    def batches(self, partition: TopicPartition) -> list[RecordBatch]:
        consumer = self.log.consumer()
        consumer.assign([partition])
        consumer.seek(partition, self.log.begin_offsets([partition])[partition])
        return consumer.poll(0, 1_000_000)


class WatchedProducer:
    def __init__(self, watched: WatchedLog, producer: Producer) -> None:
        self._watched = watched
        self._producer = producer

    def begin_transaction(self) -> None:
        self._watched.note("begin_transaction")
        self._producer.begin_transaction()

    @property
    def lingers(self) -> bool:
        return self._producer.lingers

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        self._watched.note("send")
        self._producer.send(partition, key, value, timestamp_ms, headers)

    def send_columns(
        self,
        partition: TopicPartition,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        for _ in keys:
            self._watched.note("send")
        self._producer.send_columns(partition, keys, values, timestamps_ms)

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        return self._producer.limits_of(partition)

    def send_now(self) -> None:
        self._watched.note("send_now")
        self._producer.send_now()

    def flush(self) -> None:
        self._watched.note("flush")
        self._producer.flush()

    def commit_transaction(self, offsets: OffsetsToCommit = ()) -> None:
        self._watched.note("commit_transaction")
        self._producer.commit_transaction(offsets)

    def abort_transaction(self) -> None:
        self._watched.note("abort_transaction")
        self._producer.abort_transaction()

    def commit_offsets(self, offsets: OffsetsToCommit) -> None:
        self._watched.note("commit_offsets")
        self._producer.commit_offsets(offsets)

    def guard(self, claims: Sequence[Claim]) -> None:
        self._producer.guard(claims)

    def discard(self) -> None:
        self._producer.discard()

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        return self._producer.last_offsets()

    def close(self) -> None:
        self._watched.note("close_producer")
        self._producer.close()
