"""The typed DSL: streams, tables, groups, windows and joins, as in Kafka Streams.

An application calls the methods of a `StreamsBuilder`. `StreamsBuilder.build` returns the `Topology` that an
`Application` runs. Source: `kstream` (DSL).
"""

from streams_runtime.dsl.global_tables import GlobalKTable
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.dsl.streams import (
    BranchedKStream,
    CogroupedKStream,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
)
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.dsl.suppression import BufferConfig, Suppressed
from streams_runtime.dsl.windows import (
    EmitStrategy,
    JoinWindows,
    SessionWindowedSerde,
    SessionWindows,
    SlidingWindows,
    TimeWindowedSerde,
    TimeWindows,
    UnlimitedWindows,
)

__all__ = [
    "BranchedKStream",
    "BufferConfig",
    "CogroupedKStream",
    "EmitStrategy",
    "GlobalKTable",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Materialized",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindowedSerde",
    "SessionWindows",
    "SlidingWindows",
    "StreamsBuilder",
    "Suppressed",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindowedSerde",
    "TimeWindows",
    "UnlimitedWindows",
]
