"""Stores whose files are damaged, or belong to somebody else: they are found when they are opened, reported, and
restored from their changelogs.
"""

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.states import TaskType
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores.builders import (
    key_value_store,
    timestamped_key_value_store,
    timestamped_window_store,
    window_store,
)
from streams_runtime.state_stores.state_store import StoreBuilder
from streams_runtime.state_stores.window_keys import window_key
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.streams_runtime.tasks.file_store import ChangesSeen, store_context

TASK, OTHER_TASK = TaskId(0, 0), TaskId(0, 1)
STORE = "store"
LOG, OTHER_LOG = "log-1", "log-2"
RECORDS, TIMESTAMP_MS = 2_000, 1_700_000_000_000
_WINDOW: dict[str, Any] = {"retention_ms": 86_400_000, "window_size_ms": 1_000}

KINDS: dict[str, StoreBuilder] = {
    "plain": key_value_store(STORE, BYTES, BYTES),
    "timestamped": timestamped_key_value_store(STORE, BYTES, BYTES),
    "window": window_store(STORE, BYTES, BYTES, **_WINDOW),
    "timestamped window": timestamped_window_store(STORE, BYTES, BYTES, **_WINDOW),
    "duplicates": window_store(STORE, BYTES, BYTES, **_WINDOW, retain_duplicates=True),
}
_IN_SOAK = (pytest.mark.long, pytest.mark.soak)
WINDOW_KINDS = frozenset(("window", "timestamped window", "duplicates"))


@dataclass
class TaskOnDisk:
    """A task with one store of this kind, up to its state manager. `reports`: why stores were rebuilt.
    `checkpoint_file`: under at-least-once, so that the file stays while the task is open.
    """

    directory: StateDirectory
    kind: str
    task: TaskId = TASK
    log_id: str = LOG
    application_id: str = "app"
    checkpoint_file: bool = False
    reports: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store: Any = KINDS[self.kind].build()
        self.changelog = TopicPartition(f"{self.application_id}-store-changelog", self.task.partition)
        self.state = StateManager(
            self.task,
            TaskType.ACTIVE,
            options=StoreOptions(
                exactly_once=not self.checkpoint_file, checkpoint_file=self.checkpoint_file, log_id=self.log_id
            ),
            directory=self.directory,
            stores=[self.store],
            changelogs={STORE: self.changelog},
            on_rebuilt=self.reports.append,
        )

    @property
    def files(self) -> Path:
        return self.state.task_directory / "rocksdb" / STORE

    def open(self) -> int:
        """The offset from which its changelog has to be read."""
        self.state.lock()
        self.state.open_stores(store_context(self.task, self.state.task_directory, ChangesSeen()))
        self.state.load_checkpoint()
        return self.state.changelog_offsets()[self.changelog]

    def restore(self, start: int, end: int = RECORDS) -> None:
        if start < end:
            self.state.restore(self.changelog, records(self.changelog, self.kind).part(start, end))

    def content(self) -> list[tuple[Any, Any]]:
        return list(self.store.fetch_all(0, TIMESTAMP_MS * 2) if self.kind in WINDOW_KINDS else self.store.all())

    def close(self) -> None:
        self.state.close_clean()
        self.state.unlock()


