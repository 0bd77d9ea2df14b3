"""The supplier of a table: it makes the table's operators, one for each task, and lets other nodes read the table.

A table keeps a store only if the user names one, or if another node has to read the table. Until the topology is built,
later calls ask the supplier for old values (`send_old_values`) or for a table that can be read (`view`).
Source: `KTableProcessorSupplier`, `KTableValueGetterSupplier`, `KTableImpl.enableSendingOldValues`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.dsl.materialized import StoreFactory
from streams_runtime.processors.context import NodeContext, Operator
from streams_runtime.state_stores.key_value import SerdesTimestampedKeyValueStore

Getter = Callable[[Any], tuple[int, Any] | None]
"""Takes a key. Gives timestamp in milliseconds and present value in a table, or None if the key is not there."""


def stored_getter(context: NodeContext, store: str, *, flushed: bool) -> Getter:
    """Reads the table from its store. `flushed`: see `TableSupplier.getter`."""
    kept: SerdesTimestampedKeyValueStore[Any, Any] = context.state_store(store)
    entries = kept.entry_access()
    stored_key_of, read = entries.stored_key_of, entries.read
    get = kept.flushed_getter() if flushed else entries.get

    def get_entry(key: Any) -> tuple[int, Any] | None:
        stored = get(stored_key_of(key))
        return None if stored is None else read(stored)

    return get_entry


class TableSupplier(ABC):
    """Makes operators that forward `Change`s. `sends_old_values`: whether these have the old value.

    `store`: the store that the operators fill; None if the table keeps none. A table with a store is read from it. A
    supplier of tables without a store says how else these are read.
    """

    def __init__(self, store: StoreFactory | None) -> None:
        self.store = store
        self.sends_old_values = False

    @property
    def store_name(self) -> str | None:
        return None if self.store is None else self.store.name

    @abstractmethod
    def __call__(self) -> Operator: ...

    @abstractmethod
    def send_old_values(self, *, keep_store: bool) -> bool:
        """Send old values from now on. Gives whether that is possible. `keep_store`: even if it takes a store."""

    def view(self) -> tuple[str, ...]:
        """Let a node read the table; if that takes a store, keep one. Gives the stores to connect to the node."""
        assert self.store is not None
        return (self.store.name,)

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        """Reads the table. `context`: the context of the node that reads. `flushed`: without the changes that a
        record cache still holds back, except that of the record being processed; for a table with a key-value store.
        """
        assert self.store is not None
        return stored_getter(context, self.store.name, flushed=flushed)


class StoredTableSupplier(TableSupplier):
    """A table that always keeps a store, as every aggregate does."""

    store: StoreFactory

    def send_old_values(self, *, keep_store: bool) -> bool:
        self.sends_old_values = True
        return True
