"""Input for a group that is to run flat out: every partition always has more than its task can process soon.

And whether the group has counted right in the end, in spite of all that happened to it.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Self

from assignor.errors import AssignorFault
from assignor.types import TopicPartition
from benchmarks.applications import APPLICATION_ID, EVENTS, RESULTS
from streams_runtime.logs.base import IsolationLevel, Log, RawColumns
from streams_runtime.logs.topic_reading import partitions_of
from streams_runtime.serdes import LONG

AHEAD_RECORDS = 200_000
"""So many records of each partition are not processed yet, at least."""

_ROUND_RECORDS = 20_000
_LOOK_INTERVAL_S = 0.02
_DIFFERENT_KEYS = 1_000
_VALUE = b"event"
_ENDS_WITHIN_S = 300.0
_POLL_MS, _POLL_RECORDS = 100, 50_000


class FlatOut:
    """Writes whenever a partition has less than `AHEAD_RECORDS` left, while the context lasts. No key is written to two
    partitions.
    """

    def __init__(self, log: Log, partitions: int, chance: random.Random) -> None:
        self._log = log
        self._producer = log.producer()
        self._keys = {
            TopicPartition(EVENTS, number): [
                (number * _DIFFERENT_KEYS + chance.randrange(_DIFFERENT_KEYS)).to_bytes(8, "big")
                for _ in range(_ROUND_RECORDS)
            ]
            for number in range(partitions)
        }
        self._rounds: Counter[TopicPartition] = Counter()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._producer.close()

    def stop(self) -> None:
        """Nothing is written any more."""
        self._stopped.set()
        self._thread.join()

    @property
    def records(self) -> int:
        """Written so far."""
        return self._rounds.total() * _ROUND_RECORDS

    def miscounted(self) -> int:
        """After `stop`: wait until the group has committed all, and give the number of keys whose last result is not
        how often they were written. Raises AssignorFault when the group does not get there.
        """
        deadline_s = time.monotonic() + _ENDS_WITHIN_S
        while any(map(self._left, self._keys)):
            if time.monotonic() > deadline_s:
                raise AssignorFault(f"the group has not processed everything within {_ENDS_WITHIN_S:g} s")
            time.sleep(_LOOK_INTERVAL_S)
        written = {
            key: count * self._rounds[partition]
            for partition, keys in self._keys.items()
            for key, count in Counter(keys).items()
        }
        return miscounted(self._log, written)

    def _left(self, partition: TopicPartition) -> int:
        committed = self._log.committed_offsets(APPLICATION_ID, [partition]).get(partition)
        return self._rounds[partition] * _ROUND_RECORDS - (0 if committed is None else committed.offset)

    def _write(self) -> None:
        values = [_VALUE] * _ROUND_RECORDS
        while not self._stopped.wait(_LOOK_INTERVAL_S):
            for partition, keys in self._keys.items():
                if self._left(partition) < AHEAD_RECORDS:
                    now_ms = time.time_ns() // 1_000_000
                    self._producer.send_columns(partition, RawColumns(keys, values, [now_ms] * _ROUND_RECORDS))
                    self._producer.flush()
                    self._rounds[partition] += 1


def miscounted(log: Log, written: Mapping[bytes, int]) -> int:
    """The number of keys whose last committed result is not how often they were written."""
    counted = _last_results(log)
    return sum(counted.get(key) != written.get(key) for key in counted.keys() | written.keys())


def _last_results(log: Log) -> dict[bytes, int]:
    """By key."""
    partitions = partitions_of(log, RESULTS)
    ends = log.end_offsets(partitions, IsolationLevel.READ_COMMITTED)
    found: dict[Any, Any] = {}
    with closing(log.consumer(IsolationLevel.READ_COMMITTED)) as consumer:
        left = {partition for partition in partitions if ends[partition]}
        consumer.assign(left)
        for partition in left:
            consumer.seek(partition, 0)
        while left:
            for batch in consumer.poll(_POLL_MS, _POLL_RECORDS):
                found.update(zip(batch.keys, batch.values, strict=True))
            left = {each for each in left if (consumer.position(each) or 0) < ends[each]}
    return {key: LONG.deserialize(value) for key, value in found.items()}
