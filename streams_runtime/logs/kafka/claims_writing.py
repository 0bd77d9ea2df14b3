"""Writes records of claims topics: idempotent, each call's in one batch, and acknowledged by all replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from assignor.types import TopicPartition
from streams_runtime.logs.errors import LogError
from streams_runtime.logs.kafka.accumulating import BATCH_BYTES, Accumulator, PartitionQueue
from streams_runtime.logs.kafka.identity import ProducerIdentity
from streams_runtime.logs.kafka.leadership import Leadership
from streams_runtime.logs.kafka.sending import Sender
from streams_runtime.logs.kafka.settings import LogSettings


class ClaimsWriter:
    """Used inside of one event loop. After an error it goes on under a new producer id, so nothing late comes after."""

    def __init__(self, leadership: Leadership, settings: LogSettings) -> None:
        self._leadership = leadership
        self._settings = settings
        self._sender: Sender | None = None
        self._accumulator = Accumulator()
        self._lock = asyncio.Lock()

    async def write(self, partition: TopicPartition, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Raises LogTimeout, LogError; then the records are not written any more, unless they are already."""
        async with self._lock:
            if self._sender is None:
                identity = ProducerIdentity(self._leadership, None, self._settings.transaction_timeout_ms)
                await identity.open()
                self._accumulator = Accumulator()
                self._sender = Sender(self._leadership, identity, self._accumulator, 0)
            queue = self._accumulator.queues.setdefault(
                partition, PartitionQueue(BATCH_BYTES, self._settings.codec, is_transactional=False)
            )
            now_ms = round(time.time() * 1_000)
            for key, value in records:
                queue.append(key, value, now_ms, (), len(key) + len(value))
            self._accumulator.close_open()
            try:
                await self._sender.drain()
            except LogError:
                await self.close()
                raise

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.stop()
