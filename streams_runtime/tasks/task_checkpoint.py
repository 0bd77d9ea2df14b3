"""Decides when the checkpoint file of a Streams task is read, written and deleted.

The file has the offsets of some persistent logged stores: of the stores of users' own classes, which do not keep their
offsets, and of all stores if `state.checkpoint.file` is set. Up to version 4.2, Kafka keeps all offsets in this file,
and so do older releases of this package.

Rules:
- If the file has the offset of a store that has no offset of its own, the offset moves into the store. If no store
  needs the file, the file is then deleted.
- The stores are flushed before the file is written, so the offsets in the file are never ahead of the stores on disk.
  If the offset of a store is not known, its entry is OFFSET_UNKNOWN. When a task is marked as corrupted, its file is
  deleted. After a power loss, an embedded log may lack its latest commits (`logs/embedded/connections.py`). The offsets
  in the file may then be beyond the end of the log.
- At-least-once: an active task writes the file when it has restored its stores and when it closes. While the task is
  RUNNING, a commit writes the file if the sum of the offsets has grown by more than 10,000.
- Exactly-once: the file is deleted as soon as it has been read. An active task writes the file only when it is closed
  without an error. So if a store of a user's own class has state but no entry, the state may contain changes that were
  never committed, and the state manager raises TaskCorrupted.
- A standby writes the file at its first commit and when it closes. A later commit of a standby writes the file if the
  sum of the offsets has grown by more than 10,000.
- A store that keeps its offset does not need the file. If an older release has used the store and the file, the store
  does not use its own offset any more (`rocksdb_offsets`), and the offset in the file counts again.

Source: `OffsetCheckpoint`, `StateManagerUtil`, `LegacyCheckpointingStateStore`; KIP-1035.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from assignor.types import JAVA_LONG_MAX, Offsets, TaskId, TopicPartition
from streams_runtime.common.states import TaskType
from streams_runtime.state_stores.state_store import StateStore, keeps_offset
from streams_runtime.tasks.checkpoint_file import OFFSET_UNKNOWN, CheckpointFile
from streams_runtime.tasks.state_directory import STORES_DIRECTORY, StateDirectory

OFFSET_DELTA_FOR_CHECKPOINT = 10_000
"""A commit writes the file if the sum of the task's changelog offsets has grown by more than this number."""

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class StoreMetadata:
    """A store and its changelog. `changelog`: None if the store is not logged. `offset`: the last changelog offset that
    was applied to the store; None if this offset is not known.
    """

    store: StateStore
    changelog: TopicPartition | None
    offset: int | None = None


