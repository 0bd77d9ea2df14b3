"""The one place that knows up to which changelog offset each store of a task is complete.

Rules:
- The offset of a store is that of the last changelog record that is in it: read from the checkpoint once, moved on by
  `restore`, and set to what was written and acknowledged by `update_changelog_offsets`. None: not known, read from the
  beginning.
- Stores are flushed before a checkpoint is written, so the file never promises more than the disk has. Only stores that
  are persistent, logged and not corrupted are in it, with OFFSET_UNKNOWN when they hold nothing yet.
- At-least-once: an active writes it when offsets moved by more than 10,000 in sum, or when it must (end of restoring,
  close); a standby at every commit.
- Exactly-once: the file goes as soon as it is in memory. An active writes none while it runs, a standby does at every
  commit, both at a clean close. So state without one may hold records that were never committed: TaskCorrupted.
- Recycled: the other kind of task goes on with the same open stores and the offsets in memory.

Source: `ProcessorStateManager`, `StateManagerUtil`, `LegacyCheckpointingStateStore`.

Differs from Kafka: state that has to be restored from the beginning because the checkpoint does not name it, or only
as OFFSET_UNKNOWN, or was broken, is deleted first, so that no key stays that a compacted changelog does not mention
any more.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from assignor.errors import AssignorFault
from assignor.types import TaskId, TopicPartition
from streams_runtime.errors import LockError, ProcessorStateError, StoreCorrupted, TaskCorrupted
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.base import StateStore, StoreContext
from streams_runtime.task_states import TaskType
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from streams_runtime.tasks.offset_checkpoint import OFFSET_UNKNOWN
from streams_runtime.tasks.state_directory import StateDirectory

OFFSET_DELTA_FOR_CHECKPOINT = 10_000
"""An active that is not forced writes a checkpoint when its offsets moved by more than this, in sum."""

STORES_DIRECTORY = Path("rocksdb")
"""Persistent stores keep `<task directory>/rocksdb/<name>`."""

_logger = logging.getLogger(__name__)


class StoreMetadata:
    """A store, its changelog and how far it is. `offset`: the last record in it; None when not known.

    `end_offset`: the changelog's end as its reader knows it; `limit`: up to where (without) it may be read, None for
    no limit. Both are the changelog reader's to set. `corrupted`: it has to be thrown away.
    """

    __slots__ = ("changelog", "corrupted", "end_offset", "limit", "offset", "store")

    def __init__(self, store: StateStore, changelog: TopicPartition | None) -> None:
        self.store = store
        self.changelog = changelog
        self.forget()

    def forget(self) -> None:
        self.offset: int | None = None
        self.end_offset: int | None = None
        self.limit: int | None = None
        self.corrupted = False

    @property
    def checkpointed(self) -> bool:
        return self.changelog is not None and self.store.persistent

    def __repr__(self) -> str:
        return f"StoreMetadata({self.store.name}: {self.changelog} @ {self.offset})"


class StateManager:
    """The stores of one task, used by its stream thread only.

    The order is `lock`, `open_stores`, `load_checkpoint`, then anything, `close` and `unlock`; after `close` it may be
    opened again. `changelogs`: of each store the partition that logs it, None when it is not logged; a store that is
    not named is not logged. `source_changelogs`: those that are the task's own input at the same time.
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
        source_changelogs: frozenset[TopicPartition] = frozenset(),
    ) -> None:
        self.task_id = task_id
        self.task_type = task_type
        self.exactly_once = exactly_once
        self.set_aside_checkpoint: Path | None = None
        self._directory = directory
        self._source_changelogs = source_changelogs
        self._metadata = {store.name: StoreMetadata(store, changelogs.get(store.name)) for store in stores}
        self._by_changelog = {one.changelog: one for one in self._metadata.values() if one.changelog is not None}
        if len(self._metadata) != len(stores):
            raise ProcessorStateError("two stores have the same name", task_id)
        if len(self._by_changelog) != sum(one.changelog is not None for one in self._metadata.values()):
            raise ProcessorStateError("two stores have the same changelog", task_id)
        self.changelog_partitions = frozenset(self._by_changelog)
        self.stores: Mapping[str, StateStore] = {store.name: store for store in stores}
        self._opened = False
        self._loaded_checkpoint: dict[TopicPartition, int] = {}
        self._was_empty = True
        self._offsets_at_checkpoint: dict[TopicPartition, int] | None = None  # None: not loaded yet
        self._on_disk: dict[TopicPartition, int] | None = None

    # --- the directory

    @property
    def task_directory(self) -> Path:
        return self._directory.task_directory(self.task_id)

    def lock(self) -> bool:
        """Always true: without stores there is nothing to lock. Raises LockError when somebody else has the lock."""
        if self._metadata and not self._directory.lock(self.task_id):
            owner = self._directory.lock_owner(self.task_id)
            name = "another thread" if owner is None else f"thread {owner.name}"
            raise LockError(f"the task's directory is still locked by {name}", self.task_id)
        return True

    def unlock(self) -> None:
        self._directory.unlock(self.task_id)

    # --- opening

    def open_stores(self, context: StoreContext) -> None:
        """Open every store that is not open yet; those without a changelog of their own get a context without logger.

        A broken checkpoint is set aside here, with a warning, and all state goes; `set_aside_checkpoint` is its path.
        Raises ProcessorStateError, and TaskCorrupted for files that are broken. Differs from Kafka: there, such a store
        ends the thread again and again, until somebody deletes its files.
        """
        if self._opened or not self._metadata:
            return
        loaded = self._checkpoint_file().load()
        self.set_aside_checkpoint = loaded.set_aside
        if loaded.set_aside is not None or any(one.corrupted for one in self._metadata.values()):
            self._directory.wipe(self.task_id)
            loaded = loaded._replace(offsets={})
            self._forget()
        self._loaded_checkpoint = self._without_missing_stores(loaded.offsets)
        self._was_empty = self._directory.is_empty(self.task_id)
        self._directory.discard(self.task_id, self._stale_stores())
        self._opened = True
        try:
            self._for_each("open", lambda one: one.store.open(self._context_of(one, context)), all_of_them=False)
        except StoreCorrupted as broken:
            raise TaskCorrupted([self.task_id], str(broken)) from broken

    def load_checkpoint(self) -> None:
        """Take the offsets of stores from the checkpoint, and under exactly-once delete it then.

        Raises TaskCorrupted, with the file left alone, when under exactly-once there is state but no offset for it.
        """
        if not self._metadata:
            self._offsets_at_checkpoint = {}
            return
        if self._offsets_at_checkpoint is None:
            unused = dict(self._loaded_checkpoint)
            for one in self._metadata.values():
                if one.changelog is not None and one.store.persistent:
                    self._load(one, unused)
            if unused:
                named = ", ".join(str(partition) for partition in unused)
                _logger.warning(
                    "checkpoint of task %s names partitions that are no changelogs of it: %s", self.task_id, named
                )
            self._offsets_at_checkpoint = self.changelog_offsets()
        if self.exactly_once:
            self.delete_checkpoint()

    # --- offsets

    def metadata(self, partition: TopicPartition) -> StoreMetadata:
        """Raises KeyError when it is no changelog of the task."""
        return self._by_changelog[partition]

    def changelog_as_source(self, partition: TopicPartition) -> bool:
        """Whether the partition is an input of the task as well."""
        return partition in self._source_changelogs

    def changelog_offsets(self) -> dict[TopicPartition, int]:
        """Of each changelog the next offset to apply; 0 when not known."""
        return {p: 0 if one.offset is None else one.offset + 1 for p, one in self._by_changelog.items()}

    def update_changelog_offsets(self, written: Mapping[TopicPartition, int]) -> None:
        """Offsets of the last records written to changelogs, or read from those that are sources; ignores others.

        Negative: there is none yet.
        """
        for partition, offset in written.items():
            if (one := self._by_changelog.get(partition)) is not None:
                one.offset = offset if offset >= 0 else None

    def restore(self, partition: TopicPartition, batch: RecordBatch) -> None:
        """Apply changelog records. Raises ProcessorStateError; the offset has not moved then."""
        one = self._by_changelog[partition]
        try:
            one.store.restore(batch)
        except AssignorFault:
            raise
        except Exception as error:
            message = f"store {one.store.name!r} could not be restored from {partition}: {error}"
            raise ProcessorStateError(message, self.task_id) from error
        one.offset = batch.offsets[-1]

    def mark_changelogs_corrupted(self, partitions: Collection[TopicPartition]) -> None:
        """Their stores are in no checkpoint any more, and `close` wipes the task. Raises ProcessorStateError."""
        unknown = [p for p in partitions if p not in self._by_changelog]
        for partition in partitions:
            if (one := self._by_changelog.get(partition)) is not None:
                one.corrupted = True
        if self._opened:
            self._drop_from_checkpoint(partitions)
        if unknown:
            named = ", ".join(map(str, unknown))
            raise ProcessorStateError(f"cannot be corrupted, for they are no changelogs: {named}", self.task_id)

    # --- checkpoints

    def checkpoint_needed(self, enforce: bool) -> bool:
        """Whether a commit (`enforce`: or a close, or the end of restoring) has to write a checkpoint, by the rules."""
        at_checkpoint = self._offsets_at_checkpoint
        if at_checkpoint is None:
            return False
        if enforce or self.task_type is TaskType.STANDBY:
            return True
        if self.exactly_once:
            return False
        moved = sum(offset - at_checkpoint.get(p, 0) for p, offset in self.changelog_offsets().items())
        return moved > OFFSET_DELTA_FOR_CHECKPOINT

    def maybe_checkpoint(self, *, enforce: bool) -> bool:
        """`checkpoint`, if `checkpoint_needed`; whether it was."""
        needed = self.checkpoint_needed(enforce)
        if needed:
            self.checkpoint()
        return needed

    def checkpoint(self) -> None:
        """Flush the stores, then write the file, unless it says so already, or has not been loaded yet.

        Raises ProcessorStateError.
        """
        if self._offsets_at_checkpoint is None or not self._metadata:
            return
        offsets = {
            p: OFFSET_UNKNOWN if one.offset is None else one.offset
            for p, one in self._by_changelog.items()
            if one.store.persistent and not one.corrupted
        }
        file = self._checkpoint_file()
        if offsets != self._on_disk or (offsets and not os.path.exists(file.path)):
            self.flush()
            file.write(offsets)
            self._on_disk = offsets
        self._offsets_at_checkpoint = self.changelog_offsets()

    def delete_checkpoint(self) -> None:
        """Raises ProcessorStateError."""
        if self._metadata:
            self._checkpoint_file().delete()

    def flush(self) -> None:
        """Flush all stores even if one fails; the first error is raised, a store's own as ProcessorStateError."""
        self._for_each("flush", lambda one: one.store.flush())

    # --- the end, and going on as the other kind

    def close(self) -> None:
        """Close all stores even if one fails, then forget the offsets. If a changelog is corrupted all state goes.

        The first error is raised, a store's own as ProcessorStateError. Closing twice is fine.
        """
        corrupted = any(one.corrupted for one in self._metadata.values())
        try:
            self._for_each("close", lambda one: one.store.close())
        finally:
            self._forget()
            if corrupted:
                self._directory.wipe(self.task_id)

    def wipe(self) -> None:
        """Close, and delete all state and the checkpoint: an unclean end under exactly-once, or corruption."""
        try:
            self.close()
        finally:
            if self._metadata:
                self._directory.wipe(self.task_id)

    def transition_to(self, task_type: TaskType, context: StoreContext) -> None:
        """From now on the state of the other kind of task: stores stay open, offsets stay in memory.

        Under exactly-once an active starts without a checkpoint. Raises ProcessorStateError if it is of that kind.
        """
        if task_type is self.task_type:
            raise ProcessorStateError(f"cannot be recycled: it is {task_type.value} already", self.task_id)
        if self.exactly_once and task_type is TaskType.ACTIVE:
            self.delete_checkpoint()
        self.task_type = task_type
        for one in self._metadata.values():
            one.end_offset = one.limit = None
            if self._opened:
                one.store.rebind(self._context_of(one, context))

    # --- inside

    def _checkpoint_file(self) -> CheckpointFile:
        return CheckpointFile(self.task_directory)

    def _context_of(self, one: StoreMetadata, context: StoreContext) -> StoreContext:
        if one.changelog is None or one.changelog in self._source_changelogs:
            return replace(context, changes=None)
        return context

    def _stale_stores(self) -> list[Path]:
        """What is restored from the beginning, into an empty store: its offset is OFFSET_UNKNOWN in the checkpoint, or
        missing there (under exactly-once `_load` decides about that)."""
        unnamed = 0 if self.exactly_once else OFFSET_UNKNOWN
        return [
            STORES_DIRECTORY / one.store.name
            for p, one in self._by_changelog.items()
            if one.store.persistent and self._loaded_checkpoint.get(p, unnamed) == OFFSET_UNKNOWN
        ]

    def _without_missing_stores(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Somebody else, a cleaner of temporary files perhaps, may have deleted a store and left the checkpoint."""
        missing = {
            p
            for p, one in self._by_changelog.items()
            if one.store.persistent
            and offsets.get(p, OFFSET_UNKNOWN) != OFFSET_UNKNOWN
            and not (self.task_directory / STORES_DIRECTORY / one.store.name).exists()
        }
        if missing:
            named = ", ".join(map(str, missing))
            _logger.warning("checkpoint of task %s names %s, but the stores are not there", self.task_id, named)
        return {p: offset for p, offset in offsets.items() if p not in missing}

    def _load(self, one: StoreMetadata, unused: dict[TopicPartition, int]) -> None:
        assert one.changelog is not None
        offset = unused.pop(one.changelog, None)
        if offset is not None:
            one.offset = None if offset == OFFSET_UNKNOWN else offset
        elif self.exactly_once and not self._was_empty:
            raise TaskCorrupted(
                [self.task_id],
                f"there is state on disk, but no checkpoint for store {one.store.name!r}: under exactly-once it may "
                "hold records that were never committed",
            )

    def _drop_from_checkpoint(self, partitions: Collection[TopicPartition]) -> None:
        """Now, and not at the next write, which a process that dies before it never reaches."""
        file = self._checkpoint_file()
        there = file.load().offsets
        left = {p: offset for p, offset in there.items() if p not in partitions}
        if left != there:
            file.write(left)

    def _forget(self) -> None:
        for one in self._metadata.values():
            one.forget()
        self._opened = False
        self._loaded_checkpoint = {}
        self._was_empty = True
        self._offsets_at_checkpoint = None
        self._on_disk = None

    def _for_each(self, what: str, action: Callable[[StoreMetadata], None], *, all_of_them: bool = True) -> None:
        first: Exception | None = None
        for one in self._metadata.values():
            try:
                action(one)
            except Exception as error:
                _logger.exception("task %s could not %s store %s", self.task_id, what, one.store.name)
                if first is None:
                    first = error if isinstance(error, AssignorFault) else self._failed(what, one, error)
                if not all_of_them:
                    break
        if first is not None:
            raise first

    def _failed(self, what: str, one: StoreMetadata, error: Exception) -> ProcessorStateError:
        wrapped = ProcessorStateError(f"could not {what} store {one.store.name!r}: {error}", self.task_id)
        wrapped.__cause__ = error
        return wrapped
