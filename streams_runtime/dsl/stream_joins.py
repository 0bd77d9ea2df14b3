"""Joins of two streams. Two records are joined if they have the same key, and if the difference of their timestamps is
within the `JoinWindows`. The timestamp of a result is the higher timestamp of the two records.

Each side of a join has two nodes. The first node forwards a record to the second node, and then puts the record into
the window store of its side. The second node joins the record with the records in the window store of the other side. A
fifth node merges the results of both sides.

In a left or outer join, a record without a partner is joined with None when its window closes. Until then, the record
is in a store that both sides share. A window closes when stream time exceeds its end plus the grace period. Stream time
is the highest timestamp of both sides. If the window has ended before the record comes, the record is joined with None
at once, and so is a record without key (KIP-962). A record without value is left out, and so is a record without key in
an inner join.

When a record has the highest timestamp so far, the join scans this store, and joins the records of closed windows with
None. As in Kafka, the next scan waits until the record at which the last scan ended has a closed window. If `before_ms`
and `after_ms` differ, the window of a record of the other side may close earlier. That record is then joined with None
later than possible.

A join of a stream with itself needs only one window store and one node under the optimization
`single.store.self.join`. A left join or an outer join then has the results of an inner join, because each record is its
own partner.
Source: `KStreamImplJoin`, `KStreamJoinWindow`, `KStreamKStreamJoin`, `KStreamKStreamSelfJoin`, `StreamStreamJoinNode`,
`StreamJoined`, `StreamJoinedStoreFactory`, `OuterStreamJoinStoreFactory`. Differs from Kafka: Kafka scans the store at
most once in a second of wall-clock time, so its results depend on the speed of the machine. If a call has no serde, the
stores use the serdes of the streams. In Kafka, the stores then use the default serdes. If the joiner fails for a record
without partner, Kafka repeats the result before this record in the next scan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from assignor.errors import IllegalArgumentError, TopologyError
from assignor.topology.internal_topics import CLEANUP_POLICY
from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.graph_nodes import GraphNode, ProcessorGraphNode
from streams_runtime.dsl.join_options import GivenJoin
from streams_runtime.dsl.joins import Joiner, join_reversed
from streams_runtime.dsl.materialized import checked_settings
from streams_runtime.dsl.naming import checked_name
from streams_runtime.dsl.stream_processors import StreamOperator, passing_on
from streams_runtime.dsl.windows import JoinWindows
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import Serde
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.builders import window_store
from streams_runtime.state_stores.list_value_store import (
    NOT_SCANNED_MS,
    LeftOrRightValue,
    LeftOrRightValuesSerde,
    ListValueStore,
    ListValueStoreBuilder,
    TimestampedKeyAndJoinSide,
    TimestampedKeyAndJoinSideSerde,
)
from streams_runtime.state_stores.state_store import StoreBuilder
from streams_runtime.state_stores.window import WindowStore

if TYPE_CHECKING:
    from streams_runtime.dsl.streams_graph import Stage


def putting_into_window(store: str, child: Receiver, context: NodeContext) -> Receiver:
    """Forwards each record to its side of the join, and then puts it into the window store of its side."""
    window: WindowStore[Any, Any] = context.state_store(store)
    hand_on, put, current = context.guarded(child), window.put, context.current

    def join_window(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        hand_on(key, value, timestamp_ms, headers)
        if key is not None:
            current.timestamp_ms, current.headers = timestamp_ms, headers
            put(key, value, timestamp_ms)

    return join_window


@dataclass(eq=False, repr=False)
class KStreamKStreamJoin(Operator):
    """One side of a join.

    `joiner`: a function with the arguments (key, left value, right value). `other_store`: the name of the window store
    of the other side. `shared_store`: the name of the store of both sides for records without a partner; None for an
    inner join. `keeps_unjoined`: True if a record of this side is joined with None if it has no partner.
    """

    windows: JoinWindows
    joiner: Joiner
    other_store: str
    shared_store: str | None
    is_left: bool = field(kw_only=True)
    keeps_unjoined: bool = field(kw_only=True)

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        other_window: WindowStore[Any, Any] = context.state_store(self.other_store)
        fetch_range, hand_on, current = other_window.fetch_range, context.guarded(child), context.current
        unjoined: ListValueStore | None = None
        if self.shared_store is not None:
            unjoined = context.state_store(self.shared_store)
        times = None if unjoined is None else unjoined.times
        is_left, keeps_unjoined = self.is_left, self.keeps_unjoined
        joined, before_ms, after_ms = self.joiner, self.windows.before_ms, self.windows.after_ms
        if not is_left:
            joined, before_ms, after_ms = partial(join_reversed, joined), after_ms, before_ms

        def join(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if times is not None and timestamp_ms > times.stream_time_ms:
                times.stream_time_ms = timestamp_ms
            if key is None and value is not None and keeps_unjoined:
                child(None, joined(None, value, None), timestamp_ms, headers)
                return
            if key is None or value is None:
                context.drop(DropReason.NULL_KEY_OR_VALUE, "null key or value")
                return
            if unjoined is not None and timestamp_ms == unjoined.times.stream_time_ms:
                current.timestamp_ms, current.headers = timestamp_ms, headers
                self._join_closed_with_none(unjoined, after_ms, hand_on, context)
            to_ms = max(0, timestamp_ms + after_ms)
            has_partner = False
            for other_ms, other in fetch_range(key, timestamp_ms - before_ms, to_ms):
                has_partner = True
                if unjoined is not None:
                    current.timestamp_ms, current.headers = timestamp_ms, headers
                    unjoined.delete_if_present(TimestampedKeyAndJoinSide(key, other_ms, not is_left))
                hand_on(key, joined(key, value, other), max(timestamp_ms, other_ms), headers)
            if has_partner or not keeps_unjoined:
                return
            assert unjoined is not None
            if to_ms < unjoined.times.stream_time_ms:
                child(key, joined(key, value, None), timestamp_ms, headers)
            else:
                unjoined.times.scan_from_ms = min(unjoined.times.scan_from_ms, timestamp_ms)
                current.timestamp_ms, current.headers = timestamp_ms, headers
                unjoined.append(TimestampedKeyAndJoinSide(key, timestamp_ms, is_left), LeftOrRightValue(value, is_left))

        return join

    def _join_closed_with_none(
        self, unjoined: ListValueStore, after_ms: int, hand_on: Receiver, context: NodeContext
    ) -> None:
        """Forwards the records of closed windows, joined with None, and deletes them from the store. `after_ms`: the
        part of a window after a record of this side.
        """
        times, joiner, grace_ms = unjoined.times, self.joiner, self.windows.grace_ms
        is_scanned = times.scan_from_ms != NOT_SCANNED_MS
        if is_scanned and times.scan_from_ms + after_ms + grace_ms >= times.stream_time_ms:
            return
        current, deleted_ms = context.current, -1
        timestamp_ms, headers = current.timestamp_ms, current.headers
        closed_ms = times.stream_time_ms - grace_ms
        closed = unjoined.entries_before(closed_ms - self.windows.before_ms, closed_ms - self.windows.after_ms)
        for stored, values in closed:
            key, deleted_ms, is_left = stored
            times.scan_from_ms = deleted_ms
            for value, _ in values:
                pair = (value, None) if is_left else (None, value)
                hand_on(key, joiner(key, *pair), deleted_ms, headers)
            current.timestamp_ms, current.headers = timestamp_ms, headers
            unjoined.put(stored, None)
        times.scan_from_ms = unjoined.scan_end_ms(deleted_ms)


def joining_itself(store: str, windows: JoinWindows, joiner: Joiner, child: Receiver, context: NodeContext) -> Receiver:
    """Joins the records of a stream with each other. Each record is also joined with itself, unless the record has
    expired in the window store.
    """
    window: WindowStore[Any, Any] = context.state_store(store)
    fetch_range, hand_on = window.fetch_range, context.guarded(child)
    before_ms, after_ms, retention_ms = windows.before_ms, windows.after_ms, windows.retention_ms

    def self_join(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if key is None or value is None:
            context.drop(DropReason.NULL_KEY_OR_VALUE, "null key or value")
            return
        itself = joiner(key, value, value)
        if timestamp_ms > context.stream_time_ms:
            context.stream_time_ms = timestamp_ms
        is_pending = timestamp_ms > context.stream_time_ms - retention_ms + 1
        for other_ms, other in fetch_range(key, timestamp_ms - before_ms, max(0, timestamp_ms + after_ms)):
            hand_on(key, joiner(key, value, other), max(timestamp_ms, other_ms), headers)
        for other_ms, other in fetch_range(key, timestamp_ms - after_ms, max(0, timestamp_ms + before_ms)):
            if is_pending and other_ms > timestamp_ms:  # as in a join with two stores, the results are sorted by time
                is_pending = False
                hand_on(key, itself, timestamp_ms, headers)
            hand_on(key, joiner(key, other, value), max(timestamp_ms, other_ms), headers)
        if is_pending:
            child(key, itself, timestamp_ms, headers)

    return self_join


class JoinStores(NamedTuple):
    """The builders of a join's stores: the window stores of the two streams, and the store for records without a
    partner, which is None in an inner join.
    """

    left: StoreBuilder
    right: StoreBuilder
    shared: StoreBuilder | None


@dataclass(eq=False, repr=False)
class StreamStreamJoinNode(GraphNode):
    """A join of two streams. Its parents in the graph are the two streams. `name`: the name of the node that merges the
    results.

    `put_nodes`: the graph's nodes that put the records of the left and the right stream into the window stores.
    `side_names`: the names of the nodes of the left and the right side.
    """

    put_nodes: tuple[GraphNode, GraphNode]
    side_names: tuple[str, str]
    join: StreamJoin
    stores: JoinStores
    _is_self_join: bool = field(default=False, init=False)

    def use_one_store(self) -> None:
        if len(self.parents) == 1:
            (stream,) = self.parents
            stream.remove_child(self.put_nodes[1])
            self._is_self_join = True

    def write(self, topology: Topology) -> None:
        left_put, right_put = (node.name for node in self.put_nodes)
        left_side, right_side = self.side_names
        left, right, shared = self.stores
        windows, joiner = self.join.windows, self.join.joiner
        if self._is_self_join:
            topology.add_processor(self.name, StreamOperator(joining_itself, left.name, windows, joiner), left_put)
            topology.add_state_store(left, (left_put, self.name))
            return
        shared_name = None if shared is None else shared.name
        sides = (
            KStreamKStreamJoin(
                windows, joiner, right.name, shared_name, is_left=True, keeps_unjoined=self.join.given.keeps_left
            ),
            KStreamKStreamJoin(
                windows, joiner, left.name, shared_name, is_left=False, keeps_unjoined=self.join.given.keeps_right
            ),
        )
        topology.add_processor(left_side, sides[0], left_put)
        topology.add_processor(right_side, sides[1], right_put)
        topology.add_processor(self.name, StreamOperator(passing_on), self.side_names)
        topology.add_state_store(left, (left_put, right_side))
        topology.add_state_store(right, (right_put, left_side))
        if shared is not None:
            topology.add_state_store(shared, self.side_names)


def checked_windows(windows: object) -> JoinWindows:
    """Returns the windows of a join of two streams. Raises TopologyError if they are missing."""
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            f"Invalid topology: a join of two streams needs JoinWindows(before_ms, after_ms, grace_ms), not {windows!r}"
        )
    return windows


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """A join of two streams. `given`: the arguments of the user.

    Raises IllegalArgumentError if the store has another retention than the windows.
    """

    joiner: Joiner
    windows: JoinWindows
    given: GivenJoin

    def __post_init__(self) -> None:
        retention_ms = checked_settings(self.given.store).retention_ms
        if retention_ms not in (None, self.windows.retention_ms):
            raise IllegalArgumentError(
                "Window settings mismatch. The stores of a join keep a record for before_ms + after_ms + grace_ms of "
                f"the windows. This is {self.windows.retention_ms} ms, not {retention_ms} ms"
            )

    @property
    def repartition_names(self) -> tuple[str | None, str | None]:
        """The names of the repartition topics of the left and the right stream; None for a generated name."""
        name = self.given.name
        return (None, None) if name is None else (f"{name}-left", f"{name}-right")

    def added(self, left: Stage[Any, Any], right: Stage[Any, Any]) -> Stage[Any, Any]:
        """Adds the join to the graph. `left`, `right`: the results of `JoinInputs.by_key`."""
        graph, naming, given, name = left.graph, left.graph.naming, self.given, self.given.name
        sources = left.copartition_with(right)
        this_put = naming.name_or_generated(name, "KSTREAM-WINDOWED-", "-this-windowed")
        other_put = naming.name_or_generated(name, "KSTREAM-WINDOWED-", "-other-windowed")
        generated = (
            naming.processor("KSTREAM-OUTERTHIS-" if given.keeps_right else "KSTREAM-JOINTHIS-"),
            naming.processor("KSTREAM-OUTEROTHER-" if given.keeps_left else "KSTREAM-JOINOTHER-"),
        )
        merge = naming.name_or_generated(name, "KSTREAM-MERGE-", "-merge")
        suffixes = (
            "-outer-this-join" if given.keeps_right else "-this-join",
            "-outer-other-join" if given.keeps_left else "-other-join",
        )
        key_serde = left.key_serde or right.key_serde
        shared = naming.with_number_of(generated[0], "KSTREAM-OUTERSHARED-")
        stores = self._stores((*generated, shared), suffixes, (key_serde, left.value_serde, right.value_serde))
        put_nodes = (
            ProcessorGraphNode(this_put, StreamOperator(putting_into_window, stores.left.name)),
            ProcessorGraphNode(other_put, StreamOperator(putting_into_window, stores.right.name)),
        )
        graph.add(put_nodes[0], [left.node])
        graph.add(put_nodes[1], [right.node])
        side_names = generated if name is None else (checked_name(name + suffixes[0]), checked_name(name + suffixes[1]))
        node = StreamStreamJoinNode(merge, put_nodes, side_names, self, stores)
        node.takes_null_keys = given.keeps_left
        graph.add(node, [left.node, right.node])
        return replace(left, node=node, sources=sources, key_serde=key_serde, value_serde=None)

    def _stores(
        self,
        generated: tuple[str, str, str],
        suffixes: tuple[str, str],
        serdes: tuple[Serde[Any] | None, Serde[Any] | None, Serde[Any] | None],
    ) -> JoinStores:
        """Makes the builders of the stores. As in Kafka, the changelogs of the window stores are not compacted, because
        each record in them has a key of its own.
        """
        settings, keys, left_values, right_values = checked_settings(self.given.store), *serdes
        *names, shared_name = (f"{each}-store" for each in generated)
        if (base := settings.name) is not None:
            names = [f"{base}{suffix}-store" for suffix in suffixes]
            shared_name = f"{base}{'-outer' if self.given.keeps_right else '-left'}-shared-join-store"
        changelog = settings.changelog
        if changelog is not None:
            changelog = replace(changelog, configs={**changelog.configs, CLEANUP_POLICY: "delete"})
        left, right = (
            window_store(
                name,
                keys or DefaultSerde("key", name),
                values or DefaultSerde("value", name),
                persistent=settings.persistent,
                changelog=changelog,
                retention_ms=self.windows.retention_ms,
                window_size_ms=self.windows.size_ms,
                retain_duplicates=True,
            )
            for name, values in zip(names, (left_values, right_values), strict=True)
        )
        if not self.given.keeps_left:
            return JoinStores(left, right, None)
        shared = ListValueStoreBuilder(
            shared_name,
            TimestampedKeyAndJoinSideSerde(keys or DefaultSerde("key", shared_name)),
            LeftOrRightValuesSerde(
                left_values or DefaultSerde("value", shared_name), right_values or DefaultSerde("value", shared_name)
            ),
            persistent=settings.persistent,
            changelog=settings.changelog,
        )
        return JoinStores(left, right, shared)
