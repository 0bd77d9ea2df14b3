"""A real log that is slow or away when a test says so, and what was asked of it."""

from collections.abc import Iterable
from typing import Any

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, IsolationLevel, OffsetAndMetadata, RecordBatch
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.log_errors import LogError


class FailingLog(InMemoryLog):
    """`errors`: what these calls raise, by name, until it is taken out. `isolations`: of the end offsets asked for.

    `polls`: time-out and number of records of each poll. `end_marker`: every partition's last offset is a transaction
    marker, which no poll gives.
    """

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str, LogError] = {}
        self.isolations: list[IsolationLevel] = []
        self.polls: list[tuple[int, int]] = []
        self.end_marker = False

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        self.fail("end_offsets")
        self.isolations.append(isolation)
        ends = super().end_offsets(partitions, isolation)
        return {partition: end + self.end_marker for partition, end in ends.items()}

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.fail("begin_offsets")
        return super().begin_offsets(partitions)

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self.fail("committed_offsets")
        return super().committed_offsets(group_id, partitions)

    def consumer(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Consumer:
        return _FailingConsumer(self, super().consumer(isolation))

    def real_end(self, partition: TopicPartition) -> int:
        return super().end_offsets([partition])[partition]

    def fail(self, call: str) -> None:
        if call in self.errors:
            raise self.errors[call]


class _FailingConsumer:
    def __init__(self, log: FailingLog, consumer: Consumer) -> None:
        self._log = log
        self._consumer = consumer

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        self._log.polls.append((timeout_ms, max_records))
        self._log.fail("poll")
        return self._consumer.poll(min(timeout_ms, 1), max_records)

    def position(self, partition: TopicPartition) -> int | None:
        position = self._consumer.position(partition)
        at_end = self._log.end_marker and position == self._log.real_end(partition)
        return position + 1 if at_end and position is not None else position

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)
