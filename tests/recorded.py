"""The vectors and recordings that stand in tests/vectors, as documents."""

import gzip
import json
from typing import Any

from tests.checkout import VECTORS

REBALANCES = "rebalances.jsonl.gz"
FRESH_REBALANCES = "fresh_rebalances.jsonl.gz"
"""Hostile groups: crowded buckets, sums beyond a long, text in every alphabet, hosts and partitions claimed twice."""
RACK_REBALANCES = "rebalances_rack.jsonl.gz"
PLACEMENTS = (
    "placements.jsonl.gz",
    "placements_tags.jsonl.gz",
    "placements_heap.jsonl.gz",
    "placements_rack.jsonl.gz",
    "placements_custom.jsonl.gz",
)
RECORDINGS = tuple(
    f"recordings/{name}.jsonl.gz"
    for name in ("smoke", "static", "threads2", "optimized", "upgrade", "wcflow", "bridge1", "racks")
)
CUSTOM_REBALANCES = "rebalances_custom.jsonl.gz"
"""Of the public StickyTaskAssignor (KIP-924)."""

OWN_CUSTOM_REBALANCES = "custom_assignors/rebalances.jsonl.gz"
"""Of the public interface, with standbys and errors: `tests.oracle.custom_assignors`, of which Kafka had the Java."""


def documents(name: str) -> list[dict[str, Any]]:
    """Every line of a file under tests/vectors."""
    with gzip.open(VECTORS / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def document(name: str, id_: str) -> dict[str, Any]:
    """One line, by its id."""
    return next(line for line in documents(name) if line["id"] == id_)
