"""The class `Topology`: the sources, processors, state stores and sinks of an application.

Each method checks its arguments, and a call that raises an error changes nothing. A topology can be pickled. In a
topology, topics have the names that the user gives. When the topology runs, the application id is added before the
names of internal topics. For each node and store, `TopologyBuilder` has a supplier, which it never calls. A supplier is
a `SourceSettings`, a `SinkSettings`, a `NodeSupplier` or a `StoreBuilder`.
Source: `Topology`, `InternalTopologyBuilder`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assignor.errors import TopologyError
from assignor.names.legal_names import NAME_RULE, is_legal_name, shown_name
from assignor.topology.builder import TopologyBuilder
from assignor.topology.definition import SinkNode, TopologyDefinition
from assignor.topology.group_topology import GroupTopology
from streams_runtime.logs.base import OffsetReset
from streams_runtime.processors.api import FixedKeyProcessor, StreamPartitioner, TimestampExtractor, TopicNameExtractor
from streams_runtime.processors.context import NodeSupplier, Operator
from streams_runtime.processors.runtime import SinkSettings
from streams_runtime.serdes import BYTES, NestedSerde, Serde, serde_fault
from streams_runtime.serdes.defaults import DefaultSerdes
from streams_runtime.state_stores.builders import builder_with_serdes
from streams_runtime.state_stores.state_store import StoreBuilder


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The settings of a source.

    `timestamp_extractor`: None to use the record's own timestamp. `auto_offset_reset`: None to use the application's
    config.
    """

    key_serde: Serde[Any] = BYTES
    value_serde: Serde[Any] = BYTES
    timestamp_extractor: TimestampExtractor | None = None
    auto_offset_reset: OffsetReset | None = None


