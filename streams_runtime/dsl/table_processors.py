"""Tables that are derived from another table entry by entry: by a filter, or by new values.

Source: `KTableFilter`, `KTableMapValues`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.common.records import Headers
from streams_runtime.dsl.materialized import StoreFactory
from streams_runtime.dsl.table_supplier import Getter, TableSupplier
from streams_runtime.processors.context import NodeContext, Operator, Receiver

Predicate = Callable[[Any, Any], bool]
Mapper = Callable[[Any, Any], Any]
"""Takes key and value. Gives the new value."""


class DerivedTableSupplier(TableSupplier):
    """A table derived from `parent`. It keeps a store only if the user has named one."""

    skips_absent = False
    """Whether to leave out changes of keys that are and were absent from this table: new and old value are None."""

    def __init__(self, parent: TableSupplier, store: StoreFactory | None) -> None:
        super().__init__(store)
        self.parent = parent

    @abstractmethod
    def derived(self, key: Any, value: Any) -> Any:
        """The value in this table for the parent's value. None: the key is absent."""

    def __call__(self) -> Operator:
        return DerivedTableProcessor(self.derived, self.store_name, self.sends_old_values, self.skips_absent)

    def send_old_values(self, *, keep_store: bool) -> bool:
        if self.store is not None or self.parent.send_old_values(keep_store=keep_store):
            self.sends_old_values = True
        return self.sends_old_values

    def view(self) -> tuple[str, ...]:
        """The stores from which a node reads this table: those of the parent if this table has no store of its own."""
        return self.parent.view() if self.store is None else super().view()

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        if self.store is not None:
            return super().getter(context, flushed=flushed)
        get_parent, derived = self.parent.getter(context, flushed=flushed), self.derived

        def get(key: Any) -> tuple[int, Any] | None:
            found = get_parent(key)
            if found is None:
                return None
            timestamp_ms, parent_value = found
            value = derived(key, parent_value)
            return None if value is None else (timestamp_ms, value)

        return get


class KTableFilter(DerivedTableSupplier):
    """The entries for which the predicate returns `wanted`, which is False for `filter_not`."""

    skips_absent = True

    def __init__(self, parent: TableSupplier, predicate: Predicate, wanted: bool, store: StoreFactory | None) -> None:
        super().__init__(parent, store)
        self.predicate = predicate
        self.wanted = wanted
        # Old values show which entries were never in this table, so that no removal is sent for these entries. A parent
        # sends old values if it has a store.
        self.sends_old_values = parent.send_old_values(keep_store=False)

    def derived(self, key: Any, value: Any) -> Any:
        return value if value is not None and bool(self.predicate(key, value)) is self.wanted else None


class KTableMapValues(DerivedTableSupplier):
    """The same keys with new values. The mapper is not called for a removal."""

    def __init__(self, parent: TableSupplier, mapper: Mapper, store: StoreFactory | None) -> None:
        super().__init__(parent, store)
        self.mapper = mapper

    def derived(self, key: Any, value: Any) -> Any:
        return None if value is None else self.mapper(key, value)


class DerivedTableProcessor(Operator):
    """Derives both values of a change, puts the new value into the store if there is one, and forwards the change."""

    def __init__(
        self, derived: Callable[[Any, Any], Any], store: str | None, sends_old_values: bool, skips_absent: bool
    ) -> None:
        self._derived = derived
        self._store = store
        self._sends_old_values = sends_old_values
        self._skips_absent = sends_old_values and skips_absent

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        if self._store is not None:
            return self._with_store(context.state_store(self._store), child, context)
        derived, wants_old, skips_absent = self._derived, self._sends_old_values, self._skips_absent

        def derived_table(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new = derived(key, change[0])
            old = derived(key, change[1]) if wants_old else None
            if not (skips_absent and new is None and old is None):
                child(key, (new, old), timestamp_ms, headers)

        return derived_table

    def _with_store(self, store: Any, child: Receiver, context: NodeContext) -> Receiver:
        """The receiver of a table with a store. The old value of a change is the one in the store."""
        derived, wants_old, skips_absent = self._derived, self._sends_old_values, self._skips_absent
        entries = store.entry_access()
        # True: the store has a record cache, and forwards the change when the cache is flushed
        forwards_on_flush = context.forwards_when_flushed(entries, child, sends_old_values=wants_old)
        stored_key_of, get, put, read, write, _, _ = entries  # functions: see `EntryAccess`
        current = context.current

        def kept_table(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new, old = derived(key, change[0]), None
            current.timestamp_ms, current.headers = timestamp_ms, headers
            stored_key = stored_key_of(key)
            if wants_old and (stored := get(stored_key)) is not None:
                old = read(stored)[1]
            if skips_absent and new is None and old is None:
                return
            put(stored_key, None if new is None else write(timestamp_ms, new), timestamp_ms)
            if not forwards_on_flush:
                child(key, (new, old), timestamp_ms, headers)

        return kept_table
