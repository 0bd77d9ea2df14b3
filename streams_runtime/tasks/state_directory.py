"""Manages the directories with the state of Streams tasks, and the locks of these directories.

One process at a time locks the application's directory `<state.dir>/<application.id>`, with the file `.lock` in it. The
directory contains:
- `kafka-streams-process-metadata`: the process id, which stays the same when the process is restarted.
- `cluster-id`: the id of the log from which the state was restored.
- `global`: the directory of the global stores, with the same content as the directory of a Streams task.
- `<task id>`: the directory of a Streams task. One thread of the process locks this directory, with its own `.lock`.
- `<task id>/.checkpoint`: the task's checkpoint file (see `checkpoint_file`).
- `<task id>/rocksdb/<store>`: the RocksDB of a store, with its format file (see `store_format`).

Rules: a thread has to lock a task's directory before it writes or deletes files in the directory. If another thread of
the same process holds the lock, `lock` returns False, and the caller tries again later. If another process holds the
lock, `lock` raises LockError, because two processes must not use the same directory. A thread may also lock the
directory of a task that it does not run. The thread then reports the offsets in the directory to the leader. The
reporting thread loses the lock as soon as another thread gets the task.

State is deleted in this order: the checkpoint is deleted, then the stores are renamed, then the renamed stores are
deleted. With this order, no later process uses the remaining files as state if the process dies during a deletion.
State that was restored from a different log is deleted, because the changelog offsets of that log are not valid in this
log. The files of the cluster id and of the process id are synced when they are written. Without the sync, a power
failure could leave an incomplete cluster id in the file. The next process would then delete all state, because the id
differs from the log's id. The file of the process id contains `{"processId": "<uuid>"}`. If this file cannot be read, a
new id is generated. Source: `StateDirectory`; KIP-441.

Differs from Kafka: the lock of a task's directory also excludes other processes. In Kafka, this lock only excludes
threads of the same process. If somebody deletes the lock file of the application's directory, a second process can
start. Because of the locks of the task directories, the second process cannot damage the state of the first process's
tasks. In Kafka, each named topology has its own directory. Here, the tasks of all topologies have their directories
side by side. New directories are private to their owner (0700). The age of a task's directory is the time since the
last change of any file in it. Kafka does not compare cluster ids, and uses state from another cluster if its offsets
are in range.
"""

import itertools
import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, InitVar, dataclass
from pathlib import Path
from typing import Protocol

from assignor.errors import DecodeError
from assignor.names.legal_names import checked_name
from assignor.types import Offsets, ProcessId, TaskId, TopicPartition
from operating_system.processes import with_advice
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import LockError, ProcessorStateError
from streams_runtime.common.states import GLOBAL_TASK
from streams_runtime.state_stores.rocksdb import ROCKSDB_DIRECTORY
from streams_runtime.state_stores.rocksdb_offsets import stored_offset
from streams_runtime.tasks.checkpoint_file import CHECKPOINT_FILE_NAME, CheckpointFile
from streams_runtime.tasks.file_system import LOCK_FILE_NAME, SYSTEM_FILES, FileSystem, HeldLock, as_state_errors

PROCESS_FILE_NAME = "kafka-streams-process-metadata"
CLUSTER_FILE_NAME = "cluster-id"
STORES_DIRECTORY = Path(ROCKSDB_DIRECTORY)
"""A persistent store has the directory `<task directory>/rocksdb/<store>`."""

_logger = logging.getLogger(__name__)
_DELETED = ".deleted"
_GLOBAL_DIRECTORY = "global"


class LockOwner(Protocol):
    """A thread that may hold the lock of a task's directory. A thread always has the same `LockOwner` object."""

    @property
    def name(self) -> str: ...


