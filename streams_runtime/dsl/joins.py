"""Joins by key: each record of a stream with a table's present value, and two tables with each other.

A record of a stream is joined with the table's value at that moment; an update of the table makes no result. A join of
two tables has one node for each side, and a node that merges the results of both sides, as in Kafka. For an update of
one table, its key is looked up in the other table. The timestamp of a result is the higher one of its two values'
timestamps.
Source: `KStreamKTableJoinProcessor` without grace period, `KTableKTableInnerJoin`, `KTableKTableLeftJoin`,
`KTableKTableRightJoin`, `KTableKTableJoinMerger`. Differs from Kafka: if two records delete a key in both tables
between two flushes of their record caches, the key leaves the result of an inner join. In Kafka each side finds no
value in the other table and forwards no result, so the row stays. In this project, the row of a deleted key stays only
if one record deletes the key in both tables, which happens when a table is joined with itself.

As in Kafka, a row also stays if one table puts and deletes a key between two of its flushes, and the other table
forwards a change of that key between the put and the delete. The other table's change is joined with the value that was
put. The first table never forwards this value, so no later change of the first table removes the joined row.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.materialized import StoreFactory
from streams_runtime.dsl.table_operators import Getter, TableOperator
from streams_runtime.processors.context import NodeContext, Operator, Receiver

Joiner = Callable[[Any, Any], Any]
"""The type of a function that returns the result for the two joined values. In a left join, a value is None if the join
does not find it.
"""


def joining_table(table: TableOperator, joiner: Joiner, child: Receiver, context: NodeContext) -> Receiver:
    """Leaves out records without key or value, and records whose key is not in the table."""
    get = table.getter(context)

    def join(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if key is None or value is None:
            context.drop(DropReason.NULL_KEY_OR_VALUE, "null join key or value")
            return
        found = get(key)
        if found is not None:
            child(key, joiner(value, found[1]), timestamp_ms, headers)

    return join


def left_joining_table(table: TableOperator, joiner: Joiner, child: Receiver, context: NodeContext) -> Receiver:
    """Leaves out records without value. A record without key is joined with None (KIP-962)."""
    get = table.getter(context)

    def left_join(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if value is None:
            context.drop(DropReason.NULL_KEY_OR_VALUE, "null join key or value")
            return
        found = None if key is None else get(key)
        child(key, joiner(value, None if found is None else found[1]), timestamp_ms, headers)

    return left_join


@dataclass(eq=False, repr=False)
class JoinSide(Operator):
    """One side of a join of two tables. `joiner` takes this side's value first.

    `needs_this`, `needs_other`: whether a result needs the value of this side, and of the other side. An inner join
    needs both values. A left join needs the value of its left table; for the right side of the join, the left table is
    the other table.
    """

    this: TableOperator
    other: TableOperator
    joiner: Joiner
    needs_this: bool = field(kw_only=True)
    needs_other: bool = field(kw_only=True)
    sends_old_values: bool = field(default=False, init=False)

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        get_other, get_flushed_other = self.other.getter(context), self.other.getter(context, flushed=True)
        joined, wants_old = self.joined, self.sends_old_values
        needs_other, needs_both = self.needs_other, self.needs_this and self.needs_other

        def join(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                context.drop(DropReason.NULL_KEY, "null key")
                return
            new, old = change
            found = get_other(key)
            if found is None and new is None and needs_both:
                # Both tables have deleted the key since the last flush of the other table. The result still has the row
                # that was joined from the values before these deletes, so the row has to be removed.
                found = get_flushed_other(key)
            if found is None and (needs_other or (new is None and old is None)):
                return
            other = None
            if found is not None:
                other_ms, other = found
                timestamp_ms = max(timestamp_ms, other_ms)
            child(key, (joined(new, other), joined(old, other) if wants_old else None), timestamp_ms, headers)

        return join

    def joined(self, value: Any, other: Any) -> Any:
        """The result of the two values; None if a value is missing that the result needs."""
        if (value is None and self.needs_this) or (other is None and self.needs_other):
            return None
        return self.joiner(value, other)


def inner_join(left: TableOperator, right: TableOperator, joiner: Joiner) -> tuple[JoinSide, JoinSide]:
    """The sides of a join for the keys that both tables have."""
    return (
        JoinSide(left, right, joiner, needs_this=True, needs_other=True),
        JoinSide(right, left, partial(_reversed, joiner), needs_this=True, needs_other=True),
    )


def left_join(left: TableOperator, right: TableOperator, joiner: Joiner) -> tuple[JoinSide, JoinSide]:
    """Returns the sides of a join for all keys of the left table. From now on, the left table sends old values."""
    left.send_old_values(keep_store=True)
    return (
        JoinSide(left, right, joiner, needs_this=True, needs_other=False),
        JoinSide(right, left, partial(_reversed, joiner), needs_this=False, needs_other=True),
    )


def _reversed(joiner: Joiner, value: Any, other: Any) -> Any:
    """The result of a joiner that takes the right side's value first."""
    return joiner(other, value)


class KTableKTableJoin(TableOperator):
    """Merges the results of both sides. The results are kept in a store if the user has named one."""

    def __init__(self, left: JoinSide, right: JoinSide, store: StoreFactory | None) -> None:
        super().__init__(store)
        self.left = left
        self.right = right

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        wants_old = self.sends_old_values
        entries, forwards_on_flush, current = None, False, context.current
        if self.store is not None:
            entries, forwards_on_flush = self.opened(child, context)

        def merge(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new, old = change
            if entries is not None:
                current.timestamp_ms, current.headers = timestamp_ms, headers
                entries.put(
                    entries.stored_key_of(key), None if new is None else entries.write(timestamp_ms, new), timestamp_ms
                )
            if not forwards_on_flush:
                child(key, (new, old if wants_old else None), timestamp_ms, headers)

        return merge

    def send_old_values(self, *, keep_store: bool) -> bool:
        for side in (self.left, self.right):
            side.this.send_old_values(keep_store=True)
            side.sends_old_values = True
        self.sends_old_values = True
        return True

    def view(self) -> tuple[str, ...]:
        if self.store is not None:
            return super().view()
        return tuple(dict.fromkeys((*self.left.this.view(), *self.right.this.view())))

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        if self.store is not None:
            return super().getter(context, flushed=flushed)
        left = self.left.this.getter(context, flushed=flushed)
        right = self.right.this.getter(context, flushed=flushed)
        joined = self.left.joined

        def get(key: Any) -> tuple[int, Any] | None:
            found, other = left(key), None
            if found is None:
                return None
            newest_ms, this = found
            found = right(key)
            if found is not None:
                other_ms, other = found
                newest_ms = max(newest_ms, other_ms)
            value = joined(this, other)
            return None if value is None else (newest_ms, value)

        return get
