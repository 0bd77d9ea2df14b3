"""The application of a simulated group: it counts words, and its committed counts have to be exact.

One subtopology: a source topic, a processor with one store and its changelog, an output topic. The rules are checked on
what is in the log, at any moment:
- exactly-once: the changelog and the output hold the counts of exactly those input records that the group has
  committed, and have them one after the other, each once.
- at-least-once: never less than that.
- What is committed stays: an offset never goes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignor.topology.group_topology import GroupTopology
from assignor.types import ProcessId, TaskId, TopicPartition
from streams_runtime.common.records import Record
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import NewTopic
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LongSerde, StringSerde
from streams_runtime.state_stores.rocksdb import ROCKSDB_DIRECTORY
from streams_runtime.tasks.checkpoint_file import CHECKPOINT_FILE_NAME, parse_checkpoint
from tests.simulation.clocks import MachineClock
from tests.simulation.disk import Database, File, Machine
from tests.simulation.log import SharedLog
from tests.simulation.simulated_store import CountsBuilder
from tests.simulation.timeline import Timeline
from tests.simulation.windows import Windows

if TYPE_CHECKING:
    from tests.simulation.stream_thread import SimulatedProcess, SimulatedStreamThread

WORDS, TOTALS, STORE = "words", "totals", "counts"
WORDS_A_PARTITION = 5
PARTITIONS = 4
TASKS = tuple(TaskId(0, partition) for partition in range(PARTITIONS))
COUNTS_ARE_EXACT = "counts are exact"
STORES_FOLLOW = "a store is what its changelog says"
OFFSETS_RISE = "a committed offset never goes back"
CHECKPOINTS_FOLLOW = "a checkpoint is never ahead of its store"
STORES_ARE_COMMITTED = "a store on the disk is a committed prefix of its changelog"
NONE_WIPED = "no store that has its offset is wiped"
_TEXT, _LONG = StringSerde(), LongSerde()


class StoreKind(StrEnum):
    """Which store counts. Groups take turns."""

    TRANSACTIONAL = "a store of the runtime"
    WITH_CHECKPOINT_FILE = "a store of the runtime, with state.checkpoint.file"
    OWN = "a store of a user's own class"


class CountWord(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self._forward = context.forward
        self._counts = context.state_store(STORE)

    def process(self, record: Record[str, str]) -> None:
        count = (self._counts.get(record.key) or 0) + 1
        self._counts.put(record.key, count)
        self._forward(Record(record.key, count, record.timestamp_ms))


class _BuiltOnce(Topology):
    """Builds the group topology once. Each new task asks for it, and here it does not change."""

    @lru_cache  # noqa: B019  # there are as many of them as groups
    def group_topology(self, application_id: str) -> GroupTopology:
        return super().group_topology(application_id)


@lru_cache
def application(group_id: str, kind: StoreKind, *, exactly_once: bool) -> Application:
    topology = _BuiltOnce()
    topology.add_source("words", WORDS, key_serde=_TEXT, value_serde=_TEXT)
    topology.add_processor("count", CountWord, "words")
    topology.add_state_store(CountsBuilder(STORE, kind is not StoreKind.OWN), "count")
    topology.add_sink("totals", TOTALS, "count", key_serde=_TEXT, value_serde=_LONG)
    return Application(
        topology,
        {
            "application.id": group_id,
            "bootstrap.servers": "embedded:/nowhere",
            "state.dir": Path("/nowhere"),
            "processing.guarantee": "exactly_once_v2" if exactly_once else "at_least_once",
            "commit.interval.ms": 500,
            "state.cleanup.delay.ms": 20_000,
            "state.checkpoint.file": kind is StoreKind.WITH_CHECKPOINT_FILE,
        },
    )


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


class SimulatedCluster:
    """The log of one group and its input. `windows`: what is wrong with the log.

    `threads`: those that read it; they are told when there is something to read.
    """

    def __init__(
        self, timeline: Timeline, group_id: str, windows: Windows, kind: StoreKind, *, exactly_once: bool
    ) -> None:
        self.group_id = group_id
        self.kind = kind
        self.exactly_once = exactly_once
        self.chance = timeline.chance
        self.clock = MachineClock(timeline, f"log of {group_id}")
        self.application = application(group_id, kind, exactly_once=exactly_once)
        self.threads: list[SimulatedStreamThread] = []
        self.processes: dict[ProcessId, SimulatedProcess] = {}
        self.log = SharedLog(group_id, self.clock, windows, self._appended)
        self.changelog = f"{group_id}-{STORE}-changelog"
        forever = {"retention.ms": "-1"}
        self.log.create_topics(
            [
                NewTopic(WORDS, PARTITIONS, forever),
                NewTopic(TOTALS, PARTITIONS, forever),
                NewTopic(self.changelog, PARTITIONS, {"cleanup.policy": "compact"}),
            ]
        )
        self.inputs = {task: frozenset({TopicPartition(WORDS, task.partition)}) for task in TASKS}
        self._words = timeline.chance(f"words of {group_id}")
        self._vocabulary = [
            (partition, b"%d-%d" % (partition, number))
            for partition in range(PARTITIONS)
            for number in range(WORDS_A_PARTITION)
        ]
        self._checked = 0
        self._counts: dict[str, Counter[bytes]] = {
            name: Counter() for name in ("committed", WORDS, self.changelog, TOTALS)
        }
        self._committed = self._inputs("committed")
        self._produced = self._inputs(WORDS)
        self._changelogs = self._written(self.changelog)
        self._history: dict[TaskId, list[Any]] = {t: [] for t in TASKS}  # of the changelogs
        self._totals = self._written(TOTALS)

    def _inputs(self, what: str) -> list[_Input]:
        partitions = [TopicPartition(WORDS, task.partition) for task in TASKS]
        return [_Input(self.log, partition, self._counts[what]) for partition in partitions]

    def _written(self, topic: str) -> list[_Counts]:
        partitions = [TopicPartition(topic, task.partition) for task in TASKS]
        counts, exactly = self._counts[topic], self.exactly_once
        return [_Counts(self.log, partition, counts, exactly=exactly) for partition in partitions]

    def _appended(self) -> None:
        for thread in self.threads:
            thread.something_was_written()

    # --- the world around it

    def produce(self, words: int) -> None:
        """So many words come in, on all partitions."""
        drawn: dict[int, list[bytes]] = {}
        for word in self._words.choices(self._vocabulary, k=words):
            drawn.setdefault(word[0], []).append(word[1])
        now_ms = max(0, self.clock.now_ms())
        for partition, keys in sorted(drawn.items()):
            self.log.write(TopicPartition(WORDS, partition), keys, now_ms)
        self.log.tell()

    def fence(self, task: TaskId) -> None:
        """Somebody claims the task's input: its owner can commit no more."""
        self.log.claim(self.group_id, self.inputs[task])

    # --- what became of it

    def lag(self) -> int:
        """How many words are not counted and committed."""
        return sum(
            self.log.end_of(partition) - self.log.committed_offset(self.group_id, partition)
            for inputs in self.inputs.values()
            for partition in inputs
        )

    def changelog_ends(self) -> tuple[int, ...]:
        return tuple(self.log.end_of(TopicPartition(self.changelog, task.partition)) for task in TASKS)

    def expected_counts(self) -> dict[bytes, int]:
        """Of all words that came in."""
        for words in self._produced:
            words.move(self.log.end_of(words.partition))
        return dict(self._counts[WORDS])

    def committed_counts(self) -> dict[bytes, int]:
        """Those in the changelogs."""
        for written in self._changelogs:
            written.move()
        return dict(self._counts[self.changelog])

    def check(self) -> None:
        """Raises AssertionError that begins with the name of the rule."""
        if self._checked == self.log.appends:
            return
        self._checked = self.log.appends
        for words in self._committed:
            offset = self.log.committed_offset(self.group_id, words.partition)
            assert offset >= words.at, f"{OFFSETS_RISE}: of {words.partition} it was {words.at}, and is {offset}"
            words.move(offset)
        for name, tables in ((self.changelog, self._changelogs), (TOTALS, self._totals)):
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

    def check_store(self, task: TaskId, held: Mapping[bytes, bytes], offset: int, where: str) -> None:
        """A store holds what the changelog says before this offset. One of a user's own class may be ahead of that
        where its files were ahead of the checkpoint when a process died, but not any more at the end. Under
        at-least-once any may be, because of what the dead had counted without committing it. Raises AssertionError.
        """
        written = self.changelog_before(task, offset)
        is_exact = self.exactly_once and self.kind is not StoreKind.OWN
        at_end = self.exactly_once and offset == self.log.end_of(TopicPartition(self.changelog, task.partition))
        wrong = {word for word in written.keys() | held.keys() if held.get(word, b"") < written.get(word, b"")}
        if at_end or is_exact:
            wrong |= {word for word, count in held.items() if written.get(word) != count}
        assert not wrong, (
            f"{STORES_FOLLOW}: task {task} of group {self.group_id}: {where} has read the changelog up to {offset}, "
            f"which says {_shown_bytes(written, wrong)}, and holds {_shown_bytes(held, wrong)}"
        )

    def check_disk(self, machine: Machine) -> None:
        """Of each store on the machine's disk: what any of its batches left is what the changelog says up to the offset
        of the store. Under at-least-once, it may be more: what the dead had counted without committing it is also in
        the changelog. Raises AssertionError.
        """
        if wiped := [path for path in machine.disk.wiped if f"/{self.group_id}/" in path]:
            raise AssertionError(f"{NONE_WIPED}: {', '.join(wiped)}")
        for task in TASKS:
            store = machine.disk.node(f"{machine.state_dir}/{self.group_id}/{task}/{ROCKSDB_DIRECTORY}/{STORE}")
            if isinstance(store, Database) and store.has_log:
                self._check_batches(task, store, machine.name)

    def check_checkpoints(self, machine: Machine) -> None:
        """What is sure of each store on the machine's disk is at least what its checkpoint says. Raises
        AssertionError.
        """
        for task in TASKS:
            directory = f"{machine.state_dir}/{self.group_id}/{task}"
            file = machine.disk.node(f"{directory}/{CHECKPOINT_FILE_NAME}")
            if not isinstance(file, File):
                continue
            offset = parse_checkpoint(file.data)[TopicPartition(self.changelog, task.partition)]
            store = machine.disk.node(f"{directory}/{ROCKSDB_DIRECTORY}/{STORE}")
            sure = store.flushed.entries if isinstance(store, Database) else {}
            written = self.changelog_before(task, offset + 1)
            less = {word for word, count in written.items() if sure.get(word, b"") < count}
            assert not less or (isinstance(store, Database) and store.is_damaged), (
                f"{CHECKPOINTS_FOLLOW}: task {task} of group {self.group_id} on {machine.name}: the checkpoint says "
                f"{offset}, which is {_shown_bytes(written, less)}, and the disk has {_shown_bytes(sure, less)}"
            )

    def _check_batches(self, task: TaskId, store: Database, where: str) -> None:
        for batch in store.take_unchecked():
            store.checked.add(batch)
            offset, held = store.checked.offset, store.checked.entries
            if offset is None and self.kind is StoreKind.WITH_CHECKPOINT_FILE:
                continue  # the offset may be in the file
            written = self.changelog_before(task, 0 if offset is None else offset + 1)
            wrong = {word for word in written.keys() | held.keys() if held.get(word, b"") < written.get(word, b"")}
            if self.exactly_once:
                wrong |= {word for word, count in held.items() if written.get(word) != count}
            assert not wrong, (
                f"{STORES_ARE_COMMITTED}: task {task} of group {self.group_id} on {where}: the offset is {offset}, "
                f"which is {_shown_bytes(written, wrong)}, and holds {_shown_bytes(held, wrong)}"
            )

    def changelog_before(self, task: TaskId, offset: int) -> dict[bytes, bytes]:
        """What the changelog of the task says before this offset; nothing for one below 0."""
        written = self._history[task]
        partition = TopicPartition(self.changelog, task.partition)
        if len(written) < self.log.end_of(partition):
            for batch in self.log.batches_from(partition, len(written)):
                written += zip(batch.keys, batch.values, strict=True)
        return dict(written[: max(0, offset)])


def _shown(counts: Mapping[bytes, int], words: Collection[bytes]) -> str:
    return ", ".join(f"{word.decode()}: {counts.get(word, 0)}" for word in sorted(words))


def _shown_bytes(counts: Mapping[bytes, bytes], words: Collection[bytes]) -> str:
    return _shown({word: _LONG.deserialize(count) for word, count in counts.items()}, words)
