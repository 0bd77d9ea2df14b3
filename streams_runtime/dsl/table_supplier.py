"""What makes the operators of a table, and how others read the table.

A table is only kept in a store when the user names one, or when a node below has to read it. Until the topology is
built, later calls tell a supplier what they need: old values, or a readable table. Then it makes one operator for each
task. Source: `KTableProcessorSupplier`, `KTableValueGetterSupplier`, `KTableImpl.enableSendingOldValues`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.common.records import RecordContext
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.operator import Operator
from streams_runtime.processors.receivers import Receiver
from streams_runtime.state_stores.key_value import SerdesTimestampedKeyValueStore
from streams_runtime.state_stores.value_and_timestamp import TableEntries

Getter = Callable[[Any], tuple[int, Any] | None]
"""A key to the timestamp in milliseconds and the present value in a table. None when the key is not there."""


def stored_getter(task: NodeContext, store: str, *, flushed: bool) -> Getter:
    """Reads a table that is kept in this store."""
    kept: SerdesTimestampedKeyValueStore[Any, Any] = task.state_store(store)
    entries = kept.table_entries()
    place, read = entries.place, entries.read
    get = kept.flushed_entries() if flushed else entries.get

    def get_entry(key: Any) -> tuple[int, Any] | None:
        stored = get(place(key))
        return None if stored is None else read(stored)

    return get_entry


def forwards_when_flushed(entries: TableEntries, child: Receiver, task: NodeContext, *, sends_old_values: bool) -> bool:
    """Whether the store has a record cache, and so hands its changes to `child` when that is flushed, as this node.
    Then the node itself must not. Source: `TimestampedTupleForwarder`, `TimestampedCacheFlushListener`.
    """
    if entries.set_flush_listener is None:
        return False
    hand_on, works_on, read, key_of = task.guarded(child), task.current.works_on, entries.read, entries.key_of

    def flushed(place: bytes, new: bytes | None, old: bytes | None, made_by: RecordContext) -> None:
        if not task.is_open:  # the nodes below are closed: the change is only written
            return
        timestamp_ms, value = (made_by.timestamp_ms, None) if new is None else read(new)
        old_value = None if old is None else read(old)[1]
        hand_on(key_of(place), (value, old_value), timestamp_ms, made_by.headers)
        works_on(made_by.timestamp_ms, made_by.headers)  # the store writes the change now

    return entries.set_flush_listener(flushed, sends_old_values=sends_old_values)


class TableSupplier(ABC):
    """Callable: makes an operator that forwards `Change`s. `sends_old_values`: whether `old` is filled in."""

    sends_old_values = False

    @abstractmethod
    def __call__(self) -> Operator: ...

    @abstractmethod
    def own_store(self) -> StoreMaker | None:
        """The store that the operator fills. None when the table is not kept."""

    @abstractmethod
    def send_old_values(self, *, keep_store: bool) -> bool:
        """Fill in `old` from now on, and say whether that is possible. `keep_store`: even if this takes a store."""

    @abstractmethod
    def view(self) -> tuple[str, ...]:
        """A node reads the table: keep what that takes. Gives the names of the stores to connect the node to."""

    @abstractmethod
    def getter(self, task: NodeContext, *, flushed: bool = False) -> Getter:
        """Reads the table. `task`: of the node that reads. `flushed`: as the last flush of record caches left it
        and the present record has changed it, where the table has a key-value store.
        """


class StoredTableSupplier(TableSupplier):
    """A table that is always kept, as every aggregate is."""

    def __init__(self, store: StoreMaker) -> None:
        self.store = store

    def own_store(self) -> StoreMaker | None:
        return self.store

    def send_old_values(self, *, keep_store: bool) -> bool:
        self.sends_old_values = True
        return True

    def view(self) -> tuple[str, ...]:
        return (self.store.name,)

    def getter(self, task: NodeContext, *, flushed: bool = False) -> Getter:
        return stored_getter(task, self.store.name, flushed=flushed)


class DerivedTableSupplier(TableSupplier):
    """A table worked out from `parent`, kept only when the user has named a store."""

    def __init__(self, parent: TableSupplier, store: StoreMaker | None) -> None:
        self.parent = parent
        self.store = store

    def own_store(self) -> StoreMaker | None:
        return self.store

    def send_old_values(self, *, keep_store: bool) -> bool:
        if self.store is not None or self.parent.send_old_values(keep_store=keep_store):
            self.sends_old_values = True
        return self.sends_old_values

    def view(self) -> tuple[str, ...]:
        return self.parent.view() if self.store is None else (self.store.name,)

    def getter(self, task: NodeContext, *, flushed: bool = False) -> Getter:
        if self.store is None:
            return self.derived(self.parent.getter(task, flushed=flushed))
        return stored_getter(task, self.store.name, flushed=flushed)

    @abstractmethod
    def derived(self, parent: Getter) -> Getter:
        """Reads the table by way of its parent."""
