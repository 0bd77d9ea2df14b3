"""What the applications read: written once for each number of keys, to the broker and to an embedded log.

The same numbers give the same records. A key is eight bytes, a value a hundred. The events are in the order of their
timestamps, over ten minutes. The table has every key once, and all of it is older than the first event.
"""

import random
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from assignor.types import TopicPartition
from benchmarks.jvm_runtime.topologies import EVENTS, TABLE
from streams_runtime import NewTopic, open_log
from streams_runtime.logs.base import Log

PARTITIONS = 4
VALUE_BYTES = 100
SPAN_MS = 600_000
_MINUTE_MS = 60_000
_NUMBERS = 1_000
_NUMBER = struct.Struct(">q")
_SEED = 7


class InputRecord(NamedTuple):
    partition: int
    key: bytes
    value: bytes
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Input:
    """`records`: how many events. `first_ms`: the timestamp of the first one, at the start of a minute."""

    records: int
    keys: int
    first_ms: int

    def events(self) -> Iterator[InputRecord]:
        """Every key is as likely as any other one."""
        chance = random.Random(_SEED)
        for number in range(self.records):
            key = chance.randrange(self.keys)
            timestamp_ms = self.first_ms + number * SPAN_MS // self.records
            yield InputRecord(key % PARTITIONS, _key(key), _value(chance), timestamp_ms)

    def table(self) -> Iterator[InputRecord]:
        chance = random.Random(_SEED + 1)
        for key in range(self.keys):
            yield InputRecord(key % PARTITIONS, _key(key), _value(chance), self.first_ms - _MINUTE_MS)


def first_timestamp_ms(now_ms: int) -> int:
    """So that the events end in the minute before now: no log finds them too old to keep."""
    return now_ms // _MINUTE_MS * _MINUTE_MS - SPAN_MS


def partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def topic_of_events(keys: int) -> str:
    return f"{EVENTS}-{keys}"


def topic_of_table(keys: int) -> str:
    return f"{TABLE}-{keys}"


class EmbeddedLogs:
    """Logs in `directory` that have the events, and with the table if it is wanted, for others to copy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def with_input(self, what: Input, *, table: bool) -> Path:
        """The directory of a log that nobody has open."""
        found = self._directory / f"{what.keys}-{what.records}-{'table' if table else 'events'}"
        if not found.exists():
            found.mkdir(parents=True)
            with closing(open_log(f"embedded:{found}")) as log:
                write(log, what, table=table)
        return found


def write(log: Log, what: Input, *, table: bool, events: bool = True) -> None:
    """Into topics that it creates."""
    if events:
        _write(log, topic_of_events(what.keys), what.events())
    if table:
        _write(log, topic_of_table(what.keys), what.table())


def _write(log: Log, topic: str, records: Iterator[InputRecord]) -> None:
    log.create_topics([NewTopic(topic, PARTITIONS)])
    of_topic = partitions(topic)
    with closing(log.producer()) as producer:
        for record in records:
            producer.send(of_topic[record.partition], record.key, record.value, record.timestamp_ms)


def _key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _value(chance: random.Random) -> bytes:
    return _NUMBER.pack(chance.randrange(_NUMBERS)) + chance.randbytes(VALUE_BYTES - _NUMBER.size)
