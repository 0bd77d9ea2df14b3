"""When records that wait for `linger.ms` are sent, and with which others. The broker is a function of the test."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.kafka.accumulating import Accumulator, Batch, PartitionQueue
from streams_runtime.logs.kafka.sending import Sender

P, Q = TopicPartition("topic", 0), TopicPartition("topic", 1)
AN_HOUR_MS = 3_600_000


class Sending:
    """A sender, and how many records of each partition its requests had. `meanwhile`: called with each request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.accumulator = Accumulator()
        for partition in (P, Q):
            self.accumulator.queues[partition] = PartitionQueue(1_000, 0, is_transactional=False)
        leadership = cast(Any, SimpleNamespace(settings=SimpleNamespace(request_timeout_s=1, api_timeout_s=10)))
        self.sender = Sender(leadership, cast(Any, None), self.accumulator, AN_HOUR_MS)
        self.requests: list[dict[TopicPartition, int]] = []
        self.meanwhile: list[Callable[[], None]] = []
        monkeypatch.setattr(self.sender, "_send_all", self._answer)

    def take(self, partition: TopicPartition, count: int) -> None:
        for _ in range(count):
            self.accumulator.append(self.accumulator.queues[partition], None, b"v", 0, (), 1)

    async def _answer(self, heads: dict[TopicPartition, Batch]) -> None:
        self.requests.append({partition: batch.count for partition, batch in heads.items()})
        for call in self.meanwhile:
            call()
        self.meanwhile = []
        for partition, batch in heads.items():
            self.accumulator.done(partition, batch, None)


async def test_should_send_at_once_what_need_not_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    sending = Sending(monkeypatch)

    sending.take(P, 2)
    sending.take(Q, 1)
    sending.sender.start()
    await sending.sender.drain()
    assert sending.requests == [], "they linger"
    sending.sender.send_open()
    await sending.sender.drain(lambda: sending.accumulator.bytes == 0)
    assert sending.requests == [{P: 2, Q: 1}]


async def test_should_send_together_what_comes_while_a_request_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that often runs out of records would otherwise have a request for each of them wait in a line."""
    sending = Sending(monkeypatch)

    def three_more() -> None:
        for _ in range(3):
            sending.take(P, 1)
            sending.sender.send_open()

    sending.meanwhile = [three_more]
    sending.take(P, 1)
    sending.sender.send_open()
    await sending.sender.drain(lambda: sending.accumulator.bytes == 0)
    assert sending.requests == [{P: 1}, {P: 3}]