class TaskCheckpoint:
    """The checkpoint file of one task. Only the state manager of the task uses this object.

    `is_needed`: True if a store does not keep its offset. `is_written`: True if the task writes the file. `written`:
    the offsets that this object has written; empty if this object has not written the file, or has deleted the file.
    `delta`: if the sum of the offsets has grown by more than `delta`, a commit writes the file. Simulations set `delta`
    to a lower number.
    """

    def __init__(
        self,
        task_id: TaskId,
        directory: StateDirectory,
        stores: Mapping[TopicPartition, StoreMetadata],
        *,
        exactly_once: bool,
        all_stores: bool,
    ) -> None:
        """`stores`: the persistent logged stores of the task, by changelog. `all_stores`: True to write the offsets of
        the stores that keep their offsets, too.
        """
        self._task_id = task_id
        self._directory = directory
        self._stores = stores
        self._exactly_once = exactly_once
        self._unkept = {p: metadata for p, metadata in stores.items() if not keeps_offset(metadata.store)}
        self._in_file = stores if all_stores else self._unkept
        self.is_needed = bool(self._unkept)
        self.is_written = bool(self._in_file)
        self.delta = OFFSET_DELTA_FOR_CHECKPOINT
        self.reset()

    def reset(self) -> None:
        self._loaded: Offsets = {}
        self._sum_at_use: int | None = None  # the argument of the last call of `used`
        self.written: Mapping[TopicPartition, int] = {}

    # --- reading

    def load(self) -> bool:
        """Read the file. If the file is broken, renames it and logs a warning. Returns False if the file is broken, and
        a store does not keep its offset.
        """
        loaded = self._file().load()
        self._loaded = self._without_missing_stores(loaded or {})
        unused = self._loaded.keys() - self._stores.keys()
        if unused:
            named = ", ".join(map(str, sorted(unused)))
            _logger.warning(
                "the checkpoint of task %s names partitions that are not its changelogs: %s", self._task_id, named
            )
        return loaded is not None or not self._unkept

    def names(self, changelog: TopicPartition) -> bool:
        """Returns True if the loaded file has an entry for this changelog, which may be OFFSET_UNKNOWN."""
        return changelog in self._loaded

    def offset(self, changelog: TopicPartition) -> int | None:
        """Returns the offset in the loaded file; None if it is not known."""
        offset = self._loaded.get(changelog, OFFSET_UNKNOWN)
        return None if offset == OFFSET_UNKNOWN else offset

    def stale_stores(self) -> list[Path]:
        """Returns the directories of the stores of users' own classes that have to be deleted, because they are
        restored from the beginning. A store is stale if its entry is OFFSET_UNKNOWN. A store without an entry is stale
        only under at-least-once: under exactly-once, the state manager raises TaskCorrupted.
        """
        # The offset that is assumed for a store without an entry. With the offset 0, the store is not stale.
        unnamed = 0 if self._exactly_once else OFFSET_UNKNOWN
        return [
            STORES_DIRECTORY / metadata.store.name
            for p, metadata in self._unkept.items()
            if self._loaded.get(p, unnamed) == OFFSET_UNKNOWN
        ]

    def forget(self, changelog: TopicPartition) -> None:
        """Forget the loaded offset of a store that is being opened. The file gets OFFSET_UNKNOWN for the store. So the
        store is restored from the beginning even if the process crashes now.
        """
        if changelog in self._loaded:
            self._loaded[changelog] = OFFSET_UNKNOWN
            self._file().write(self._loaded)

    # --- writing

    def used(self, offset_sum: int) -> None:
        """Remember the sum of the task's offsets at the time when the file was read, written or due."""
        self._sum_at_use = offset_sum

    def is_due(self, offset_sum: int, task_type: TaskType) -> bool:
        """Returns True if a commit has to write the file."""
        return offset_sum > self._limit(task_type)

    def _limit(self, task_type: TaskType) -> int:
        """Returns a limit: a commit writes the file if the sum of the offsets is above the limit."""
        if self._sum_at_use is None:
            return JAVA_LONG_MAX
        if task_type is TaskType.STANDBY:
            if not self.written:
                return -1  # every sum of offsets is above this limit
        elif self._exactly_once:
            return JAVA_LONG_MAX
        return self._sum_at_use + self.delta

    def write(self, flush: Callable[[], None]) -> None:
        """Write the file, if the task writes it and its content changes. `flush`: a function that flushes all stores.
        Raises ProcessorStateError.
        """
        offsets = {
            p: OFFSET_UNKNOWN if metadata.offset is None else metadata.offset for p, metadata in self._in_file.items()
        }
        if not offsets:
            return
        file = self._file()
        if offsets != self.written or not self._directory.files.exists(file.path):
            flush()
            file.write(offsets)
            self.written = offsets

    def delete(self) -> None:
        """Delete the file. Raises ProcessorStateError."""
        self._file().delete()
        self.written = {}

    def _file(self) -> CheckpointFile:
        return CheckpointFile(self._directory.task_directory(self._task_id), self._directory.files)

    def _without_missing_stores(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """Returns only the offsets of stores that are not missing. A store is missing if its directory does not exist.
        Logs a warning that names the missing stores. For example, a program that deletes old temporary files may have
        deleted a store but not the checkpoint.
        """
        stores = self._directory.task_directory(self._task_id) / STORES_DIRECTORY
        missing = {
            p
            for p, metadata in self._stores.items()
            if offsets.get(p, OFFSET_UNKNOWN) != OFFSET_UNKNOWN
            and not self._directory.files.is_directory(stores / metadata.store.name)
        }
        if missing:
            named = ", ".join(map(str, missing))
            _logger.warning("the checkpoint of task %s names %s, but the stores are not there", self._task_id, named)
        found = {p: offset for p, offset in offsets.items() if p not in missing}
        if missing:
            # Opening a store creates its directory. So after a crash, the next process would use the offset of a
            # missing store for an empty store.
            self._file().write(found)
        return found
