"""Tables worked out from another table entry by entry: those a predicate takes, and those with new values.

Source: `KTableFilter`, `KTableMapValues`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.common.records import Headers
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.dsl.table_supplier import DerivedTableSupplier, Getter, TableSupplier, forwards_when_flushed
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.operator import Operator
from streams_runtime.processors.receivers import Receiver

Predicate = Callable[[Any, Any], bool]
Mapper = Callable[[Any, Any], Any]
"""Key and value to the new value."""


class KTableFilter(DerivedTableSupplier):
    """The others are removed, if they were there. `wanted`: what the predicate has to answer; False for filter_not."""

    def __init__(self, parent: TableSupplier, predicate: Predicate, wanted: bool, store: StoreMaker | None) -> None:
        super().__init__(parent, store)
        self.predicate = predicate
        self.wanted = wanted
        # A parent that keeps its values anyway sends old ones, which saves removals of entries that were never below.
        self.sends_old_values = parent.send_old_values(keep_store=False)

    def __call__(self) -> Operator:
        store = None if self.store is None else self.store.name
        return TableFilterProcessor(self.predicate, self.wanted, store, self.sends_old_values)

    def derived(self, parent: Getter) -> Getter:
        predicate, wanted = self.predicate, self.wanted

        def get(key: Any) -> tuple[int, Any] | None:
            found = parent(key)
            return found if found is not None and bool(predicate(key, found[1])) is wanted else None

        return get


class KTableMapValues(DerivedTableSupplier):
    """A removal stays a removal and does not reach the mapper."""

    def __init__(self, parent: TableSupplier, mapper: Mapper, store: StoreMaker | None) -> None:
        super().__init__(parent, store)
        self.mapper = mapper

    def __call__(self) -> Operator:
        store = None if self.store is None else self.store.name
        return TableMapValuesProcessor(self.mapper, store, self.sends_old_values)

    def derived(self, parent: Getter) -> Getter:
        mapper = self.mapper

        def get(key: Any) -> tuple[int, Any] | None:
            found = parent(key)
            if found is None:
                return None
            timestamp_ms, of_parent = found
            value = mapper(key, of_parent)
            return None if value is None else (timestamp_ms, value)

        return get


class DerivedTableProcessor(Operator, ABC):
    """Works out both values of a change, keeps the new one if the table has a store, and sends the change on."""

    def __init__(self, store: str | None, sends_old_values: bool) -> None:
        self._store = store
        self._sends_old_values = sends_old_values

    @abstractmethod
    def derived(self, key: Any, value: Any) -> Any:
        """The parent's value as it is in this table. None: the key is not there."""

    skips_absent = False
    """Whether a change can be left out that has neither a new nor an old value: nobody below has the key, and nobody
    gets it.
    """

    def connect(self, child: Receiver, task: NodeContext) -> Receiver:
        derived, wants_old = self.derived, self._sends_old_values
        skips_absent = wants_old and self.skips_absent
        if self._store is not None:
            return self._with_store(task.state_store(self._store), child, task)

        def derived_table(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new = derived(key, change[0])
            old = derived(key, change[1]) if wants_old else None
            if not (skips_absent and new is None and old is None):
                child(key, (new, old), timestamp_ms, headers)

        return derived_table

    def _with_store(self, store: Any, child: Receiver, task: NodeContext) -> Receiver:
        derived, wants_old = self.derived, self._sends_old_values
        skips_absent = wants_old and self.skips_absent
        entries = store.table_entries()
        held_back = forwards_when_flushed(entries, child, task, sends_old_values=wants_old)
        place_of, get, put, read, write = entries[:5]
        works_on = task.current.works_on

        def kept_table(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new, old = derived(key, change[0]), None
            works_on(timestamp_ms, headers)
            place = place_of(key)
            if wants_old and (stored := get(place)) is not None:
                old = read(stored)[1]
            if skips_absent and new is None and old is None:
                return
            put(place, None if new is None else write(timestamp_ms, new))
            if not held_back:
                child(key, (new, old), timestamp_ms, headers)

        return kept_table


class TableFilterProcessor(DerivedTableProcessor):
    skips_absent = True

    def __init__(self, predicate: Predicate, wanted: bool, store: str | None, sends_old_values: bool) -> None:
        super().__init__(store, sends_old_values)
        self._predicate = predicate
        self._wanted = wanted

    def derived(self, key: Any, value: Any) -> Any:
        return value if value is not None and bool(self._predicate(key, value)) is self._wanted else None


class TableMapValuesProcessor(DerivedTableProcessor):
    def __init__(self, mapper: Mapper, store: str | None, sends_old_values: bool) -> None:
        super().__init__(store, sends_old_values)
        self._mapper = mapper

    def derived(self, key: Any, value: Any) -> Any:
        return None if value is None else self._mapper(key, value)
