"""Notes missing serdes. A serde has to be known wherever records become bytes: in stores, sinks and repartition topics.

Differs from Kafka: a serde that is missing in the configs, too, is reported when the topology meets its configs, not at
the first record.
"""

from __future__ import annotations

from typing import Any

from streams_runtime.serdes import DefaultSerde, Serde


def known_serde(serde: Serde[Any] | None, what: str, node: str) -> Serde[Any]:
    """The serde, or what stands for the default one. `what`: "key" or "value"; `node`: the node or store to name."""
    return DefaultSerde(what, node) if serde is None else serde
