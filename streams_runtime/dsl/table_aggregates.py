"""A grouped table folded into a table: an update takes the old value out and puts the new one in.

Both halves of an update may come apart on their way: what leaves a group and what enters one are then two records.
Source: `KTableRepartitionMap`, `KTableAggregate`, `KTableReduce`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assignor.errors import StreamsError
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.dsl.stream_aggregates import Aggregator, Initializer, Reducer, ReducerAsAggregator, nothing
from streams_runtime.dsl.table_supplier import StoredTableSupplier
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.records import Record
from streams_runtime.state_stores.base import ValueAndTimestamp


def one_less(key: Any, value: Any, aggregate: int) -> int:
    return aggregate - 1


class ReducerAsSubtractor:
    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self.reducer(aggregate, value)


class TableRepartitionMap(ForwardingProcessor[Any, Any]):
    """Gives both values of a change their new keys. One record when both keys are equal, else the old one's first."""

    def __init__(self, selector: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        super().__init__()
        self._selector = selector

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, (new, old), timestamp_ms, headers = record
        if key is None:
            raise StreamsError("Record key for the grouping KTable should not be null.")
        new_key, new = (None, None) if new is None else self._selector(key, new)
        old_key, old = (None, None) if old is None else self._selector(key, old)
        has_new = new_key is not None and new is not None
        has_old = old_key is not None and old is not None
        if has_new and has_old and new_key == old_key:
            self.forward(Record(old_key, Change(new, old), timestamp_ms, headers))
            return
        if has_old:
            self.forward(Record(old_key, Change(None, old), timestamp_ms, headers))
        if has_new:
            self.forward(Record(new_key, Change(new, None), timestamp_ms, headers))


class KTableAggregate(StoredTableSupplier):
    def __init__(self, store: StoreMaker, initializer: Initializer, adder: Aggregator, subtractor: Aggregator) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.adder = adder
        self.subtractor = subtractor

    @classmethod
    def of_reducers(cls, store: StoreMaker, adder: Reducer, subtractor: Reducer) -> KTableAggregate:
        """The first value of a group is its first aggregate."""
        return cls(store, nothing, ReducerAsAggregator(adder), ReducerAsSubtractor(subtractor))

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
        if self._sends_old_values and before is not None:
            old = self._get(key).value  # not `before`: the user's functions may have changed that in place
        self._put(key, None if aggregate is None else ValueAndTimestamp(aggregate, timestamp_ms))
        self.forward(Record(key, Change(aggregate, old), timestamp_ms, headers))
