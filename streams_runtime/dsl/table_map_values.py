"""A table with every value put through a function; a removal stays a removal and does not reach the function.

Source: `KTableMapValues`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams_runtime.dsl.change import Change
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.dsl.table_supplier import DerivedTableSupplier, Getter, TableSupplier
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.records import Record
from streams_runtime.state_stores.base import ValueAndTimestamp

Mapper = Callable[[Any, Any], Any]


class KTableMapValues(DerivedTableSupplier):
    """`mapper`: key and value to the new value."""

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


class TableMapValuesProcessor(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Mapper, store: str | None, sends_old_values: bool) -> None:
        super().__init__()
        self._mapper = mapper
        self._store_name = store
        self._sends_old_values = sends_old_values
        self._store: Any = None

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        if self._store_name is not None:
            self._store = context.state_store(self._store_name)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, (new, old), timestamp_ms, headers = record
        new = None if new is None else self._mapper(key, new)
        old = self._old_value(key, old) if self._sends_old_values else None
        if self._store is not None:
            self._store.put(key, None if new is None else ValueAndTimestamp(new, timestamp_ms))
        self.forward(Record(key, Change(new, old), timestamp_ms, headers))

    def _old_value(self, key: Any, old: Any) -> Any:
        if self._store is None:
            return None if old is None else self._mapper(key, old)
        kept = self._store.get(key)
        return None if kept is None else kept.value
