"""The join of a table with a table of other keys: each row of the left table names the key of a row of the right table.

The rows of a pair may be in different tasks. So the left table's task sends a subscription to the task of the right
row, which stores the subscription and answers with the right value. A change of a right row is sent to all rows that
have subscribed to the row. Subscriptions and responses go through two internal topics. A response has the hash of the
left value for which it was made. If the left row has changed since, the response is dropped, because the newer value
gets a response of its own. The topology nodes are those of Kafka:

    left table -> SubscriptionSend -> topic -> SubscriptionReceive -> SubscriptionJoin -> topic -> ResponseJoin -> table
                                                      right table -> ForeignTableJoin --------^

`context.task_id.partition` is the partition of the left row, because a task reads the partitions with its own number.

As in Kafka, an inner join may keep a row that it should delete. If a right row is deleted, or if a left row is deleted
and added again, and the left row changes before the response to the deletion arrives, that response is dropped. The
subscription for the new left value then requests a response only if there is a right row. A left join always requests a
response, so it has no such case.
Source: `KTableImpl.doJoinOnForeignKey` and the package `foreignkeyjoin` (KIP-213, KIP-775). Differs from Kafka: the
answer to a subscription ignores changes of the right table that its record cache has not forwarded yet. In Kafka, the
result keeps a right row that is put, joined and deleted between two commits, because its deletion is never forwarded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Generic, Self

from assignor.errors import StreamsError
from streams_runtime.common.losses import DropReason
from streams_runtime.common.murmur3 import murmur3_128
from streams_runtime.common.records import V2, Headers, K
from streams_runtime.dsl.graph_nodes import GraphNode, ProcessorGraphNode, StreamSinkNode, StreamSourceNode
from streams_runtime.dsl.materialized import StoreFactory, checked_settings
from streams_runtime.dsl.stream_operations import sink_partitioner
from streams_runtime.dsl.streams_graph import Stage, TableStage
from streams_runtime.dsl.subscriptions import (
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
    subscription_prefix,
)
from streams_runtime.dsl.table_operations import ResultingTable
from streams_runtime.dsl.table_operators import KTableSource, TableOperator, leaving_out_of_order
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.processors.api import StreamPartitioner
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.processors.topology import Topology, check_functions
from streams_runtime.serdes import BYTES, Serde, WithInnerSerdes, serde_for_topic, serializer_of
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.builders import timestamped_key_value_store
from streams_runtime.state_stores.key_value import TimestampedKeyValueStore

_FK_JOIN = "KTABLE-FK-JOIN-"


@dataclass(frozen=True, slots=True)
class _JoinSerdes(WithInnerSerdes):
    """The serdes of a foreign-key join. `topic`: the name of the subscription topic without the application id.

    As in Kafka, the serde of the left keys gets `topic` with the suffix -pk as its topic, the serde of the right keys
    gets the suffix -fk, and the serde of the hashed left values gets the suffix -vh. So a hash does not depend on the
    topics from which the tasks have read the value.
    """

    topic: str
    primary_key: Serde[Any]
    foreign_key: Serde[Any]
    hashed_value: Serde[Any]

    def primary_key_serde(self, context: NodeContext) -> Serde[Any]:
        return serde_for_topic(self.primary_key, f"{context.application_id}-{self.topic}-pk", is_key=True)

    def foreign_key_serializer(self, context: NodeContext) -> Callable[[Any], bytes]:
        serde = serde_for_topic(self.foreign_key, f"{context.application_id}-{self.topic}-fk", is_key=True)
        return serializer_of(serde)

    def value_hash(self, context: NodeContext) -> Callable[[Any], bytes]:
        """Returns a function that returns the hash of a left value."""
        serde = serde_for_topic(self.hashed_value, f"{context.application_id}-{self.topic}-vh", is_key=False)
        serialize = serializer_of(serde)
        return lambda value: murmur3_128(serialize(value))


@dataclass(frozen=True)
class _WithSerdes(Operator):
    """The base of the operators of this file. `with_inner` lets the application replace missing serdes."""

    serdes: _JoinSerdes

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> Self:
        return replace(self, serdes=self.serdes.with_inner(change))


@dataclass(frozen=True)
class SubscriptionSend(_WithSerdes):
    """Sends a subscription for each change of the left table. If the row names another key than before, the old
    subscription is deleted first.

    `foreign_key`: a function (key, value) that returns the key of the right row; None for a row without a right row. An
    inner join drops a new value without a right key, and deletes the row of the result if there may be one. A left join
    sends a subscription without a right key, and the response joins the row with None.
    """

    table: TableOperator
    foreign_key: Callable[[Any, Any], Any]
    is_left: bool

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        foreign_key_of, is_left, send_on = self.foreign_key, self.is_left, context.guarded(child)
        write_key = serializer_of(self.serdes.primary_key_serde(context))
        write_foreign_key, hash_of = self.serdes.foreign_key_serializer(context), self.serdes.value_hash(context)
        partition = context.task_id.partition

        def send(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            new, old = change
            if new is None and old is None:
                return
            old_key = None if old is None else foreign_key_of(key, old)
            new_key = None if new is None else foreign_key_of(key, new)
            if new_key is None and not is_left:
                if new is not None:
                    context.drop(DropReason.NULL_FOREIGN_KEY, "null foreign key")
                if old_key is None:
                    return
            primary_key, value_hash = write_key(key), None if new is None else hash_of(new)

            def subscribe(foreign_key: Any, instruction: Instruction) -> None:
                subscription = SubscriptionWrapper(value_hash, instruction, primary_key, partition)
                send_on(foreign_key, subscription, timestamp_ms, headers)

            is_moved = old_key is not None and (
                new_key is None or write_foreign_key(new_key) != write_foreign_key(old_key)
            )
            if is_left:
                if is_moved:
                    subscribe(old_key, Instruction.DELETE_KEY_NO_PROPAGATE)
                subscribe(new_key, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)
            elif new_key is None:
                subscribe(old_key, Instruction.DELETE_KEY_AND_PROPAGATE)
            elif is_moved:
                subscribe(old_key, Instruction.DELETE_KEY_NO_PROPAGATE)
                # The result may contain a row of the old key, so the response is needed even without a right row.
                subscribe(new_key, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)
            else:
                subscribe(new_key, Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE)

        return leaving_out_of_order(self.table, send, context)


@dataclass(frozen=True)
class SubscriptionReceive(_WithSerdes):
    """Stores and deletes subscriptions, and forwards each of them. A subscription without a right key is not stored."""

    store: str

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        entries = context.state_store(self.store).entry_access()
        put, write, current = entries.put, entries.write, context.current
        write_foreign_key = self.serdes.foreign_key_serializer(context)

        def receive(key: Any, subscription: SubscriptionWrapper, timestamp_ms: int, headers: Headers) -> None:
            instruction = subscription.instruction
            if key is not None:
                current.timestamp_ms, current.headers = timestamp_ms, headers
                stored_key = subscription_prefix(write_foreign_key(key)) + subscription.primary_key
                put(stored_key, None if instruction.deletes else write(timestamp_ms, subscription), timestamp_ms)
            elif instruction is not Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE:
                context.drop(DropReason.NULL_FOREIGN_KEY, "null foreign key")
                return
            child(key, subscription, timestamp_ms, headers)

        return receive


@dataclass(frozen=True)
class SubscriptionJoin(_WithSerdes):
    """Answers a subscription with the present value of the right row."""

    other: TableOperator

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        # A row that is put and deleted between two flushes is never forwarded, so the answer must not contain it.
        get, read_key = self.other.getter(context, flushed=True), self.serdes.primary_key_serde(context).deserialize

        def join(key: Any, subscription: SubscriptionWrapper, timestamp_ms: int, headers: Headers) -> None:
            instruction, found = subscription.instruction, None if key is None else get(key)
            if instruction is Instruction.DELETE_KEY_NO_PROPAGATE:
                return
            if found is None and instruction is Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE:
                return
            foreign_value = None
            if found is not None:
                timestamp_ms = max(timestamp_ms, found[0])
                if instruction is not Instruction.DELETE_KEY_AND_PROPAGATE:
                    foreign_value = found[1]
            child(read_key(subscription.primary_key), subscription.response(foreign_value), timestamp_ms, headers)

        return join


@dataclass(frozen=True)
class ForeignTableJoin(_WithSerdes):
    """Sends each change of a right row to all left rows that have subscribed to it."""

    store: str
    table: TableOperator

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        store: TimestampedKeyValueStore[bytes, SubscriptionWrapper] = context.state_store(self.store)
        scan, read, send_on = store.stored_prefix_scan, store.entry_access().read, context.guarded(child)
        write_foreign_key = self.serdes.foreign_key_serializer(context)
        read_key = self.serdes.primary_key_serde(context).deserialize

        def join(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                context.drop(DropReason.NULL_KEY, "null key")
                return
            new = change[0]
            for _, stored in scan(subscription_prefix(write_foreign_key(key))):
                subscription: SubscriptionWrapper = read(stored)[1]
                send_on(read_key(subscription.primary_key), subscription.response(new), timestamp_ms, headers)

        return leaving_out_of_order(self.table, join, context)


@dataclass(frozen=True)
class ResponseJoin(_WithSerdes):
    """Joins the left value with the right value of a response. Forwards the joined value, or None if the result has no
    row.
    """

    table: TableOperator
    joiner: Callable[[Any, Any, Any], Any]
    is_left: bool

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        get, hash_of = self.table.getter(context), self.serdes.value_hash(context)
        joiner, is_left = self.joiner, self.is_left

        def join(key: Any, response: SubscriptionResponseWrapper, timestamp_ms: int, headers: Headers) -> None:
            found = get(key)
            value = None if found is None else found[1]
            if response.value_hash != (None if value is None else hash_of(value)):
                context.drop(DropReason.OUTDATED_RESPONSE, "a foreign-key response for an older value")
                return
            foreign_value, result = response.foreign_value, None
            if foreign_value is not None or (is_left and value is not None):
                result = joiner(key, value, foreign_value)
            child(key, result, timestamp_ms, headers)

        return join


@dataclass(frozen=True, slots=True)
class _ForeignKeyPartitioner:
    """Calls a partitioner of the user with the key alone. Source: `TableJoined.withPartitioner`."""

    partitioner: StreamPartitioner

    def __post_init__(self) -> None:
        check_functions("a foreign-key join", partitioner=self.partitioner)

    def __call__(self, key: Any, value: object, partitions: int, /) -> Any:
        chosen: Any = self.partitioner(key, None, partitions)
        if isinstance(chosen, Collection):
            if len(chosen) != 1:
                raise StreamsError("The partitioner of a foreign-key join must choose one partition for each record")
            (chosen,) = chosen
        return chosen


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class _PrimaryPartition(WithInnerSerdes, Generic[K]):
    """Sends a response to the partition of the left row. If the subscription has no partition, because an old release
    of Kafka has written it, the hash of the key chooses the partition.
    """

    key_serde: Serde[K]

    def __call__(self, key: K, response: SubscriptionResponseWrapper, partitions: int, /) -> int:
        partition = response.primary_partition
        return partition_of(self.key_serde.serialize(key), partitions) if partition is None else partition


@dataclass(eq=False, repr=False)
class InternalSinkNode(StreamSinkNode):
    """A sink that writes to an internal topic of a foreign-key join."""

    topic: str

    def write(self, topology: Topology) -> None:
        topology.add_repartition_topic(self.topic)
        super().write(topology)


@dataclass(frozen=True, slots=True)
class ForeignKeyJoin:
    """The functions of a foreign-key join. `joiner`: a function (left key, left value, right value). `partitioner`:
    chooses the partition of a left key; None to use the partition of the left row. `other_partitioner`: chooses the
    partition of a right key; None to use Kafka's hash. Source: `TableJoined`.
    """

    foreign_key: Callable[[Any, Any], Any]
    joiner: Callable[[Any, Any, Any], Any]
    is_left: bool
    partitioner: StreamPartitioner | None
    other_partitioner: StreamPartitioner | None


def joined_on_foreign_key(
    table: TableStage[K, Any],
    other: TableStage[Any, Any],
    join: ForeignKeyJoin,
    result: ResultingTable[K, V2],
) -> TableStage[K, V2]:
    """Adds a foreign-key join of two tables. The subscription store is in memory if the store of the result is.

    `result.name`: the beginning of the names of all nodes, of the internal topics and of the subscription store.
    """
    graph, naming, settings = table.graph, table.graph.naming, checked_settings(result.store)
    table.joined_sources(other)  # raises an error for tables of different builders
    other.operator.send_old_values(keep_store=True)
    table.operator.send_old_values(keep_store=True)

    def named(suffix: str, prefix: str) -> str:
        return naming.name_or_generated(result.name, prefix, suffix)

    # The order of the names, and below the order of the nodes, is Kafka's.
    topic = named("-subscription-registration", f"{_FK_JOIN}SUBSCRIPTION-REGISTRATION-") + "-topic"
    send_name = named("-subscription-registration-processor", f"{_FK_JOIN}SUBSCRIPTION-REGISTRATION-")
    sink_name = named("-subscription-registration-sink", "KTABLE-SINK-")
    source_name = named("-subscription-registration-source", "KTABLE-SOURCE-")
    store = named("-subscription-store", f"{_FK_JOIN}SUBSCRIPTION-STATE-STORE-")
    receive_name = named("-subscription-receive", f"{_FK_JOIN}SUBSCRIPTION-PROCESSOR-")
    join_name = named("-subscription-join-foreign", f"{_FK_JOIN}SUBSCRIPTION-PROCESSOR-")
    foreign_name = named("-foreign-join-subscription", f"{_FK_JOIN}SUBSCRIPTION-PROCESSOR-")
    response_topic = named("-subscription-response", f"{_FK_JOIN}SUBSCRIPTION-RESPONSE-") + "-topic"
    response_sink_name = named("-subscription-response-sink", "KTABLE-SINK-")
    response_source_name = named("-subscription-response-source", "KTABLE-SOURCE-")
    resolver_name = named("-subscription-response-resolver", f"{_FK_JOIN}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-")
    result_name = named("-result", f"{_FK_JOIN}OUTPUT-")
    result_store = settings.name or naming.store(f"{_FK_JOIN}OUTPUT-")

    keys, foreign_keys = table.key_serde, other.key_serde
    primary_key = keys or DefaultSerde("key", send_name)
    serdes = _JoinSerdes(
        topic,
        primary_key,
        foreign_keys or DefaultSerde("key", send_name),
        table.value_serde or DefaultSerde("value", send_name),
    )
    subscriptions: Serde[Any] = SubscriptionWrapperSerde()
    responses: Serde[Any] = SubscriptionResponseWrapperSerde(
        other.value_serde or DefaultSerde("value", response_sink_name)
    )
    other_partitioner = join.other_partitioner and _ForeignKeyPartitioner(join.other_partitioner)
    partitioner = _ForeignKeyPartitioner(join.partitioner) if join.partitioner else _PrimaryPartition(primary_key)
    builder = timestamped_key_value_store(store, BYTES, subscriptions, persistent=settings.persistent)

    def added(node: GraphNode, *parents: GraphNode) -> GraphNode:
        graph.add(node, parents)
        return node

    def processed(name: str, operator: Operator, parent: GraphNode, **stores: Any) -> GraphNode:
        return added(ProcessorGraphNode(name, operator, **stores), parent)

    send = processed(send_name, SubscriptionSend(serdes, table.operator, join.foreign_key, join.is_left), table.node)
    chosen = sink_partitioner(foreign_keys, other_partitioner)
    sink = added(InternalSinkNode(sink_name, topic, foreign_keys, subscriptions, chosen), send)
    source = added(StreamSourceNode(source_name, (topic,), foreign_keys, subscriptions, None, None), sink)
    graph.copartition((*other.sources, source_name))
    receive = processed(receive_name, SubscriptionReceive(serdes, store), source, own_store=builder)
    answering = SubscriptionJoin(serdes, other.operator)
    answer = processed(join_name, answering, receive, connected_stores=other.operator.view())
    foreign = processed(foreign_name, ForeignTableJoin(serdes, store, other.operator), other.node, own_store=builder)
    response_sink = InternalSinkNode(response_sink_name, response_topic, keys, responses, partitioner)
    added(response_sink, answer, foreign)
    response_source = StreamSourceNode(response_source_name, (response_topic,), keys, responses, None, None)
    added(response_source, response_sink)
    sources = (*table.sources, response_source_name)
    graph.copartition(sources)
    resolving = ResponseJoin(serdes, table.operator, join.joiner, join.is_left)
    resolver = processed(resolver_name, resolving, response_source, connected_stores=table.operator.view())
    factory = StoreFactory(result_store, result.key_serde or keys, result.value_serde, settings)
    resolved: Stage[K, Any] = Stage(graph, resolver, sources, keys, None)
    operator = KTableSource(factory, kept=settings.name is not None)
    return resolved.make_table(result_name, operator, keys, result.value_serde)
