"""The record caches of one task's stores, which are flushed together: before a commit, and nobody else's with them.

Source: `ProcessorStateManager.flushCache`, `InternalProcessorContext.setRecordContext`.
Differs from Kafka: a flush goes on until nothing is dirty, in whatever order the stores were added, so that a commit
has everything that was processed before it. Kafka flushes each store once; what comes late waits for the next commit.
Here only that waits which processors keep writing to a table whenever they hear of its changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from streams_runtime.common.records import RecordContext
from streams_runtime.state_stores.named_cache import NamedCache
from streams_runtime.state_stores.thread_cache import ThreadCache

_MOST_ROUNDS = 100


class RecordContexts(Protocol):
    """The task's record that is processed now; while a change is flushed, the one that made the change.

    `keeps_raw`: whether contexts have the input record itself, because a handler of errors may ask for it.
    """

    keeps_raw: bool

    def record_context(self) -> RecordContext: ...

    def enter_context(self, context: RecordContext) -> Any:
        """It is this one from now on. Gives what `leave_context` takes."""
        ...

    def leave_context(self, before: Any) -> None: ...


class TaskCache:
    """One per active task. `contexts`: of the task."""

    __slots__ = ("_caches", "_thread", "contexts")

    def __init__(self, thread: ThreadCache, contexts: RecordContexts) -> None:
        self.contexts = contexts
        self._thread = thread
        self._caches: list[NamedCache] = []

    def add(self, write: Callable[[bytes, bytes | None, RecordContext], None], key_overhead: int = 0) -> NamedCache:
        """A new cache of one store."""
        cache = self._thread.add(write, key_overhead)
        self._caches.append(cache)
        return cache

    def remove(self, cache: NamedCache) -> None:
        """Drop a cache with everything in it, also what is dirty."""
        self._thread.remove(cache)
        self._caches = [each for each in self._caches if each is not cache]

    @property
    def is_dirty(self) -> bool:
        return any(cache.has_dirty for cache in self._caches)

    def flush(self) -> None:
        """Write and forward everything that is dirty. After an error, what was not written stays dirty."""
        for _ in range(_MOST_ROUNDS):
            if not self.is_dirty:
                return
            for cache in self._caches:
                if cache.has_dirty:
                    cache.flush()
