"""Joins by key: each record of a stream with a table's present value, and two tables with each other.

A stream's record meets the table's value of its key at that moment; updates of the table send nothing. Two tables have
one node for each side and one that brings both together, as in Kafka: an update of either side looks the other side
up, and the result's timestamp is the higher of the two.
Source: `KStreamKTableJoinProcessor` without grace period, `KTableKTableInnerJoin`, `KTableKTableLeftJoin`,
`KTableKTableRightJoin`, `KTableKTableJoinMerger`. Differs from Kafka: a key leaves the result of an inner join when two
records delete it in both tables between two flushes of their record caches. In Kafka each side finds the other one
empty and sends nothing, and the row stays. So it does here when one record deletes both: a table joined with itself.

As in Kafka, a row of two tables also stays where one table puts and deletes the key between two of its flushes, and the
other one is flushed, or has no cache, between the put and the deletion: it joined a value of which no flush tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams_runtime.common.records import Record
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.flush_forwarding import forwards_when_flushed
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.fused_table_store import FusedKeyValueStore
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.dsl.table_supplier import Getter, TableSupplier, stored_getter
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.reporting.losses import DropReason
from streams_runtime.state_stores.base import ValueAndTimestamp
from streams_runtime.state_stores.timestamped import SerdesTimestampedKeyValueStore

Joiner = Callable[[Any, Any], Any]
"""The first value and the second to the result. None stands for the value that a left join does not find."""


class StreamTableJoinProcessor(ForwardingProcessor[Any, Any]):
    """Leaves out a record without key or value, and one whose key is not in the table."""

    def __init__(self, table: TableSupplier, joiner: Joiner) -> None:
        super().__init__()
        self._table = table
        self._joiner = joiner

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._get = self._table.getter(context)

    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        if key is None or value is None:
            self.drop(DropReason.NULL_KEY_OR_VALUE, "null join key or value")
            return
        found = self._get(key)
        if found is not None:
            self.forward(Record(key, self._joiner(value, found.value), timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        found, joined = loop.new("found"), loop.new("joined")
        with loop.block(f"if {given.key} is None or {given.value} is None:"):
            loop.remember_position()
            reason = loop.bind("reason", DropReason.NULL_KEY_OR_VALUE)
            loop.line(f"{loop.bind('drop', self.drop)}({reason}, 'null join key or value')")
        with loop.block("else:"):
            store = _store_of(self._get)
            if store is None:
                loop.line(f"{found} = {loop.bind('get', self._get)}({given.key})")
                of_table = f"{found}[0]"
            else:
                state = FusedKeyValueStore(loop, store, given)
                state.look_up()
                found, of_table = state.stored, state.value_of_stored()
            with loop.block(f"if {found} is not None:"):
                loop.line(f"{joined} = {loop.bind('joiner', self._joiner)}({given.value}, {of_table})")
                loop.forward(given._replace(value=joined))
        return True


class StreamTableLeftJoinProcessor(StreamTableJoinProcessor):
    """Leaves out a record without value only. A record without key gets no table value (KIP-962)."""

    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        if value is None:
            self.drop(DropReason.NULL_KEY_OR_VALUE, "null join key or value")
            return
        found = None if key is None else self._get(key)
        joined = self._joiner(value, None if found is None else found.value)
        self.forward(Record(key, joined, timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        found, joined = loop.new("found"), loop.new("joined")
        with loop.block(f"if {given.value} is None:"):
            loop.remember_position()
            reason = loop.bind("reason", DropReason.NULL_KEY_OR_VALUE)
            loop.line(f"{loop.bind('drop', self.drop)}({reason}, 'null join key or value')")
        with loop.block("else:"):
            loop.line(f"{found} = None if {given.key} is None else {loop.bind('get', self._get)}({given.key})")
            other = f"None if {found} is None else {found}[0]"
            loop.line(f"{joined} = {loop.bind('joiner', self._joiner)}({given.value}, {other})")
            loop.forward(given._replace(value=joined))
        return True


def _store_of(get: Getter) -> SerdesTimestampedKeyValueStore[Any, Any] | None:
    """Whose `get` it is; None for a table that computes its values."""
    store = getattr(get, "__self__", None)
    return store if isinstance(store, SerdesTimestampedKeyValueStore) and get == store.get else None


class JoinSide:
    """Makes the processors of one side of two joined tables. `joiner` takes this side's value first.

    `needs_this`, `needs_other`: there is no result without that side's value. An inner join needs both, the left side
    of a left join needs this one, its right side the other one.
    """

    def __init__(
        self, this: TableSupplier, other: TableSupplier, joiner: Joiner, *, needs_this: bool, needs_other: bool
    ) -> None:
        self.this = this
        self.other = other
        self.joiner = joiner
        self.needs_this = needs_this
        self.needs_other = needs_other
        self.sends_old_values = False

    def __call__(self) -> Processor[Any, Any]:
        return JoinSideProcessor(self)

    def joined(self, value: Any, other: Any) -> Any:
        """None when a value that the result needs is missing."""
        if (value is None and self.needs_this) or (other is None and self.needs_other):
            return None
        return self.joiner(value, other)


def inner_join(left: TableSupplier, right: TableSupplier, joiner: Joiner) -> tuple[JoinSide, JoinSide]:
    """Keys that both tables have."""
    return (
        JoinSide(left, right, joiner, needs_this=True, needs_other=True),
        JoinSide(right, left, _Reversed(joiner), needs_this=True, needs_other=True),
    )


def left_join(left: TableSupplier, right: TableSupplier, joiner: Joiner) -> tuple[JoinSide, JoinSide]:
    """All keys of the left table, which sends old values from now on."""
    left.send_old_values(keep_store=True)
    return (
        JoinSide(left, right, joiner, needs_this=True, needs_other=False),
        JoinSide(right, left, _Reversed(joiner), needs_this=False, needs_other=True),
    )


class _Reversed:
    """A joiner as the right side calls it, with its own value first. A class, so that it can be pickled."""

    def __init__(self, joiner: Joiner) -> None:
        self._joiner = joiner

    def __call__(self, value: Any, other: Any) -> Any:
        return self._joiner(other, value)


class JoinSideProcessor(ForwardingProcessor[Any, Any]):
    def __init__(self, side: JoinSide) -> None:
        super().__init__()
        self._side = side
        self._needs_other = side.needs_other
        self._needs_both = side.needs_this and side.needs_other
        self._sends_old_values = side.sends_old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._get_other = self._side.other.getter(context)
        self._get_flushed_other = self._side.other.getter(context, flushed=True)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, (new, old), timestamp_ms, headers = record
        if key is None:
            self.drop(DropReason.NULL_KEY, "null key")
            return
        found = self._get_other(key)
        if found is None and new is None and self._needs_both:
            # Deleted on both sides since the other one was flushed: the result has a row of what both had then.
            found = self._get_flushed_other(key)
        if found is None and (self._needs_other or (new is None and old is None)):
            return
        other = None
        if found is not None:
            other = found.value
            timestamp_ms = max(timestamp_ms, found.timestamp_ms)
        joined = self._side.joined
        change = Change(joined(new, other), joined(old, other) if self._sends_old_values else None)
        self.forward(Record(key, change, timestamp_ms, headers))


class KTableKTableJoin(TableSupplier):
    """Makes the processor that merges both sides, and keeps the result if the user has named a store."""

    def __init__(self, left: JoinSide, right: JoinSide, store: StoreMaker | None) -> None:
        self.left = left
        self.right = right
        self.store = store

    def __call__(self) -> Processor[Any, Any]:
        return JoinMergeProcessor(None if self.store is None else self.store.name, self.sends_old_values)

    def own_store(self) -> StoreMaker | None:
        return self.store

    def send_old_values(self, *, keep_store: bool) -> bool:
        for side in (self.left, self.right):
            side.this.send_old_values(keep_store=True)
            side.sends_old_values = True
        self.sends_old_values = True
        return True

    def view(self) -> tuple[str, ...]:
        if self.store is not None:
            return (self.store.name,)
        return tuple(dict.fromkeys((*self.left.this.view(), *self.right.this.view())))

    def getter(self, context: ProcessorContext, *, flushed: bool = False) -> Getter:
        if self.store is not None:
            return stored_getter(context, self.store.name, flushed=flushed)
        left = self.left.this.getter(context, flushed=flushed)
        right = self.right.this.getter(context, flushed=flushed)
        joined = self.left.joined

        def get(key: Any) -> ValueAndTimestamp[Any] | None:
            this = left(key)
            if this is None:
                return None
            other = right(key)
            value = joined(this.value, None if other is None else other.value)
            if value is None:
                return None
            newest_ms = this.timestamp_ms if other is None else max(this.timestamp_ms, other.timestamp_ms)
            return ValueAndTimestamp(value, newest_ms)

        return get


class JoinMergeProcessor(ForwardingProcessor[Any, Any]):
    def __init__(self, store: str | None, sends_old_values: bool) -> None:
        super().__init__()
        self._store_name = store
        self._sends_old_values = sends_old_values
        self._put: Any = None
        self._held_back = False

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        if self._store_name is not None:
            store = context.state_store(self._store_name)
            self._put = store.put
            self._held_back = forwards_when_flushed(context, store, sends_old_values=self._sends_old_values)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        key, (new, _), timestamp_ms, headers = record
        if self._put is not None:
            self._put(key, None if new is None else ValueAndTimestamp(new, timestamp_ms))
        if self._held_back:
            return
        if self._sends_old_values:
            self.forward(record)
        else:
            self.forward(Record(key, Change(new), timestamp_ms, headers))
