"""Joins by key. A join has a stream and a table as inputs, or two tables.

In a join of a stream with a table, each record is joined with the table's present value. If the table is versioned, the
record is joined with the value that was valid at the timestamp of the record. A join of a stream with a table makes
results only for records of the stream. A change of the table makes no result. As in Kafka, a join of two tables has one
node for each side, and a third node that merges the results. When the value of a key changes in one table, the node of
this side looks up the key in the other table. The timestamp of a result is the higher timestamp of the two joined
values.
Source: `KStreamKTableJoinProcessor`, `KTableKTableInnerJoin`, `KTableKTableLeftJoin`, `KTableKTableRightJoin`,
`KTableKTableOuterJoin`, `KTableKTableJoinMerger`. Differs from Kafka: in an inner join with record caches, a key may be
deleted from both tables between two flushes. This project then removes the key from the result. In Kafka, the key stays
in the result, because neither side finds a value of the key in the other table. A join of a table with itself is an
exception: one record deletes a key from both sides, and the key stays in the result, as in Kafka.

As in Kafka, a deleted key also stays in the result in the following case. Between two flushes, a key is added to the
first table, and then removed from this table. Between these two changes, the second table forwards a change of the key.
This change is joined with the first table's value, so the key is added to the result. The first table never forwards
its short-lived value, so its flush does not forward the removal of the key either.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from assignor.errors import StreamsError
from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.change import in_order_of
from streams_runtime.dsl.materialized import StoreFactory
from streams_runtime.dsl.table_operators import Getter, GetterAsOf, TableOperator, leaving_out_of_order
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.state_stores.join_buffer import JoinBuffer

Joiner = Callable[[Any, Any, Any], Any]
"""The type of a function that gets a key and its two values, and returns the result. In a left join, the right value is
None if the right table does not have the key. In an outer join, one of the two values may be None.
"""


def joiner_with_key(joiner: Callable[..., Any], with_key: bool = False) -> Joiner:
    """Converts the joiner of a DSL call to a `Joiner`. `with_key`: True if the first argument of the user's joiner is
    the key. Source: `AbstractStream.toValueJoinerWithKey`.
    """
    return joiner if with_key else partial(_without_key, joiner)


def _without_key(joiner: Callable[[Any, Any], Any], key: Any, left: Any, right: Any) -> Any:
    return joiner(left, right)


class TableLookup(NamedTuple):
    """The way in which a join of a stream with a table finds the table's value for a record. `get_as_of`: reads a
    versioned table as of the record's timestamp; None for other tables. `selector`: a function (key, value) that
    returns the key to find; None to find the record's key.
    """

    get: Getter
    get_as_of: GetterAsOf | None = None
    selector: Callable[[Any, Any], Any] | None = None


def joining_table(
    table: TableOperator, joiner: Joiner, is_left: bool, child: Receiver, context: NodeContext
) -> Receiver:
    """Joins each record with the value of its key in the table. See `joining_found`."""
    get_as_of = None if table.history_retention_ms is None else table.getter_as_of(context)
    return joining_found(TableLookup(table.getter(context), get_as_of), joiner, is_left, child, context)


def joining_found(
    lookup: TableLookup, joiner: Joiner, is_left: bool, child: Receiver, context: NodeContext
) -> Receiver:
    """Joins each record of a stream with a value of a table. A record is left out if it has no value, or if the table
    does not have the key to find. A left join joins a record with None if the table does not have this key, or if there
    is no key to find (KIP-962). Source: `KStreamKTableJoinProcessor`.
    """
    get, get_as_of, selector = lookup

    def join(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        wanted = key if selector is None else selector(key, value)
        if value is None or (wanted is None and not is_left):
            context.drop(DropReason.NULL_KEY_OR_VALUE, "null join key or value")
            return
        found = None
        if wanted is not None:
            found = get(wanted) if get_as_of is None else get_as_of(wanted, timestamp_ms)
        if found is not None:
            child(key, joiner(key, value, found[1]), timestamp_ms, headers)
        elif is_left:
            child(key, joiner(key, value, None), timestamp_ms, headers)

    return join


def waiting(
    join: Callable[..., Receiver], fails_without_key: bool, buffer_name: str, child: Receiver, context: NodeContext
) -> Receiver:
    """Lets each record wait in a buffer for the grace period before it is joined. A record that is too late to wait is
    joined at once. As in Kafka, records leave the buffer only when another record has been put into it.

    `join`: `joining_table` with its arguments before `child` and `context`.
    `fails_without_key`: True for a left join, which, as in Kafka, fails for a record that has a value but no key.
    Source: `KStreamKTableJoinProcessor` with grace period; KIP-923.
    """
    joined = join(context.guarded(child), context)
    joined_later = context.delayed_forwarder(joined)
    buffer: JoinBuffer[Any, Any] = context.state_store(buffer_name)
    current = context.current

    def wait(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if key is None or value is None:
            if fails_without_key and value is not None:
                raise StreamsError("key cannot be null")
            joined(key, value, timestamp_ms, headers)  # the join drops the record
            return
        current.timestamp_ms, current.headers = timestamp_ms, headers
        if not buffer.put(key, value, context.record_context()):
            joined(key, value, timestamp_ms, headers)
            return
        for waiting_key, waiting_value, made_by in buffer.evict():
            joined_later(waiting_key, waiting_value, made_by)

    return wait


@dataclass(eq=False, repr=False)
class JoinSide(Operator):
    """One side of a join of two tables. `joiner`: a function that returns the result; its arguments are the key, the
    value of this side and the value of the other side.

    `needs_this`: True if a result needs a value of this side. `needs_other`: True if a result needs a value of the
    other side. An inner join needs the values of both sides. A left join needs only the value of the left table. An
    outer join needs the value of at least one side.
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
                # After the last flush of the other table, the key was deleted from both tables. The result still
                # contains the old joined value of the key, so the key has to be removed from the result.
                found = get_flushed_other(key)
            if found is None and (needs_other or (new is None and old is None)):
                return
            other = None
            if found is not None:
                other_ms, other = found
                timestamp_ms = max(timestamp_ms, other_ms)
            old_joined = joined(key, old, other) if wants_old else None
            child(key, in_order_of(change, joined(key, new, other), old_joined), timestamp_ms, headers)

        return leaving_out_of_order(self.this, join, context)

    def joined(self, key: Any, value: Any, other: Any) -> Any:
        """Returns the joined value, or None if a needed value is None, or if both values are None."""
        if (value is None and self.needs_this) or (other is None and (self.needs_other or value is None)):
            return None
        return self.joiner(key, value, other)