def records(changelog: TopicPartition, kind: str) -> RecordBatch:
    """The changelog of a store of this kind; each key occurs twice."""
    keys, values = [], []
    chance = random.Random(kind)
    for number in range(RECORDS):
        key = b"key-%04d" % (number % (RECORDS // 2))
        if kind in WINDOW_KINDS:
            key = window_key(key, TIMESTAMP_MS + number % 7, number if kind == "duplicates" else 0)
        keys.append(key)
        values.append(chance.randbytes(40))
    return RecordBatch(changelog, range(RECORDS), [TIMESTAMP_MS] * RECORDS, keys, values)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    with closing(StateDirectory(tmp_path / "state", "app", SystemClock())) as opened:
        yield opened


@dataclass(frozen=True)
class MadeStore:
    """`files`: of a store that has the first half of its changelog in a table, and the rest in the write-ahead log of a
    process that was killed. `content`: of the store, read from other files: a block that was read once is in RocksDB's
    block cache, and is not read from its file again.
    """

    files: Path
    content: list[tuple[Any, Any]]

    def put(self, directory: Path) -> None:
        directory.parent.mkdir(parents=True)
        shutil.copytree(self.files, directory)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., MadeStore]:
    @cache
    def make(kind: str, **of_task: Any) -> MadeStore:
        root = tmp_path_factory.mktemp("made")
        with closing(StateDirectory(root, "app", SystemClock())) as directory:
            task = TaskOnDisk(directory, kind, **of_task)
            task.restore(task.open(), RECORDS // 2)
            task.store.flush()
            task.restore(RECORDS // 2)
            shutil.copytree(task.files, root / "killed")
            task.close()
            shutil.rmtree(task.files)
            task.restore(task.open())
            content = task.content()
            task.close()
        return MadeStore(root / "killed", content)

    return make


def flip(file: Path, at: int, chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def cut(file: Path, to: int) -> None:
    file.write_bytes(file.read_bytes()[:to])


def table(files: Path) -> Path:
    return max(files.glob("*.sst"), key=size)


def manifest(files: Path) -> Path:
    return files / (files / "CURRENT").read_text().strip()


def size(file: Path) -> int:
    return file.stat().st_size


_HEADER_BYTES = 7


def first_record_bytes(log: Path) -> int:
    """The size of the first record, with its header: a checksum, the length and the type. RocksDB takes a log, as the
    manifest is one, for complete without its last records, and its open does not end for one certain type.
    """
    return _HEADER_BYTES + int.from_bytes(log.read_bytes()[4:6], "little")


_LEAST_DATA_BYTES, _MAGIC_NUMBER_BYTES = 20_000, 8
DAMAGE: dict[str, Callable[[Path, random.Random], object]] = {
    "bit of a data block": lambda files, chance: flip(table(files), chance.randrange(_LEAST_DATA_BYTES), chance),
    "bit of the footer": lambda files, chance: flip(
        table(files), size(table(files)) - 1 - chance.randrange(_MAGIC_NUMBER_BYTES), chance
    ),
    "bit of the manifest": lambda files, chance: flip(
        manifest(files), chance.randrange(_HEADER_BYTES, first_record_bytes(manifest(files))), chance
    ),
    "bit of CURRENT": lambda files, chance: flip(files / "CURRENT", chance.randrange(len("MANIFEST-000001")), chance),
    "empty CURRENT": lambda files, chance: cut(files / "CURRENT", 0),
    "cut table": lambda files, chance: cut(table(files), chance.randrange(size(table(files)))),
    "cut manifest": lambda files, chance: cut(manifest(files), chance.randrange(first_record_bytes(manifest(files)))),
    "missing table": lambda files, chance: table(files).unlink(),
    "missing manifest": lambda files, chance: manifest(files).unlink(),
}


def in_turns(names: Iterable[str]) -> list[Any]:
    """Each name with one kind of store; the other kinds in `make soak`."""
    kinds = list(KINDS)
    return [
        pytest.param(name, kind, marks=() if kinds.index(kind) == at % len(kinds) else _IN_SOAK)
        for at, name in enumerate(names)
        for kind in kinds
    ]


@pytest.mark.parametrize("damage, kind", in_turns(DAMAGE))
def test_should_report_and_restore_a_store_with_a_damaged_file(
    directory: StateDirectory, made: Callable[..., MadeStore], damage: str, kind: str
) -> None:
    seed = random.randrange(1 << 32)
    task = TaskOnDisk(directory, kind)
    made(kind).put(task.files)
    DAMAGE[damage](task.files, random.Random(seed))

    start = task.open()
    task.restore(start)

    assert (start, len(task.reports)) == (0, 1), f"seed {seed}"
    assert str(task.files) in task.reports[0]
    assert task.content() == made(kind).content, f"seed {seed}"
    task.close()
    again = TaskOnDisk(directory, kind)
    assert (again.open(), again.reports) == (RECORDS, [])
    again.close()


@pytest.mark.parametrize("damage", ["cut table", "missing store"])
def test_should_forget_the_checkpoint_of_an_unusable_store_before_a_crash(
    directory: StateDirectory, damage: str
) -> None:
    closed = TaskOnDisk(directory, "plain", checkpoint_file=True)
    closed.restore(closed.open())
    closed.close()
    if damage == "missing store":
        shutil.rmtree(closed.files)
    else:
        DAMAGE[damage](closed.files, random.Random(0))

    killed = TaskOnDisk(directory, "plain", checkpoint_file=True)
    assert killed.open() == 0
    killed.state.close()  # as after a crash, nothing was restored, and the checkpoint file was not written
    killed.state.unlock()

    again = TaskOnDisk(directory, "plain", checkpoint_file=True)
    assert again.open() == 0
    again.close()


@pytest.mark.parametrize("damage, kind", in_turns(["bit", "cut"]))
def test_should_restore_what_a_damaged_write_ahead_log_lacks(
    directory: StateDirectory, made: Callable[..., MadeStore], damage: str, kind: str
) -> None:
    """RocksDB stops at the damaged batch: the store has an earlier offset, and the content that belongs to it."""
    seed = random.randrange(1 << 32)
    task = TaskOnDisk(directory, kind)
    made(kind).put(task.files)
    log = max(task.files.glob("*.log"))
    chance = random.Random(seed)
    at = chance.randrange(size(log))
    if damage == "cut":
        cut(log, at)
    else:
        flip(log, at, chance)

    start = task.open()
    task.restore(start)

    assert start == RECORDS // 2, f"seed {seed}"
    assert task.content() == made(kind).content, f"seed {seed}"
    task.close()


ELSEWHERE: dict[str, dict[str, Any]] = {
    "task": {"task": OTHER_TASK},
    "log": {"log_id": OTHER_LOG},
    "application": {"application_id": "other"},
}


@pytest.mark.parametrize("other, kind", in_turns(ELSEWHERE))
def test_should_report_and_restore_a_store_that_was_copied_from_elsewhere(
    directory: StateDirectory, made: Callable[..., MadeStore], other: str, kind: str
) -> None:
    task = TaskOnDisk(directory, kind)
    made(kind, **ELSEWHERE[other]).put(task.files)

    start = task.open()
    task.restore(start)

    assert (start, len(task.reports)) == (0, 1)
    assert str(task.files) in task.reports[0]
    assert task.content() == made(kind).content
    task.close()
