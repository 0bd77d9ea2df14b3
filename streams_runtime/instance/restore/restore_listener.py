"""The callbacks that report the restores of active tasks. Each call is about one changelog. No callback is called for
the changelogs of standbys.

Rule: when the restore of a changelog starts, `on_restore_start` is called. After `on_restore_start`,
`on_batch_restored` is called any number of times. At the end of the restore, either `on_restore_end` or
`on_restore_suspended` is called. An error of a listener is raised as RestoreListenerFailed. Source:
`StateRestoreListener`.
"""

from collections.abc import Callable
from typing import Protocol

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError


class RestoreListener(Protocol):
    """The methods of a restore listener are called during restores. Any stream thread of the instance may call the
    listener. The calling stream thread waits until the call returns.

    All offsets are offsets of the changelog.
    """

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """The restore starts. The restore applies the records from the offset `start` up to the offset `end` - 1."""

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        """`count` records were applied. The last of these records has the offset `batch_end`."""

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        """The store is complete. `total` records were applied since the start of the restore."""

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        """The store is not complete, because the task has failed or was taken from this thread."""


class SilentRestoreListener:
    """Ignores every call."""

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None: ...
    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None: ...
    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None: ...
    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None: ...


class RestoreListenerFailed(StreamsRuntimeError):
    """A listener has raised an error, which is the `__cause__`. The message names the listener, the callback, the store
    and the changelog.
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