class Topology:
    """A topology, with the same methods as Kafka's `Topology`. Each method adds something to the topology and returns
    the topology. If Kafka's `Topology` refuses a call, this class raises TopologyError.

    `optimizations`: the values of `topology.optimization` with which the DSL built the topology; None if it was built
    without the DSL. `without_names`: the stores and repartition topics to which the DSL has given names.
    """

    def __init__(self) -> None:
        self.builder = TopologyBuilder()
        self.optimizations: frozenset[str] | None = None
        self.without_names: tuple[str, ...] = ()

    def add_source(
        self,
        name: str,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        key_serde: Serde[Any] = BYTES,
        value_serde: Serde[Any] = BYTES,
        timestamp_extractor: TimestampExtractor | None = None,
        auto_offset_reset: OffsetReset | str | None = None,
    ) -> Topology:
        """Adds a node that reads topics. A topic can have only one source.

        `topics`: the names of the topics, or a compiled pattern. The name of a repartition topic is given without the
        application id. A source with a pattern reads every topic whose whole name matches, also topics that are created
        later.
        """
        if not isinstance(topics, re.Pattern):
            topics = checked_topics(f"Source {name}", topics)
        _check_serdes(f"Source {name}", "deserialize", key_serde=key_serde, value_serde=value_serde)
        if timestamp_extractor is not None:
            check_functions(f"Source {name}", timestamp_extractor=timestamp_extractor)
        settings = SourceSettings(key_serde, value_serde, timestamp_extractor, _offset_reset(name, auto_offset_reset))
        self.builder.add_source(name, topics, supplier=settings)
        return self

    def add_processor(
        self, name: str, supplier: NodeSupplier, parents: str | Sequence[str], *, stores: Iterable[str] = ()
    ) -> Topology:
        """Adds a node that passes every record of its parents to a processor. Each task has its own processor.

        `supplier`: a class or function that returns a new processor for each call; it is called without arguments.
        `stores`: the names of the stores that the processor uses. The caller has to add these stores before this call.
        """
        check_supplier(name, supplier)
        self.builder.add_processor(name, parents, stores=store_names(stores), supplier=supplier)
        return self

    def add_state_store(self, builder: StoreBuilder, processors: str | Iterable[str] = ()) -> Topology:
        """Adds a store, and connects it to processors. A second call with the same builder connects the store to more
        processors.
        """
        _check_store_builder(builder)
        self.builder.add_state_store(builder.name, processors, changelog=builder.changelog, supplier=builder)
        return self

    def add_read_only_state_store(
        self,
        builder: StoreBuilder,
        source: str,
        topic: str,
        processor: str,
        supplier: NodeSupplier,
        *,
        key_serde: Serde[Any] = BYTES,
        value_serde: Serde[Any] = BYTES,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Adds a store that a processor fills from a topic, and that no other processor changes (KIP-813). The topic is
        also the changelog of the store, so the processor has to put the key and the value of each record unchanged.

        `source`, `processor`: the names of the two nodes that the call adds. The source reads the topic from its
        beginning. The call has many parameters, because it adds a source, a processor and a store at once.
        """
        changed = Topology()
        changed.builder = self.builder.copy()  # so that an error in a later step changes nothing
        changed.add_source(
            source,
            topic,
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            auto_offset_reset=OffsetReset.EARLIEST,
        )
        changed.add_processor(processor, supplier, source).add_state_store(builder, processor)
        changed.use_source_topic_as_changelog(builder.name, topic)
        self.builder = changed.builder
        return self

    def add_global_store(
        self,
        builder: StoreBuilder,
        source: str,
        topic: str,
        processor: str,
        supplier: NodeSupplier,
        *,
        key_serde: Serde[Any] = BYTES,
        value_serde: Serde[Any] = BYTES,
    ) -> Topology:
        """Adds a store that every instance fills with the records of all partitions of a topic. All processors of the
        topology may read the store without being connected to it. Only the store's own processor may change the store.

        `source`, `processor`: the names of the two nodes that the call adds. The processor cannot forward records or
        schedule punctuations. The store gets no changelog, because its topic already has the records. The call has many
        parameters, because it adds a source, a processor and a store at once.

        Differs from Kafka: there is no timestamp extractor, because Kafka never calls the extractor of a global store.
        """
        checked_topics(f"Source {source}", (topic,))
        _check_serdes(f"Source {source}", "deserialize", key_serde=key_serde, value_serde=value_serde)
        _check_store_builder(builder)
        check_supplier(processor, supplier)
        self.builder.add_global_store(
            builder.name,
            source=source,
            topic=topic,
            processor=processor,
            source_supplier=SourceSettings(key_serde, value_serde),
            processor_supplier=supplier,
            supplier=builder,
        )
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        parents: str | Sequence[str],
        *,
        key_serde: Serde[Any] = BYTES,
        value_serde: Serde[Any] = BYTES,
        partitioner: StreamPartitioner | None = None,
    ) -> Topology:
        """Adds a node that writes the records of its parents to a topic. `topic`: the name of the topic, or a function
        that chooses the topic of each record.
        """
        extractor = topic if callable(topic) else None
        if not callable(topic):
            checked_topics(f"Sink {name}", (topic,))
        _check_serdes(f"Sink {name}", "serialize", key_serde=key_serde, value_serde=value_serde)
        if partitioner is not None:
            check_functions(f"Sink {name}", partitioner=partitioner)
        settings = SinkSettings(key_serde, value_serde, partitioner, extractor)
        self.builder.add_sink(name, "" if callable(topic) else topic, parents, supplier=settings)
        return self

    def add_repartition_topic(self, name: str, partitions: int | None = None) -> Topology:
        """Adds an internal topic, to which a sink writes and which a source reads. `name`: the name without the
        application id. `partitions`: the topic's number of partitions; None to use the number of partitions of the
        input topics.
        """
        self.builder.add_repartition_topic(name, partitions)
        return self

    def connect_processor_and_stores(self, processor: str, stores: str | Iterable[str]) -> Topology:
        """Connects a processor to stores that were added before. Nodes that share a store are in the same
        subtopology.
        """
        self.builder.connect_processor_and_stores(processor, stores)
        return self

    def copartition(self, sources: Iterable[str]) -> Topology:
        """Adds the rule that the topics of these sources must have the same number of partitions."""
        self.builder.copartition(sources)
        return self

    def use_source_topic_as_changelog(self, store: str, topic: str) -> Topology:
        """The store gets no changelog topic: it is restored from this source topic of its subtopology."""
        self.builder.use_source_topic_as_changelog(store, topic)
        return self

    def definition(self) -> TopologyDefinition:
        """Returns the nodes and stores that were added. The result does not change when more nodes or stores are
        added.
        """
        return self.builder.definition()

    def group_topology(self, application_id: str) -> GroupTopology:
        """Returns the topology in the form that the assignor uses: its subtopologies, with full topic names.

        Raises TopologyError if the topology has no source, if a store has no processor, or if a repartition topic has
        no sink or no source. Differs from Kafka: Kafka leaves out an unconnected store or topic without an error.
        """
        _check_complete(self.builder.definition())
        return self.builder.build(application_id)

    def with_default_serdes(self, defaults: DefaultSerdes) -> Topology:
        """Returns a copy of the topology with default serdes in place of missing serdes. If nothing changes, the
        topology itself is returned. Raises TopologyError as `DefaultSerdes.in_place_of` does.
        """
        changed = self.builder.with_suppliers(lambda supplier: _with_defaults(supplier, defaults))
        if changed is self.builder:
            return self
        topology = Topology()
        topology.builder = changed
        topology.optimizations, topology.without_names = self.optimizations, self.without_names
        return topology

    def check_explicit_names(self) -> None:
        """Raises TopologyError if a store or a repartition topic has a generated name (KIP-1111)."""
        if self.without_names:
            raise _invalid(
                f"These stores and repartition topics have generated names: {', '.join(self.without_names)}. "
                "A generated name changes with the topology, and the state is then lost. Give each a name, as "
                "store=... of the aggregation or table, or as name=... of the grouping, join, suppress or repartition; "
                "or set ensure.explicit.internal.resource.naming to false."
            )

    def describe(self) -> str:
        """Returns the text of Kafka's `Topology#describe`."""
        return self.builder.describe()

    def draw(self, path: str | Path) -> Path:
        """Draws the topology to a PNG or SVG file; the suffix of the path gives the format. Returns the path. Raises
        InputError if the suffix is neither .png nor .svg.
        """
        # imported here, because the module is slow to import and rarely needed
        from streams_runtime.processors.topology_view.picture import draw_topology

        return draw_topology(self.builder.definition(), Path(path))


def check_functions(owner: str, arguments: str | None = None, /, **functions: object) -> None:
    """Raises TopologyError if one of the functions cannot be called. `owner`: the name of the operation or node, for
    the error message. `arguments`: the names of the arguments with which each function is called, such as "key, value";
    None to accept functions of any arguments.

    Without this check, the error would be raised when the first record is processed.
    """
    for name, function in functions.items():
        if not callable(function):
            raise _invalid(f"The {name} of {owner} must be a function, not {function!r}.")
        if arguments is not None and (signature := _unfit_signature(function, arguments)) is not None:
            raise _invalid(f"The {name} of {owner} must be a function of ({arguments}), not of {signature}.")


def _unfit_signature(function: Callable[..., object], arguments: str) -> inspect.Signature | None:
    """Returns the signature of a function that cannot be called with these arguments; None if it can be called, and for
    a function without a signature, such as some functions of C libraries.
    """
    signature = None
    try:
        # the wrapped function of a decorator may have other arguments than the function that is called
        signature = inspect.signature(function, follow_wrapped=False)
        signature.bind(*filter(None, arguments.split(", ")))
    except (ValueError, TypeError):
        return signature
    return None


def checked_topics(owner: str, topics: object) -> tuple[str, ...]:
    """Returns the names of topics as a tuple. Raises TopologyError if a name is not a text. `owner`: the name of the
    operation or node, for the error message.
    """
    names = (topics,) if isinstance(topics, str) or not isinstance(topics, Iterable) else tuple(topics)
    for name in names:
        if not isinstance(name, str) or not name:
            raise _invalid(f"A topic of {owner} must be a name, not {name!r}.")
    return names


def store_names(stores: str | Iterable[str]) -> tuple[str, ...]:
    """Returns the names of the stores of a processor as a tuple. Raises TopologyError for another object in place of a
    name, such as the builder of a store.
    """
    names = (stores,) if isinstance(stores, str) else tuple(stores)
    for name in names:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise _invalid(f"`stores` takes names, not a {kind}: add the store with `add_state_store`, and name it.")
    return names


def _check_serdes(owner: str, method: str, **serdes: object) -> None:
    for name, serde in serdes.items():
        if (fault := serde_fault(serde, method)) is not None:
            raise _invalid(f"The {name} of {owner} {fault}.")


def _with_defaults(supplier: object, defaults: DefaultSerdes) -> object:
    """Returns a copy of the supplier with default serdes in place of missing serdes. If no serde is missing, the
    supplier itself is returned.
    """
    or_default = defaults.in_place_of
    if isinstance(supplier, SourceSettings | SinkSettings):
        changes: dict[str, Any] = {}
        for name in ("key_serde", "value_serde"):
            serde = getattr(supplier, name)
            if (changed := or_default(serde)) is not serde:
                changes[name] = changed
        partitioner = getattr(supplier, "partitioner", None)
        # the partitioner of windowed keys contains a serde, which may be missing
        if isinstance(partitioner, NestedSerde) and changes:
            changes["partitioner"] = partitioner.with_inner(or_default)
        return replace(supplier, **changes) if changes else supplier
    # an operator such as `KTableRepartitionMap` contains a key serde, which may be missing
    if isinstance(supplier, NestedSerde):
        return defaults.applied_to_inner(supplier)
    return builder_with_serdes(supplier, lambda serde, _is_key: or_default(serde))


def _check_store_builder(builder: object) -> None:
    """Raises TopologyError if the object is not a builder, or if the name of its store is illegal. The name is checked
    because it becomes the name of a directory, and a user's own builder may not have checked it.
    """
    if not hasattr(builder, "name") or not callable(getattr(builder, "build", None)):
        raise _invalid(f"A state store is added by its builder, such as `key_value_store(...)`, not by {builder!r}.")
    name: Any = builder.name
    if not is_legal_name(name):
        raise _invalid(f"{shown_name(str(name))} cannot be the name of a store: use {NAME_RULE}.")


def _offset_reset(source: str, value: OffsetReset | str | None) -> OffsetReset | None:
    if value is None:
        return None
    try:
        return OffsetReset(value)
    except ValueError:
        raise _invalid(
            f"auto_offset_reset of Source {source} must be one of {', '.join(OffsetReset)}, not {value!r}."
        ) from None


def check_supplier(name: str, supplier: object, kind: type | None = None) -> None:
    """Raises TopologyError if the supplier returns the same processor twice, because tasks would share its state.
    `kind`: the class that the processor must have; None for any class.

    Source: `ApiUtils.checkSupplier`.
    """
    if isinstance(supplier, Operator):
        return
    if not callable(supplier):
        raise _invalid(
            f"The supplier of Processor {name} must be a class or a function without arguments that makes "
            f"a processor, not {supplier!r}."
        )
    try:
        first, second = supplier(), supplier()
    except Exception as error:
        raise _invalid(
            f"The supplier of Processor {name} could not make a processor when called without arguments: "
            f"{type(error).__name__}: {error}"
        ) from error
    if first is second:
        raise _invalid(
            f"The supplier of Processor {name} gives the same object twice; "
            "it must make a new processor each time it is called."
        )
    if isinstance(first, FixedKeyProcessor) and hasattr(first, "process_batch"):
        raise _invalid(
            f"The supplier of Processor {name} gives a FixedKeyProcessor with `process_batch`; give it `process` only, "
            "or use `KStream.map_values_batches`."
        )
    if kind is not None and not isinstance(first, kind):
        raise _invalid(f"Processor {name} must be a {kind.__name__}, and its supplier gives a {type(first).__name__}.")
    wanted = ("init", "process_batch" if hasattr(first, "process_batch") else "process", "close")
    if not all(callable(getattr(first, method, None)) for method in wanted):
        raise _invalid(
            f"The supplier of Processor {name} gives a {type(first).__name__}, which is no Processor: "
            "it needs `init`, `process` or `process_batch`, and `close`."
        )


def _check_complete(definition: TopologyDefinition) -> None:
    read = {topic for name in definition.nodes for topic in definition.source_topics(name)}
    if not read and not any(map(definition.source_patterns, definition.nodes)):
        raise _invalid("It reads no topic; add at least one source.")
    used = {store for node in definition.nodes.values() for store in getattr(node, "stores", ())}
    for store in definition.stores:
        if store not in used:
            raise _invalid(
                f"StateStore {store} is connected to no processor: name one in add_state_store, "
                "or the store in add_processor or connect_processor_and_stores."
            )
    written = {node.topic for node in definition.nodes.values() if isinstance(node, SinkNode)}
    for topic in definition.repartition_topics:
        if topic not in written or topic not in read:
            missing = "sink writes" if topic not in written else "source reads"
            raise _invalid(f"No {missing} repartition topic {topic}; it needs both.")


def _invalid(reason: str) -> TopologyError:
    return TopologyError(f"Invalid topology: {reason}")
