"""The applications that are measured: a stateless map, and a count with its store, as a user of the DSL writes them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from assignor.types import TopicPartition
from streams_runtime.configs import ProcessingGuarantee, StreamsConfig
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.processors.api import Processor
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import BYTES, LONG
from streams_runtime.state_stores.state_store import StoreBuilder

EVENTS = "events"
RESULTS = "results"
STORE = "counts"
APPLICATION_ID = "bench"
CHANGELOG = f"{APPLICATION_ID}-{STORE}-changelog"


def configs(directory: Path, guarantee: ProcessingGuarantee) -> StreamsConfig:
    """Kafka's defaults, but for the commit interval: that of exactly-once for both, so that only the guarantee differs;
    and without a record cache, so that each record costs a write, a change and a result.

    The log and the state are in `directory`.
    """
    return StreamsConfig(
        APPLICATION_ID,
        f"embedded:{(directory / 'log').absolute()}",
        directory / "state",
        guarantee,
        commit_interval_ms=100,
        statestore_cache_max_bytes=0,
    )


def mapping(settings: StreamsConfig) -> Application:
    """source -> map -> sink."""
    builder = StreamsBuilder()
    builder.stream(EVENTS, BYTES, BYTES).map(mapped).to(RESULTS, key_serde=BYTES, value_serde=BYTES)
    return Application(builder.build(), settings)


def counting(settings: StreamsConfig | Mapping[str, object]) -> Application:
    """source -> count by key, in RocksDB with a changelog -> sink."""
    builder = StreamsBuilder()
    counts = builder.stream(EVENTS, BYTES, BYTES).group_by_key().count(store=STORE)
    counts.to_stream().to(RESULTS, key_serde=BYTES, value_serde=LONG)
    return Application(builder.build(), settings)


def storing(settings: StreamsConfig, store: StoreBuilder) -> Application:
    """A task with `store`, to be restored."""
    topology = Topology().add_source("events", EVENTS).add_processor("store", Processor, "events")
    topology.add_state_store(store, "store")
    return Application(topology, replace(settings))


def mapped(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """What the stateless map does; the peers of it do the same."""
    return key, value.upper()


def create_topics(log: Log, partitions: int = 1) -> None:
    """The application's own, and the changelog, which the group's leader creates otherwise."""
    changelog = NewTopic(CHANGELOG, partitions, {"cleanup.policy": "compact"})
    log.create_topics([NewTopic(EVENTS, partitions), NewTopic(RESULTS, partitions), changelog])


EVENTS_0 = TopicPartition(EVENTS, 0)
RESULTS_0 = TopicPartition(RESULTS, 0)
CHANGELOG_0 = TopicPartition(CHANGELOG, 0)
