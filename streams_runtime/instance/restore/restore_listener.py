"""The callbacks about the restore of active tasks, for each changelog. The changelogs of standbys cause no callbacks.

Rule: for each changelog that is restored, `on_restore_start` is called first, then `on_batch_restored`, and at last
either `on_restore_end` or `on_restore_suspended`. An error of a listener is raised as RestoreListenerFailed. Source:
`StateRestoreListener`.
"""

from collections.abc import Callable
from typing import Protocol

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError


class RestoreListener(Protocol):
    """The listener of an instance. Each stream thread of the instance calls the listener, and waits for the end of the
    call.

    Offsets are offsets in the changelog.
    """

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """The restore starts. The restore applies records from offset `start` up to, but not including, offset
        `end`.
        """

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
