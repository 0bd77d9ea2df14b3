"""A log in memory that notes down who asked what, and fails when it is told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from assignor import TopicPartition
from streams_runtime import Headers
from streams_runtime.logs.base import Producer, RecordBatch
from streams_runtime.logs.in_memory import InMemoryLog

NOTED = frozenset({
    "topics", "partitions_of", "begin_offsets", "end_offsets", "committed_offsets", "claim", "release",
    "begin_transaction", "send", "send_now", "flush", "commit_transaction", "abort_transaction", "commit_offsets",
})  # fmt: skip
"""The calls of a log and of its producers that are noted. Other calls are only passed on."""

if TYPE_CHECKING:  # to type checkers, a watched log has the methods of the log that it passes its calls to
    _AnyLog = InMemoryLog
else:
    _AnyLog = object


class WatchedLog(_AnyLog):
    """`log`: the log itself, whose calls are not noted. `calls`: the names of the calls of the log and of its
    producers, in order. `fail`: raised by the call of that name.
    """

    def __init__(self) -> None:
        self.log = InMemoryLog()
        self.calls: list[str] = []
        self.fail: dict[str, Exception] = {}

    def __getattr__(self, name: str) -> Any:
        return self.noting(name, getattr(self.log, name))

    def noting(self, name: str, call: Any) -> Any:
        """The call, which is noted before it is made if its name is one of `NOTED`."""
        return partial(self._note_and_call, name, call) if name in NOTED else call

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.fail:
            raise self.fail[call]

    def _note_and_call(self, name: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.note(name)
        return call(*arguments, **named)

    def count(self, call: str) -> int:
        return self.calls.count(call)

    def producer(self, transactional_id: str | None = None) -> Any:
        self.note("producer")
        return WatchedProducer(self, self.log.producer(transactional_id))

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

    def __getattr__(self, name: str) -> Any:
        return self._watched.noting(name, getattr(self._producer, name))

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

    def close(self) -> None:
        self._watched.note("close_producer")
        self._producer.close()
