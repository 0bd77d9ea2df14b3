"""The operators of tables. A table operator makes a table from a topic or from another table, and lets other nodes read
this table.

A table has a store only if the user names a store, or if another node has to read the table. Until the topology is
built, DSL calls can change an operator. `send_old_values` tells the operator to forward old values, and `view` makes
its table readable. In a table of a topic, each record replaces the value of its key. A record with the value None
removes its key. A table without a store forwards every update, as in Kafka.
A table is versioned if its store is versioned, or if it is derived from a versioned table without settings of its own.
A versioned table also forwards changes that are older than the newest value of their key, as `OutOfOrderChange`s. It
forwards no change that its store has refused.
Source: `KTableProcessorSupplier`, `KTableValueGetterSupplier`, `KTableImpl.enableSendingOldValues`, `KTableSource`,
`KTableFilter`, `KTableMapValues`, `InternalStreamsBuilder.enableVersionedSemantics` (KIP-914).
"""

import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.change import OutOfOrderChange, in_order_of
from streams_runtime.dsl.materialized import StoreFactory
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.state_stores.key_value import TimestampedKeyValueStore
from streams_runtime.state_stores.value_and_timestamp import EntryAccess
from streams_runtime.state_stores.versioned import NOT_PUT, VALID_TO_UNDEFINED, VersionedKeyValueStore

Getter = Callable[[Any], tuple[int, Any] | None]
"""The type of a function that looks up a key in a table. The function returns the timestamp in milliseconds and the
value, or None if the key is not in the table.
"""
GetterAsOf = Callable[[Any, int], tuple[int, Any] | None]
"""The type of a function that looks up a key in a versioned table as of a time in milliseconds. The result is like that
of a `Getter`.
"""
EntryDeriver = Callable[[Any, tuple[int, Any] | None], tuple[int, Any] | None]
"""The type of a function that gets a key, and the timestamp and the value of the key in the parent of a table. The
result is the timestamp and the value of the key in the table, or None.
"""
Predicate = Callable[[Any, Any], bool]
Mapper = Callable[[Any, Any], Any]
"""The type of a function (key, value) that returns the new value of an entry.
"""

_logger = logging.getLogger(__name__)


def stored_getter(context: NodeContext, store: str, *, flushed: bool) -> Getter:
    """Returns a function that reads a table from its store. `flushed`: True to ignore changes that the record cache has
    not forwarded yet.
    """
    kept: TimestampedKeyValueStore[Any, Any] | VersionedKeyValueStore[Any, Any] = context.state_store(store)
    entries = kept.entry_access()
    stored_key_of, read = entries.stored_key_of, entries.read
    get = kept.flushed_getter() if flushed else entries.get

    def get_entry(key: Any) -> tuple[int, Any] | None:
        stored = get(stored_key_of(key))
        return None if stored is None else read(stored)

    return get_entry


