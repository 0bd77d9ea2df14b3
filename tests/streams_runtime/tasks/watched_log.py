"""A log in memory that notes down who asked what, and fails when it is told to."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import Producer, RawColumns, RecordBatch
from streams_runtime.logs.in_memory import InMemoryLog

if TYPE_CHECKING:
    _Passed = InMemoryLog
else:
    _Passed = object

_OF_LOGS = ("topics", "partitions_of", "begin_offsets", "end_offsets", "committed_offsets", "claim", "release")
_OF_PRODUCERS = ("begin_transaction", "send", "send_now", "flush", "commit_transaction", "abort_transaction")
_NOTED = {*_OF_LOGS, *_OF_PRODUCERS, "commit_offsets"}


class WatchedLog(_Passed):
    """Passes every call on to `log`, whose calls of itself are not noted.

    `calls`: names, in order, of the log's and its producers' calls. `fail`: raised by the call of that name.
    """

    def __init__(self) -> None:
        self.log = InMemoryLog()
        self.calls: list[str] = []
        self.fail: dict[str, Exception] = {}

    def __getattr__(self, name: str) -> Any:
        return self.noting(name, getattr(self.log, name))

    def noting(self, name: str, call: Callable[..., Any]) -> Any:
        if name not in _NOTED:
            return call

        def noted(*arguments: Any, **named: Any) -> Any:
            self.note(name)
            return call(*arguments, **named)

        return noted

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.fail:
            raise self.fail[call]

    def count(self, call: str) -> int:
        return self.calls.count(call)

    def producer(self, transactional_id: str | None = None) -> Producer:
        self.note("producer")
        return cast(Producer, _WatchedProducer(self, self.log.producer(transactional_id)))

    # --- for tests

    def write(
        self, partition: TopicPartition, *records: tuple[bytes | None, bytes | None, int], headers: Headers = ()
    ) -> None:
        """Key, value and timestamp of each."""
        producer = self.log.producer()
        for key, value, timestamp_ms in records:
            producer.send(partition, key, value, timestamp_ms, headers)
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


class _WatchedProducer:
    def __init__(self, watched: WatchedLog, producer: Producer) -> None:
        self._watched = watched
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return self._watched.noting(name, getattr(self._producer, name))

    def send_columns(self, partition: TopicPartition, columns: RawColumns) -> None:
        for _ in columns.keys:
            self._watched.note("send")
        self._producer.send_columns(partition, columns)

    def close(self) -> None:
        self._watched.note("close_producer")
        self._producer.close()
