"""Manages the stores of a Streams task. Tracks, for each store, the changelog offset up to which the store is complete.

Rules:
- A store is complete up to and including its offset. The log may have no record at the offset of a store. The record
  may be deleted, or the offset may belong to a transaction marker. `load_checkpoint` reads the offset once. `restore`
  and `advance_to` then advance the offset. If the offset is not known, it is None, and the changelog is read from the
  beginning.
- While an active task is RUNNING, the task itself tracks the offsets of the last acknowledged changes. The task passes
  these offsets to `update_changelog_offsets` before each checkpoint, and when it is suspended.
- The stores are flushed before a checkpoint is written, so the offsets in the file are never ahead of the stores on
  disk. The checkpoint file has an entry for each persistent logged store. If the offset of a store is not known, the
  entry is OFFSET_UNKNOWN. When a task is marked as corrupted, its checkpoint file is deleted. After a power loss, an
  embedded log may lack its latest commits (`logs/embedded/connections.py`). The offsets in the checkpoint file may then
  be beyond the end of the log.
- At-least-once: an active task writes a checkpoint when it has restored its stores and when it closes. While the task
  is RUNNING, a commit writes a checkpoint if the sum of the offsets has grown by more than 10,000.
- Exactly-once: the checkpoint file is deleted as soon as it has been read. An active task writes the file only when it
  is closed without an error. So if an active task has state on disk but no checkpoint, the state may contain changes
  that were never committed. Under exactly-once, `load_checkpoint` raises TaskCorrupted if an active task has state but
  no checkpoint.
- A standby writes a checkpoint at its first commit and when it closes. A later commit of a standby writes a checkpoint
  if the sum of the offsets has grown by more than 10,000. A standby does not write a checkpoint at every commit.
  With a checkpoint at every commit, the stores of the standby would be flushed to disk ten times a second under
  exactly-once.
- When an active task is recycled, its open stores and their offsets pass to a new standby. When a standby is recycled,
  its open stores and their offsets pass to a new active task.
- The directory of a store may contain files of a different kind of store, for example after the topology was changed.
  If the store is logged, its files are deleted with a warning, and the store is restored from the beginning. If the
  store is not logged, an error is raised.
- A store may lack entries that are still in its changelog, for example because the store's retention was raised. If a
  store may lack entries, its whole changelog is read and applied over the content of the store.
- When the kind or the retention of a store changes, OFFSET_UNKNOWN is written to the checkpoint before the store's
  format file is changed. So even if the process crashes after it has changed the format file, the next process restores
  the store from the beginning.

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
"""A commit writes a checkpoint if the sum of the task's changelog offsets has grown by more than this number."""

STORES_DIRECTORY = Path("rocksdb")
"""A persistent store has the directory `<task directory>/rocksdb/<store>`."""

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class StoreMetadata:
    """A store and its changelog. `changelog`: None if the store is not logged. `offset`: the last changelog offset that
    was applied to the store; None if this offset is not known.
    """

    store: StateStore
    changelog: TopicPartition | None
    offset: int | None = None


