"""The callbacks that report the restores of active tasks. Each callback is about one changelog. The changelogs of
standbys cause no callbacks.

Rule: each restore of a changelog begins with `on_restore_start`, continues with any number of `on_batch_restored`, and
ends with `on_restore_end` or `on_restore_suspended`. An error of a listener is raised as RestoreListenerFailed. Source:
`StateRestoreListener`.
"""

from collections.abc import Callable
from typing import Protocol

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError


class RestoreListener(Protocol):
    """Gets the progress of restores. Each stream thread of the instance calls the listener, and waits for the end of
    the call.

    All offsets are offsets of the changelog.
    """

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """The restore starts. The restore applies records from offset `start` up to, but not including, offset
        `end`.
        """

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        """`count` records were applied. The last of these records has the offset `batch_end`."""

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        """The store is complete. `total` records were applied since the start of the restore."""

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        """The task left this thread or failed before its store was complete."""


class SilentRestoreListener:
    """Ignores every call."""

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None: ...
    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None: ...
    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None: ...
    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None: ...


class RestoreListenerFailed(StreamsRuntimeError):
    """A listener raised an error, which is the `__cause__`. The message has the names of listener, callback, store and
    changelog.
    """

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
