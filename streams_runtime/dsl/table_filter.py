"""A table of those entries that a predicate takes; the others are removed, as far as they were there.

Source: `KTableFilter`.
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

Predicate = Callable[[Any, Any], bool]


class KTableFilter(DerivedTableSupplier):
    """`wanted`: what the predicate has to answer; False for filter_not."""

    def __init__(self, parent: TableSupplier, predicate: Predicate, wanted: bool, store: StoreMaker | None) -> None:
        super().__init__(parent, store)
        self.predicate = predicate
        self.wanted = wanted
        # A parent that keeps its values anyway tells old ones, which saves removals of what never was below.
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


class TableFilterProcessor(ForwardingProcessor[Any, Any]):
    def __init__(self, predicate: Predicate, wanted: bool, store: str | None, sends_old_values: bool) -> None:
        super().__init__()
        self._predicate = predicate
        self._wanted = wanted
        self._store_name = store
        self._sends_old_values = sends_old_values
        self._store: Any = None

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        if self._store_name is not None:
            self._store = context.state_store(self._store_name)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, (new, old), timestamp_ms, headers = record
        new = self._passed(key, new)
        old = self._old_value(key, old) if self._sends_old_values else None
        if self._sends_old_values and new is None and old is None:
            return
        if self._store is not None:
            self._store.put(key, None if new is None else ValueAndTimestamp(new, timestamp_ms))
        self.forward(Record(key, Change(new, old), timestamp_ms, headers))

    def _passed(self, key: Any, value: Any) -> Any:
        return value if value is not None and bool(self._predicate(key, value)) is self._wanted else None

    def _old_value(self, key: Any, old: Any) -> Any:
        if self._store is None:
            return self._passed(key, old)
        kept = self._store.get(key)
        return None if kept is None else kept.value
