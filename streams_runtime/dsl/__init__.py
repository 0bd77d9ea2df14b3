"""The typed DSL: streams, tables, groups, windows and joins, as in Kafka Streams.

An application calls the methods of a `StreamsBuilder`. `StreamsBuilder.build` returns the `Topology` that an
`Application` runs. Source: `kstream` (DSL).
"""

from streams_runtime.dsl.global_tables import GlobalKTable as GlobalKTable
from streams_runtime.dsl.materialized import Materialized as Materialized
from streams_runtime.dsl.streams import BranchedKStream as BranchedKStream
from streams_runtime.dsl.streams import CogroupedKStream as CogroupedKStream
from streams_runtime.dsl.streams import KGroupedStream as KGroupedStream
from streams_runtime.dsl.streams import KGroupedTable as KGroupedTable
from streams_runtime.dsl.streams import KStream as KStream
from streams_runtime.dsl.streams import KTable as KTable
from streams_runtime.dsl.streams import SessionWindowedCogroupedKStream as SessionWindowedCogroupedKStream
from streams_runtime.dsl.streams import SessionWindowedKStream as SessionWindowedKStream
from streams_runtime.dsl.streams import TimeWindowedCogroupedKStream as TimeWindowedCogroupedKStream
from streams_runtime.dsl.streams import TimeWindowedKStream as TimeWindowedKStream
from streams_runtime.dsl.streams_builder import StreamsBuilder as StreamsBuilder
from streams_runtime.dsl.suppression import BufferConfig as BufferConfig
from streams_runtime.dsl.suppression import Suppressed as Suppressed
from streams_runtime.dsl.windows import EmitStrategy as EmitStrategy
from streams_runtime.dsl.windows import JoinWindows as JoinWindows
from streams_runtime.dsl.windows import SessionWindowedSerde as SessionWindowedSerde
from streams_runtime.dsl.windows import SessionWindows as SessionWindows
from streams_runtime.dsl.windows import SlidingWindows as SlidingWindows
from streams_runtime.dsl.windows import TimeWindowedSerde as TimeWindowedSerde
from streams_runtime.dsl.windows import TimeWindows as TimeWindows
from streams_runtime.dsl.windows import UnlimitedWindows as UnlimitedWindows
