"""The recorded rebalances of real Kafka Streams groups, run again through this project's pipeline and compared.

Only rebalances led by Kafka Streams 4.3.1 are compared: with `led_by`, the output is another leader's.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from rebalance_analysis.rerun import run_recorded

_SUFFIX = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class ReplayedGroup:
    """The result for one recording. `rebalances`: those led by Kafka Streams 4.3.1. `equal`: after decoding;
    `bytes_equal`: to the byte.
    """

    name: str
    rebalances: int
    equal: int
    bytes_equal: int
    differences: tuple[str, ...]


def recorded_groups() -> Iterator[tuple[str, list[RecordedRebalance]]]:
    """The recordings in this package: name and rebalances, sorted by name."""
    for entry in sorted(files("spark_jobs.demo.recordings").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(_SUFFIX):
            lines = gzip.decompress(entry.read_bytes()).decode("utf-8").splitlines()
            yield entry.name.removesuffix(_SUFFIX), [parse_recorded_rebalance(json.loads(line)) for line in lines]


def replay(name: str, recorded: list[RecordedRebalance]) -> ReplayedGroup:
    """Run each rebalance again and compare it with the recording."""
    compared = [
        (rebalance.id, comparison)
        for rebalance in recorded
        if (comparison := run_recorded(rebalance).comparison()) is not None
    ]
    return ReplayedGroup(
        name,
        len(compared),
        sum(comparison.equal for _, comparison in compared),
        sum(bool(comparison.bytes_equal) for _, comparison in compared),
        tuple(f"{where}: {difference}" for where, comparison in compared for difference in comparison.differences),
    )
