"""Adds the nodes of a stream's operations to the graph. Each kind of operation has its own function.

An aggregation or a join needs all records of a key in one partition. An operation that may change keys sets
`repartition_required` to True in its result. If `repartition_required` is True for the input of an aggregation or a
join, the records first go through a repartition topic. `name`: the name of the operation's node; None for a generated
name, which is `prefix` with a number. Source: `KStreamImpl`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

from assignor.errors import IllegalArgumentError
from streams_runtime.common.records import K, V
from streams_runtime.dsl.graph_nodes import MergeNode, ProcessorGraphNode, StreamSinkNode
from streams_runtime.dsl.joins import Joiner, joining_table, waiting
from streams_runtime.dsl.materialized import StoreArgument, StoreFactory, checked_settings
from streams_runtime.dsl.naming import checked_name
from streams_runtime.dsl.repartitioning import RepartitionNames, RepartitionNode
from streams_runtime.dsl.stream_processors import StreamOperator, branching, passing_on
from streams_runtime.dsl.streams_graph import Stage, TableStage
from streams_runtime.dsl.table_operators import KTableSource, TableOperator
from streams_runtime.dsl.windows import default_partitioner
from streams_runtime.processors.api import FixedKeyProcessor, StreamPartitioner, TopicNameExtractor
from streams_runtime.processors.context import NodeSupplier, Operator
from streams_runtime.processors.topology import check_supplier, store_names
from streams_runtime.serdes import Serde
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.join_buffer import JoinBufferBuilder


@dataclass(frozen=True, slots=True)
class TableJoin:
    """The arguments of a join of a stream with a table. `grace_ms`: the time for which a record waits before it is
    joined; None to join each record at once.
    """

    joiner: Joiner
    is_left: bool
    grace_ms: int | None


def unchanged(stream: Stage[K, V], prefix: str, supplier: NodeSupplier, name: str | None) -> Stage[K, V]:
    """Adds an operation that forwards some records unchanged and drops the others."""
    return stream.then(ProcessorGraphNode(stream.graph.naming.name_or_generated(name, prefix), supplier))


def with_new_keys(stream: Stage[Any, V], prefix: str, supplier: NodeSupplier, name: str | None) -> Stage[Any, V]:
    node = ProcessorGraphNode(stream.graph.naming.name_or_generated(name, prefix), supplier, changes_key=True)
    return replace(stream.then(node), key_serde=None, repartition_required=True)


def with_new_records(stream: Stage[Any, Any], prefix: str, supplier: NodeSupplier, name: str | None) -> Stage[Any, Any]:
    """Adds an operation that gives records new keys and values."""
    return replace(with_new_keys(stream, prefix, supplier, name), value_serde=None)


def with_new_values(stream: Stage[K, Any], prefix: str, supplier: NodeSupplier, name: str | None) -> Stage[K, Any]:
    node = ProcessorGraphNode(stream.graph.naming.name_or_generated(name, prefix), supplier, changes_value=True)
    return replace(stream.then(node), value_serde=None)


def as_table(stream: Stage[K, V], store: StoreArgument, name: str | None) -> TableStage[K, V]:
    """Adds a table with the newest value of every key. If keys may have changed, the stream is repartitioned first, so
    that one task gets all records of a key. If the names are generated, the table's node gets a lower number than the
    table's store.
    """
    settings, naming, prefix = checked_settings(store), stream.graph.naming, "KSTREAM-TOTABLE-"
    node_name = naming.name_or_generated(name, prefix)
    store_name = settings.name or naming.store(prefix)
    keys, values = stream.key_serde, stream.value_serde
    if stream.repartition_required:
        names = RepartitionNames.of_stream(naming, node_name)
        stream = stream.repartitioned(RepartitionNode(names, keys, values))
    factory = StoreFactory(store_name, keys, values, settings)
    return stream.make_table(node_name, KTableSource(factory, kept=settings.name is not None), keys, values)


def processed(
    stream: Stage[Any, Any], supplier: NodeSupplier, stores: Sequence[str], name: str | None
) -> Stage[Any, Any]:
    """Adds a processor of the user. The processor may change keys and values, so `optimize` never moves a repartition
    topic above it.

    Differs from Kafka: Kafka moves repartition topics above the processor unless `__enable.process.processValue.fix__`
    is set (KAFKA-19668). If the processor below a moved topic changes the key of a record, Kafka aggregates the record
    in the partition of its old key.
    """
    naming = stream.graph.naming
    node_name = naming.processor("KSTREAM-PROCESSOR-") if name is None else checked_name(name)
    node = ProcessorGraphNode(
        node_name, supplier, connected_stores=store_names(stores), changes_key=True, changes_value=True
    )
    return replace(stream.then(node), key_serde=None, value_serde=None, repartition_required=True)


def values_processed(
    stream: Stage[K, Any], supplier: NodeSupplier, stores: Sequence[str], name: str | None
) -> Stage[K, Any]:
    """Adds a `FixedKeyProcessor` of the user.

    Differs from Kafka: `optimize` never moves a repartition topic above the processor, because the topic has the serde
    of the processor's result. Kafka moves the topic, as `processed` describes.
    """
    naming = stream.graph.naming
    node_name = naming.processor("KSTREAM-PROCESSVALUES-") if name is None else checked_name(name)
    check_supplier(node_name, supplier, FixedKeyProcessor)
    node = ProcessorGraphNode(node_name, supplier, connected_stores=store_names(stores), changes_value=True)
    return replace(stream.then(node), value_serde=None)


def merged(stream: Stage[K, V], other: Stage[K, V], name: str | None) -> Stage[K, V]:
    """Adds a merge of two streams. The result has no serdes, because the two streams may have different serdes."""
    sources = stream.joined_sources(other)
    node = MergeNode(stream.graph.naming.name_or_generated(name, "KSTREAM-MERGE-"), StreamOperator(passing_on))
    stream.graph.add(node, [stream.node, other.node])
    required = stream.repartition_required or other.repartition_required
    return Stage(stream.graph, node, sources, None, None, repartition_required=required)


def add_sink(
    stream: Stage[Any, Any], topic: str | TopicNameExtractor, partitioner: StreamPartitioner | None, name: str | None
) -> None:
    """Adds a sink that writes the stream to a topic, or to the topics that a function chooses."""
    keys = stream.key_serde
    node_name = stream.graph.naming.name_or_generated(name, "KSTREAM-SINK-")
    stream.then(StreamSinkNode(node_name, topic, keys, stream.value_serde, sink_partitioner(keys, partitioner)))


def sink_partitioner(key_serde: Serde[Any] | None, given: StreamPartitioner | None) -> StreamPartitioner | None:
    """Returns the partitioner of a sink: the given one, or the partitioner that chooses the partition of a windowed key
    by the key without its window, or None for Kafka's hash of the key.
    """
    return default_partitioner(key_serde) if given is None else given


def repartitioned(
    stream: Stage[K, V], partitions: int | None, partitioner: StreamPartitioner | None, name: str | None
) -> Stage[K, V]:
    """Adds a repartition topic for `KStream.repartition`."""
    naming = stream.graph.naming
    prefix = naming.processor("KSTREAM-REPARTITION-") if name is None else checked_name(name)
    node = RepartitionNode(
        RepartitionNames.of_stream(naming, prefix),
        stream.key_serde,
        stream.value_serde,
        mergeable=False,
        partitions=partitions,
        partitioner=partitioner,
    )
    return stream.repartitioned(node)


def joined(stream: Stage[K, Any], table: TableStage[K, Any], join: TableJoin, name: str | None) -> Stage[K, Any]:
    """Adds a join of a stream with a table. `stream`: the result of `JoinInputs.by_key`. Raises IllegalArgumentError if
    a join with a grace period has no versioned table, or if its history retention is shorter than the grace period.
    """
    sources = stream.copartition_with(table)
    prefix = "KSTREAM-LEFTJOIN-" if join.is_left else "KSTREAM-JOIN-"
    node_name = stream.graph.naming.name_or_generated(name, prefix)
    stores, buffer = table.operator.view(), None
    receiver = partial(joining_table, table.operator, join.joiner, join.is_left)
    supplier: Operator = StreamOperator(receiver)
    if join.grace_ms is not None:
        _check_grace(join.grace_ms, table.operator)
        keys, values = stream.key_serde, stream.value_serde
        name = f"{node_name}-Buffer"
        serdes = keys or DefaultSerde("key", name), values or DefaultSerde("value", name)
        buffer = JoinBufferBuilder(name, *serdes, grace_ms=join.grace_ms)
        supplier = StreamOperator(waiting, receiver, join.is_left, name)
    node = ProcessorGraphNode(node_name, supplier, connected_stores=stores, own_store=buffer)
    node.takes_null_keys = join.is_left
    return replace(stream.then(node), sources=sources, value_serde=None)


def _check_grace(grace_ms: int, table: TableOperator) -> None:
    if grace_ms < 0:
        raise IllegalArgumentError("Grace period must not be negative.")
    retention_ms = table.history_retention_ms
    if not table.is_versioned or retention_ms is None:
        raise IllegalArgumentError("KTable must be versioned to use a grace period in a stream table join.")
    if grace_ms > retention_ms:
        raise IllegalArgumentError("History retention must be at least grace period.")


class JoinInputs(Generic[K, V]):
    """Repartitions a stream before a join if its keys may have changed. All joins of the stream that have no name share
    one repartition topic.
    """

    def __init__(self, stream: Stage[K, V]) -> None:
        self._stream = stream
        self._repartition: RepartitionNode | None = None

    def by_key(self, key_serde: Serde[K] | None, value_serde: Serde[V] | None, name: str | None) -> Stage[K, V]:
        """Returns the stage to join: the stream itself, or a stage that reads the stream's repartition topic.

        If a repartition topic is needed, each call uses up three numbers of the counter of generated names. A call that
        shares an existing repartition topic also uses up three numbers. Source: `KStreamImpl.repartitionForJoin`.
        """
        stream = self._stream.with_serdes(key_serde, value_serde)
        if not stream.repartition_required:
            return stream
        names = RepartitionNames.of_stream(stream.graph.naming, name or stream.name)
        may_share = name is None or name == stream.name
        if self._repartition is not None and may_share:
            return stream.reading(self._repartition)
        self._repartition = RepartitionNode(names, stream.key_serde, stream.value_serde)
        return stream.repartitioned(self._repartition)


class Branches(Generic[K, V]):
    """A split stream, to which the user adds branches."""

    def __init__(self, stream: Stage[K, V], name: str | None) -> None:
        self._stream = stream
        # `add` appends to this list before the topology is built. `branching` reads the list when a task starts.
        self._branches: list[tuple[Callable[[K, V], bool] | None, str]] = []
        split_name = stream.graph.naming.name_or_generated(name, "KSTREAM-BRANCH-")
        self._split = ProcessorGraphNode(split_name, StreamOperator(branching, self._branches))
        stream.graph.add(self._split, [stream.node])

    def add(self, predicate: Callable[[K, V], bool] | None, suffix: str | None) -> Stage[K, V]:
        """Adds a branch, and returns its stage. The name of the branch's node is the name of the split with the suffix.

        `suffix`: the name of the branch; None for the number of the branch, counted from 1.
        """
        name = checked_name(self._split.name + (str(len(self._branches) + 1) if suffix is None else suffix))
        self._branches.append((predicate, name))
        # as in Kafka, a branch with a name also uses up a number of the counter
        self._stream.graph.naming.processor(name)
        return replace(self._stream, node=self._split).then(ProcessorGraphNode(name, StreamOperator(passing_on)))
