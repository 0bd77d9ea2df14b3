"""Aggregates a grouped table into a table. An update of an entry subtracts the old value and adds the new value.

The old and the new value may belong to different groups. If an update moves an entry to another group, the repartition
topic gets two records. The first record removes the old value from the old group. The second record adds the new value
to the new group.
Source: `KTableRepartitionMap`, `KTableAggregate`, `KTableReduce`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from assignor.errors import StreamsError
from streams_runtime.common.records import Headers
from streams_runtime.dsl.change import OutOfOrderChange
from streams_runtime.dsl.materialized import StoreFactory
from streams_runtime.dsl.stream_aggregates import A, Aggregator, Initializer, Reducer, added_by, nothing, one_more, zero
from streams_runtime.dsl.table_operators import StoredTableOperator
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.serdes import LONG, Serde, WithInnerSerdes, serde_for_topic


def one_less(key: Any, value: Any, aggregate: int) -> int:
    return aggregate - 1


def subtracted_by(reducer: Reducer, key: Any, value: Any, aggregate: Any) -> Any:
    return reducer(aggregate, value)


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class TableAggregation(Generic[A]):
    """The functions and the serde of an aggregation. `prefix`: the beginning of a generated name for the aggregation's
    node.
    """

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
        """Returns the aggregation of a reduce. The first aggregate of a group is its first value."""
        return cls("KTABLE-REDUCE-", nothing, partial(added_by, adder), partial(subtracted_by, subtractor), value_serde)


COUNT = TableAggregation.by(zero, one_more, one_less, LONG)


@dataclass(frozen=True)
class KTableRepartitionMap(WithInnerSerdes, Operator):
    """Forwards the old and the new value of a change under the keys of their groups. If both values belong to the same
    group, one record with both values is forwarded. If the two values belong to different groups, two records are
    forwarded, the record with the old value first.

    The keys of two groups are compared as bytes, because the topic, the store and the partitioner use the bytes.
    Python's equality would be wrong: in Python, 1 equals True and 1.0, and NaN does not equal itself. `topic`: the name
    of the repartition topic without the application id. `key_serde`: the serde of the keys in the topic. `versioned`:
    True if the table is versioned. The aggregate of a versioned table has only the newest values, so changes out of
    order are not forwarded.
    """

    selector: Callable[[Any, Any], tuple[Any, Any]]
    topic: str
    key_serde: Serde[Any]
    versioned: bool = False

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        # the name of each internal topic begins with the application id
        full_name = f"{context.application_id}-{self.topic}"
        serialize = serde_for_topic(self.key_serde, full_name, is_key=True).serialize
        selector, hand_on, versioned = self.selector, context.guarded(child), self.versioned

        def are_equal(one: Any, other: Any) -> bool:
            try:
                return serialize(one) == serialize(other)
            except Exception:
                # This error is ignored, because the sink will serialize the same key, and the sink's error names the
                # topic and the serde.
                return False

        def repartition(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                raise StreamsError("Record key for the grouping KTable should not be null.")
            if versioned and change.__class__ is OutOfOrderChange:
                return
            new, old = change
            new_key, new = (None, None) if new is None else selector(key, new)
            old_key, old = (None, None) if old is None else selector(key, old)
            has_new = new_key is not None and new is not None
            has_old = old_key is not None and old is not None
            if has_new and has_old and are_equal(new_key, old_key):
                hand_on(old_key, (new, old), timestamp_ms, headers)
                return
            if has_old:
                hand_on(old_key, (None, old), timestamp_ms, headers)
            if has_new:
                hand_on(new_key, (new, None), timestamp_ms, headers)

        return repartition


class KTableAggregate(StoredTableOperator):
    """The operator for an aggregation of a table, which subtracts the old value of a change, and then adds the new
    value. Raises StreamsError for a record without key.
    """

    def __init__(self, store: StoreFactory, aggregation: TableAggregation[Any]) -> None:
        super().__init__(store)
        self.aggregation = aggregation

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        name, aggregation = self.store.name, self.aggregation
        entries, forwards_on_flush = self.opened(child, context)
        child = self.after_put(child, context)
        wants_old = self.sends_old_values and not forwards_on_flush
        stored_key_of, get, put, read, write, _, _ = entries
        current = context.current
        initializer, adder, subtractor = aggregation.initializer, aggregation.adder, aggregation.subtractor

        def aggregate(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                raise StreamsError(f"Record key for KTable aggregate operator with state {name} should not be null.")
            added, removed = change
            current.timestamp_ms, current.headers = timestamp_ms, headers
            stored_key = stored_key_of(key)
            stored, new, old = get(stored_key), None, None
            if stored is not None:
                so_far_ms, new = read(stored)
                timestamp_ms = max(timestamp_ms, so_far_ms)
                if wants_old:
                    # decode the stored value a second time, because the user's functions may change the object `new` in
                    # place
                    old = read(stored)[1]
            if removed is not None and new is not None:
                new = subtractor(key, removed, new)
            if added is not None:
                new = adder(key, added, initializer() if new is None else new)
            put(stored_key, None if new is None else write(timestamp_ms, new), timestamp_ms)
            if not forwards_on_flush:
                child(key, (new, old), timestamp_ms, headers)

        return aggregate
