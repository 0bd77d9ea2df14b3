"""A stream aggregated into a table, key by key: the newest aggregate, at the highest timestamp that went into it.

Records without key or value are left out. Source: `KStreamAggregate`, `KStreamReduce`.
With a record cache, the store forwards the changes when the cache is flushed. The old value of a change is then the
new value that the previous flush sent.
Differs from Kafka: the old value of a new key is always None. In Kafka it is None with a record cache, and the
initializer's value without one. Then a grouping of the table subtracts a value that was never added, so its counts and
sums stay wrong, and a filter of the table sends removals of keys that it never sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from streams_runtime.common.records import Headers
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.dsl.table_supplier import StoredTableSupplier
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.reporting.losses import DropReason
from streams_runtime.serdes import LONG, Serde
from streams_runtime.state_stores.value_and_timestamp import EntryAccess

A = TypeVar("A")

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""Takes key, value and the aggregate so far. Gives the new aggregate."""
Reducer = Callable[[Any, Any], Any]
"""Takes the value so far and the next value. Gives the new value."""


def zero() -> int:
    return 0


def one_more(key: Any, value: Any, aggregate: int) -> int:
    return aggregate + 1


def nothing() -> None:
    return None


class ReducerAsAggregator:
    """The first value is the first aggregate. A class, so that it can be pickled whenever the reducer can."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else self.reducer(aggregate, value)


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class StreamAggregation(Generic[A]):
    """The functions and the serde of an aggregate. `prefix`: begins the generated names of its node and its store."""

    prefix: str
    initializer: Initializer
    aggregator: Aggregator
    value_serde: Serde[A] | None

    @classmethod
    def by(cls, initializer: Initializer, aggregator: Aggregator, value_serde: Serde[A]) -> StreamAggregation[A]:
        return cls("KSTREAM-AGGREGATE-", initializer, aggregator, value_serde)

    @classmethod
    def by_reducer(cls, reducer: Reducer, value_serde: Serde[A] | None) -> StreamAggregation[A]:
        return cls("KSTREAM-REDUCE-", nothing, ReducerAsAggregator(reducer), value_serde)


COUNT = StreamAggregation.by(zero, one_more, LONG)


class KStreamAggregate(StoredTableSupplier):
    """Makes the operators of a count, an aggregate or a reduce."""

    def __init__(self, store: StoreMaker, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.aggregator = aggregator

    def __call__(self) -> Operator:
        return StreamAggregateProcessor(self.store.name, self.initializer, self.aggregator, self.sends_old_values)


class StreamAggregateProcessor(Operator):
    def __init__(self, store: str, initializer: Initializer, aggregator: Aggregator, sends_old_values: bool) -> None:
        self._store = store
        self._initializer = initializer
        self._aggregator = aggregator
        self._sends_old_values = sends_old_values

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        entries = context.state_store(self._store).entry_access()
        held_back = context.forwards_when_flushed(entries, child, sends_old_values=self._sends_old_values)
        return self.receiver(entries, None if held_back else child, context, wants_old=self._sends_old_values)

    def receiver(
        self, entries: EntryAccess, child: Receiver | None, context: NodeContext, *, wants_old: bool
    ) -> Receiver:
        """The receiver that updates the aggregate of each record's key. For the parameters see `aggregation`."""
        stored_key_of = entries.place
        update = aggregation(entries, self._initializer, self._aggregator, child, context, wants_old=wants_old)

        def aggregate(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None or value is None:
                context.drop(DropReason.NULL_KEY_OR_VALUE, "null key or value")
            else:
                update(stored_key_of(key), key, key, value, timestamp_ms, headers)

        return aggregate


Update = Callable[[Any, Any, Any, Any, int, Headers], None]
"""Updates one aggregate with a record. Takes the aggregate's key as `EntryAccess.place` gives it, and its key in the
table, which is not used if a flush hands the changes on; then key, value, timestamp and headers of the record."""


def aggregation(
    entries: EntryAccess,
    initializer: Initializer,
    aggregator: Aggregator,
    child: Receiver | None,
    context: NodeContext,
    *,
    wants_old: bool,
) -> Update:
    """The function that updates the aggregates in a store.

    `child`: gets each change at once; None if the store hands the changes on when its record cache is flushed.
    `wants_old`: whether `child` needs the old value of a change.
    """
    get, put, read, write = entries.get, entries.put, entries.read, entries.write
    reads_old = wants_old and child is not None
    set_record = context.current.set_record

    def update(stored_key: Any, table_key: Any, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        set_record(timestamp_ms, headers)
        stored, old = get(stored_key), None
        if stored is None:
            new = aggregator(key, value, initializer())
        else:
            so_far_ms, so_far = read(stored)
            if so_far_ms > timestamp_ms:
                timestamp_ms = so_far_ms
            if reads_old:
                old = read(stored)[1]  # not `so_far`: the user's function may change it in place
            new = aggregator(key, value, so_far)
        put(stored_key, None if new is None else write(timestamp_ms, new), timestamp_ms)
        if child is not None:
            child(table_key, (new, old), timestamp_ms, headers)

    return update
