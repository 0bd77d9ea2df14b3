"""The application of most simulated groups: it counts words, and its committed counts have to be exact.

One subtopology: a source topic, a processor with one store and its changelog, an output topic. The rules are checked on
what is in the log, at any moment:
- exactly-once: the changelog and the output hold the counts of exactly those input records that the group has
  committed, and have them one after the other, each once.
- at-least-once: never less than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache

from assignor.types import TopicPartition
from streams_runtime.common.records import Record
from streams_runtime.instance.application import Application
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.serdes import LongSerde, StringSerde
from tests.simulation.cluster import (
    COUNTS_ARE_EXACT,
    OFFSETS_RISE,
    TASKS,
    WORDS,
    BuiltOnce,
    SimulatedCluster,
    StoreKind,
    application,
)
from tests.simulation.log import SharedLog
from tests.simulation.simulated_store import CountsBuilder
from tests.simulation.timeline import Timeline
from tests.simulation.windows import Windows

TOTALS, STORE = "totals", "counts"
COUNTING = (StoreKind.TRANSACTIONAL, StoreKind.WITH_CHECKPOINT_FILE, StoreKind.OWN)
"""The stores that count. Groups take turns."""
_TEXT, _LONG = StringSerde(), LongSerde()


class CountWord(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self._forward = context.forward
        self._counts = context.state_store(STORE)

    def process(self, record: Record[str, str]) -> None:
        count = (self._counts.get(record.key) or 0) + 1
        self._counts.put(record.key, count)
        self._forward(Record(record.key, count, record.timestamp_ms))


@lru_cache
def word_count(group_id: str, kind: StoreKind, *, exactly_once: bool) -> Application:
    topology = BuiltOnce()
    topology.add_source("words", WORDS, key_serde=_TEXT, value_serde=_TEXT)
    topology.add_processor("count", CountWord, "words")
    topology.add_state_store(CountsBuilder(STORE, kind is not StoreKind.OWN), "count")
    topology.add_sink("totals", TOTALS, "count", key_serde=_TEXT, value_serde=_LONG)
    return application(group_id, topology, kind, exactly_once=exactly_once)


class _Input:
    """The words of a partition of the source topic. `counts`: of all partitions together, up to where each has come."""

    def __init__(self, log: SharedLog, partition: TopicPartition, counts: Counter[bytes]) -> None:
        self.partition = partition
        self._counts = counts
        self._log = log
        self._waiting: list[bytes] = []  # read, and not counted yet
        self._read_to = 0
        self.at = 0

    def move(self, to: int) -> None:
        """Count the words up to, and without, this offset."""
        if to > self._read_to:
            for batch in self._log.batches_from(self.partition, self._read_to):
                self._waiting += [key for key in batch.keys if key is not None]
            self._read_to = self.at + len(self._waiting)
        self._counts.update(self._waiting[: to - self.at])
        del self._waiting[: to - self.at]
        self.at = to


class _Counts:
    """The counts in a partition of the changelog or the output. `counts`: of all partitions together; a word is in one
    of them only. `exactly`: each count has to be one more than the last one of its word.
    """

    def __init__(self, log: SharedLog, partition: TopicPartition, counts: Counter[bytes], *, exactly: bool) -> None:
        self._partition = partition
        self._counts = counts
        self._log = log
        self._exactly = exactly
        self._read_to = 0

    def move(self) -> None:
        """Read to the end. Raises AssertionError."""
        counts, end = self._counts, self._log.end_of(self._partition)
        if self._read_to == end:
            return
        for batch in self._log.batches_from(self._partition, self._read_to):
            for word, value in zip(batch.keys, batch.values, strict=True):
                assert word is not None
                assert value is not None
                count = int.from_bytes(value)
                assert not self._exactly or count == counts[word] + 1, (
                    f"{COUNTS_ARE_EXACT}: {self._partition} says {word.decode()}: {count} after {counts[word]}"
                )
                counts[word] = count
        self._read_to = end


class WordCounts(SimulatedCluster):
    def __init__(
        self, timeline: Timeline, group_id: str, windows: Windows, kind: StoreKind, *, exactly_once: bool
    ) -> None:
        counting = word_count(group_id, kind, exactly_once=exactly_once)
        super().__init__(timeline, counting, windows, kind, (STORE,), (TOTALS,))
        self._changelog_topic = self.changelogs[STORE]
        self._counts: dict[str, Counter[bytes]] = {
            name: Counter() for name in ("committed", WORDS, self._changelog_topic, TOTALS)
        }
        self._committed = self._inputs("committed")
        self._produced = self._inputs(WORDS)
        self._changelogs = self._written(self._changelog_topic)
        self._totals = self._written(TOTALS)

    def _inputs(self, what: str) -> list[_Input]:
        partitions = [TopicPartition(WORDS, task.partition) for task in TASKS]
        return [_Input(self.log, partition, self._counts[what]) for partition in partitions]

    def _written(self, topic: str) -> list[_Counts]:
        partitions = [TopicPartition(topic, task.partition) for task in TASKS]
        counts, exactly = self._counts[topic], self.exactly_once
        return [_Counts(self.log, partition, counts, exactly=exactly) for partition in partitions]

    def expected_counts(self) -> dict[bytes, int]:
        """Of all words that came in."""
        for words in self._produced:
            words.move(self.log.end_of(words.partition))
        return dict(self._counts[WORDS])

    def committed_counts(self) -> dict[bytes, int]:
        """Those in the changelogs."""
        for written in self._changelogs:
            written.move()
        return dict(self._counts[self._changelog_topic])

    def _check_results(self, committed: Mapping[TopicPartition, int]) -> None:
        for words in self._committed:
            offset = committed[words.partition]
            assert offset >= words.at, f"{OFFSETS_RISE}: of {words.partition} it was {words.at}, and is {offset}"
            words.move(offset)
        for name, tables in ((self._changelog_topic, self._changelogs), (TOTALS, self._totals)):
            for table in tables:
                table.move()
            written, counted = self._counts[name], self._counts["committed"]
            if written == counted:
                continue
            wrong = {word for word in counted | written if written[word] < counted[word] or self.exactly_once}
            assert not wrong, (
                f"{COUNTS_ARE_EXACT}: of the words that group {self.group_id} has read and committed, there were "
                f"{_shown(counted, wrong)}, and {name} says {_shown(written, wrong)}"
            )


def _shown(counts: Mapping[bytes, int], words: Collection[bytes]) -> str:
    return ", ".join(f"{word.decode()}: {counts.get(word, 0)}" for word in sorted(words))
