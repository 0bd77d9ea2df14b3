"""Writes a few records to a log every few milliseconds, so that a task that runs always has some soon."""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Self

from assignor.types import TopicPartition
from streams_runtime.logs.base import Log

FedRecord = tuple[TopicPartition, bytes | None, bytes]
"""Where a record goes, its key and its value."""


class Feed:
    """Writes the next of `rounds` every `interval_s` seconds while the context lasts. All of a round is flushed."""

    def __init__(self, log: Log, interval_s: float, rounds: Iterator[Sequence[FedRecord]]) -> None:
        self._producer = log.producer()
        self._interval_s = interval_s
        self._rounds = rounds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.close()

    def _write(self) -> None:
        while not self._stopped.wait(self._interval_s):
            now_ms = time.time_ns() // 1_000_000
            for partition, key, value in next(self._rounds):
                self._producer.send(partition, key, value, now_ms)
            self._producer.flush()
