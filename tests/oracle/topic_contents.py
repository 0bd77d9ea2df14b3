"""What committed records a topic has, read through the log of the runtime: from its beginning to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import Log

_POLL_MS = 200
_POLL_RECORDS = 10_000
_LONGEST_WAIT_S = 180.0


class TopicRecord(NamedTuple):
    """Offsets are left out: transaction markers take some, and how many depends on when was committed."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


Contents = dict[int, list[TopicRecord]]
"""Partition to its records, in their order."""


def contents(log: Log, topic: str) -> Contents:
    partitions = [TopicPartition(topic, number) for number in range(log.topics()[topic].partitions)]
    ends = log.end_offsets(partitions)
    found: Contents = {partition.partition: [] for partition in partitions}
    consumer = log.consumer()
    try:
        consumer.assign(partitions)
        for partition, begin in log.begin_offsets(partitions).items():
            consumer.seek(partition, begin)
        give_up_at = time.monotonic() + _LONGEST_WAIT_S
        while any((consumer.position(partition) or 0) < end for partition, end in ends.items()):
            assert time.monotonic() < give_up_at, f"{topic} cannot be read to its end"
            for batch in consumer.poll(_POLL_MS, _POLL_RECORDS):
                headers = batch.headers or [()] * len(batch)
                columns = zip(batch.keys, batch.values, batch.timestamps_ms, headers, strict=True)
                found[batch.partition.partition] += [TopicRecord(*record) for record in columns]
    finally:
        consumer.close()
    return found


def contents_when(log: Log, topic: str, complete: Callable[[Contents], bool]) -> Contents:
    """Once they are complete; otherwise, when time is up, as they are then: the assertion that follows shows them."""
    give_up_at = time.monotonic() + _LONGEST_WAIT_S
    while topic not in log.topics() or not complete(found := contents(log, topic)):
        if time.monotonic() > give_up_at:
            return contents(log, topic)
        time.sleep(0.2)  # another program writes it; nothing tells when
    return found


def by_key(found: Contents) -> dict[bytes | None, list[TopicRecord]]:
    """Of each key its records; all of a key are in one partition, so their order is kept."""
    keys: dict[bytes | None, list[TopicRecord]] = {}
    for records in found.values():
        for record in records:
            keys.setdefault(record.key, []).append(record)
    return keys
