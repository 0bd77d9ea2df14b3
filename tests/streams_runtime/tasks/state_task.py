"""A task, as far as its state manager goes, for tests: on a real state directory, with stores that can be asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.states import TaskType
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.streams_runtime.tasks.file_store import ChangesSeen, FileStore, MemoryStore, batch_of, store_context

TASK = TaskId(0, 1)
COUNTS = TopicPartition("app-counts-changelog", 1)
TOTALS = TopicPartition("app-totals-changelog", 1)
CACHE = TopicPartition("app-cache-changelog", 1)
TABLE = TopicPartition("users", 1)
STRANGER = TopicPartition("app-gone-changelog", 1)

both_guarantees = pytest.mark.parametrize("exactly_once", [False, True], ids=["at_least_once", "exactly_once"])
both_types = pytest.mark.parametrize("task_type", list(TaskType))


@dataclass
class Task:
    """What a task does with its state manager, on one state directory."""

    directory: StateDirectory
    exactly_once: bool
    task_type: TaskType = TaskType.ACTIVE
    changelogs: Mapping[str, TopicPartition | None] = field(default_factory=lambda: {"counts": COUNTS})
    source_changelogs: frozenset[TopicPartition] = frozenset()
    """What a restore applies of their records is all of them here."""
    in_memory: frozenset[str] = frozenset()
    changes: ChangesSeen = field(default_factory=ChangesSeen)

    def __post_init__(self) -> None:
        self.done: list[str] = []
        self.stores = {
            name: (MemoryStore if name in self.in_memory else FileStore)(name, self.done) for name in self.changelogs
        }
        self.state = StateManager(
            TASK,
            self.task_type,
            options=StoreOptions(exactly_once=self.exactly_once),
            directory=self.directory,
            stores=list(self.stores.values()),
            changelogs=self.changelogs,
            source_changelogs={changelog: lambda batch: batch for changelog in self.source_changelogs},
        )
        self.file = CheckpointFile(self.path)

    @property
    def path(self) -> Path:
        return self.directory.application_directory / str(TASK)

    def initialize(self) -> StateManager:
        self.state.lock()
        self.state.open_stores(store_context(TASK, self.state.task_directory, self.changes))
        self.state.load_checkpoint()
        return self.state

    def close_clean(self) -> None:
        self.state.maybe_checkpoint(enforce=True)
        self.state.close()
        self.state.unlock()

    def close_dirty(self) -> None:
        if self.exactly_once:
            self.state.wipe()
        else:
            self.state.close()
        self.state.unlock()

    def disk(self) -> dict[TopicPartition, int] | None:
        """The checkpoint; None when there is no file."""
        return self.file.read() if self.file.path.exists() else None


def with_state(directory: StateDirectory, *, exactly_once: bool = False) -> None:
    """A task has been here: one key in its store, the last offset is 4, closed in good order."""
    before = Task(directory, exactly_once)
    before.initialize().restore(COUNTS, batch_of(COUNTS, 4, (b"key", b"old")))
    before.close_clean()
    assert before.disk() == {COUNTS: 4}


def kill(task: Task) -> None:
    """The process died: nothing was closed, the locks are gone."""
    task.directory.unlock(TASK)
