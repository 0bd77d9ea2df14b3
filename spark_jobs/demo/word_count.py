"""The application of `assignor demo`: how often each package of Python's standard library uses each word.

    lines (by module) --join--> with its package --> words --repartition by package and word--> count --> word-counts
    modules (a table) --^

It has a stream-table join, a repartition step and a count, so two subtopologies with a store each. A plain loop over
the same lines computes the same counts, and the two must be exactly equal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from assignor.types import TopicPartition
from spark_jobs.demo.stdlib_text import SourceLine
from streams_runtime.application import Application
from streams_runtime.dsl import StreamsBuilder
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.serdes import LONG, STRING

LINES = "lines"
MODULES = "modules"
COUNTS = "word-counts"
COUNT_STORE = "counts"
PACKAGE_STORE = "packages"
PARTITIONS = 6

_WORD = re.compile(r"[A-Za-z]{4,}")
_TABLE_TIME_MS = 1_000
"""In stream time all lines come after the table, and a task takes the record with the lowest timestamp first."""

_KEPT = {"retention.ms": "-1"}  # by their timestamps these records are more than fifty years old

_FLUSH_EVERY = 50_000
_POLL_RECORDS = 10_000


def word_count(configs: Mapping[str, object]) -> Application:
    """The application. `configs`: dotted names, `application.id` and `bootstrap.servers` among them."""
    builder = StreamsBuilder()
    packages = builder.table(MODULES, key_serde=STRING, value_serde=STRING, store=PACKAGE_STORE)
    (
        builder.stream(LINES, key_serde=STRING, value_serde=STRING)
        .join(packages, _with_package)
        .flat_map(_words)
        .group_by_key(key_serde=STRING, value_serde=STRING)
        .count(store=COUNT_STORE)
        .to_stream()
        .to(COUNTS, key_serde=STRING, value_serde=LONG)
    )
    return Application(builder.build(), configs)


def expected_counts(lines: Iterable[SourceLine]) -> dict[str, int]:
    """The plain computation: "package word" to how often."""
    return dict(Counter(f"{line.package} {word}" for line in lines for word in _WORD.findall(line.text)))


class TextFeed:
    """Creates the topics and writes the table; then lines, all at once or piece by piece."""

    def __init__(self, log: Log, lines: Iterable[SourceLine]) -> None:
        """`lines`: their modules make up the table, which is complete before the first line is written."""
        log.create_topics(NewTopic(topic, PARTITIONS, _KEPT) for topic in (LINES, MODULES, COUNTS))
        self._producer = log.producer()
        self._count = 0
        for module, package in {line.module: line.package for line in lines}.items():
            key = module.encode()
            self._producer.send(_partition(MODULES, key), key, package.encode(), _TABLE_TIME_MS)
        self._producer.flush()

    def write(self, lines: Iterable[SourceLine]) -> None:
        """Write lines; on return they can be read."""
        for line in lines:
            self._count += 1
            key = line.module.encode()
            self._producer.send(_partition(LINES, key), key, line.text.encode(), _TABLE_TIME_MS + self._count)
            if self._count % _FLUSH_EVERY == 0:
                self._producer.flush()
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()


def read_counts(log: Log) -> dict[str, int]:
    """The application's result: the last count of each key in the output topic."""
    counts: dict[str, int] = {}
    for key, value in _all_records(log, COUNTS):
        counts[STRING.deserialize(key)] = LONG.deserialize(value)
    return counts


def different_counts(found: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    """One text for each key whose count differs."""
    return [
        f"{key!r}: {found.get(key, 0)} instead of {expected.get(key, 0)}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key, 0) != expected.get(key, 0)
    ]


def _partition(topic: str, key: bytes) -> TopicPartition:
    return TopicPartition(topic, partition_of(key, PARTITIONS))


def _with_package(line: str, package: str) -> tuple[str, str]:
    return package, line


def _words(_module: str, packaged: tuple[str, str]) -> Iterator[tuple[str, str]]:
    package, line = packaged
    for word in _WORD.findall(line):
        yield f"{package} {word}", ""


def _all_records(log: Log, topic: str) -> Iterator[tuple[bytes, bytes]]:
    partitions = [TopicPartition(topic, number) for number in range(log.topics()[topic].partitions)]
    ends = log.end_offsets(partitions)
    consumer = log.consumer()
    try:
        consumer.assign(partitions)
        for partition, begin in log.begin_offsets(partitions).items():
            consumer.seek(partition, begin)
        while any((consumer.position(partition) or 0) < end for partition, end in ends.items()):
            for batch in consumer.poll(100, _POLL_RECORDS):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    if key is not None and value is not None:
                        yield key, value
    finally:
        consumer.close()
