"""Tables worked out from another table entry by entry: those a predicate takes, and those with new values.

Source: `KTableFilter`, `KTableMapValues`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.common.records import Record
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.flush_forwarding import forwards_when_flushed
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.dsl.table_supplier import DerivedTableSupplier, Getter, TableSupplier
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.state_stores.base import ValueAndTimestamp

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

    def __call__(self) -> Processor[Any, Any]:
        store = None if self.store is None else self.store.name
        return TableFilterProcessor(self.predicate, self.wanted, store, self.sends_old_values)

    def derived(self, parent: Getter) -> Getter:
        predicate, wanted = self.predicate, self.wanted

        def get(key: Any) -> ValueAndTimestamp[Any] | None:
            found = parent(key)
            return found if found is not None and bool(predicate(key, found.value)) is wanted else None

        return get


class KTableMapValues(DerivedTableSupplier):
    """A removal stays a removal and does not reach the mapper."""

    def __init__(self, parent: TableSupplier, mapper: Mapper, store: StoreMaker | None) -> None:
        super().__init__(parent, store)
        self.mapper = mapper

    def __call__(self) -> Processor[Any, Any]:
        store = None if self.store is None else self.store.name
        return TableMapValuesProcessor(self.mapper, store, self.sends_old_values)

    def derived(self, parent: Getter) -> Getter:
        mapper = self.mapper

        def get(key: Any) -> ValueAndTimestamp[Any] | None:
            found = parent(key)
            if found is None:
                return None
            value = mapper(key, found.value)
            return None if value is None else ValueAndTimestamp(value, found.timestamp_ms)

        return get


class DerivedTableProcessor(ForwardingProcessor[Any, Any], ABC):
    """Works out both values of a change, keeps the new one if the table has a store, and sends the change on."""

    def __init__(self, store: str | None, sends_old_values: bool) -> None:
        super().__init__()
        self._store_name = store
        self._store: Any = None
        self._held_back = False
        self._sends_old_values = sends_old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        if self._store_name is not None:
            self._store = store = context.state_store(self._store_name)
            self._held_back = forwards_when_flushed(context, store, sends_old_values=self._sends_old_values)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, (new, old), timestamp_ms, headers = record
        new = self.derived(key, new)
        old = self._old_value(key, old) if self._sends_old_values else None
        if self._changes_nothing(new, old):
            return
        if self._store is not None:
            self._store.put(key, None if new is None else ValueAndTimestamp(new, timestamp_ms))
        if not self._held_back:
            self.forward(Record(key, Change(new, old), timestamp_ms, headers))

    @abstractmethod
    def derived(self, key: Any, value: Any) -> Any:
        """The parent's value as it is in this table. None: the key is not there."""

    def _changes_nothing(self, new: Any, old: Any) -> bool:
        """Whether the change can be left out: nobody below has the key, and nobody gets it."""
        return False

    def _old_value(self, key: Any, old: Any) -> Any:
        if self._store is None:
            return self.derived(key, old)
        kept = self._store.get(key)
        return None if kept is None else kept.value


class TableFilterProcessor(DerivedTableProcessor):
    def __init__(self, predicate: Predicate, wanted: bool, store: str | None, sends_old_values: bool) -> None:
        super().__init__(store, sends_old_values)
        self._predicate = predicate
        self._wanted = wanted

    def derived(self, key: Any, value: Any) -> Any:
        return value if value is not None and bool(self._predicate(key, value)) is self._wanted else None

    def _changes_nothing(self, new: Any, old: Any) -> bool:
        return self._sends_old_values and new is None and old is None


class TableMapValuesProcessor(DerivedTableProcessor):
    def __init__(self, mapper: Mapper, store: str | None, sends_old_values: bool) -> None:
        super().__init__(store, sends_old_values)
        self._mapper = mapper

    def derived(self, key: Any, value: Any) -> Any:
        return None if value is None else self._mapper(key, value)