def join_sides(
    left: TableOperator, right: TableOperator, joiner: Joiner, needs: tuple[bool, bool]
) -> tuple[JoinSide, JoinSide]:
    """Returns the two sides of a join. `needs`: for the left and the right table, True if a result needs a value of it.
    Tells a table whose entries are also joined with None to forward old values.
    """
    needs_left, needs_right = needs
    if not needs_right:
        left.send_old_values(keep_store=True)
    if not needs_left:
        right.send_old_values(keep_store=True)
    return (
        JoinSide(left, right, joiner, needs_this=needs_left, needs_other=needs_right),
        JoinSide(right, left, partial(join_reversed, joiner), needs_this=needs_right, needs_other=needs_left),
    )


def join_reversed(joiner: Joiner, key: Any, value: Any, other: Any) -> Any:
    """Calls the joiner for the right side of a join, with the two values in reverse order."""
    return joiner(key, other, value)


class KTableKTableJoin(TableOperator):
    """Merges the results of the two sides of a join into one table. The table has a store if the user has named a
    store.
    """

    def __init__(self, left: JoinSide, right: JoinSide, store: StoreFactory | None) -> None:
        super().__init__(store)
        self.left = left
        self.right = right

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        wants_old = self.sends_old_values
        entries, forwards_on_flush, current = None, False, context.current
        if self.store is not None:
            entries, forwards_on_flush = self.opened(child, context)
            child = self.after_put(child, context)

        def merge(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new, old = change
            result = (new, old if wants_old else None)
            if entries is None:
                child(key, in_order_of(change, *result), timestamp_ms, headers)
                return
            current.timestamp_ms, current.headers = timestamp_ms, headers
            stored = None if new is None else entries.write(timestamp_ms, new)
            entries.put(entries.stored_key_of(key), stored, timestamp_ms)
            if not forwards_on_flush:
                child(key, result, timestamp_ms, headers)

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
        joined, needs_left = self.left.joined, self.left.needs_this

        def get(key: Any) -> tuple[int, Any] | None:
            newest_ms, this, other = -1, None, None
            found = left(key)
            if found is not None:
                newest_ms, this = found
            elif needs_left:
                return None
            found = right(key)
            if found is not None:
                other_ms, other = found
                newest_ms = max(newest_ms, other_ms)
            value = joined(key, this, other)
            return None if value is None else (newest_ms, value)

        return get
