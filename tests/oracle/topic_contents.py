"""What committed records a topic has, read through the log of the runtime: from its beginning to its end."""

import time
from collections.abc import Callable
from typing import NamedTuple

from streams_runtime.common.records import Headers
from streams_runtime.logs.base import Log
from streams_runtime.logs.topic_reading import partitions_of, read_topic
from streams_runtime.serdes import BYTES

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
    found: Contents = {partition.partition: [] for partition in partitions_of(log, topic)}
    for record in read_topic(log, topic, BYTES, BYTES):
        found[record.partition].append(TopicRecord(record.key, record.value, record.timestamp_ms, record.headers))
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
