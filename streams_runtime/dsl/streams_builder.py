"""An application in the DSL begins with a `StreamsBuilder`, which reads topics as streams or tables, and builds the
topology.

The same calls make the same topology as in Kafka: the same nodes, stores, internal topics and subtopologies.
Source: `StreamsBuilder`, `InternalStreamsBuilder`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assignor.errors import InputError, TopologyError
from streams_runtime.common.records import K, V
from streams_runtime.configs import OPTIMIZATIONS, StreamsConfig, config_of
from streams_runtime.dsl.global_tables import GlobalKTable, add_global_store, add_global_table
from streams_runtime.dsl.graph_nodes import StateStoreNode, StreamSourceNode, TableSourceNode
from streams_runtime.dsl.materialized import StoreArgument, StoreFactory, checked_settings
from streams_runtime.dsl.streams import KStream, KTable
from streams_runtime.dsl.streams_graph import Stage, StreamsGraph, TableStage
from streams_runtime.dsl.table_operators import KTableSource
from streams_runtime.logs.base import OffsetReset
from streams_runtime.processors.api import TimestampExtractor
from streams_runtime.processors.context import NodeSupplier
from streams_runtime.processors.topology import Topology, checked_topics
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.state_store import StoreBuilder


class StreamsBuilder:
    """Builds the topology of an application from streams and tables.

    `optimize`: True has the same effect as the config `topology.optimization=all` in the configs for `build`. In an
    optimized topology, the source topic of a table is also the changelog of the table's store. One topic replaces all
    repartition topics below an operation that changes keys. Optimization changes names, so an application loses its
    state when optimization is switched on or off.
    """

    def __init__(self, *, optimize: bool = False) -> None:
        self._graph = StreamsGraph()
        self._optimize = optimize

    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        timestamp_extractor: TimestampExtractor | None = None,
        auto_offset_reset: OffsetReset | str | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Returns a stream of all records of the topics. Streams of the same topics share one source node. If a topic
        is named twice in one call, it is read only once.

        With a compiled pattern in place of names, the stream has the records of every topic whose whole name matches,
        also of topics that are created later. See `Topology.add_source`.

        If no serde is given, the default serde of the configs is used.
        """
        pattern = topics if isinstance(topics, re.Pattern) else None
        names = () if pattern else tuple(dict.fromkeys(checked_topics("StreamsBuilder.stream", topics)))
        if not names and pattern is None:
            raise TopologyError("Invalid topology: a stream needs at least one topic")
        source_name = self._graph.naming.name_or_generated(name, "KSTREAM-SOURCE-")
        node = StreamSourceNode(
            source_name, names, key_serde, value_serde, timestamp_extractor, auto_offset_reset, pattern
        )
        self._graph.add(node)
        return KStream(Stage(self._graph, node, (source_name,), key_serde, value_serde))

    def table(
        self,
        topic: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        store: StoreArgument = None,
        timestamp_extractor: TimestampExtractor | None = None,
        auto_offset_reset: OffsetReset | str | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Returns a table with the newest value of every key of a topic.

        A record with the value None removes its key from the table. The table has a store only if the argument `store`
        names a store, or if another node reads the table.
        """
        checked_topics("StreamsBuilder.table", (topic,))
        naming, settings = self._graph.naming, checked_settings(store)
        store_name = settings.name or naming.store(f"{topic}-")
        source_name = naming.name_or_generated(name, "KSTREAM-SOURCE-", "-source")
        table_name = naming.name_or_generated(name, "KTABLE-SOURCE-")
        operator = KTableSource(
            StoreFactory(store_name, key_serde, value_serde, settings), kept=settings.name is not None
        )
        source = StreamSourceNode(source_name, (topic,), key_serde, value_serde, timestamp_extractor, auto_offset_reset)
        node = TableSourceNode(table_name, operator, source)
        self._graph.add(node)
        stage = TableStage(self._graph, node, (source_name,), key_serde, value_serde, operator=operator)
        return KTable(stage)

    def global_table(
        self,
        topic: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> GlobalKTable[K, V]:
        """Returns a table of which every instance has all entries, of all partitions of the topic. The table always
        has a store, which every processor may read. `store`: if it is a `Materialized`, it must have a name. The topic
        is read from its beginning. Differs from Kafka: there is no timestamp extractor, because Kafka never calls the
        extractor of a global table.
        """
        checked_topics("StreamsBuilder.global_table", (topic,))
        source = StreamSourceNode("", (topic,), key_serde, value_serde, None, None)
        return add_global_table(self._graph, source, store, name)

    def add_global_store(
        self,
        store: StoreBuilder,
        topic: str,
        supplier: NodeSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        *,
        name: str | None = None,
    ) -> StreamsBuilder:
        """Adds a global store that a processor of the user fills. See `Topology.add_global_store`. `name`: the name of
        the processor.
        """
        checked_topics("StreamsBuilder.add_global_store", (topic,))
        source = StreamSourceNode("", (topic,), key_serde, value_serde, None, None)
        add_global_store(self._graph, store, source, supplier, name)
        return self

    def add_state_store(self, store: StoreBuilder) -> StreamsBuilder:
        """Adds a store for the processors and transformers of the user, which name it in their argument `stores`."""
        self._graph.add(StateStoreNode(store.name, store))
        return self

    def build(self, configs: StreamsConfig | Mapping[str, object] | None = None) -> Topology:
        """Returns the topology of all earlier calls. After `build`, calls that add nodes raise TopologyError. Another
        call of `build` returns the same topology.

        `configs`: the configs of the application. As in Kafka, the config `topology.optimization` has an effect only if
        this argument contains it. Raises InputError for an unknown value of `topology.optimization`, and for configs
        that are no mapping. Raises TopologyError for an error in the whole topology; for example, if two sources share
        some of their topics, or if a store has a generated name and `ensure.explicit.internal.resource.naming` is true.
        """
        if not isinstance(configs, StreamsConfig | Mapping | None):
            raise InputError(f"configs must be a mapping or a StreamsConfig, not {configs!r}")
        optimizations = config_of(configs, "topology.optimization")
        if optimizations is None:
            optimizations = OPTIMIZATIONS if self._optimize else frozenset()
        topology = self._graph.build(optimizations)
        if config_of(configs, "ensure.explicit.internal.resource.naming"):
            topology.check_explicit_names()
        return topology
