"""A stream aggregated into a table, key by key: the newest aggregate, at the highest timestamp that went into it.

Records without key or value are left out. Source: `KStreamAggregate`, `KStreamReduce`.
With a record cache, the store forwards the changes when it is flushed, with what the flush before sent as old value.
Differs from Kafka: the old value of a key that was not there is always None. In Kafka it is so with a record cache; but
without one it is the initializer's value, and the same records give other results: a grouping of the table subtracts
what was never added, so its counts and sums are wrong from then on, and a filter removes keys that it never sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from streams_runtime.common.records import Record
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.flush_forwarding import forwards_when_flushed
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.fused_table_store import FusedKeyValueStore, FusedTableStore
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.dsl.table_supplier import StoredTableSupplier
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.reporting.losses import DropReason
from streams_runtime.serdes import LONG, Serde
from streams_runtime.state_stores.base import ValueAndTimestamp
from streams_runtime.state_stores.timestamped import SerdesTimestampedKeyValueStore

A = TypeVar("A")

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""Key, value, aggregate so far to the new aggregate."""
Reducer = Callable[[Any, Any], Any]
"""Value so far and next value to the new one."""


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


@dataclass(frozen=True)  # no slots: Python 3.11 cannot make a slotted frozen dataclass with its type named
class StreamAggregation(Generic[A]):
    """How records become an aggregate. `prefix`: of the names of node and store; `value_serde`: of the aggregate."""

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
    """count, aggregate and reduce alike."""

    def __init__(self, store: StoreMaker, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.aggregator = aggregator

    def __call__(self) -> Processor[Any, Any]:
        return StreamAggregateProcessor(self.store.name, self.initializer, self.aggregator, self.sends_old_values)


class StreamAggregateProcessor(ForwardingProcessor[Any, Any]):
    def __init__(self, store: str, initializer: Initializer, aggregator: Aggregator, sends_old_values: bool) -> None:
        super().__init__()
        self._store_name = store
        self._initializer = initializer
        self._aggregator = aggregator
        self._sends_old_values = sends_old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = store = context.state_store(self._store_name)
        self._get, self._put = store.get, store.put
        self._held_back = forwards_when_flushed(context, store, sends_old_values=self._sends_old_values)

    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        if key is None or value is None:
            self.drop(DropReason.NULL_KEY_OR_VALUE, "null key or value")
            return
        before = self._get(key)
        old = None
        if before is None:
            new = self._aggregator(key, value, self._initializer())
        else:
            so_far, old_ms = before
            if old_ms > timestamp_ms:
                timestamp_ms = old_ms
            new = self._aggregator(key, value, so_far)
            if self._sends_old_values and not self._held_back:
                # The user's function may have changed the aggregate in place. The store still has the old one.
                old = self._get(key).value if new is so_far else so_far
        self._put(key, None if new is None else ValueAndTimestamp(new, timestamp_ms))
        if not self._held_back:
            self.forward(Record(key, Change(new, old), timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        store = self._store
        if given.old or (self._sends_old_values and not self._held_back):
            return False
        if not isinstance(store, SerdesTimestampedKeyValueStore):
            return False
        with loop.block(f"if {given.key} is None or {given.value} is None:"):
            loop.remember_position()
            reason = loop.bind("reason", DropReason.NULL_KEY_OR_VALUE)
            loop.line(f"{loop.bind('drop', self.drop)}({reason}, 'null key or value')")
        with loop.block("else:"):
            state = FusedKeyValueStore(loop, store, given)
            new, timestamp_ms = write_aggregation(loop, state, given, self._initializer, self._aggregator)
            if not self._held_back:
                loop.forward(Given(given.key, new, timestamp_ms, old="None", change=loop.bind("change", Change)))
        return True


def write_aggregation(
    loop: LoopWriter, state: FusedTableStore, given: Given, initializer: Initializer, aggregator: Aggregator
) -> tuple[str, str]:
    """Write the lines that put the record into the aggregate of its key. Gives the variables of its value and time."""
    new, timestamp_ms = loop.new("aggregate"), loop.new("timestamp_ms")
    is_count = aggregator is one_more and initializer is zero
    state.look_up(is_put=True)
    call = f"{new} = {loop.bind('aggregator', aggregator)}({given.key}, {given.value}, "
    with loop.block("try:"):
        with loop.block(f"if {state.stored} is None:"):
            loop.line(f"{timestamp_ms} = {given.timestamp_ms}")
            loop.line(f"{new} = 1" if is_count else f"{call}{loop.bind('initializer', initializer)}())")
        with loop.block("else:"):
            state.read(new, timestamp_ms)
            with loop.block(f"if {timestamp_ms} < {given.timestamp_ms}:"):
                loop.line(f"{timestamp_ms} = {given.timestamp_ms}")
            loop.line(f"{new} += 1" if is_count else f"{call}{new})")
        stored = state.serialize(new, timestamp_ms, deletes=not is_count)
    with loop.block("except BaseException:"):
        state.unused()
    state.put_bytes(stored, new, timestamp_ms, deletes=not is_count)
    return new, timestamp_ms
