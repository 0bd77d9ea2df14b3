"""The directories of tasks and what is in them, for whoever may lock them.

Rules: only the holder of the lock of a task's directory writes or deletes in it. State is deleted in this order: the
checkpoint, then the stores are renamed, then their bytes go. A process that dies in between leaves nothing that could
be taken for state. Who owns the locks is said by a class below this one: `state_directory` in the process of an
instance. Source: `StateDirectory`.
"""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from assignor.errors import DecodeError
from assignor.legal_names import checked_name
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import LockError, ProcessorStateError
from streams_runtime.tasks.checkpoint_file import CHECKPOINT_FILE_NAME, CheckpointFile
from streams_runtime.tasks.directory_lock import LOCK_FILE_NAME
from streams_runtime.tasks.file_system import FileSystem

_logger = logging.getLogger(__name__)
_DELETED = ".deleted"


class LockOwner(Protocol):
    """Who has a task's directory: a thread. The same object each time, for the same thread."""

    @property
    def name(self) -> str: ...


class TaskDirectories(ABC):
    """One application's directories. Every method raises ProcessorStateError, naming the path, when the disk refuses.

    `application_directory`: `<state.dir>/<application.id>`. `files`: where the directories are.
    """

    def __init__(self, state_dir: Path, application_id: str, files: FileSystem) -> None:
        checked_name(application_id, "an application id", "application.id")
        self.application_directory = state_dir.absolute() / application_id
        self.files = files
        self._paths: dict[TaskId, Path] = {}

    # --- who has them

    @abstractmethod
    def lock(self, task: TaskId, *, to_report: bool = False) -> bool:
        """Whether the calling thread holds the task's directory now; False: another thread of this process holds it.

        `to_report`: only to read what is there, until a thread needs it for the task. Raises LockError, naming the
        other process, when another process holds it.
        """

    @abstractmethod
    def unlock(self, task: TaskId) -> None:
        """Nothing happens unless the calling thread has the lock."""

    @abstractmethod
    def holds(self, task: TaskId) -> bool:
        """Whether the calling thread holds the task's directory."""

    @abstractmethod
    def lock_owner(self, task: TaskId) -> LockOwner | None:
        """The thread of this process that holds the task's directory; None when none does."""

    # --- what is in them

    def task_directory(self, task: TaskId) -> Path:
        """The task's own directory, made if it is not there."""
        directory = self._path(task)
        self._make_directory(directory)
        return directory

    def non_empty_task_directories(self) -> list[TaskId]:
        """Tasks with state on disk, in order."""
        return [task for task in self._tasks_on_disk() if not self.is_empty(task)]

    def is_empty(self, task: TaskId) -> bool:
        """Whether there is no state; checkpoint files and locks do not count."""
        return not any(_is_state(name) for name in self._names(self._path(task)))

    def checkpointed_offsets(self, task: TaskId) -> Mapping[TopicPartition, int] | None:
        """The task's checkpoint file as it is: offsets of the last records applied, or OFFSET_UNKNOWN.

        None when there is no file, or it cannot be read. `checkpoint_file.next_offsets` turns them into reported ones.
        """
        try:
            return CheckpointFile(self._path(task), self.files).read() or None
        except (DecodeError, ProcessorStateError) as error:
            _logger.warning("the checkpoint of task %s cannot be used: %s", task, error)
            return None

    def wipe(self, task: TaskId) -> None:
        """Delete the task's checkpoint and stores, under the lock, which is taken if the thread does not hold it.

        Checkpoint files that were set aside stay. Raises LockError when another thread or process holds the lock.
        """
        with self._locked(task):
            directory = self.task_directory(task)
            CheckpointFile(directory, self.files).delete()
            self._discard(directory, [directory / name for name in self._names(directory) if _is_state(name)])

    def discard(self, task: TaskId, parts: Iterable[Path]) -> None:
        """Delete these paths, relative to the task's directory, and what a dead process had begun to delete.

        The checkpoint must not name them. Raises LockError when another thread or process holds the lock.
        """
        with self._locked(task):
            directory = self.task_directory(task)
            self._discard(directory, [directory / part for part in parts])

    # --- inside

    def _path(self, task: TaskId) -> Path:
        path = self._paths.get(task)
        if path is None:
            name = str(task)
            if "/" in name or "\0" in name:
                raise ProcessorStateError(f"task {name!r} cannot have a directory in {self.application_directory}")
            path = self._paths[task] = self.application_directory / name
        return path

    def _tasks_on_disk(self) -> list[TaskId]:
        tasks = []
        for name in self._names(self.application_directory):
            try:
                task = TaskId.parse(name)
            except ValueError:
                continue
            if str(task) == name and self.files.is_directory(self.application_directory / name):
                tasks.append(task)
        return sorted(tasks, key=lambda task: (task.topology_name or "", task))

    @contextmanager
    def _locked(self, task: TaskId) -> Iterator[None]:
        mine = self.holds(task)
        if not self.lock(task):
            owner = self.lock_owner(task)
            name = "another thread" if owner is None else f"thread {owner.name}"
            raise LockError(f"the directory {self._path(task)} is in use by {name}", task)
        try:
            yield
        finally:
            if not mine:
                self.unlock(task)

    def _discard(self, directory: Path, paths: list[Path]) -> None:
        """Rename, then delete: a rename is all or nothing, so there is never half a store in a store's place."""
        deleted = directory / _DELETED
        try:
            files = self.files
            files.delete_tree(deleted, ignore_errors=True)
            numbers = (number for number in itertools.count() if not files.exists(deleted / str(number)))
            for path in paths:
                if files.exists(path):
                    files.make_directory(deleted)
                    files.rename(path, deleted / str(next(numbers)))
            if files.exists(deleted):
                files.delete_tree(deleted)
        except OSError as error:
            raise ProcessorStateError(f"state in {directory} cannot be deleted: {error}") from error

    def _make_directory(self, directory: Path) -> None:
        try:
            self.files.make_directory(directory)
        except OSError as error:
            raise ProcessorStateError(f"the directory {directory} is not there and cannot be made: {error}") from error

    def _names(self, directory: Path) -> list[str]:
        try:
            return self.files.names(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ProcessorStateError(f"the directory {directory} cannot be read: {error}") from error


def _is_state(name: str) -> bool:
    return not name.startswith(CHECKPOINT_FILE_NAME) and name not in (LOCK_FILE_NAME, _DELETED)