class TableOperator(Operator):
    """The operator of a table, which forwards a `Change` for each change of an entry. `sends_old_values`: True if the
    forwarded changes contain old values.

    `store`: the store to which the operator writes; None if the table has no store. Other nodes read the table from
    this store. An operator without a store has to implement `view` and `getter`.
    """

    window_grace_ms: int | None = None
    """The time in milliseconds between the end of a window and the moment when the window closes; None if the operator
    does not put its records into windows. A session closes after its inactivity gap and the grace period.
    """

    def __init__(self, store: StoreFactory | None) -> None:
        self.store = store
        self.sends_old_values = False

    @property
    def is_versioned(self) -> bool:
        """True if the table is versioned. The nodes below a versioned table have rules for changes out of order."""
        return self.store is not None and self.store.settings.is_versioned

    @property
    def history_retention_ms(self) -> int | None:
        """The history retention of the store from which other nodes read the table as of a time, with `getter_as_of`.
        None if the table is not in a versioned store.
        """
        return None if self.store is None else self.store.settings.history_retention_ms

    def opened(self, child: Receiver, context: NodeContext) -> tuple[EntryAccess, bool]:
        """Returns two values: the functions for the entries of the operator's store, and True if the store has a record
        cache. Changes in a record cache are forwarded to `child` when the cache is flushed.
        """
        assert self.store is not None
        entries = context.state_store(self.store.name).entry_access()
        return entries, context.forwards_when_flushed(entries, child, sends_old_values=self.sends_old_values)

    def after_put(self, child: Receiver, context: NodeContext) -> Receiver:
        """Returns a receiver for changes that have just been put into the table's store. If the store is versioned, the
        receiver drops a change that the store has refused, and marks a change that is not the newest of its key.
        """
        assert self.store is not None
        if not self.store.settings.is_versioned:
            return child
        store: VersionedKeyValueStore[Any, Any] = context.state_store(self.store.name)

        def forward(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            if store.last_put == VALID_TO_UNDEFINED:
                child(key, change, timestamp_ms, headers)
            elif store.last_put != NOT_PUT:
                child(key, OutOfOrderChange(change), timestamp_ms, headers)

        return forward

    @abstractmethod
    def send_old_values(self, *, keep_store: bool) -> bool:
        """Tells the operator to forward old values. Returns False if the operator cannot forward old values.
        `keep_store`: True if the table may add a store to get old values.
        """

    def view(self) -> tuple[str, ...]:
        """Makes the table readable for other nodes, by adding a store if necessary. Each node that reads the table has
        to be connected to some stores. Returns the names of these stores.
        """
        assert self.store is not None
        return (self.store.name,)

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        """Returns a function that reads the table. `context`: the context of the node that reads. `flushed`: True to
        ignore changes that the record cache has not forwarded yet. Changes from the record that is being processed are
        never ignored. `flushed` may be True only for a table with a key-value store.
        """
        assert self.store is not None
        return stored_getter(context, self.store.name, flushed=flushed)

    def getter_as_of(self, context: NodeContext) -> GetterAsOf:
        """Returns a function that reads the table as of a time. The table must have a `history_retention_ms`."""
        assert self.store is not None
        store: VersionedKeyValueStore[Any, Any] = context.state_store(self.store.name)
        return store.entry_as_of


def leaving_out_of_order(table: TableOperator, join: Receiver, context: NodeContext) -> Receiver:
    """Returns a receiver for a join with another table: it drops the changes of a versioned table that are out of
    order, because only the newest values are joined (KIP-914).
    """
    if not table.is_versioned:
        return join

    def join_in_order(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
        if change.__class__ is OutOfOrderChange:
            context.drop(DropReason.OUT_OF_ORDER, "a newer value of its key in a versioned table")
        else:
            join(key, change, timestamp_ms, headers)

    return join_in_order


class StoredTableOperator(TableOperator):
    """The operator of a table that always has a store, such as the table of an aggregation."""

    store: StoreFactory

    def send_old_values(self, *, keep_store: bool) -> bool:
        self.sends_old_values = True
        return True


class KTableSource(TableOperator):
    """The operator of a table that is made from the records of a topic or stream. `kept`: True if the table always has
    a store; False if the table has a store only when another node needs the store. A versioned table always has one.
    """

    def __init__(self, store: StoreFactory, *, kept: bool) -> None:
        super().__init__(store if kept or store.settings.is_versioned else None)
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
        """Adds the store to the table, and returns the store's name. Other nodes read the table from this store."""
        self.store = self._maker
        return super().view()

    def _stored_table(self, child: Receiver, context: NodeContext) -> Receiver:
        entries, forwards_on_flush = self.opened(child, context)
        child = self.after_put(child, context)
        stored_key_of, get, put, read, write, _, _ = entries  # these functions are described in `EntryAccess`
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
    """Returns the receiver for a table without a store. All old values are None, because only a store knows old
    values.
    """

    def table(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if key is None:
            context.drop(DropReason.NULL_KEY, "null key")
        else:
            child(key, (value, None), timestamp_ms, headers)

    return table


def _warn_of_disorder(store: str, context: NodeContext, old_ms: int, new_ms: int) -> None:
    """Logs a warning about a record that is older than the stored value. The record still replaces the stored value,
    because a table follows the order of its topic. Only a versioned table follows the timestamps.
    """
    _logger.warning(
        "Detected out-of-order KTable update for %s, old timestamp=[%d] new timestamp=[%d]. record=[%s]",
        store,
        old_ms,
        new_ms,
        context.record_metadata,
    )


class DerivedTableOperator(TableOperator):
    """The operator of a table that is derived from another table, the parent. The derived table has a store only if the
    user has named a store.

    For each change of the parent, the operator derives a change of this table and forwards it. If this table has a
    store, the operator writes the new value to the store. `inherits_versions`: True if the user has given no settings
    for the table, so that the table is versioned if its parent is versioned.
    """

    skips_absent = False
    """True to leave out a change if both its values are None. If both values are None, the key is absent from this
    table before and after the change.
    """

    def __init__(self, parent: TableOperator, store: StoreFactory | None, *, inherits_versions: bool = False) -> None:
        super().__init__(store)
        self.parent = parent
        self.inherits_versions = inherits_versions

    @property
    def is_versioned(self) -> bool:
        return self.parent.is_versioned if self.inherits_versions else super().is_versioned

    @property
    def history_retention_ms(self) -> int | None:
        return self.parent.history_retention_ms if self.store is None else super().history_retention_ms

    @abstractmethod
    def derived(self, key: Any, value: Any) -> Any:
        """Returns the value of a key in this table, or None if the key is not in this table. `value`: the value of the
        key in the parent.
        """

    def deriver(self, context: NodeContext) -> Callable[[Any, Any], Any]:
        """Returns the function (key, value in the parent) that `connect` calls for each change. An operator with state
        overrides this method, and makes the state of the task here.
        """
        return self.derived

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        derived, wants_old = self.deriver(context), self.sends_old_values
        # A versioned table may still have an older value of an absent key, so its removals are forwarded.
        skips_absent = wants_old and self.skips_absent and not self.parent.is_versioned
        if self.store is not None:
            return self._with_store(derived, skips_absent, child, context)

        def derived_table(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new = derived(key, change[0])
            old = derived(key, change[1]) if wants_old else None
            if not (skips_absent and new is None and old is None):
                child(key, in_order_of(change, new, old), timestamp_ms, headers)

        return derived_table

    def _with_store(
        self, derived: Callable[[Any, Any], Any], skips_absent: bool, child: Receiver, context: NodeContext
    ) -> Receiver:
        """Returns the receiver for a table with a store. The receiver reads the old value of each change from the
        store.
        """
        wants_old = self.sends_old_values
        entries, forwards_on_flush = self.opened(child, context)
        child = self.after_put(child, context)
        stored_key_of, get, put, read, write, _, _ = entries  # these functions are described in `EntryAccess`
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
        """Returns the names of the stores from which other nodes read this table. If this table has no store, the
        result contains the parent's stores.
        """
        return self.parent.view() if self.store is None else super().view()

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        if self.store is not None:
            return super().getter(context, flushed=flushed)
        get_parent, derived = self.parent.getter(context, flushed=flushed), self.entry_deriver(context)
        return lambda key: derived(key, get_parent(key))

    def getter_as_of(self, context: NodeContext) -> GetterAsOf:
        if self.store is not None:
            return super().getter_as_of(context)
        get_parent, derived = self.parent.getter_as_of(context), self.entry_deriver(context)
        return lambda key, as_of_ms: derived(key, get_parent(key, as_of_ms))

    def entry_deriver(self, context: NodeContext) -> EntryDeriver:
        """Returns the function with which a node reads the table. An operator with state overrides this method."""

        def derived_entry(key: Any, found: tuple[int, Any] | None) -> tuple[int, Any] | None:
            if found is None:
                return None
            timestamp_ms, parent_value = found
            value = self.derived(key, parent_value)
            return None if value is None else (timestamp_ms, value)

        return derived_entry


class KTableFilter(DerivedTableOperator):
    """The operator of a filtered table. The table has the entries for which the predicate returns `wanted`: True for
    `filter`, and False for `filter_not`.
    """

    skips_absent = True

    def __init__(
        self,
        parent: TableOperator,
        predicate: Predicate,
        wanted: bool,
        store: StoreFactory | None,
        *,
        inherits_versions: bool = False,
    ) -> None:
        super().__init__(parent, store, inherits_versions=inherits_versions)
        self.predicate = predicate
        self.wanted = wanted
        # The parent's old value shows whether an entry was in this table. If the entry was not in this table, this
        # operator does not forward the removal of the entry. The parent forwards old values only if it can do so
        # without an additional store.
        self.sends_old_values = parent.send_old_values(keep_store=False)

    def derived(self, key: Any, value: Any) -> Any:
        return value if value is not None and bool(self.predicate(key, value)) is self.wanted else None


class KTableMapValues(DerivedTableOperator):
    """The operator of a table with the keys of the parent and new values. The mapper is not called for a
    removed key.
    """

    def __init__(
        self, parent: TableOperator, mapper: Mapper, store: StoreFactory | None, *, inherits_versions: bool = False
    ) -> None:
        super().__init__(parent, store, inherits_versions=inherits_versions)
        self.mapper = mapper

    def derived(self, key: Any, value: Any) -> Any:
        return None if value is None else self.mapper(key, value)
