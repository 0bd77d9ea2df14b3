"""Opens the stores of a Streams task, and rebuilds stores that cannot be used.

Rules:
- A store that has files but no known offset is deleted, with a warning, and restored from the beginning. So the
  restored store does not have old keys that compaction has removed from the changelog. The same is true for a store
  with damaged files, and for a store with the state of another changelog or another log. These stores are counted.
- The directory of a store may contain files of a different kind of store, for example after the topology was changed.
  If the store is logged, its files are deleted with a warning, and the store is restored from the beginning. If the
  store is not logged, an error is raised.
- A store may lack entries that are still in its changelog, for example because the store's retention was raised. If a
  store may lack entries, its whole changelog is read and applied over the content of the store. The store deletes its
  offset before its format file is changed. So even if the process crashes after it has changed the format file, the
  next process restores the store from the beginning.

Source: `ProcessorStateManager.registerStateStores`, KIP-1035. Differs from Kafka: Kafka deletes the state of the whole
task if one of its stores cannot be used. If the files of a store are damaged, the thread of Kafka ends at every start
until somebody deletes the files.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StoreCorrupted, StoreOfAnotherKind
from streams_runtime.configs import StreamsConfig
from streams_runtime.state_stores.state_store import RocksDBConfigSetter, StateStore, StoreContext, keeps_offset
from streams_runtime.tasks.state_directory import STORES_DIRECTORY, StateDirectory
from streams_runtime.tasks.task_checkpoint import StoreMetadata, TaskCheckpoint

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The configs that a task passes to its stores and its state manager.

    `transactional`: the config `enable.transactional.statestores`. `checkpoint_file`: the config
    `state.checkpoint.file`. `log_id`: the id of the log with the changelogs; None if it is not known. `topic_ids`: the
    ids of the changelogs' topics, as far as they are known.
    """

    exactly_once: bool = False
    transactional: bool = True
    checkpoint_file: bool = False
    log_id: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    rocksdb_config_setter: RocksDBConfigSetter | None = None

    @classmethod
    def of(cls, configs: StreamsConfig, log_id: str | None, topic_ids: Mapping[str, str]) -> Self:
        return cls(
            configs.exactly_once,
            configs.enable_transactional_statestores,
            configs.state_checkpoint_file,
            log_id,
            topic_ids,
            configs.rocksdb_config_setter,
        )


def log_rebuilt(text: str) -> None:
    """Logs a warning. The default of `StateManager.on_rebuilt`, for a task without an instance."""
    _logger.warning(text)


def rebuilt_text(reason: object, *, has_changelog: bool) -> str:
    """Returns the reason why the files of a store cannot be used, and what became of its content."""
    lost = "its content is lost, because it has no changelog"
    then = "its changelog restores it" if has_changelog else lost
    return f"{reason}; the store was deleted, and {then}"


def open_empty(store: StateStore, context: StoreContext, directory: StateDirectory) -> None:
    """Delete the files of a store of a Streams task or of the global task, and open the store."""
    store.close()
    directory.discard(context.task_id, [STORES_DIRECTORY / store.name])
    store.open(context)


@dataclass(eq=False)
class StoreOpening:
    """Opens the stores of one task. Only the state manager of the task uses this object.

    `checkpoint`: the checkpoint file of the task. `options`: the configs of the task. `source_changelogs`: the
    changelogs that are also inputs of the task. `on_rebuilt`: a function that is called with a `rebuilt_text` when a
    store is deleted because its files cannot be used.
    """

    task_id: TaskId
    directory: StateDirectory
    checkpoint: TaskCheckpoint
    options: StoreOptions
    source_changelogs: Collection[TopicPartition]
    on_rebuilt: Callable[[str], None]

    def open(self, metadata: StoreMetadata, context: StoreContext) -> None:
        """Open a store, or rebuild it if its files cannot be used. Raises StoreOfAnotherKind if a store without a
        changelog would have to be rebuilt. Raises the other errors of the store.
        """
        store, changelog = metadata.store, metadata.changelog
        files = self.directory.task_directory(self.task_id) / STORES_DIRECTORY / store.name
        had_files = self.directory.files.is_directory(files)
        keeps_content = False

        def read_again(_store: str, reason: str) -> None:
            nonlocal keeps_content
            keeps_content = self._read_again(metadata, reason) or keeps_content

        context = replace(self.context_of(metadata, context), read_again=read_again)
        try:
            store.open(context)
        except StoreOfAnotherKind as other:
            if changelog is None:
                raise StoreOfAnotherKind(
                    f"{other}. It has no changelog to be restored from: give the store another name, or delete that "
                    "directory while the application is stopped",
                    self.task_id,
                ) from other
            _logger.warning("task %s: %s; the store is restored from its changelog", self.task_id, other)
            self._open_empty(metadata, context)
        except StoreCorrupted as damaged:
            self.on_rebuilt(rebuilt_text(damaged, has_changelog=changelog is not None))
            self._open_empty(metadata, context)
        else:
            if not keeps_offset(store) or changelog is None or store.committed_offset is not None:
                return
            offset = self.checkpoint.offset(changelog)
            if offset is not None:
                store.commit(offset)
            elif had_files and not keeps_content and not store.is_empty:
                reason = f"store {store.name}: its files have no changelog offset"
                self.on_rebuilt(rebuilt_text(reason, has_changelog=True))
                self._open_empty(metadata, context)

    def context_of(self, metadata: StoreMetadata, context: StoreContext) -> StoreContext:
        """Returns the context of a store. `context`: the context of the task."""
        changelog = metadata.changelog
        unlogged = changelog is None or changelog in self.source_changelogs
        return replace(
            context,
            changes=None if unlogged else context.changes,
            changelog=changelog,
            log_id=self.options.log_id,
            topic_id=None if changelog is None else self.options.topic_ids.get(changelog.topic),
            transactional=self.options.transactional,
        )

    def _open_empty(self, metadata: StoreMetadata, context: StoreContext) -> None:
        """Delete the files of a store, and open it. Its offset in the checkpoint file is forgotten first."""
        if metadata.changelog is not None:
            self.checkpoint.forget(metadata.changelog)
        open_empty(metadata.store, context, self.directory)

    def _read_again(self, metadata: StoreMetadata, reason: str) -> bool:
        """Implements `StoreContext.read_again`: the restore then reads the store's changelog from the beginning.
        Returns True if the store had an offset.
        """
        store, changelog = metadata.store, metadata.changelog
        if changelog is None:
            return False
        assert keeps_offset(store)
        if store.committed_offset is None and self.checkpoint.offset(changelog) is None:
            return False
        self.checkpoint.forget(changelog)
        _logger.warning(
            "task %s: store %s: %s; its changelog %s is read from the beginning, over the content of the store",
            self.task_id,
            store.name,
            reason,
            changelog,
        )
        return True
