"""What the operations of a stream leave in the graph, one function for each kind of operation.

An operation that may change the key marks its result. The next operation that needs all records of a key in one
partition then writes them to a repartition topic first. `name` names the operation's node; without it the node gets
the next number. Source: `KStreamImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from streams_runtime.dsl.graph_nodes import MergeNode, ProcessorGraphNode, StreamSinkNode
from streams_runtime.dsl.materialized import KeyValueStoreMaker, Store, materialized
from streams_runtime.dsl.naming import checked_name
from streams_runtime.dsl.repartition_node import RepartitionNames, RepartitionNode
from streams_runtime.dsl.stage import Stage, TableStage
from streams_runtime.dsl.stream_processors import KStreamBranch, PassThrough
from streams_runtime.dsl.table_nodes import TableNode
from streams_runtime.dsl.table_source import KTableSource
from streams_runtime.dsl.windowed_serde import TimeWindowedSerde, WindowedStreamPartitioner
from streams_runtime.processors.api import StreamPartitioner
from streams_runtime.processors.context import NodeSupplier
from streams_runtime.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")


def unchanged(stream: Stage[K, V], prefix: str, supplier: NodeSupplier, name: str | None) -> Stage[K, V]:
    """Each record is handed on as it is, or left out."""
    node = ProcessorGraphNode(stream.graph.naming.given_or(name, prefix), supplier)
    stream.graph.add(node, [stream.node])
    return replace(stream, node=node)


def with_new_keys(stream: Stage[Any, V], prefix: str, supplier: NodeSupplier, name: str | None) -> Stage[Any, V]:
    node = ProcessorGraphNode(stream.graph.naming.given_or(name, prefix), supplier, changes_key=True)
    stream.graph.add(node, [stream.node])
    return replace(stream, node=node, key_serde=None, repartition_required=True)


def with_new_records(stream: Stage[Any, Any], prefix: str, supplier: NodeSupplier, name: str | None) -> Stage[Any, Any]:
    """Keys and values are new."""
    return replace(with_new_keys(stream, prefix, supplier, name), value_serde=None)


def with_new_values(stream: Stage[K, Any], prefix: str, supplier: NodeSupplier, name: str | None) -> Stage[K, Any]:
    node = ProcessorGraphNode(stream.graph.naming.given_or(name, prefix), supplier, changes_value=True)
    stream.graph.add(node, [stream.node])
    return replace(stream, node=node, value_serde=None)


def processed(
    stream: Stage[Any, Any], supplier: NodeSupplier, stores: Sequence[str], name: str | None
) -> Stage[Any, Any]:
    """Behind a processor of the user's, which may forward anything. So no repartition topic moves above it.

    Differs from Kafka: there, the topic does unless `__enable.process.processValue.fix__` is set (KAFKA-19668), and
    the records that the processor gives another key are aggregated in the partition of their old one.
    """
    naming = stream.graph.naming
    node_name = naming.processor("KSTREAM-PROCESSOR-") if name is None else checked_name(name)
    node = ProcessorGraphNode(node_name, supplier, connected_stores=stores, changes_key=True, changes_value=True)
    stream.graph.add(node, [stream.node])
    return Stage(stream.graph, node, stream.sources, None, None, repartition_required=True)


def merged(stream: Stage[K, V], other: Stage[K, V], name: str | None) -> Stage[K, V]:
    """Nothing is known about the serdes: those of the two streams may differ."""
    sources = stream.joined_sources(other)
    node = MergeNode(stream.graph.naming.given_or(name, "KSTREAM-MERGE-"), PassThrough)
    stream.graph.add(node, [stream.node, other.node])
    required = stream.repartition_required or other.repartition_required
    return Stage(stream.graph, node, sources, None, None, repartition_required=required)


def written(stream: Stage[Any, Any], topic: str, partitioner: StreamPartitioner | None, name: str | None) -> None:
    """Windowed keys are partitioned by the key alone, unless there is a partitioner."""
    keys = stream.key_serde
    if partitioner is None and isinstance(keys, TimeWindowedSerde):
        partitioner = WindowedStreamPartitioner(keys.key_serde)
    node_name = stream.graph.naming.given_or(name, "KSTREAM-SINK-")
    stream.graph.add(StreamSinkNode(node_name, topic, keys, stream.value_serde, partitioner), [stream.node])


def repartitioned(
    stream: Stage[K, V], partitions: int | None, partitioner: StreamPartitioner | None, name: str | None
) -> Stage[K, V]:
    """Behind a repartition topic that the user asked for."""
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
    return _behind(stream, node)


def as_table(stream: Stage[K, V], store: Store, name: str | None) -> TableStage[K, V]:
    """The newest value of every key."""
    naming, settings = stream.graph.naming, materialized(store)
    node_name = naming.given_or(name, "KSTREAM-TOTABLE-")
    store_name = naming.store("KSTREAM-TOTABLE-") if settings.name is None else settings.name
    keys, values = stream.key_serde, stream.value_serde
    if stream.repartition_required:
        names = RepartitionNames.of_stream(naming, node_name)
        stream = _behind(stream, RepartitionNode(names, keys, values))
    supplier = KTableSource(KeyValueStoreMaker(store_name, keys, values, settings), kept=settings.name is not None)
    node = TableNode(node_name, supplier)
    stream.graph.add(node, [stream.node])
    return TableStage(stream.graph, node, stream.sources, keys, values, supplier=supplier)


def joined(
    stream: Stage[K, Any], table: TableStage[K, Any], supplier: NodeSupplier, prefix: str, name: str | None
) -> Stage[K, Any]:
    """`stream` has its records by key already (`JoinInputs`); `supplier`: its processors look values up in `table`."""
    sources = stream.copartitioned_with(table)
    node_name = stream.graph.naming.given_or(name, prefix)
    node = ProcessorGraphNode(node_name, supplier, connected_stores=table.supplier.view())
    stream.graph.add(node, [stream.node])
    return Stage(stream.graph, node, sources, stream.key_serde, None)


class JoinInputs(Generic[K, V]):
    """Repartitions one stream for its joins, where that is needed. Unnamed joins share one repartition topic."""

    def __init__(self, stream: Stage[K, V]) -> None:
        self._stream = stream
        self._repartition: RepartitionNode | None = None

    def by_key(self, key_serde: Serde[K] | None, value_serde: Serde[V] | None, name: str | None) -> Stage[K, V]:
        """The stream itself, or what comes out of its repartition topic.

        A repartition takes three numbers even when it shares the topic. Source: `KStreamImpl.repartitionForJoin`.
        """
        stream = self._stream.with_serdes(key_serde, value_serde)
        if not stream.repartition_required:
            return stream
        prefix = name or stream.name
        names = RepartitionNames.of_stream(stream.graph.naming, prefix)
        if self._repartition is not None and prefix == stream.name:
            return _read_from(stream, self._repartition)
        self._repartition = RepartitionNode(names, stream.key_serde, stream.value_serde)
        return _behind(stream, self._repartition)


class Branches(Generic[K, V]):
    """A split stream. `branches`: predicate (None for the default branch) and node name, in the order of the calls."""

    def __init__(self, stream: Stage[K, V], name: str | None) -> None:
        self._stream = stream
        self._branches: list[tuple[Callable[[K, V], bool] | None, str]] = []
        split_name = stream.graph.naming.given_or(name, "KSTREAM-BRANCH-")
        self._split = ProcessorGraphNode(split_name, partial(KStreamBranch, self._branches))
        stream.graph.add(self._split, [stream.node])

    def add(self, predicate: Callable[[K, V], bool] | None, suffix: str | None) -> Stage[K, V]:
        """`suffix` None: the branch's number, from 1. The branch's node name begins with the name of the split."""
        name = checked_name(self._split.name + (str(len(self._branches) + 1) if suffix is None else suffix))
        self._branches.append((predicate, name))
        self._stream.graph.naming.processor(name)  # Kafka takes a number for it
        node = ProcessorGraphNode(name, PassThrough)
        self._stream.graph.add(node, [self._split])
        return replace(self._stream, node=node)


def _behind(stream: Stage[K, V], repartition: RepartitionNode) -> Stage[K, V]:
    stream.graph.add(repartition, [stream.node])
    return _read_from(stream, repartition)


def _read_from(stream: Stage[K, V], repartition: RepartitionNode) -> Stage[K, V]:
    return replace(stream, node=repartition, sources=(repartition.name,), repartition_required=False)