@dataclass(eq=False, repr=False)
class StateDirectory:
    """The state of one application in one process. No other process can use the directory until `close`.

    Any thread may call the methods of `StateDirectory`. A method raises ProcessorStateError with the path if an
    operation on the disk fails. A method also raises ProcessorStateError in a forked process. If an earlier process
    still holds the lock, the constructor waits at most `lock_wait_ms` for the end of that process. If the lock is still
    held, raises LockError. `files`: the file system of the directories; a simulation passes its own file system.
    `calling_thread`: a function that returns the `LockOwner` of the calling thread. `process_id`: an id that stays the
    same each time an instance opens this directory. `read_offset`: a function that reads the changelog and the offset
    of a closed store from the store's directory; None if the store has no offset.
    """

    state_dir: InitVar[Path]
    application_id: InitVar[str]
    _clock: Clock
    _: KW_ONLY
    lock_wait_ms: InitVar[int] = 0
    files: FileSystem = SYSTEM_FILES
    calling_thread: Callable[[], LockOwner] = threading.current_thread
    read_offset: Callable[[Path], tuple[TopicPartition, int] | None] = stored_offset

    def __post_init__(self, state_dir: Path, application_id: str, lock_wait_ms: int) -> None:
        checked_name(application_id, "an application id", "application.id")
        self.application_directory = state_dir.absolute() / application_id
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._owners: dict[TaskId, LockOwner] = {}
        self._paths: dict[TaskId, Path] = {}
        # the tasks whose directories are locked only to report their offsets
        self._locked_to_report: set[TaskId] = set()
        self._locks: dict[TaskId, HeldLock] = {}
        self._offsets: dict[TaskId, Offsets] = {}  # see `stored_offsets`
        self._make_directory(self.application_directory)
        self.files.warn_if_readable_by_others(self.application_directory)  # never raises an error
        what = f"the state directory of application {application_id!r}"
        self._process_lock = self.files.lock(self.application_directory, what, wait_ms=lock_wait_ms)
        self._closed = False
        try:
            self.process_id = stored_process_id(self.application_directory, self.files)
        except OSError as error:
            self._process_lock.release()
            raise ProcessorStateError(
                f"the process id in {self.application_directory} cannot be kept: {with_advice(error)}"
            ) from error

    def belong_to(self, cluster_id: str) -> None:
        """If the state was restored from another log, delete it and log a warning. If the directory has no file with
        the id of a log, the state is not deleted. Call `belong_to` before any thread has a task. Raises LockError.
        """
        file = self.application_directory / CLUSTER_FILE_NAME
        try:
            # if the file does not exist, the state is assumed to be from this log
            known = self.files.read(file).decode() if self.files.exists(file) else cluster_id
        except (OSError, UnicodeDecodeError) as error:
            raise ProcessorStateError(f"the file {file} cannot be read: {error}") from error
        if known != cluster_id:
            foreign = self.non_empty_task_directories()
            self.wipe_all()
            if foreign:
                _logger.warning(
                    "the state in %s was that of another log with the same application.id, and is deleted: %s",
                    self.application_directory,
                    ", ".join(map(str, foreign)),
                )
        elif self.files.exists(file):
            return  # the file has this cluster id already
        with as_state_errors(f"the file {file} cannot be written"):
            # The file is written after the deletion. So if this process dies during the deletion, the next process
            # deletes the rest.
            self.files.write_whole(file, cluster_id.encode(), written_as=f"{file.name}.tmp", synced=True)

    def task_directory(self, task: TaskId) -> Path:
        """Returns the task's directory. Makes the directory if it does not exist."""
        directory = self._path(task)
        self._make_directory(directory)
        return directory

    def lock(self, task: TaskId, *, to_report: bool = False) -> bool:
        """Lock the task's directory for the calling thread. Returns False if another thread of this process holds the
        lock.

        `to_report`: lock the directory only to report its offsets to the leader. The first thread that calls `lock`
        without `to_report` takes the lock from the reporting thread. Raises LockError with the id of the other process
        when another process holds the lock.
        """
        self._check_usable()
        with self._mutex:
            owner = self._owners.get(task)
            me = self.calling_thread()
            if owner is not None:
                # A thread that runs the task keeps the lock. A thread that only reports offsets loses the lock to a
                # thread that will run the task.
                if owner is not me and (to_report or task not in self._locked_to_report):
                    return False
                if not to_report:
                    self._owners[task] = me
                    self._locked_to_report.discard(task)
                    self._offsets.pop(task, None)
                return True
            if not self.files.is_directory(self.application_directory):
                raise ProcessorStateError(f"the state directory {self.application_directory} was deleted while in use")
            what = f"the directory of task {task}"
            self._locks[task] = self.files.lock(self.task_directory(task), what)
            self._owners[task] = me
            if to_report:
                self._locked_to_report.add(task)
            else:
                self._offsets.pop(task, None)
            return True

    def unlock(self, task: TaskId) -> None:
        """Unlock the task's directory. Does nothing if the calling thread does not have the lock."""
        if os.getpid() != self._pid:
            return
        with self._mutex:
            if self.holds(task):
                del self._owners[task]
                self._locked_to_report.discard(task)
                self._locks.pop(task).release()

    def holds(self, task: TaskId) -> bool:
        """True if the calling thread holds the lock of the task's directory."""
        return self._owners.get(task) is self.calling_thread()

    def lock_owner(self, task: TaskId) -> LockOwner | None:
        """Returns the thread of this process that holds the lock of the task's directory, or None if no thread holds
        the lock.
        """
        return self._owners.get(task)

    def holder(self, task: TaskId) -> str:
        """Returns the name of the lock's owner, for messages."""
        owner = self.lock_owner(task)
        return "another thread" if owner is None else f"thread {owner.name}"

    def non_empty_task_directories(self) -> list[TaskId]:
        """Returns the ids of the tasks with state on disk, sorted by topology name and id."""
        return [task for task in self._tasks_on_disk() if not self.is_empty(task)]

    def is_empty(self, task: TaskId) -> bool:
        """True if the task's directory has no state. Checkpoint files and locks do not count as state."""
        return not any(_is_state(name) for name in self._names(self._path(task)))

    def stored_offsets(self, task: TaskId) -> Mapping[TopicPartition, int]:
        """Returns the offsets of a task that is not open, in its stores and in its checkpoint file: the offset of the
        last applied record of each changelog, or OFFSET_UNKNOWN. Offsets that do not exist or cannot be read are left
        out. `checkpoint_file.next_offsets` converts the result to the offsets that a thread reports to the leader.

        The calling thread has locked the directory with `to_report`. The result is kept until a thread locks the
        directory to run the task, because each store has to be opened to read its offset. Source: KIP-1035,
        `StateDirectory.initializeStartupStores`.
        """
        known = self._offsets.get(task)
        if known is not None:
            return known
        offsets: Offsets = {}
        try:
            offsets.update(CheckpointFile(self._path(task), self.files).read())
        except (DecodeError, ProcessorStateError) as error:
            _logger.warning("the checkpoint of task %s cannot be used: %s", task, error)
        stores = self._path(task) / STORES_DIRECTORY
        for name in self._names(stores):
            if (found := self.read_offset(stores / name)) is not None:
                offsets[found[0]] = found[1]
        with self._mutex:
            # A thread that runs the task may have taken the lock meanwhile, and may have changed the offsets.
            if task in self._locked_to_report and self.holds(task):
                self._offsets[task] = offsets
        return offsets

    def wipe(self, task: TaskId) -> None:
        """Delete the task's checkpoint and stores. If the calling thread has not locked the directory, `wipe` locks it
        during the deletion. Broken checkpoint files that were renamed are not deleted. Raises LockError when another
        thread or process holds the lock.
        """
        with self._locked(task):
            directory = self.task_directory(task)
            CheckpointFile(directory, self.files).delete()
            self._discard(directory, [directory / name for name in self._names(directory) if _is_state(name)])

    def wipe_all(self) -> None:
        """Delete the checkpoints and stores of all tasks and of the global stores. Raises LockError when a thread or
        another process holds a lock. Source: `StateDirectory.clean`.
        """
        for task in self._tasks_on_disk():
            self.wipe(task)
        if self.files.is_directory(self._path(GLOBAL_TASK)):
            self.wipe(GLOBAL_TASK)

    def discard(self, task: TaskId, parts: Iterable[Path]) -> None:
        """Delete these paths, which are relative to the task's directory. If an earlier process died during a deletion,
        this method completes that deletion.

        The checkpoint must have no entries for the deleted stores. Raises LockError when another thread or process
        holds the lock.
        """
        with self._locked(task):
            directory = self.task_directory(task)
            self._discard(directory, [directory / part for part in parts])

    def clean_obsolete(self, cleanup_delay_ms: int) -> list[TaskId]:
        """Delete each task directory that is not locked and has not changed for longer than the delay. If a directory
        cannot be deleted, logs a warning, and the next call tries again. Returns the tasks whose directories were
        deleted. Source: `StateDirectory.cleanRemovedTasks`.
        """
        self._check_usable()
        return [task for task in self._tasks_on_disk() if self._clean(task, cleanup_delay_ms)]

    def close(self) -> None:
        """Release all locks, so that other processes can use the state. Logs a warning for each task directory that is
        still locked. Idempotent.
        """
        if self._closed or os.getpid() != self._pid:
            return
        with self._mutex:
            self._closed = True
            if self._owners:
                left = ", ".join(f"{task} by {owner.name}" for task, owner in sorted(self._owners.items()))
                _logger.warning(
                    "state directory %s closes with tasks still locked: %s", self.application_directory, left
                )
            self._owners.clear()
            while self._locks:
                self._locks.popitem()[1].release()
            self._process_lock.release()

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise ProcessorStateError(
                f"the state directory {self.application_directory} belongs to process {self._pid}, from which this one "
                "was forked: a child has to open a state directory of its own"
            )
        if self._closed:
            raise ProcessorStateError(f"the state directory {self.application_directory} is closed")

    def _path(self, task: TaskId) -> Path:
        path = self._paths.get(task)
        if path is None:
            name = _GLOBAL_DIRECTORY if task == GLOBAL_TASK else str(task)
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
            # `00_1` can be parsed as a task id, but it is not the name of a task's directory
            if str(task) == name and self.files.is_directory(self.application_directory / name):
                tasks.append(task)
        return sorted(tasks, key=lambda task: (task.topology_name or "", task))

    @contextmanager
    def _locked(self, task: TaskId) -> Iterator[None]:
        mine = self.holds(task)
        if not self.lock(task):
            raise LockError(f"the directory {self._path(task)} is in use by {self.holder(task)}", task)
        try:
            yield
        finally:
            if not mine:
                self.unlock(task)

    def _discard(self, directory: Path, paths: list[Path]) -> None:
        """Rename the paths, then delete them. A rename is atomic. So the path of a store never leads to a partly
        deleted store.
        """
        deleted = directory / _DELETED
        files = self.files
        with as_state_errors(f"state in {directory} cannot be deleted"):
            files.delete_tree(deleted, ignore_errors=True)
            # The new names of the paths. If a directory could not be deleted above, its name is skipped.
            numbers = (number for number in itertools.count() if not files.exists(deleted / str(number)))
            for path in paths:
                if files.exists(path):
                    files.make_directory(deleted)
                    files.rename(path, deleted / str(next(numbers)))
            if files.exists(deleted):
                files.delete_tree(deleted)

    def _clean(self, task: TaskId, cleanup_delay_ms: int) -> bool:
        directory = self._path(task)
        try:
            if task in self._owners or self._unchanged_ms(task) <= cleanup_delay_ms or not self.lock(task):
                return False
            try:
                # the directory is checked again, because another thread may have written state before this thread got
                # the lock
                unchanged_ms = self._unchanged_ms(task)
                if unchanged_ms <= cleanup_delay_ms:
                    return False
                _logger.info("deleting obsolete state directory %s: unchanged for %d ms", directory, unchanged_ms)
                self.wipe(task)
                self._remove_emptied(directory)
                return True
            finally:
                self.unlock(task)
        except LockError:
            return False
        except (OSError, ProcessorStateError):
            _logger.warning(
                "obsolete state directory %s could not be deleted and will be tried again", directory, exc_info=True
            )
            return False

    def _unchanged_ms(self, task: TaskId) -> int:
        """Returns the milliseconds since the last change of any file in the task's directory, except the lock file.
        Raises OSError.
        """
        return self._clock.now_ms() - self.files.changed_ms(self._path(task), but=LOCK_FILE_NAME)

    def _remove_emptied(self, directory: Path) -> None:
        """Delete a directory without state. The lock file is deleted last. Raises OSError."""
        for name in self.files.names(directory):
            if name != LOCK_FILE_NAME:
                self.files.delete(directory / name)
        self.files.delete(directory / LOCK_FILE_NAME)
        self.files.delete_directory(directory)

    def _make_directory(self, directory: Path) -> None:
        with as_state_errors(f"the directory {directory} is not there and cannot be made"):
            self.files.make_directory(directory)

    def _names(self, directory: Path) -> list[str]:
        with as_state_errors(f"the directory {directory} cannot be read"):
            try:
                return self.files.names(directory)
            except (FileNotFoundError, NotADirectoryError):
                return []


def _is_state(name: str) -> bool:
    return not name.startswith(CHECKPOINT_FILE_NAME) and name not in (LOCK_FILE_NAME, _DELETED)


def stored_process_id(application_directory: Path, files: FileSystem = SYSTEM_FILES) -> ProcessId:
    """Returns the process id in `<state.dir>/<application.id>`. If the directory has no readable id, writes a new id
    first. Raises OSError.
    """
    files.make_directory(application_directory)
    file = application_directory / PROCESS_FILE_NAME
    with suppress(OSError, ValueError, KeyError, TypeError):
        # unknown fields are ignored, as in Kafka
        return ProcessId.parse(json.loads(files.read(file))["processId"])
    drawn = ProcessId.from_bytes(uuid.uuid4().bytes)
    text = json.dumps({"processId": str(drawn)})
    files.write_whole(file, text.encode(), written_as=f"{file.name}.{os.getpid()}.tmp", synced=True)
    return drawn
