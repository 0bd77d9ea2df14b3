"""A serde has to be known wherever records become bytes: in stores, sinks and repartition topics.

Differs from Kafka: a serde that is not known is told when the topology is built, not at the first record, because there
are no default serdes in the configs.
"""

from __future__ import annotations

from typing import Any

from assignor.errors import TopologyError
from streams_runtime.serdes import Serde


def known_serde(serde: Serde[Any] | None, what: str, node: str) -> Serde[Any]:
    """`what`: key or value. Raises TopologyError, with the node or store that needs it."""
    if serde is None:
        raise TopologyError(
            f"Invalid topology: {node} needs a {what} serde, and the calls before it do not tell one; "
            f"give it there or before as {what}_serde=..."
        )
    return serde
