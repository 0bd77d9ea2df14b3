"""What stores with a record cache have in common: changes are written and forwarded when the cache is flushed.

Rules:
- A change that the changelog would not take is refused when it is put, as without a cache: it is the record that makes
  it which fails, and the handler of processing errors decides.
- Reads see the cache. What other threads read is not kept in it.
- At a flush each changed key is written once, to the store and its changelog, with the record that changed it last. The
  flush listener hears of it, with the value that the store had since the flush before as the old one. A key that was
  put and deleted in between is not mentioned.
- Only a flush writes. The stores below are what a checkpoint, a standby and a restore know.
- In a standby, and in a task without a cache, it only passes on. A close drops what was not flushed.

Source: `CachedStateStore`, `CachingKeyValueStore`, `CachingWindowStore`. Differs from Kafka: a change is written after
it was forwarded, so that a flush that the log interrupts can be tried again; and a close never flushes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import get_ident

from streams_runtime.common.records import RecordContext
from streams_runtime.state_stores.base import StoreContext
from streams_runtime.state_stores.change_logging import ChangeLoggingStore
from streams_runtime.state_stores.named_cache import NamedCache
from streams_runtime.state_stores.task_cache import RecordContexts, TaskCache
from streams_runtime.state_stores.wrapped import Inner, WrappedStateStore

FlushListener = Callable[[bytes, bytes | None, bytes | None, RecordContext], None]
"""Key in the cache, new value, old value (None if it is not wanted), and the record that made the change."""


Check = Callable[[bytes, bytes | None], None]
"""Raises for a change, by its key in the cache and its value, that cannot be written."""


class CachingStore(WrappedStateStore[Inner], ABC):
    """`key_overhead`: what a key takes in Kafka's cache beyond its bytes here, see `NamedCache`."""

    __slots__ = (
        "_cache",
        "_check",
        "_contexts",
        "_key_overhead",
        "_listener",
        "_owner",
        "_sends_old_values",
        "_task_cache",
    )

    def __init__(self, inner: Inner, key_overhead: int = 0) -> None:
        super().__init__(inner)
        self._key_overhead = key_overhead
        self._task_cache: TaskCache | None = None
        self._cache: NamedCache | None = None
        self._owner = 0  # the thread of the task
        self._forget_listener()

    @abstractmethod
    def read_below(self, key: bytes) -> bytes | None:
        """What the store has under this key of the cache."""

    @abstractmethod
    def write_below(self, key: bytes, value: bytes | None) -> None:
        """Write to the store, and to its changelog if it has one."""

    # --- its life

    def open(self, context: StoreContext) -> None:
        super().open(context)
        self._bind(context)

    def rebind(self, context: StoreContext) -> None:
        super().rebind(context)
        self._unbind()
        self._bind(context)

    def close(self) -> None:
        self._unbind()
        super().close()

    def _bind(self, context: StoreContext) -> None:
        if context.cache is not None:
            self._task_cache = context.cache
            self._contexts: RecordContexts = context.cache.contexts
            self._owner = get_ident()
            self._cache = context.cache.add(self._write, self._key_overhead)
            below = self._inner
            self._check: Check = below.check if isinstance(below, ChangeLoggingStore) else _is_taken

    def _unbind(self) -> None:
        cache, self._cache = self._cache, None
        if cache is not None and self._task_cache is not None:
            self._task_cache.remove(cache)
        self._task_cache = None
        self._forget_listener()

    def _forget_listener(self) -> None:
        self._listener: FlushListener | None = None
        self._sends_old_values = False

    # --- flushing

    def set_flush_listener(self, listener: FlushListener, *, sends_old_values: bool) -> bool:
        """Call it for each change that is flushed, from now to the close. False when there is no cache here."""
        if self._cache is None:
            return False
        self._listener = listener
        self._sends_old_values = sends_old_values
        return True

    def _write(self, key: bytes, value: bytes | None, context: RecordContext) -> None:
        listener = self._listener
        old = None
        if listener is not None and (value is None or self._sends_old_values):
            old = self.read_below(key)
            if value is None and old is None:
                return
        contexts = self._contexts
        before = contexts.enter_context(context)
        try:
            if listener is not None:
                listener(key, value, old if self._sends_old_values else None, context)
            self.write_below(key, value)
        finally:
            contexts.leave_context(before)

    @property
    def reads_below(self) -> bool:
        """Whether every read goes to the store below: nothing is held back, as in a standby."""
        return self._cache is None


def _is_taken(_key: bytes, _value: bytes | None) -> None:
    """A store without a changelog takes every change."""
