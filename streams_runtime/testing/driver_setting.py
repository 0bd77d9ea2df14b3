"""What a `TopologyTestDriver` runs an application with: configs that need no server, and every topic that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assignor.errors import InputError
from streams_runtime.application import Application
from streams_runtime.configs import OffsetReset, StreamsConfig
from streams_runtime.logs.base import NewTopic

APPLICATION_ID = "topology-test-driver"


def driver_configs(configs: StreamsConfig | Mapping[str, object] | None) -> StreamsConfig:
    if configs is None or isinstance(configs, Mapping):
        own = {"application.id": APPLICATION_ID, "bootstrap.servers": "memory:topology-test-driver"}
        configs = StreamsConfig.from_dotted({**own, **(configs or {})})
    if not isinstance(configs, StreamsConfig):
        raise InputError(f"must be a StreamsConfig or a mapping, not a {type(configs).__name__}", "configs")
    return replace(configs, auto_offset_reset=OffsetReset.EARLIEST)  # every topic is new, and read from its beginning


def topics_of(application: Application) -> list[NewTopic]:
    """Everything the topology reads or writes, with one partition each."""
    names: dict[str, None] = {}
    for subtopology in application.parsed().subtopologies:
        names |= dict.fromkeys(subtopology.source_topics)
        names |= dict.fromkeys(subtopology.sink_topics)
        names |= dict.fromkeys(store.changelog_topic for store in subtopology.stores if store.changelog_topic)
    if application.configs.errors_dead_letter_queue_topic_name is not None:
        names[application.configs.errors_dead_letter_queue_topic_name] = None
    return [NewTopic(name, 1) for name in names]
