"""Manages the stores of a task, and for each store the changelog offset up to which the store is complete.

Rules:
- A store is complete up to and including its offset. The log need not have a record at that offset, because the record
  may be deleted or the offset may belong to a transaction marker. `load_checkpoint` reads the offset once, then
  `restore` and `advance_to` advance the offset. If the offset is None, the offset is not known, and the changelog is
  read from the beginning.
- While an active task runs, the task itself tracks the offsets of the last acknowledged records. The task passes these
  offsets to `update_changelog_offsets` before each checkpoint and when the task is suspended.
- The stores are flushed before a checkpoint is written, so the offsets in the file are never ahead of the stores on
  disk. The checkpoint file has an entry for each persistent logged store. The entry of a store whose offset is not
  known is OFFSET_UNKNOWN. When a task is marked as corrupted, its checkpoint file is deleted. After a power loss, the
  file may have offsets beyond the end of the log, if the log has lost its latest commits
  (`logs/embedded/connections.py`).
- At-least-once: an active task writes a checkpoint at the end of restoring and when it closes. While the task runs, a
  commit writes a checkpoint if the sum of the offsets has grown by more than 10,000.
- Exactly-once: the checkpoint file is deleted as soon as it has been read. An active task writes the file only at a
  clean close, and not while it runs. So if an active task has state on disk but no checkpoint, the state may contain
  records that were never committed. `load_checkpoint` then raises TaskCorrupted.
- A standby writes a checkpoint at its first commit and when it closes. A later commit of a standby writes a checkpoint
  if the sum of the offsets has grown by more than 10,000. A standby does not write a checkpoint at every commit,
  because under exactly-once its stores would be flushed to disk ten times a second.
- When a task is recycled, the new task of the other type (active or standby) gets the open stores and their offsets.
- The files in a store's directory may be from another kind of store. If the store is logged, its files are deleted with
  a warning, and the store is restored from the beginning. If the store is not logged, an error is raised.
- A store may lack entries that its changelog still has, for example because the store's retention was raised. If a
  store may lack entries, its changelog is read from the beginning and applied over the content of the store.
- Before a store's format file gets a new kind or retention, OFFSET_UNKNOWN is written to the checkpoint. So even if the
  process crashes after it has changed the format file, the next process restores the store from the beginning.

Source: `ProcessorStateManager`, `StateManagerUtil`, `LegacyCheckpointingStateStore`.

Differs from Kafka: before a store is restored from the beginning, the store is deleted. A store is restored from the
beginning if the checkpoint is broken, has no entry for the store, or has OFFSET_UNKNOWN. So the restored store does not
have old keys that compaction has removed from the changelog.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assignor.errors import AssignorFault
from assignor.names.legal_names import is_legal_name, shown_name
from assignor.types import JAVA_LONG_MAX, Offsets, TaskId, TopicPartition
from streams_runtime.common.errors import (
    LockError,
    ProcessorStateError,
    StoreCorrupted,
    StoreOfAnotherKind,
    TaskCorrupted,
)
from streams_runtime.common.states import TaskType
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.state_store import RocksDBConfigSetter, StateStore, StoreContext
from streams_runtime.tasks.checkpoint_file import OFFSET_UNKNOWN, CheckpointFile
from streams_runtime.tasks.needed_changes import WindowChangelogs
from streams_runtime.tasks.source_changelog import RecordConverter
from streams_runtime.tasks.state_directory import StateDirectory

OFFSET_DELTA_FOR_CHECKPOINT = 10_000
"""A task writes a checkpoint at a commit when the sum of its offsets has grown by more than this number."""

STORES_DIRECTORY = Path("rocksdb")
"""The directory of persistent stores. The directory of a store is `<task directory>/rocksdb/<store>`."""

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class StoreMetadata:
    """A store and its changelog (None if the store is not logged).

    `offset`: the last changelog offset that is applied to the store; None if this offset is not known.
    """

    store: StateStore
    changelog: TopicPartition | None
    offset: int | None = None


class StateManager:
    """The stores of one task. Only the stream thread of the task uses the state manager.

    The order of calls is `lock`, `open_stores`, `load_checkpoint`, then other methods, then `close` and `unlock`. After
    `close` the stores may be opened again.

    `changelogs`: the changelog partition of each store. A store with None or without an entry is not logged.
    `source_changelogs`: the changelogs that are also inputs of the task, each with its `RecordConverter`. A restore
    passes each batch of a source changelog to the converter, and applies the records that the converter returns.
    `compacted_changelogs`: the changelogs of stores without windows, which are created with compaction alone.
    `window_retentions_ms`: the retention of each window store that has a changelog of its own.
    `checkpoint_delta`: if the sum of the offsets has grown by more than `checkpoint_delta`, a commit writes a
    checkpoint. Simulations set `checkpoint_delta` to a lower number.
    """

    def __init__(
        self,
        task_id: TaskId,
        task_type: TaskType,
        *,
        exactly_once: bool,
        directory: StateDirectory,
        stores: Sequence[StateStore],
        changelogs: Mapping[str, TopicPartition | None],
        source_changelogs: Mapping[TopicPartition, RecordConverter] | None = None,
        compacted_changelogs: frozenset[TopicPartition] = frozenset(),
        rocksdb_config_setter: RocksDBConfigSetter | None = None,
        window_retentions_ms: Mapping[str, int] | None = None,
    ) -> None:
        self.task_id = task_id
        self.rocksdb_config_setter = rocksdb_config_setter
        self.task_type = task_type
        self.compacted_changelogs = compacted_changelogs
        self.exactly_once = exactly_once
        self.checkpoint_delta = OFFSET_DELTA_FOR_CHECKPOINT
        self._directory = directory
        self._source_changelogs = source_changelogs or {}
        self._metadata = {store.name: StoreMetadata(store, changelogs.get(store.name)) for store in stores}
        self._by_changelog = {
            metadata.changelog: metadata for metadata in self._metadata.values() if metadata.changelog is not None
        }
        self._checkpointed = {p: metadata for p, metadata in self._by_changelog.items() if metadata.store.persistent}
        for name in self._metadata:  # a store that the user wrote may have a different name than its builder
            if not is_legal_name(name):
                raise ProcessorStateError(f"{shown_name(name)} cannot be the name of a store", task_id)
        if len(self._metadata) != len(stores):
            raise ProcessorStateError("two stores have the same name", task_id)
        if len(self._by_changelog) != sum(metadata.changelog is not None for metadata in self._metadata.values()):
            raise ProcessorStateError("two stores have the same changelog", task_id)
        self.changelog_partitions = frozenset(self._by_changelog)
        self.store_changelogs = {metadata.store.name: partition for partition, metadata in self._by_changelog.items()}
        self.window_changelogs = WindowChangelogs(window_retentions_ms or {}, self.store_changelogs)
        self.stores: Mapping[str, StateStore] = {store.name: store for store in stores}
        self._reset()

    def _reset(self) -> None:
        for metadata in self._metadata.values():
            metadata.offset = None
        self.window_changelogs.clear()
        self._opened = False
        self._corrupted = False
        self._loaded_checkpoint: dict[TopicPartition, int] = {}
        self._was_empty = True
        # the sum of `changelog_offsets` when a checkpoint was last due or loaded; None before `load_checkpoint`
        self._sum_at_checkpoint: int | None = None
        # the content that this object last wrote to the checkpoint file; None if it has not written the file or has
        # deleted it
        self._on_disk: dict[TopicPartition, int] | None = None

    # --- the directory

    @property
    def task_directory(self) -> Path:
        return self._directory.task_directory(self.task_id)

    def lock(self) -> None:
        """Lock the task's directory, if the task has stores. Raises LockError if another thread or process has the
        lock.
        """
        if self._metadata and not self._directory.lock(self.task_id):
            raise LockError(
                f"the task's directory is still locked by {self._directory.holder(self.task_id)}", self.task_id
            )

    def unlock(self) -> None:
        self._directory.unlock(self.task_id)

    # --- opening

    def open_stores(self, context: StoreContext) -> None:
        """Open the stores, unless they are open. A store without a changelog of its own gets a context without a change
        logger. If the checkpoint is broken, renames the checkpoint, logs a warning and deletes all state. Raises
        ProcessorStateError, and TaskCorrupted when the files of a store are broken. Differs from Kafka: in Kafka, a
        store with broken files ends the thread at every start, until the files are deleted by hand.
        """
        if self._opened or not self._metadata:
            return
        loaded = self._checkpoint_file().load()
        if loaded is None or self._corrupted:
            self._directory.wipe(self.task_id)
            loaded = {}
            self._reset()
        self._loaded_checkpoint = self._without_missing_stores(loaded)
        self._was_empty = self._directory.is_empty(self.task_id)
        self._directory.discard(self.task_id, self._stale_stores())
        self._opened = True
        for metadata in self._metadata.values():
            try:
                self._open(metadata, self._context_of(metadata, context))
            except StoreCorrupted as broken:
                raise TaskCorrupted([self.task_id], str(broken)) from broken
            except AssignorFault:
                raise
            except Exception as error:
                raise self._failed("open", metadata, error) from error

    def load_checkpoint(self) -> None:
        """Take the offsets of the stores from the checkpoint. Under exactly-once, deletes the checkpoint file
        afterwards.

        Under exactly-once, raises TaskCorrupted for state without an offset, and then keeps the checkpoint file.
        """
        if self._sum_at_checkpoint is None:
            unused = dict(self._loaded_checkpoint)
            for partition, metadata in self._checkpointed.items():
                offset = unused.pop(partition, None)
                if offset is not None:
                    metadata.offset = None if offset == OFFSET_UNKNOWN else offset
                elif self.exactly_once and not self._was_empty:
                    raise TaskCorrupted(
                        [self.task_id],
                        "the process before this one ended without a checkpoint of store "
                        f"{metadata.store.name!r}, whose files may hold what was never committed",
                    )
            if unused:
                named = ", ".join(str(partition) for partition in unused)
                _logger.warning(
                    "the checkpoint of task %s names partitions that are not its changelogs: %s", self.task_id, named
                )
            self._sum_at_checkpoint = self._offset_sum()
        if self.exactly_once:
            self.delete_checkpoint()

    # --- offsets

    def metadata(self, partition: TopicPartition) -> StoreMetadata:
        """Returns the store of this changelog. Raises KeyError when the partition is not a changelog of the task."""
        return self._by_changelog[partition]

    def changelog_as_source(self, partition: TopicPartition) -> bool:
        """True if the partition is an input of the task as well."""
        return partition in self._source_changelogs

    def changelog_offsets(self) -> Offsets:
        """Returns the next offset to apply for each changelog, 0 if the offset is not known."""
        return {p: 0 if metadata.offset is None else metadata.offset + 1 for p, metadata in self._by_changelog.items()}

    def update_changelog_offsets(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of changelogs. Ignores partitions that are not changelogs. `next_offsets`: the offset after
        the last record that was written to each changelog. For a source topic, `next_offsets` has the offset after the
        last record that was read.
        """
        for partition, next_offset in next_offsets.items():
            if (metadata := self._by_changelog.get(partition)) is not None:
                metadata.offset = next_offset - 1 if next_offset > 0 else None

    def _offset_sum(self) -> int:
        return sum(self.changelog_offsets().values())

    def restore(self, partition: TopicPartition, batch: RecordBatch) -> None:
        """Apply records of a changelog. If the changelog is a source topic, applies the records that its
        `RecordConverter` returns.

        Raises ProcessorStateError, and then leaves the offset unchanged.
        """
        metadata = self._by_changelog[partition]
        convert = self._source_changelogs.get(partition)
        try:
            converted = batch if convert is None else convert(batch)
            if converted is not None:
                metadata.store.restore(converted)
        except AssignorFault:
            raise
        except Exception as error:
            message = f"store {metadata.store.name!r} could not be restored from {partition}: {error}"
            raise ProcessorStateError(message, self.task_id) from error
        metadata.offset = batch.offsets[-1]
        self.window_changelogs.restored(partition, batch)

    def advance_to(self, partition: TopicPartition, position: int) -> None:
        """Advance the offset, because every record of the changelog below this position is in the store."""
        metadata = self._by_changelog[partition]
        if position > (0 if metadata.offset is None else metadata.offset + 1):
            metadata.offset = position - 1
        self.window_changelogs.advance_to(partition, position)

    # --- checkpoints

    def checkpoint_due(self) -> bool:
        """True if a commit has to write a checkpoint, according to `changelog_offsets`."""
        return self._offset_sum() > self.checkpoint_limit()

    def checkpoint_limit(self) -> int:
        """Returns the limit above which the sum of `changelog_offsets` makes a commit write a checkpoint.

        The limit makes the first commit of a standby write a checkpoint. Under exactly-once, no commit of an active
        task writes a checkpoint. Any other commit writes a checkpoint if the sum of the offsets has grown by more than
        `checkpoint_delta`.
        """
        if self._sum_at_checkpoint is None:
            return JAVA_LONG_MAX
        if self.task_type is TaskType.STANDBY:
            if self._on_disk is None:
                return -1  # any sum of offsets is above -1
        elif self.exactly_once:
            return JAVA_LONG_MAX
        return self._sum_at_checkpoint + self.checkpoint_delta

    def maybe_checkpoint(self, *, enforce: bool) -> bool:
        """Flush the stores and write the checkpoint file, if a checkpoint is due or enforced. The task calls
        `maybe_checkpoint` at a commit. At a close and at the end of restoring, the task passes `enforce`.

        Returns True if a checkpoint was due or enforced. Does not write the file if its content would not change.
        Raises ProcessorStateError.
        """
        if self._sum_at_checkpoint is None or not (enforce or self.checkpoint_due()):
            return False
        if self._metadata and not self._corrupted:
            self._write_checkpoint()
        self._sum_at_checkpoint = self._offset_sum()
        return True

    def delete_checkpoint(self) -> None:
        """Delete the checkpoint file. Raises ProcessorStateError."""
        if self._metadata:
            self._checkpoint_file().delete()
            self._on_disk = None

    def flush(self) -> None:
        """Flush all stores even if one fails, then raise the first error. An error that is not an AssignorFault becomes
        the cause of a ProcessorStateError.
        """
        self._for_each("flush", lambda metadata: metadata.store.flush())

    # --- closing, and becoming the state of the other type of task

    def mark_corrupted(self) -> None:
        """Delete the checkpoint, and let `close` delete all state. Raises ProcessorStateError."""
        self._corrupted = bool(self._by_changelog)
        if self._opened:
            self.delete_checkpoint()

    def close(self) -> None:
        """Close every store even if one fails, then forget the offsets. If the task is corrupted, deletes all state.

        Raises the first error of a store. A second call does nothing.
        """
        corrupted = self._corrupted
        try:
            self._for_each("close", lambda metadata: metadata.store.close())
        finally:
            self._reset()
            if corrupted:
                self._directory.wipe(self.task_id)

    def wipe(self) -> None:
        """Close the stores, and delete all state and the checkpoint. A task calls `wipe` for a dirty close under
        exactly-once, and for corrupt state.
        """
        self._corrupted = bool(self._metadata)
        self.close()

    def transition_to(self, task_type: TaskType, context: StoreContext) -> None:
        """Turn the state of an active task into the state of a standby, or the reverse, for a recycled task. The stores
        stay open, and the offsets stay in memory.

        Under exactly-once, an active task starts without a checkpoint. Raises ProcessorStateError.
        """
        if self.exactly_once and task_type is TaskType.ACTIVE:
            self.delete_checkpoint()
        self.task_type = task_type
        if self._opened:
            for metadata in self._metadata.values():
                metadata.store.rebind(self._context_of(metadata, context))

    # --- inside

    def _open(self, metadata: StoreMetadata, context: StoreContext) -> None:
        try:
            metadata.store.open(context)
        except StoreOfAnotherKind as other:
            if metadata.changelog is None:
                raise StoreOfAnotherKind(
                    f"{other}. It has no changelog to be restored from: give the store another name, or delete that "
                    "directory while the application is stopped",
                    self.task_id,
                ) from other
            _logger.warning("task %s: %s; the store is restored from its changelog", self.task_id, other)
            self._forget_offset(metadata.changelog)
            self._directory.discard(self.task_id, [STORES_DIRECTORY / metadata.store.name])
            metadata.store.open(context)

    def _read_again(self, store: str, reason: str) -> None:
        """Implements `StoreContext.read_again`: read the store's changelog from the beginning."""
        changelog = self._metadata[store].changelog
        if changelog is not None:
            self._forget_offset(changelog)
            _logger.warning(
                "task %s: store %s: %s; its changelog %s is read from the beginning, over the content of the store",
                self.task_id,
                store,
                reason,
                changelog,
            )

    def _forget_offset(self, changelog: TopicPartition) -> None:
        """Forget the offset of a store that is being opened. Writes OFFSET_UNKNOWN for the store to the checkpoint
        file, so that the store is restored from the beginning even after a crash. Does nothing for a store without an
        entry in the checkpoint. `load_checkpoint` handles a store without an entry.
        """
        if changelog in self._loaded_checkpoint:
            self._loaded_checkpoint[changelog] = OFFSET_UNKNOWN
            self._checkpoint_file().write(self._loaded_checkpoint)

    def _checkpoint_file(self) -> CheckpointFile:
        return CheckpointFile(self.task_directory, self._directory.files)

    def _context_of(self, metadata: StoreMetadata, context: StoreContext) -> StoreContext:
        unlogged = metadata.changelog is None or metadata.changelog in self._source_changelogs
        return replace(context, changes=None if unlogged else context.changes, read_again=self._read_again)

    def _stale_stores(self) -> list[Path]:
        """Returns the directories of stores that have to be deleted, because they are restored from the beginning.

        In the checkpoint, the offset of a stale store is OFFSET_UNKNOWN or missing. Under exactly-once, a store with a
        missing offset is not stale, because `load_checkpoint` handles it.
        """
        # the assumed offset of a store without an entry in the checkpoint; 0 stands for any offset that is not
        # OFFSET_UNKNOWN
        unnamed = 0 if self.exactly_once else OFFSET_UNKNOWN
        return [
            STORES_DIRECTORY / metadata.store.name
            for p, metadata in self._checkpointed.items()
            if self._loaded_checkpoint.get(p, unnamed) == OFFSET_UNKNOWN
        ]

    def _without_missing_stores(self, offsets: dict[TopicPartition, int]) -> Offsets:
        """Returns the offsets of a checkpoint without the stores whose directories do not exist. Logs a warning with
        these stores.

        For example, a program that deletes old temporary files may have deleted a store and left the checkpoint.
        """
        missing = {
            p
            for p, metadata in self._checkpointed.items()
            if offsets.get(p, OFFSET_UNKNOWN) != OFFSET_UNKNOWN
            and not self._directory.files.is_directory(self.task_directory / STORES_DIRECTORY / metadata.store.name)
        }
        if missing:
            named = ", ".join(map(str, missing))
            _logger.warning("the checkpoint of task %s names %s, but the stores are not there", self.task_id, named)
        return {p: offset for p, offset in offsets.items() if p not in missing}

    def _write_checkpoint(self) -> None:
        offsets = {
            p: OFFSET_UNKNOWN if metadata.offset is None else metadata.offset
            for p, metadata in self._checkpointed.items()
        }
        file = self._checkpoint_file()
        if offsets != self._on_disk or (offsets and not self._directory.files.exists(file.path)):
            self.flush()
            file.write(offsets)
            self._on_disk = offsets

    def _for_each(self, operation: str, action: Callable[[StoreMetadata], None]) -> None:
        """Call `action` for every store even if one call fails, then raise the first error.

        `operation`: the verb that follows "could not" in messages.
        """
        failures: list[Exception] = []
        for metadata in self._metadata.values():
            try:
                action(metadata)
            except Exception as error:
                _logger.exception("task %s could not %s store %s", self.task_id, operation, metadata.store.name)
                failures.append(error if isinstance(error, AssignorFault) else self._failed(operation, metadata, error))
        if failures:
            raise failures[0]

    def _failed(self, operation: str, metadata: StoreMetadata, error: Exception) -> ProcessorStateError:
        wrapped = ProcessorStateError(f"could not {operation} store {metadata.store.name!r}: {error}", self.task_id)
        wrapped.__cause__ = error
        return wrapped
