"""Finds missing serdes. A serde has to be known wherever records become bytes: in stores, sinks and repartition topics.

Differs from Kafka: a missing serde is reported when the topology is built, not at the first record, because the configs
have no default serdes.
"""

from __future__ import annotations

from typing import Any

from assignor.errors import TopologyError
from streams_runtime.serdes import Serde


def known_serde(serde: Serde[Any] | None, what: str, node: str) -> Serde[Any]:
    """`what`: "key" or "value". Raises TopologyError, which names the node or store that needs the serde."""
    if serde is None:
        raise TopologyError(
            f"Invalid topology: {node} needs a {what} serde, and no call before it gives one; "
            f"give it there or before as {what}_serde=..."
        )
    return serde
