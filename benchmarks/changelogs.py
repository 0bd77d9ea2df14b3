"""Changelogs to restore from, and input of many keys."""

import random
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice

from assignor.types import TopicPartition
from benchmarks.turns import progress
from streams_runtime.logs.base import Log, RawColumns

_PIECE = 10_000
_GOLDEN_RATIO = 0x9E3779B97F4A7C15
"""An odd number, so that its multiples modulo 2^64 are all different."""
_STEP_S = 0.01
_FIRST_TIMESTAMP_MS = 1_700_000_000_000


def fill(log: Log, partition: TopicPartition, records: int, *, key_bytes: int, value_bytes: int, first: int = 0) -> int:
    """Write so many records with different keys, drawn with a seed. Returns the bytes of their keys and values.
    `first`: number of the first one.
    """
    producer = log.producer()
    send = producer.send
    with progress() as bar:
        work = bar.add_task(f"writing {partition}", total=records)
        timestamp_ms = _FIRST_TIMESTAMP_MS + first
        for keys, values in _pieces(records, key_bytes, value_bytes, first):
            for key, value in zip(keys, values, strict=True):
                send(partition, key, value, timestamp_ms)
                timestamp_ms += 1
            bar.advance(work, len(keys))
    producer.close()
    return records * (key_bytes + value_bytes)


def key_of(number: int) -> bytes:
    """Different keys for different numbers below 2^64, in an order that is none, as with hashes."""
    return (number * _GOLDEN_RATIO % (1 << 64)).to_bytes(8, "big")


def write_keys(log: Log, partition: TopicPartition, keys: Iterable[bytes], value: bytes) -> None:
    """Write a record with this value for each of the keys, as new as now."""
    now_ms = time.time_ns() // 1_000_000
    left = iter(keys)
    with closing(log.producer()) as producer:
        while piece := list(islice(left, _PIECE)):
            producer.send_columns(partition, RawColumns(piece, [value] * len(piece), [now_ms] * len(piece)))


def write_steadily(
    log: Log, partition: TopicPartition, records_a_second: int, duration_s: float, *, key_bytes: int, value_bytes: int
) -> None:
    """Write so many records a second, a few every ten milliseconds, for so long."""
    producer = log.producer()
    start_s = time.monotonic()
    written = 0
    while (passed_s := time.monotonic() - start_s) < duration_s:
        due = int(passed_s * records_a_second) - written
        for keys, values in _pieces(due, key_bytes, value_bytes, written):
            for key, value in zip(keys, values, strict=True):
                producer.send(partition, key, value, _FIRST_TIMESTAMP_MS + written)
        producer.flush()
        written += due
        time.sleep(_STEP_S)
    producer.close()


def _pieces(records: int, key_bytes: int, value_bytes: int, first: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Keys in an order that is none, as hashes are, so that RocksDB has to sort them."""
    chance = random.Random(first)
    numbers = iter(range(first, first + records))
    while piece := list(islice(numbers, _PIECE)):
        all_keys = chance.randbytes(key_bytes * len(piece))
        all_values = chance.randbytes(value_bytes * len(piece))
        keys = [all_keys[at : at + key_bytes] for at in range(0, len(all_keys), key_bytes)]
        yield keys, [all_values[at : at + value_bytes] for at in range(0, len(all_values), value_bytes)]
