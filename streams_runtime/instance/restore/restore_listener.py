"""The calls that a listener gets about the restore of active tasks, changelog by changelog; none about standbys.

Rule: for each changelog that is restored, the listener is called with start, then batches, then either end or
suspended. An error of a listener is raised with the listener's name. Source: `StateRestoreListener`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError


class RestoreListener(Protocol):
    """Stream threads call it and wait; an instance may have several of them. Offsets are those of the changelog."""

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """`start`: the first offset that will be read. `end`: the first offset that will not be read any more."""

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        """`count` records were applied, the last one with offset `batch_end`."""

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        """The store is complete; `total` records were applied since the start."""

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        """The task left this thread, or failed, before its store was complete."""


class SilentRestoreListener:
    """Ignores every call."""

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None: ...
    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None: ...
    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None: ...
    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None: ...


class RestoreListenerFailed(StreamsRuntimeError):
    """A listener raised; its error is the `__cause__`. The message names listener, callback, store and changelog."""

    def __init__(
        self, callback: Callable[..., None], task_id: TaskId, partition: TopicPartition, store: str, error: Exception
    ) -> None:
        super().__init__(
            f"restore listener {_qualified(callback)} failed for store {store!r} "
            f"(changelog {partition}): {type(error).__name__}: {error}"
        )
        self.task_id = task_id


def _qualified(callback: Callable[..., None]) -> str:
    owner = getattr(callback, "__self__", None)
    name = getattr(callback, "__name__", repr(callback))
    if owner is None:
        return f"{getattr(callback, '__module__', '?')}.{name}"
    return f"{type(owner).__module__}.{type(owner).__qualname__}.{name}"