class StateManager:
    """The stores of one task. Only the stream thread of the task uses the state manager.

    The order of calls is `lock`, `open_stores`, `load_checkpoint`, then other methods, then `close` and `unlock`. After
    `close` the stores may be opened again.

    `changelogs`: the changelog partition of each store. If a store has no entry, or the entry is None, the store is not
    logged. `source_changelogs`: the changelogs that are also inputs of the task, each with its `RecordConverter`. A
    restore passes each batch of a source changelog to the converter, and applies the records that the converter
    returns. `compacted_changelogs`: the changelogs of stores without windows, which are created with the cleanup policy
    compact. `window_retentions_ms`: the retention of each window store that has a changelog of its own.
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
        # The name is checked here, because a store that the user wrote may have a different name than its builder.
        for name in self._metadata:
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
        # The offsets that this object has written to the checkpoint file. The value is None if this object has not
        # written the file, or has deleted the file.
        self._on_disk: dict[TopicPartition, int] | None = None

    # --- Methods for the task's directory.

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
        """Open the stores if they are not open. If a store has no changelog of its own, its changes are not logged. If
        the checkpoint file is broken, renames the file, logs a warning and deletes all state. Raises
        ProcessorStateError, and TaskCorrupted when the files of a store are broken. Differs from Kafka: in Kafka, the
        thread ends at every start until somebody deletes the broken files.
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
        """Set the offsets of the stores to the offsets in the checkpoint. Under exactly-once, deletes the checkpoint
        file afterwards. If a store has state but no offset in the checkpoint, raises TaskCorrupted under exactly-once,
        and does not delete the file.
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
        """Returns True if the partition is also an input partition of the task."""
        return partition in self._source_changelogs

    def changelog_offsets(self) -> Offsets:
        """Returns, for each changelog, the next offset to apply; 0 if this offset is not known."""
        return {p: 0 if metadata.offset is None else metadata.offset + 1 for p, metadata in self._by_changelog.items()}

    def update_changelog_offsets(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of the stores. Ignores partitions that are not changelogs. `next_offsets`: the offset after
        the last record in the store, by changelog. For a source topic, the value is the offset after the last record
        that the task has read. For any other changelog, the value is the offset after the last record that the task has
        written.
        """
        for partition, next_offset in next_offsets.items():
            if (metadata := self._by_changelog.get(partition)) is not None:
                metadata.offset = next_offset - 1 if next_offset > 0 else None

    def _offset_sum(self) -> int:
        return sum(self.changelog_offsets().values())

    def restore(self, partition: TopicPartition, batch: RecordBatch) -> None:
        """Apply records of a changelog. If the changelog is a source topic, applies the records that its
        `RecordConverter` returns.

        Raises ProcessorStateError. If `restore` raises an error, the offset does not change.
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
        """Advance the store's offset to this position. The caller has made sure that all records below the position are
        in the store.
        """
        metadata = self._by_changelog[partition]
        if position > (0 if metadata.offset is None else metadata.offset + 1):
            metadata.offset = position - 1
        self.window_changelogs.advance_to(partition, position)

    # --- checkpoints

    def checkpoint_due(self) -> bool:
        """Returns True if a commit has to write a checkpoint, because the sum of `changelog_offsets` is above
        `checkpoint_limit`.
        """
        return self._offset_sum() > self.checkpoint_limit()

    def checkpoint_limit(self) -> int:
        """Returns a limit: a commit writes a checkpoint if the sum of `changelog_offsets` is above the limit. The first
        commit of a standby always writes a checkpoint. Under exactly-once, a commit of an active task never writes a
        checkpoint. Any other commit writes a checkpoint if the sum has grown by more than `checkpoint_delta`.
        """
        if self._sum_at_checkpoint is None:
            return JAVA_LONG_MAX
        if self.task_type is TaskType.STANDBY:
            if self._on_disk is None:
                return -1  # every sum of offsets is above this limit
        elif self.exactly_once:
            return JAVA_LONG_MAX
        return self._sum_at_checkpoint + self.checkpoint_delta

    def maybe_checkpoint(self, *, enforce: bool) -> bool:
        """If a checkpoint is due or `enforce` is True, flush the stores and write the checkpoint file. The task calls
        this method for a commit. When the task closes or has restored its stores, `enforce` is True. Returns True if a
        checkpoint was due or `enforce` is True. If the content of the file would not change, the file is not written.
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
        """Flush every store. If a store raises an error, flushes the other stores as well, and then raises the first
        error. An error that is not an AssignorFault becomes the cause of a ProcessorStateError.
        """
        self._for_each("flush", lambda metadata: metadata.store.flush())

    # --- Methods that close the stores, or pass them to a task of the other type.

    def mark_corrupted(self) -> None:
        """Delete the checkpoint file. The next call of `close` then deletes all state. Raises ProcessorStateError."""
        self._corrupted = bool(self._by_changelog)
        if self._opened:
            self.delete_checkpoint()

    def close(self) -> None:
        """Close every store, and forget the offsets. If the task is marked as corrupted, deletes all state. If stores
        raise errors, closes the other stores as well, and then raises the first error. A second call does nothing.
        """
        corrupted = self._corrupted
        try:
            self._for_each("close", lambda metadata: metadata.store.close())
        finally:
            self._reset()
            if corrupted:
                self._directory.wipe(self.task_id)

    def wipe(self) -> None:
        """Close the stores, and delete all state and the checkpoint. A task calls `wipe` if it is closed after an error
        under exactly-once, or if its state is corrupt.
        """
        self._corrupted = bool(self._metadata)
        self.close()

    def transition_to(self, task_type: TaskType, context: StoreContext) -> None:
        """Prepare the state of a recycled task for a new task of the type `task_type`. The stores stay open, and the
        offsets stay in memory. Under exactly-once, the checkpoint file is deleted if the new task is active. Raises
        ProcessorStateError.
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
        """Implements `StoreContext.read_again`: the restore then reads the store's changelog from the beginning."""
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
        """Forget the offset of a store that is being opened. The checkpoint file gets OFFSET_UNKNOWN for the store. So
        the store is restored from the beginning even if the process crashes now. Does nothing if the checkpoint has no
        entry for the store, because `load_checkpoint` handles this case.
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
        """Returns the directories of the stale stores. A stale store has to be deleted, because it is restored from the
        beginning. A store is stale if its offset in the checkpoint is OFFSET_UNKNOWN. A store without an entry is stale
        only under at-least-once: under exactly-once, `load_checkpoint` handles this case.
        """
        # The offset that is assumed for a store without an entry in the checkpoint. With the offset 0, the store is not
        # stale.
        unnamed = 0 if self.exactly_once else OFFSET_UNKNOWN
        return [
            STORES_DIRECTORY / metadata.store.name
            for p, metadata in self._checkpointed.items()
            if self._loaded_checkpoint.get(p, unnamed) == OFFSET_UNKNOWN
        ]

    def _without_missing_stores(self, offsets: dict[TopicPartition, int]) -> Offsets:
        """Returns only the offsets of stores that are not missing. A store is missing if its directory does not exist.
        Logs a warning that names the missing stores. For example, a program that deletes old temporary files may have
        deleted a store but not the checkpoint.
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
        """Call `action` for every store. If calls raise errors, makes the other calls as well, and then raises the
        first error. `operation`: a verb for messages such as "could not flush".
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
