"""A store around another store. It passes on what a task asks of any store. Source: `WrappedStateStore`."""

from __future__ import annotations

from typing import Generic, TypeVar

from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.base import StateStore, StoreContext

Inner = TypeVar("Inner", bound=StateStore)


class WrappedStateStore(Generic[Inner]):
    __slots__ = ("_inner",)

    def __init__(self, inner: Inner) -> None:
        self._inner = inner

    @property
    def inner(self) -> Inner:
        return self._inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def persistent(self) -> bool:
        return self._inner.persistent

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    def open(self, context: StoreContext) -> None:
        self._inner.open(context)

    def rebind(self, context: StoreContext) -> None:
        self._inner.rebind(context)

    def restore(self, batch: RecordBatch) -> None:
        self._inner.restore(batch)

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        self._inner.close()
