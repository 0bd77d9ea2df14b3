"""The application of `assignor demo`: counts how often each package of Python's standard library uses each word.

The records flow from the input topics on the left to the output topic on the right:

    lines (by module) --join--> with its package --> words --repartition by package and word--> count --> word-counts
    modules (a table) --^

The application has a stream-table join, a repartition step and a count. So the application has two subtopologies with
one store each. The counts must exactly equal the counts of a plain loop over the input lines. The input text is the
source code of Python's standard library, which exists on every machine.
"""

import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.record_producer import RecordProducer
from streams_runtime.logs.topic_reading import read_topic
from streams_runtime.serdes import LONG, STRING

LINES = "lines"
MODULES = "modules"
COUNTS = "word-counts"
COUNT_STORE = "counts"
PACKAGE_STORE = "packages"
PARTITIONS = 6

_WORD = re.compile(r"[A-Za-z]{4,}")
_TABLE_TIME_MS = 1_000
"""The timestamp of all records of the table. The timestamp is lower than the timestamp of every line. A task processes
the record with the lowest timestamp first. So the task reads the table before the lines.
"""

# Turn off retention by time. Retention would delete these records, because their timestamps are near the epoch.
_KEPT = {"retention.ms": "-1"}


class SourceLine(NamedTuple):
    """A line of source code. `module`: the dotted name of the line's module. `package`: the first part of the module's
    name.
    """

    module: str
    package: str
    text: str


def stdlib_lines(at_least: int, directory: Path | None = None) -> Iterator[SourceLine]:
    """Yields the lines of the source files, in the order of the paths. Stops after the file with which the number of
    lines reaches `at_least`.

    `directory`: the root of the files; None for the standard library of this Python. Files that are not UTF-8 are
    skipped.
    """
    root = directory or Path(sysconfig.get_paths()["stdlib"])
    count = 0
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if "site-packages" in relative.parts or count >= at_least:
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (UnicodeDecodeError, OSError):
            continue
        module = ".".join(relative.with_suffix("").parts)
        for line in lines:
            yield SourceLine(module, relative.parts[0].removesuffix(".py"), line)
        count += len(lines)


def word_count(configs: Mapping[str, object]) -> Application:
    """Makes the word-count application. `configs`: config values by dotted names, including `application.id` and
    `bootstrap.servers`.
    """
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
    """Returns the expected count of each "package word", computed by a plain loop."""
    return dict(Counter(f"{line.package} {word}" for line in lines for word in _WORD.findall(line.text)))


class TextFeed:
    """Creates the input and output topics and writes the table of modules. `write` writes lines, and may be called
    several times.
    """

    def __init__(self, log: Log, lines: Iterable[SourceLine]) -> None:
        """`lines`: the source lines; the constructor reads only their modules. The constructor writes the table of
        modules, so the table is complete before `write` sends the first line.
        """
        log.create_topics(NewTopic(topic, PARTITIONS, _KEPT) for topic in (LINES, MODULES, COUNTS))
        self._producer = RecordProducer(log, STRING, STRING)
        self._count = 0
        for module, package in {line.module: line.package for line in lines}.items():
            self._producer.send(MODULES, module, package, timestamp_ms=_TABLE_TIME_MS)
        self._producer.flush()

    def write(self, lines: Iterable[SourceLine]) -> None:
        """Writes lines to the input topic. When `write` returns, consumers can read the lines."""
        for line in lines:
            self._count += 1
            self._producer.send(LINES, line.module, line.text, timestamp_ms=_TABLE_TIME_MS + self._count)
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()


def read_counts(log: Log) -> dict[str, int]:
    """Returns the result of the application: the last count of each key in the output topic."""
    return {str(record.key): int(record.value or 0) for record in read_topic(log, COUNTS, STRING, LONG)}


def different_counts(found: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    """Returns a text for each key whose count differs from the expected count."""
    return [
        f"{key!r}: {found.get(key, 0)} instead of {expected.get(key, 0)}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key, 0) != expected.get(key, 0)
    ]


def _with_package(line: str, package: str) -> tuple[str, str]:
    return package, line


def _words(_module: str, packaged: tuple[str, str]) -> Iterator[tuple[str, str]]:
    package, line = packaged
    for word in _WORD.findall(line):
        yield f"{package} {word}", ""
