"""What the record caches of one stream thread take together, and what they may take.

A store that puts makes room by evicting from its own cache only. When the thread's share shrinks, because the instance
got another thread, all caches let go of what is not dirty; what is dirty follows at the next commit.
Source: `ThreadCache`. Differs from Kafka: there, a share that shrinks flushes at once.
"""

from __future__ import annotations

from collections.abc import Callable

from streams_runtime.common.records import RecordContext
from streams_runtime.state_stores.named_cache import NamedCache


class ThreadCache:
    """One per stream thread, which alone uses it. It is the `Memory` of its caches."""

    __slots__ = ("_caches", "max_bytes", "size_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._caches: list[NamedCache] = []

    def add(self, write: Callable[[bytes, bytes | None, RecordContext], None], key_overhead: int = 0) -> NamedCache:
        """A new cache of one store."""
        cache = NamedCache(self, write, key_overhead)
        self._caches.append(cache)
        return cache

    def remove(self, cache: NamedCache) -> None:
        """Drop a cache with everything in it, also what is dirty."""
        cache.clear()
        self._caches = [each for each in self._caches if each is not cache]

    def resize(self, max_bytes: int) -> None:
        """They may take this much from now on. Nothing is flushed."""
        self.max_bytes = max_bytes
        if self.size_bytes > max_bytes:
            for cache in self._caches:
                cache.evict_clean()
