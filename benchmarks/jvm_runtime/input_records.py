"""What the applications read: written once for each number of keys, to the broker and to an embedded log.

The same numbers give the same records. A key is eight bytes, a value a hundred. The events are in the order of their
timestamps, over ten minutes. So are the records of the other stream of a join. The table has every key once, and all of
it is older than the first event.
"""

import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from assignor.types import TopicPartition
from benchmarks.jvm_runtime.cells import FOREIGN_KEY_JOIN, GLOBAL_JOIN, JOIN, ROWS_A_KEY, STREAM_JOIN, Cell
from benchmarks.jvm_runtime.topologies import EVENTS, OTHERS, TABLE
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

    def records_of(self, topic: str) -> Iterator[InputRecord]:
        """`topic`: one of `topics_of`."""
        kind, keys = topic.split("-")
        return self.table(int(keys)) if kind == TABLE else self.events(_SEED if kind == EVENTS else _SEED + 2)

    def events(self, seed: int = _SEED) -> Iterator[InputRecord]:
        """Every key is as likely as any other one."""
        chance = random.Random(seed)
        for number in range(self.records):
            key = chance.randrange(self.keys)
            timestamp_ms = self.first_ms + number * SPAN_MS // self.records
            yield InputRecord(key % PARTITIONS, _key(key), _value(chance), timestamp_ms)

    def table(self, keys: int) -> Iterator[InputRecord]:
        chance = random.Random(_SEED + 1)
        for key in range(keys):
            yield InputRecord(key % PARTITIONS, _key(key), _value(chance), self.first_ms - _MINUTE_MS)


def first_timestamp_ms(now_ms: int) -> int:
    """So that the events end in the minute before now: no log finds them too old to keep."""
    return now_ms // _MINUTE_MS * _MINUTE_MS - SPAN_MS


def partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def topic_of_events(keys: int) -> str:
    return f"{EVENTS}-{keys}"


def topics_of(cell: Cell) -> tuple[str, ...]:
    """The topic of the events, and the topic beside it if there is one."""
    beside = {
        JOIN: f"{TABLE}-{cell.keys}",
        GLOBAL_JOIN: f"{TABLE}-{cell.keys}",
        FOREIGN_KEY_JOIN: f"{TABLE}-{cell.keys * ROWS_A_KEY}",
        STREAM_JOIN: f"{OTHERS}-{cell.keys}",
    }
    events = topic_of_events(cell.keys)
    return (events, beside[cell.application]) if cell.application in beside else (events,)


class EmbeddedLogs:
    """Logs in `directory` with topics of the input, for others to copy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def with_input(self, what: Input, topics: Sequence[str]) -> Path:
        """The directory of a log that nobody has open."""
        found = self._directory / "-".join((str(what.records), *topics))
        if not found.exists():
            found.mkdir(parents=True)
            with closing(open_log(f"embedded:{found}")) as log:
                write(log, what, topics)
        return found


def write(log: Log, what: Input, topics: Sequence[str]) -> None:
    """Into topics that it creates."""
    for topic in topics:
        log.create_topics([NewTopic(topic, PARTITIONS)])
        of_topic = partitions(topic)
        with closing(log.producer()) as producer:
            for record in what.records_of(topic):
                producer.send(of_topic[record.partition], record.key, record.value, record.timestamp_ms)


def _key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _value(chance: random.Random) -> bytes:
    return _NUMBER.pack(chance.randrange(_NUMBERS)) + chance.randbytes(VALUE_BYTES - _NUMBER.size)
