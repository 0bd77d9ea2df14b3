"""A simulated group's log, its input, and what has to be true of the stores of its tasks.

One subtopology reads the words. The rules are checked on what is in the log and on the disks, at any moment:
- What is committed stays: an offset never goes back.
- A store equals its changelog up to the offset of the store, on a disk and in a standby.
The subclasses check the results of their applications: `word_count`, `visits_and_pairs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignor.topology.group_topology import GroupTopology
from assignor.types import ProcessId, TaskId, TopicPartition
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import NewTopic
from streams_runtime.processors.topology import Topology
from streams_runtime.state_stores.rocksdb import ROCKSDB_DIRECTORY
from streams_runtime.tasks.checkpoint_file import CHECKPOINT_FILE_NAME, parse_checkpoint
from tests.simulation.clocks import MachineClock
from tests.simulation.disk import Database, Directory, File, Machine
from tests.simulation.log import Row, SharedLog
from tests.simulation.timeline import Timeline
from tests.simulation.windows import Windows

if TYPE_CHECKING:
    from tests.simulation.stream_thread import SimulatedProcess, SimulatedStreamThread

WORDS = "words"
WORDS_A_PARTITION = 5
PARTITIONS = 4
TASKS = tuple(TaskId(0, partition) for partition in range(PARTITIONS))
COUNTS_ARE_EXACT = "counts are exact"
STORES_FOLLOW = "a store is what its changelog says"
OFFSETS_RISE = "a committed offset never goes back"
CHECKPOINTS_FOLLOW = "a checkpoint is never ahead of its store"
STORES_ARE_COMMITTED = "a store on the disk is a committed prefix of its changelog"
NONE_WIPED = "no store that has its offset is wiped"


class StoreKind(StrEnum):
    """The stores of a group. Groups take turns; `GroupPlan.has_windows` chooses the last kind."""

    TRANSACTIONAL = "a store of the runtime"
    WITH_CHECKPOINT_FILE = "a store of the runtime, with state.checkpoint.file"
    OWN = "a store of a user's own class"
    WINDOWED = "stores of sessions and of a join"


class BuiltOnce(Topology):
    """Builds the group topology once. Each new task asks for it, and here it does not change."""

    @lru_cache  # noqa: B019  # there are as many of them as groups
    def group_topology(self, application_id: str) -> GroupTopology:
        return super().group_topology(application_id)


def application(group_id: str, topology: Topology, kind: StoreKind, *, exactly_once: bool) -> Application:
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


class SimulatedCluster(ABC):
    """The log of one group and its input. `windows`: what is wrong with the log. `stores`, `outputs`: the names of the
    stores and of the output topics.

    `threads`: those that read it; they are told when there is something to read.
    """

    def __init__(
        self,
        timeline: Timeline,
        application: Application,
        windows: Windows,
        kind: StoreKind,
        stores: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        """There are this many parameters because each application has other topics and stores."""
        group_id = self.group_id = application.id
        self.kind = kind
        self.exactly_once = application.configs.exactly_once
        self.chance = timeline.chance
        self.clock = MachineClock(timeline, f"log of {group_id}")
        self.application = application
        self.threads: list[SimulatedStreamThread] = []
        self.processes: dict[ProcessId, SimulatedProcess] = {}
        self.log = SharedLog(group_id, self.clock, windows, self._appended)
        self.changelogs = {store: f"{group_id}-{store}-changelog" for store in stores}
        forever = {"retention.ms": "-1"}
        self.log.create_topics(
            [
                *(NewTopic(topic, PARTITIONS, forever) for topic in (WORDS, *outputs)),
                *(NewTopic(topic, PARTITIONS, {"cleanup.policy": "compact"}) for topic in self.changelogs.values()),
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
        self._history: dict[tuple[TaskId, str], list[Any]] = {}  # of the changelogs

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
            self.log.write(TopicPartition(WORDS, partition), self._rows(keys, now_ms))
        self.log.tell()

    def _rows(self, words: Sequence[bytes], now_ms: int) -> list[Row]:
        return [(word, b"", now_ms) for word in words]

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

    def changelog_ends(self) -> dict[str, tuple[int, ...]]:
        """By the changelog, of its partitions."""
        return {
            topic: tuple(self.log.end_of(TopicPartition(topic, task.partition)) for task in TASKS)
            for topic in self.changelogs.values()
        }

    @abstractmethod
    def expected_counts(self) -> dict[Any, int]:
        """The results of all words that came in."""

    @abstractmethod
    def committed_counts(self) -> dict[Any, int]:
        """The results in the changelogs."""

    @abstractmethod
    def _check_results(self, committed: Mapping[TopicPartition, int]) -> None:
        """What was written is what `committed`, the offsets of the group, says. Raises AssertionError."""

    def check(self) -> None:
        """Raises AssertionError that begins with the name of the rule."""
        if self._checked == self.log.appends:
            return
        self._checked = self.log.appends
        partitions = [TopicPartition(WORDS, task.partition) for task in TASKS]
        self._check_results({each: self.log.committed_offset(self.group_id, each) for each in partitions})

    def check_store(self, task: TaskId, store: str, held: Mapping[bytes, bytes], offset: int, where: str) -> None:
        """A store holds what the changelog says before this offset. One of a user's own class may be ahead of that
        where its files were ahead of the checkpoint when a process died, but not any more at the end. Under
        at-least-once any may be, because of what the dead had counted without committing it. Raises AssertionError.
        """
        written = self._changelog_before(task, store, offset)
        is_exact = self.exactly_once and self.kind is not StoreKind.OWN
        at_end = self.exactly_once and offset == self.log.end_of(self._changelog(task, store))
        held = self._under_changelog_keys(store, held)
        wrong = self._wrong_keys(store, held, written, exactly=at_end or is_exact)
        assert not wrong, (
            f"{STORES_FOLLOW}: task {task} of group {self.group_id}: {where} has read the changelog of {store} up to "
            f"{offset}, which says {_shown(written, wrong)}, and holds {_shown(held, wrong)}"
        )

    def check_disk(self, machine: Machine) -> None:
        """Of each store on the machine's disk: what any of its batches left is what the changelog says up to the offset
        of the store. Under at-least-once, it may be more: what the dead had counted without committing it is also in
        the changelog. Raises AssertionError.
        """
        if wiped := [path for path in machine.disk.wiped if f"/{self.group_id}/" in path]:
            raise AssertionError(f"{NONE_WIPED}: {', '.join(wiped)}")
        for task in TASKS:
            directory = machine.disk.node(f"{machine.state_dir}/{self.group_id}/{task}/{ROCKSDB_DIRECTORY}")
            if not isinstance(directory, Directory):
                continue
            for store, files in directory.entries.items():
                if isinstance(files, Database) and files.has_log and files.unchecked:
                    self._check_batches(task, store, files, machine.name)

    def check_checkpoints(self, machine: Machine) -> None:
        """What is sure of each store on the machine's disk is at least what its checkpoint says. Raises
        AssertionError.
        """
        for task in TASKS:
            directory = f"{machine.state_dir}/{self.group_id}/{task}"
            file = machine.disk.node(f"{directory}/{CHECKPOINT_FILE_NAME}")
            if not isinstance(file, File):
                continue
            offsets = parse_checkpoint(file.data)
            for store in self.changelogs:
                offset = offsets[self._changelog(task, store)]
                files = machine.disk.node(f"{directory}/{ROCKSDB_DIRECTORY}/{store}")
                sure = files.flushed.entries if isinstance(files, Database) else {}
                written = self._changelog_before(task, store, offset + 1)
                less = self._wrong_keys(store, self._under_changelog_keys(store, sure), written, exactly=False)
                assert not less or (isinstance(files, Database) and files.is_damaged), (
                    f"{CHECKPOINTS_FOLLOW}: task {task} of group {self.group_id} on {machine.name}: the checkpoint of "
                    f"{store} says {offset}, which is {_shown(written, less)}, and the disk has {_shown(sure, less)}"
                )

    def _check_batches(self, task: TaskId, store: str, files: Database, where: str) -> None:
        for batch in files.take_unchecked():
            files.checked.add(batch)
            offset = files.checked.offset
            if offset is None and self.kind is StoreKind.WITH_CHECKPOINT_FILE:
                continue  # the offset may be in the file
            held = self._under_changelog_keys(store, files.checked.entries)
            written = self._changelog_before(task, store, 0 if offset is None else offset + 1)
            wrong = self._wrong_keys(store, held, written, exactly=self.exactly_once)
            assert not wrong, (
                f"{STORES_ARE_COMMITTED}: task {task} of group {self.group_id} on {where}: the offset of {store} is "
                f"{offset}, which is {_shown(written, wrong)}, and holds {_shown(held, wrong)}"
            )

    def _wrong_keys(
        self, _store: str, held: Mapping[bytes, bytes], written: Mapping[bytes, bytes], *, exactly: bool
    ) -> set[bytes]:
        """`held`: the content of a store. `written`: what its changelog says. `exactly`: False if the store may be
        ahead of that. Values only rise.
        """
        wrong = {word for word, count in written.items() if held.get(word, b"") < count}
        if exactly:
            wrong |= {word for word, count in held.items() if written.get(word) != count}
        return wrong

    def _under_changelog_keys(self, _store: str, held: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """The content of a store under the keys that its changelog has."""
        return held

    def _changelog(self, task: TaskId, store: str) -> TopicPartition:
        return TopicPartition(self.changelogs[store], task.partition)

    def _changelog_before(self, task: TaskId, store: str, offset: int) -> dict[bytes, bytes]:
        """What the changelog of the task's store says before this offset; nothing for one below 0."""
        written = self._history.setdefault((task, store), [])
        partition = self._changelog(task, store)
        if len(written) < self.log.end_of(partition):
            for batch in self.log.batches_from(partition, len(written)):
                written += zip(batch.keys, batch.values, strict=True)
        latest = dict(written[: max(0, offset)])
        return {key: value for key, value in latest.items() if value is not None} if None in latest.values() else latest


def _shown(content: Mapping[bytes, bytes], keys: Collection[bytes]) -> str:
    return ", ".join(f"{key!r}: {content.get(key)!r}" for key in sorted(keys))
