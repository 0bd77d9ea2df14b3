"""Manages the stores of a Streams task. Tracks, for each store, the changelog offset up to which the store is complete.

Rules:
- A store is complete up to and including its offset. The log may have no record at the offset of a store. The record
  may be deleted, or the offset may belong to a transaction marker. `load_checkpoint` reads the offset once. `restore`,
  `advance_to` and `commit` then advance the offset. If the offset is not known, it is None, and the changelog is read
  from the beginning.
- A persistent store of this package keeps its offset in its own files (`OffsetKeepingStore`). `commit` writes the
  changes of a store and its offset in one write batch, after the log has committed the task. A restore does the same
  with each batch of changelog records. So after a crash, each store is in a committed state, and only the records after
  its offset are restored.
- Under exactly-once, a transactional store survives every crash. A store without transactions may contain changes that
  were never committed. So if transactions are off, the offset is deleted as soon as it has been read, and is written
  again when the task is closed without an error.
- `store_opening` has the rules for stores whose files cannot be used.
- When an active task is recycled, its open stores and their offsets pass to a new standby. When a standby is recycled,
  its open stores and their offsets pass to a new active task.
- A task may also have a checkpoint file; `task_checkpoint` has its rules.

Source: `ProcessorStateManager`, `StateManagerUtil`; KIP-1035, KIP-892.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from assignor.errors import AssignorFault
from assignor.names.legal_names import is_legal_name, shown_name
from assignor.types import Offsets, TaskId, TopicPartition
from streams_runtime.common.errors import LockError, ProcessorStateError, StoreCorrupted, TaskCorrupted
from streams_runtime.common.states import TaskType
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.state_store import StateStore, StoreContext, keeps_offset, offset_keeper
from streams_runtime.tasks.needed_changes import WindowChangelogs
from streams_runtime.tasks.source_changelog import RecordConverter
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.store_opening import StoreOpening, StoreOptions, log_rebuilt, rebuilt_text
from streams_runtime.tasks.task_checkpoint import StoreMetadata, TaskCheckpoint

_logger = logging.getLogger(__name__)


class StateManager:
    """The stores of one task. Only the stream thread of the task uses the state manager.

    The order of calls is `lock`, `open_stores`, `load_checkpoint`, then other methods, then `close` and `unlock`. After
    `close` the stores may be opened again.

    `changelogs`: the changelog partition of each store. If a store has no entry, or the entry is None, the store is not
    logged. `source_changelogs`: the changelogs that are also inputs of the task, each with its `RecordConverter`. A
    restore passes each batch of a source changelog to the converter, and applies the records that the converter
    returns. `compacted_changelogs`: the changelogs of stores without windows, which are created with the cleanup policy
    compact. `window_retentions_ms`: the retention of each window store that has a changelog of its own.
    `on_rebuilt`: a function that is called with a `rebuilt_text` when a store is deleted because its files cannot be
    used.
    `checkpoint`: the checkpoint file of the task.
    """

    def __init__(
        self,
        task_id: TaskId,
        task_type: TaskType,
        *,
        options: StoreOptions,
        directory: StateDirectory,
        stores: Sequence[StateStore],
        changelogs: Mapping[str, TopicPartition | None],
        source_changelogs: Mapping[TopicPartition, RecordConverter] | None = None,
        compacted_changelogs: frozenset[TopicPartition] = frozenset(),
        on_rebuilt: Callable[[str], None] = log_rebuilt,
        window_retentions_ms: Mapping[str, int] | None = None,
    ) -> None:
        self.task_id = task_id
        self.task_type = task_type
        self.compacted_changelogs = compacted_changelogs
        self.options = options
        self.exactly_once = options.exactly_once
        self._on_rebuilt = on_rebuilt
        self._directory = directory
        self._source_changelogs = source_changelogs or {}
        self._metadata = {store.name: StoreMetadata(store, changelogs.get(store.name)) for store in stores}
        self._by_changelog = {
            metadata.changelog: metadata for metadata in self._metadata.values() if metadata.changelog is not None
        }
        self._offset_keeping = [
            (offset_keeper(store), self._metadata[store.name]) for store in stores if keeps_offset(store)
        ]
        self._persistent = {p: metadata for p, metadata in self._by_changelog.items() if metadata.store.persistent}
        self.checkpoint = TaskCheckpoint(
            task_id, directory, self._persistent, exactly_once=options.exactly_once, all_stores=options.checkpoint_file
        )
        self._opening = StoreOpening(
            task_id, directory, self.checkpoint, options, self._source_changelogs.keys(), on_rebuilt
        )
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
        self._is_loaded = False  # True after `load_checkpoint`
        # False while the stores may contain changes that were never committed, so that their offsets must not be stored
        self._offsets_hold = True
        self._was_empty = True
        self.checkpoint.reset()

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

    @property
    def survives_dirty_close(self) -> bool:
        """False if the stores may contain changes that were never committed, and whose transaction was aborted."""
        return not self.exactly_once or self.is_transactional

    @property
    def is_transactional(self) -> bool:
        """True if all persistent stores on disk contain only committed changes."""
        return self.options.transactional and not self.checkpoint.is_needed

    @property
    def uncommitted_bytes(self) -> int:
        """The approximate size of the uncommitted changes of all stores."""
        return sum(store.uncommitted_bytes for store, _ in self._offset_keeping)

    # --- opening

    def open_stores(self, context: StoreContext) -> None:
        """Open the stores if they are not open. If a store has no changelog of its own, its changes are not logged. If
        the checkpoint file is broken, renames the file, logs a warning and deletes all state that depends on the file.
        Raises ProcessorStateError.
        """
        if self._opened or not self._metadata:
            return
        is_readable = self.checkpoint.load()
        if not is_readable or self._corrupted:
            self._directory.wipe(self.task_id)
            self._reset()
        self._was_empty = self._directory.is_empty(self.task_id)
        self._directory.discard(self.task_id, self.checkpoint.stale_stores())
        self._opened = True
        for metadata in self._metadata.values():
            try:
                self._opening.open(metadata, context)
            except AssignorFault:
                raise
            except Exception as error:
                raise self._failed("open", metadata, error) from error

    def load_checkpoint(self) -> None:
        """Set the offsets of the stores to the offsets that the stores and the checkpoint file have. Under exactly-once
        or if no store needs the checkpoint file, deletes the file afterwards. If a store of a user's own class has
        state but no offset, raises TaskCorrupted under exactly-once, and does not delete the file.
        """
        if not self._is_loaded:
            for partition, metadata in self._persistent.items():
                if keeps_offset(metadata.store):
                    offset = metadata.store.committed_offset
                    metadata.offset = offset if isinstance(offset, int) else None
                    continue
                metadata.offset = self.checkpoint.offset(partition)
                if not self.checkpoint.names(partition) and self.exactly_once and not self._was_empty:
                    raise TaskCorrupted(
                        [self.task_id],
                        "the process before this one ended without a checkpoint of store "
                        f"{metadata.store.name!r}, whose files may hold what was never committed",
                    )
            self._is_loaded = True
            self.checkpoint.used(self._offset_sum())
        if self.exactly_once or not self.checkpoint.is_written:
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

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Write the changes of the stores after the log has committed the task, each with the offset of its store.

        `next_offsets`: the offset after the last record in the store, by changelog. For a source topic, the value is
        the offset after the last record that the task has read. For any other changelog, the value is the offset after
        the last record that the task has written. Ignores partitions that are not changelogs. Raises
        ProcessorStateError, TaskCorrupted.
        """
        for partition, next_offset in next_offsets.items():
            if (metadata := self._by_changelog.get(partition)) is not None:
                metadata.offset = next_offset - 1 if next_offset > 0 else None
        self._commit_stores()

    def _commit_stores(self) -> None:
        if not self._is_loaded:
            return
        try:
            for store, metadata in self._offset_keeping:
                store.commit(metadata.offset if self._offsets_hold else None)
        except StoreCorrupted as damage:
            raise self.corrupted_by(damage) from damage

    def corrupted_by(self, damage: StoreCorrupted) -> TaskCorrupted:
        """Reports the damage that a store has found. Returns the error after which the thread rebuilds the stores."""
        has_changelogs = all(metadata.changelog is not None for metadata in self._metadata.values())
        self._on_rebuilt(rebuilt_text(damage, has_changelog=has_changelogs))
        return TaskCorrupted([self.task_id], str(damage))

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
        except StoreCorrupted as damage:
            raise self.corrupted_by(damage) from damage
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
        """Returns True if a commit has to write the checkpoint file."""
        checkpoint = self.checkpoint
        return checkpoint.is_written and self._is_loaded and checkpoint.is_due(self._offset_sum(), self.task_type)

    def maybe_checkpoint(self, *, enforce: bool) -> bool:
        """If `enforce` is True, write the offsets of the stores. If the checkpoint file is due or `enforce` is True,
        also flush the stores and write the file. The task calls this method for a commit. When the task closes or has
        restored its stores, `enforce` is True. Returns True if the offsets or the file were due. Raises
        ProcessorStateError, TaskCorrupted.
        """
        if not self._is_loaded or not (enforce or self.checkpoint_due()):
            return False
        if not self._corrupted:
            self._offsets_hold = True
            self._commit_stores()
            self.checkpoint.write(self.flush)
        self.checkpoint.used(self._offset_sum())
        return True

    def delete_checkpoint(self) -> None:
        """Delete the checkpoint file. If transactions are off under exactly-once, also delete the offsets that the
        stores of an active task keep. Raises ProcessorStateError.
        """
        if not self._metadata:
            return
        self.checkpoint.delete()
        if self.exactly_once and not self.options.transactional and self.task_type is TaskType.ACTIVE:
            self._offsets_hold = False
            self._commit_stores()

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
            self.checkpoint.delete()

    def close_clean(self) -> None:
        """Write the changes and the offsets of all stores and the checkpoint file, and close the stores. Raises
        ProcessorStateError, TaskCorrupted.
        """
        self.maybe_checkpoint(enforce=True)
        self.close()

    def close(self) -> None:
        """Close every store, drop uncommitted changes, and forget the offsets. If the task is marked as corrupted,
        deletes all state. If stores raise errors, closes the other stores as well, and then raises the first error. A
        second call does nothing.
        """
        corrupted = self._corrupted
        try:
            self._for_each("close", lambda metadata: metadata.store.close())
        finally:
            self._reset()
            if corrupted:
                self._directory.wipe(self.task_id)

    def wipe(self) -> None:
        """Close the stores, and delete all state and the checkpoint file."""
        self._corrupted = bool(self._metadata)
        self.close()

    def transition_to(self, task_type: TaskType, context: StoreContext) -> None:
        """Prepare the state of a recycled task for a new task of the type `task_type`. The stores stay open, and the
        offsets stay in memory. Under exactly-once, the checkpoint file is deleted if the new task is active. A new
        standby stores its offsets. Raises ProcessorStateError, TaskCorrupted.
        """
        self.task_type = task_type
        if task_type is TaskType.STANDBY:
            self._offsets_hold = True
            self._commit_stores()
        elif self.exactly_once:
            self.delete_checkpoint()
        if self._opened:
            for metadata in self._metadata.values():
                metadata.store.rebind(self._opening.context_of(metadata, context))

    # --- inside

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
