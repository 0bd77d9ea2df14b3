"""A topic read as a table: a later value of a key replaces the earlier value, and None removes the key.

A table without a store forwards every update, as in Kafka. Source: `KTableSource`.
"""

from __future__ import annotations

import logging
from typing import Any

from streams_runtime.common.records import Headers
from streams_runtime.dsl.materialized import KeyValueStoreFactory
from streams_runtime.dsl.table_supplier import TableSupplier
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.reporting.losses import DropReason

_logger = logging.getLogger(__name__)


class KTableSource(TableSupplier):
    """`kept`: whether the table keeps the store from the start. If not, it keeps the store once a node needs it."""

    def __init__(self, store: KeyValueStoreFactory, *, kept: bool) -> None:
        super().__init__(store if kept else None)
        self._maker = store

    def __call__(self) -> Operator:
        if self.store is None:
            return PlainTableSource()
        return StoredTableSource(self.store.name, self.sends_old_values)

    def send_old_values(self, *, keep_store: bool) -> bool:
        if self.store is None and not keep_store:
            return False
        self.store = self._maker
        self.sends_old_values = True
        return True

    def view(self) -> tuple[str, ...]:
        """The store from which a node reads this table. From this call on, the table keeps the store."""
        self.store = self._maker
        return super().view()


class PlainTableSource(Operator):
    """A table without a store, because no node reads it. Old values are unknown."""

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        def table(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                context.drop(DropReason.NULL_KEY, "null key")
            else:
                child(key, (value, None), timestamp_ms, headers)

        return table


class StoredTableSource(Operator):
    def __init__(self, store: str, sends_old_values: bool) -> None:
        self._store = store
        self._sends_old_values = sends_old_values

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        entries = context.state_store(self._store).entry_access()
        # True: the store has a record cache, and forwards the change when the cache is flushed
        forwards_on_flush = context.forwards_when_flushed(entries, child, sends_old_values=self._sends_old_values)
        stored_key_of, get, put, read, write, _, _ = entries  # functions: see `EntryAccess`
        current, wants_old = context.current, self._sends_old_values

        def table(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                context.drop(DropReason.NULL_KEY, "null key")
                return
            current.timestamp_ms, current.headers = timestamp_ms, headers
            stored_key, old = stored_key_of(key), None
            stored = get(stored_key)
            if stored is not None:
                old_ms, old = read(stored)
                if timestamp_ms < old_ms:
                    self._warn_of_disorder(context, old_ms, timestamp_ms)
            put(stored_key, None if value is None else write(timestamp_ms, value), timestamp_ms)
            if not forwards_on_flush:
                child(key, (value, old if wants_old else None), timestamp_ms, headers)

        return table

    def _warn_of_disorder(self, context: NodeContext, old_ms: int, new_ms: int) -> None:
        """The later record still wins, because a table follows the order of its topic."""
        _logger.warning(
            "Detected out-of-order KTable update for %s, old timestamp=[%d] new timestamp=[%d]. record=[%s]",
            self._store,
            old_ms,
            new_ms,
            context.record_metadata,
        )
