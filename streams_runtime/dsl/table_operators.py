"""The operators that make a table, from a topic or entry by entry from another table, and let other nodes read it.

A table keeps a store only if the user names one, or if another node has to read the table. Until the topology is
built, later calls ask the operator for old values (`send_old_values`) or for a table that can be read (`view`). In a
topic read as a table, a later value of a key replaces the earlier value, and None removes the key. A table without a
store forwards every update, as in Kafka.
Source: `KTableProcessorSupplier`, `KTableValueGetterSupplier`, `KTableImpl.enableSendingOldValues`, `KTableSource`,
`KTableFilter`, `KTableMapValues`.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.materialized import StoreFactory
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.state_stores.key_value import SerdesTimestampedKeyValueStore
from streams_runtime.state_stores.value_and_timestamp import EntryAccess

Getter = Callable[[Any], tuple[int, Any] | None]
"""Takes a key. Returns its timestamp in milliseconds and its present value in a table, or None if the key is absent."""
Predicate = Callable[[Any, Any], bool]
Mapper = Callable[[Any, Any], Any]
"""Takes key and value. Returns the new value."""

_logger = logging.getLogger(__name__)


def stored_getter(context: NodeContext, store: str, *, flushed: bool) -> Getter:
    """Returns the function that reads a table from its store. `flushed`: see `TableOperator.getter`."""
    kept: SerdesTimestampedKeyValueStore[Any, Any] = context.state_store(store)
    entries = kept.entry_access()
    stored_key_of, read = entries.stored_key_of, entries.read
    get = kept.flushed_getter() if flushed else entries.get

    def get_entry(key: Any) -> tuple[int, Any] | None:
        stored = get(stored_key_of(key))
        return None if stored is None else read(stored)

    return get_entry


class TableOperator(Operator):
    """The operator of a table; it forwards `Change`s. `sends_old_values`: whether the changes have the old value.

    `store`: the store that the operator fills; None if the table keeps no store. Reads of a table with a store use the
    store. The operator of a table without a store defines with `view` and `getter` how the table is read.
    """

    def __init__(self, store: StoreFactory | None) -> None:
        self.store = store
        self.sends_old_values = False

    def opened(self, child: Receiver, context: NodeContext) -> tuple[EntryAccess, bool]:
        """Returns the access to the entries of the operator's store. The second result is True if the store has a
        record cache, and so forwards each change to `child` when the cache is flushed.
        """
        assert self.store is not None
        entries = context.state_store(self.store.name).entry_access()
        return entries, context.forwards_when_flushed(entries, child, sends_old_values=self.sends_old_values)

    @abstractmethod
    def send_old_values(self, *, keep_store: bool) -> bool:
        """Send old values from now on. Returns whether this is possible. `keep_store`: keep a store if old values need
        one.
        """

    def view(self) -> tuple[str, ...]:
        """Let a node read the table. The table keeps a store if the reads need one. Returns the stores to connect to
        the node.
        """
        assert self.store is not None
        return (self.store.name,)

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        """Returns the function that reads the table. `context`: the context of the reading node. `flushed`: without the
        changes that a record cache still holds back, except the change of the record being processed; only for a table
        with a key-value store.
        """
        assert self.store is not None
        return stored_getter(context, self.store.name, flushed=flushed)


class StoredTableOperator(TableOperator):
    """A table that always keeps a store, as every aggregate does."""

    store: StoreFactory

    def send_old_values(self, *, keep_store: bool) -> bool:
        self.sends_old_values = True
        return True


class KTableSource(TableOperator):
    """A table of the records of a topic or stream. `kept`: whether the table keeps the store from the start. If `kept`
    is False, the table keeps the store once a node needs it.
    """

    def __init__(self, store: StoreFactory, *, kept: bool) -> None:
        super().__init__(store if kept else None)
        self._maker = store

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        return _plain_table(child, context) if self.store is None else self._stored_table(child, context)

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

    def _stored_table(self, child: Receiver, context: NodeContext) -> Receiver:
        entries, forwards_on_flush = self.opened(child, context)
        stored_key_of, get, put, read, write, _, _ = entries  # functions: see `EntryAccess`
        current, wants_old = context.current, self.sends_old_values

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
                    _warn_of_disorder(self._maker.name, context, old_ms, timestamp_ms)
            put(stored_key, None if value is None else write(timestamp_ms, value), timestamp_ms)
            if not forwards_on_flush:
                child(key, (value, old if wants_old else None), timestamp_ms, headers)

        return table


def _plain_table(child: Receiver, context: NodeContext) -> Receiver:
    """The receiver of a table that has no store, because no node reads the table. The old values of a table without a
    store are unknown.
    """

    def table(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if key is None:
            context.drop(DropReason.NULL_KEY, "null key")
        else:
            child(key, (value, None), timestamp_ms, headers)

    return table


def _warn_of_disorder(store: str, context: NodeContext, old_ms: int, new_ms: int) -> None:
    """Log a record that is older than the stored value. The older record still replaces the stored value, because a
    table follows the order of its topic.
    """
    _logger.warning(
        "Detected out-of-order KTable update for %s, old timestamp=[%d] new timestamp=[%d]. record=[%s]",
        store,
        old_ms,
        new_ms,
        context.record_metadata,
    )


class DerivedTableOperator(TableOperator):
    """A table derived from `parent`. The derived table has a store only if the user has named a store.

    The operator derives the new and the old value of each change of the parent, puts the new value into the store if
    there is a store, and forwards the derived change.
    """

    skips_absent = False
    """True to leave out changes whose new and old value are None: the key is and was absent from this table."""

    def __init__(self, parent: TableOperator, store: StoreFactory | None) -> None:
        super().__init__(store)
        self.parent = parent

    @abstractmethod
    def derived(self, key: Any, value: Any) -> Any:
        """The value in this table for the parent's value; None if the key is absent."""

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        derived, wants_old = self.derived, self.sends_old_values
        skips_absent = wants_old and self.skips_absent
        if self.store is not None:
            return self._with_store(skips_absent, child, context)

        def derived_table(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new = derived(key, change[0])
            old = derived(key, change[1]) if wants_old else None
            if not (skips_absent and new is None and old is None):
                child(key, (new, old), timestamp_ms, headers)

        return derived_table

    def _with_store(self, skips_absent: bool, child: Receiver, context: NodeContext) -> Receiver:
        """The receiver of a table with a store. The old value of a change is the value in the store."""
        derived, wants_old = self.derived, self.sends_old_values
        entries, forwards_on_flush = self.opened(child, context)
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

    def send_old_values(self, *, keep_store: bool) -> bool:
        if self.store is not None or self.parent.send_old_values(keep_store=keep_store):
            self.sends_old_values = True
        return self.sends_old_values

    def view(self) -> tuple[str, ...]:
        """The stores from which a node reads this table: the parent's stores if this table has no store of its own."""
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


class KTableFilter(DerivedTableOperator):
    """The entries for which the predicate returns `wanted`, which is False for `filter_not`."""

    skips_absent = True

    def __init__(self, parent: TableOperator, predicate: Predicate, wanted: bool, store: StoreFactory | None) -> None:
        super().__init__(parent, store)
        self.predicate = predicate
        self.wanted = wanted
        # Old values show which entries were never in this table, so that no removal is sent for these entries. A parent
        # without a store does not keep a store for this purpose.
        self.sends_old_values = parent.send_old_values(keep_store=False)

    def derived(self, key: Any, value: Any) -> Any:
        return value if value is not None and bool(self.predicate(key, value)) is self.wanted else None


class KTableMapValues(DerivedTableOperator):
    """The same keys with new values. The mapper is not called for a removal."""

    def __init__(self, parent: TableOperator, mapper: Mapper, store: StoreFactory | None) -> None:
        super().__init__(parent, store)
        self.mapper = mapper

    def derived(self, key: Any, value: Any) -> Any:
        return None if value is None else self.mapper(key, value)
