"""A grouped table aggregated into a table: an update subtracts the old value and adds the new one.

The two halves of an update may travel apart, because they may belong to different groups: then the value that leaves a
group and the value that enters one are two records.
Source: `KTableRepartitionMap`, `KTableAggregate`, `KTableReduce`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from assignor.errors import StreamsError
from streams_runtime.common.records import Record
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.flush_forwarding import forwards_when_flushed
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.dsl.stream_aggregates import (
    Aggregator,
    Initializer,
    Reducer,
    ReducerAsAggregator,
    nothing,
    one_more,
    zero,
)
from streams_runtime.dsl.table_supplier import StoredTableSupplier
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.serdes import LONG, Serde, serde_for_topic
from streams_runtime.state_stores.base import ValueAndTimestamp

A = TypeVar("A")


def one_less(key: Any, value: Any, aggregate: int) -> int:
    return aggregate - 1


class ReducerAsSubtractor:
    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self.reducer(aggregate, value)


@dataclass(frozen=True)  # no slots: Python 3.11 cannot make a slotted frozen dataclass with its type named
class TableAggregation(Generic[A]):
    """How entries become an aggregate. `prefix`: of the node's name; `value_serde`: of the aggregate."""

    prefix: str
    initializer: Initializer
    adder: Aggregator
    subtractor: Aggregator
    value_serde: Serde[A] | None

    @classmethod
    def by(
        cls, initializer: Initializer, adder: Aggregator, subtractor: Aggregator, value_serde: Serde[A]
    ) -> TableAggregation[A]:
        return cls("KTABLE-AGGREGATE-", initializer, adder, subtractor, value_serde)

    @classmethod
    def by_reducers(cls, adder: Reducer, subtractor: Reducer, value_serde: Serde[A] | None) -> TableAggregation[A]:
        """The first value of a group is its first aggregate."""
        return cls("KTABLE-REDUCE-", nothing, ReducerAsAggregator(adder), ReducerAsSubtractor(subtractor), value_serde)


COUNT = TableAggregation.by(zero, one_more, one_less, LONG)


@dataclass(frozen=True)
class KTableRepartitionMap:
    """Makes `TableRepartitionMap`s. `topic`: the repartition topic, by its short name; `key_serde`: of its keys."""

    selector: Callable[[Any, Any], tuple[Any, Any]]
    topic: str
    key_serde: Serde[Any]

    def __call__(self) -> Processor[Any, Any]:
        return TableRepartitionMap(self.selector, self.topic, self.key_serde)

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> KTableRepartitionMap:
        return replace(self, key_serde=change(self.key_serde))


class TableRepartitionMap(ForwardingProcessor[Any, Any]):
    """Gives both values of a change their new keys: one record when the keys are equal, else the old value's first.

    Keys are equal when their bytes are: these are the key of the topic, of the store and for the partitioner. In
    Python, 1 equals True and 1.0, and NaN does not equal itself.
    """

    def __init__(self, selector: Callable[[Any, Any], tuple[Any, Any]], topic: str, key_serde: Serde[Any]) -> None:
        super().__init__()
        self._selector = selector
        self._topic = topic
        self._key_serde = key_serde

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        full_name = f"{context.application_id}-{self._topic}"  # as of every internal topic
        self._serialize = serde_for_topic(self._key_serde, full_name, is_key=True).serialize

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, (new, old), timestamp_ms, headers = record
        if key is None:
            raise StreamsError("Record key for the grouping KTable should not be null.")
        new_key, new = (None, None) if new is None else self._selector(key, new)
        old_key, old = (None, None) if old is None else self._selector(key, old)
        has_new = new_key is not None and new is not None
        has_old = old_key is not None and old is not None
        if has_new and has_old and self._are_equal(new_key, old_key):
            self.forward(Record(old_key, Change(new, old), timestamp_ms, headers))
            return
        if has_old:
            self.forward(Record(old_key, Change(None, old), timestamp_ms, headers))
        if has_new:
            self.forward(Record(new_key, Change(new, None), timestamp_ms, headers))

    def _are_equal(self, one: Any, other: Any) -> bool:
        try:
            return self._serialize(one) == self._serialize(other)
        except Exception:
            return False  # the sink below fails with the same error, and names the topic and the serde


class KTableAggregate(StoredTableSupplier):
    def __init__(self, store: StoreMaker, initializer: Initializer, adder: Aggregator, subtractor: Aggregator) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.adder = adder
        self.subtractor = subtractor

    def __call__(self) -> Processor[Any, Any]:
        return TableAggregateProcessor(
            self.store.name, self.initializer, self.adder, self.subtractor, self.sends_old_values
        )


class TableAggregateProcessor(ForwardingProcessor[Any, Any]):
    """Subtracts first, then adds. Raises StreamsError for a record without key."""

    def __init__(
        self, store: str, initializer: Initializer, adder: Aggregator, subtractor: Aggregator, sends_old_values: bool
    ) -> None:
        super().__init__()
        self._store_name = store
        self._initializer = initializer
        self._adder = adder
        self._subtractor = subtractor
        self._sends_old_values = sends_old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        store = context.state_store(self._store_name)
        self._get, self._put = store.get, store.put
        self._held_back = forwards_when_flushed(context, store, sends_old_values=self._sends_old_values)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, (added, removed), timestamp_ms, headers = record
        if key is None:
            raise StreamsError(
                f"Record key for KTable aggregate operator with state {self._store_name} should not be null."
            )
        before = self._get(key)
        aggregate = None if before is None else before.value
        if removed is not None and aggregate is not None:
            aggregate = self._subtractor(key, removed, aggregate)
        if added is not None:
            aggregate = self._adder(key, added, self._initializer() if aggregate is None else aggregate)
        if before is not None and before.timestamp_ms > timestamp_ms:
            timestamp_ms = before.timestamp_ms
        old = None
        if self._sends_old_values and not self._held_back and before is not None:
            old = self._get(key).value  # not `before`: the user's functions may have changed it in place
        self._put(key, None if aggregate is None else ValueAndTimestamp(aggregate, timestamp_ms))
        if not self._held_back:
            self.forward(Record(key, Change(aggregate, old), timestamp_ms, headers))
