"""A real log that is slow or away when a test says so, and what was asked of it."""

from collections.abc import Iterable
from typing import Any, cast

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, IsolationLevel, RecordBatch
from tests.streams_runtime.tasks.watched_log import WatchedLog

_COMMITTED = IsolationLevel.READ_COMMITTED


class FailingLog(WatchedLog):
    """`isolations`: of the end offsets asked for. `polls`: time-out and number of records of each poll.

    `end_marker`: every partition's last offset is a transaction marker, which no poll gives. `stuck`: partitions of
    which no poll gives records, as if they had no leader.
    """

    def __init__(self) -> None:
        super().__init__()
        self.isolations: list[IsolationLevel] = []
        self.polls: list[tuple[int, int]] = []
        self.end_marker = False
        self.stuck: set[TopicPartition] = set()

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = _COMMITTED
    ) -> dict[TopicPartition, int]:
        self.note("end_offsets")
        self.isolations.append(isolation)
        ends = self.log.end_offsets(partitions, isolation)
        return {partition: end + self.end_marker for partition, end in ends.items()}

    def consumer(self, isolation: IsolationLevel = _COMMITTED, *, whole_transactions: bool = False) -> Consumer:
        inside = self.log.consumer(isolation, whole_transactions=whole_transactions)
        return cast(Consumer, _FailingConsumer(self, inside))


class _FailingConsumer:
    def __init__(self, log: FailingLog, consumer: Consumer) -> None:
        self._log = log
        self._consumer = consumer

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        self._log.polls.append((timeout_ms, max_records))
        self._log.note("poll")
        stuck = self._log.stuck & (self._consumer.assignment() - self._consumer.paused())
        self._consumer.pause(stuck)
        try:
            return self._consumer.poll(min(timeout_ms, 1), max_records)
        finally:
            self._consumer.resume(stuck)

    def position(self, partition: TopicPartition) -> int | None:
        position = self._consumer.position(partition)
        at_end = self._log.end_marker and position == self._log.log.end_offsets([partition])[partition]
        return position + 1 if at_end and position is not None else position

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)
